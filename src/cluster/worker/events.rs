//! A worker's Events about one pod -> the last Warning, in the worker's own words.

use serde::Deserialize;

use crate::cluster::api::ClusterApi;
use crate::reconcile::pair::local::PairKey;

/// A condition is no place for more.
const LONGEST: usize = 512;

/// Reads the Events about a pod. `None` also if they cannot be read: they are news, nothing depends on them.
pub async fn last_warning(worker: &str, api: &ClusterApi, key: &PairKey, uid: &str) -> Option<String> {
    let path = format!(
        "/api/v1/namespaces/{}/events?fieldSelector=involvedObject.uid%3D{uid},type%3DWarning",
        key.namespace
    );
    match api.get(&path).await {
        Ok(list) => last(list.json()),
        Err(error) => {
            tracing::debug!(worker, pod = %key, error = error.words(), "Events there cannot be read");
            None
        }
    }
}

#[derive(Deserialize)]
struct EventsText {
    #[serde(default)]
    items: Vec<EventText>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventText {
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
    last_timestamp: Option<String>,
    event_time: Option<String>,
    series: Option<SeriesText>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SeriesText {
    last_observed_time: Option<String>,
}

impl EventText {
    /// RFC 3339 in UTC, to the second: the fields differ in their fractions.
    fn time(&self) -> &str {
        let series = self
            .series
            .as_ref()
            .and_then(|series| series.last_observed_time.as_deref());
        let time = series
            .or(self.last_timestamp.as_deref())
            .or(self.event_time.as_deref())
            .unwrap_or_default();
        time.get(..19).unwrap_or(time)
    }
}

fn last(list: &str) -> Option<String> {
    let EventsText { items } = serde_json::from_str(list).ok()?;
    let last = items.into_iter().max_by(|a, b| a.time().cmp(b.time()))?;
    let mut words = format!("{}: {}", last.reason, last.message.trim());
    if words.len() > LONGEST {
        words.truncate(words.floor_char_boundary(LONGEST));
        words.push('…');
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    #[test]
    fn the_last_one_counts_by_whichever_time_it_has() {
        check(
            r#"{"reason":"A","message":"old","lastTimestamp":"2026-01-01T00:00:00Z"},
               {"reason":"B","message":"new","lastTimestamp":null,"eventTime":"2026-01-01T00:00:01.000000Z"}"#,
            expect!["B: new"],
        );
        check(
            r#"{"reason":"A","message":"again","eventTime":"2026-01-01T00:00:00.000000Z","series":{"count":2,"lastObservedTime":"2026-01-01T00:00:09.000000Z"}},
               {"reason":"B","message":"new","eventTime":"2026-01-01T00:00:01.000000Z"}"#,
            expect!["A: again"],
        );
    }

    #[test]
    fn none_or_something_else_is_no_news() {
        check("", expect!["none"]);
        assert_eq!(last("[]"), None);
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let words = last(&format!(
            r#"{{"items":[{{"reason":"R","message":"{}"}}]}}"#,
            "ä".repeat(600)
        ))
        .unwrap();
        assert!(words.len() < 520 && words.ends_with('…'));
    }

    #[track_caller]
    fn check(items: &str, expect: Expect) {
        let words = last(&format!(r#"{{"metadata":{{}},"items":[{items}]}}"#));
        expect.assert_eq(&words.unwrap_or_else(|| "none".to_owned()));
    }
}
