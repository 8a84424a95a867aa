//! Conditions of our own objects, by the API conventions: the time moves only when the status does.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// One condition's news.
pub struct News<'a> {
    /// The type.
    pub kind: &'a str,
    /// True, False, or not known.
    pub status: Option<bool>,
    /// In CamelCase.
    pub reason: &'a str,
    /// A sentence.
    pub message: String,
}

/// The list with this condition as it is now; others stay, so does its place.
pub fn set(conditions: &mut Vec<Condition>, generation: Option<i64>, news: News<'_>, now: Timestamp) {
    let News {
        kind,
        status,
        reason,
        message,
    } = news;
    let status = match status {
        Some(true) => "True",
        Some(false) => "False",
        None => "Unknown",
    };
    let held = conditions.iter().position(|condition| condition.type_ == kind);
    let since = held
        .map(|place| &conditions[place])
        .filter(|held| held.status == status);
    let next = Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: generation,
        last_transition_time: since.map_or_else(|| seconds(now), |held| held.last_transition_time.clone()),
    };
    match held {
        Some(place) => conditions[place] = next,
        None => conditions.push(next),
    }
}

/// The API stores seconds; a fraction would differ from what is read back.
fn seconds(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).expect("a second of a valid time is a valid time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_moves_with_the_status_only() {
        let mut conditions = Vec::new();
        let at = |second| Timestamp::from_second(second).unwrap();
        let news = |status, reason| News {
            kind: "Ready",
            status: Some(status),
            reason,
            message: String::new(),
        };
        set(&mut conditions, None, news(true, "A"), at(1));
        set(&mut conditions, None, news(true, "B"), at(2));
        assert_eq!(
            (&*conditions[0].reason, conditions[0].last_transition_time.0),
            ("B", at(1))
        );
        set(&mut conditions, None, news(false, "B"), at(3));
        assert_eq!(
            (conditions.len(), conditions[0].last_transition_time.0),
            (1, at(3))
        );
    }
}
