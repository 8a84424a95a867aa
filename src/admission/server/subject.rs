//! Body of a review -> whom it was about, for one line of the log.

use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize;

use crate::telemetry::metrics::RequestLabels;

/// Identities only: nothing of the object's content is ever read for the log.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Subject<'a> {
    #[serde(borrow)]
    request: About<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct About<'a> {
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(borrow)]
    kind: Kind<'a>,
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Kind<'a> {
    #[serde(borrow)]
    group: Cow<'a, str>,
    #[serde(borrow)]
    version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
}

impl<'a> Subject<'a> {
    /// Empty if the body is no review.
    pub(super) fn of(body: &'a [u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }

    /// One line for a review that was denied or failed. Names come from anybody who reaches the port: cut and
    /// escaped.
    pub(super) fn tell(&self, labels: &RequestLabels, status: u16, took: Duration) {
        let RequestLabels {
            resource,
            operation,
            decision,
            reason,
        } = *labels;
        let About {
            uid,
            kind,
            namespace,
            name,
        } = &self.request;
        let Kind { group, version, kind } = kind;
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        tracing::info!(
            uid = short(uid),
            group = short(group),
            version = short(version),
            kind = short(kind),
            namespace = short(namespace),
            name = short(name),
            resource,
            operation,
            decision,
            reason,
            status,
            micros,
            "review"
        );
    }
}

/// At most 253 characters, the longest a name can be, and no control characters.
fn short(text: &str) -> String {
    text.chars()
        .take(253)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
