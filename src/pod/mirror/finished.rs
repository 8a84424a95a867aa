//! A finished pod's status -> when it ended.

use serde_json::Value;

/// Seconds since the epoch at which the last container of a finished pod ended; none if no container says so.
pub fn finished_at(remote: &Value) -> Option<i64> {
    let statuses = remote.pointer("/status/containerStatuses")?.as_array()?;
    statuses
        .iter()
        .filter_map(|status| {
            status
                .pointer("/state/terminated/finishedAt")?
                .as_str()?
                .parse::<jiff::Timestamp>()
                .ok()
        })
        .map(jiff::Timestamp::as_second)
        .max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_container_counts() {
        let pod = serde_json::json!({"status": {"containerStatuses": [
            {"state": {"terminated": {"finishedAt": "1970-01-01T00:01:00Z"}}},
            {"state": {"terminated": {"finishedAt": "1970-01-01T00:02:00Z"}}},
            {"state": {"running": {}}},
        ]}});
        assert_eq!(finished_at(&pod), Some(120));
        assert_eq!(finished_at(&serde_json::json!({})), None);
    }
}
