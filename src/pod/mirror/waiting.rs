//! A remote pod that does not run yet -> why, in the worker's own words.

use serde_json::Value;

use super::conditions::find;
use super::containers::list;

/// Reasons that say only that things take their course.
const ON_ITS_WAY: [&str; 3] = ["SchedulingGated", "ContainerCreating", "PodInitializing"];

/// Why the remote pod waits, as `Reason: message`: not scheduled, or a container that cannot start (an image, a
/// missing ConfigMap or Secret). `None` if nothing is wrong.
pub fn waiting_reason(remote: &Value) -> Option<String> {
    unscheduled(remote).or_else(|| {
        ["initContainerStatuses", "containerStatuses"]
            .into_iter()
            .flat_map(|statuses| list(&remote["status"][statuses]))
            .find_map(|status| {
                let words = words(&status["state"]["waiting"])?;
                Some(format!(
                    "container {}: {words}",
                    status["name"].as_str().unwrap_or_default()
                ))
            })
    })
}

fn unscheduled(remote: &Value) -> Option<String> {
    let condition = find(&remote["status"]["conditions"], "PodScheduled")?;
    if condition["status"] == "False" {
        words(condition)
    } else {
        None
    }
}

/// `Reason: message` of a condition or a waiting state.
fn words(said: &Value) -> Option<String> {
    let reason = said["reason"]
        .as_str()
        .filter(|reason| !ON_ITS_WAY.contains(reason))?;
    match said["message"].as_str() {
        Some(message) if !message.is_empty() => Some(format!("{reason}: {message}")),
        _ => Some(reason.to_owned()),
    }
}
