//! A worker's status of a batch Job -> one that the manager's API server takes after the one that it has.
//!
//! Since the field `managedBy` exists, the server checks every change of a Job's status (1.34 to 1.37 alike). A worker of
//! another version may have gone another way, and what was not mirrored in time cannot be made up for.

use serde_json::{Map, Value};

use super::conditions;
use super::dispatch;

pub(super) fn make_acceptable(status: &mut Map<String, Value>, local: &Value) {
    let before = &local["status"];
    status.remove("uncountedTerminatedPods"); // the worker's own accounts
    let end = ending(status, before);
    counters(status, before, local);
    if end.is_some() {
        dispatch::none_of_map(status, &["active", "ready", "terminating"]);
    }
    times(status, before, local, end.as_ref());
    if local["spec"]["completionMode"] != "Indexed" {
        status.remove("completedIndexes");
    }
    if local["spec"]["backoffLimitPerIndex"].is_null() {
        status.remove("failedIndexes");
    }
}

/// The condition that ends the Job, if one does. What decides the end comes before it, and stays once it was told.
fn ending(status: &mut Map<String, Value>, before: &Value) -> Option<Value> {
    let list = conditions::list(status, "conditions");
    let told = before["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    for decided in ["FailureTarget", "SuccessCriteriaMet"] {
        if conditions::is_true(told, decided) && !conditions::is_true(list, decided) {
            list.retain(|condition| condition["type"] != decided);
            list.extend(conditions::find(told, decided).cloned());
        }
    }
    for (end, decided) in [("Complete", "SuccessCriteriaMet"), ("Failed", "FailureTarget")] {
        if !conditions::is_true(list, end) {
            continue;
        }
        let end = conditions::find(list, end)?.clone();
        if !conditions::is_true(list, decided) {
            let mut decision = end.clone();
            decision["type"] = decided.into();
            list.retain(|condition| condition["type"] != decided);
            list.insert(0, decision);
        }
        return Some(end);
    }
    None
}

/// Counters never fall, but for an elastic Job that was made smaller; no more pods are ready than active.
fn counters(status: &mut Map<String, Value>, before: &Value, local: &Value) {
    let spec = &local["spec"];
    let is_elastic = spec["completionMode"] == "Indexed" && spec["completions"] == spec["parallelism"];
    let grown: &[&str] = if is_elastic {
        &["failed"]
    } else {
        &["failed", "succeeded"]
    };
    let count = |status: &Map<String, Value>, key: &str| status.get(key).and_then(Value::as_i64).unwrap_or(0);
    for counter in grown {
        let least = before[counter].as_i64().unwrap_or(0);
        if count(status, counter) < least {
            status.insert((*counter).to_owned(), least.into());
        }
    }
    let active = count(status, "active");
    if count(status, "ready") > active {
        status.insert("ready".to_owned(), active.into());
    }
}

/// A time of start stays as long as the Job is not suspended, and every Job that has ended has one. Complete has a time of
/// completion, not before the start; nothing else has.
fn times(status: &mut Map<String, Value>, before: &Value, local: &Value, end: Option<&Value>) {
    let started = &before["startTime"];
    if local["spec"]["suspend"] != true && !started.is_null() {
        status.insert("startTime".to_owned(), started.clone());
    }
    let Some(end) = end.filter(|end| end["type"] == "Complete" || status.get("startTime").is_none()) else {
        status.remove("completionTime");
        return;
    };
    let ended = || end["lastTransitionTime"].clone();
    let completed = status.remove("completionTime").unwrap_or_else(ended);
    let start = match status.get("startTime") {
        Some(start) if !start.is_null() => start.clone(),
        Some(_) | None if !started.is_null() => started.clone(),
        Some(_) | None => completed.clone(),
    };
    let parse = |time: &Value| time.as_str()?.parse::<jiff::Timestamp>().ok();
    status.insert("startTime".to_owned(), start.clone());
    if end["type"] == "Complete" {
        let is_before = parse(&completed) < parse(&start);
        let completed = if is_before { start } else { completed };
        status.insert("completionTime".to_owned(), completed);
    }
}
