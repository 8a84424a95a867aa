//! A status that the manager's API server takes and does not keep is written once (R49): its schema lacks a field that the
//! worker's has. One that it refuses is tried again ever more rarely, whatever happens to the pair meanwhile.

use std::time::Duration;

use serde_json::Value;

use super::super::local::LocalObject;
use super::super::observed::{Now, Observed};
use super::local_target;
use crate::reconcile::step::Step;

/// Writes the status, unless the same was written before and nothing of it was kept.
pub(super) fn mirror(observed: &Observed, local: &LocalObject, patch: Value) -> Option<Step> {
    let before = observed.memory.unkept.as_ref();
    let in_vain = before.is_some_and(|(uid, unkept)| *uid == local.uid && **unkept == gist(&patch));
    (!in_vain).then(|| Step::Mirror {
        local: local_target(local),
        patch: Box::new(patch),
    })
}

/// For how long this write is not to be tried, since the same was refused.
pub(super) fn refused_for(observed: &Observed, step: &Step, now: &Now) -> Option<Duration> {
    let (Step::Mirror { local, patch }, Some(refused)) = (step, &observed.memory.refused) else {
        return None;
    };
    let is_same = refused.uid == local.uid && *refused.gist == gist(patch);
    let rest = refused.until.checked_duration_since(now.monotonic)?;
    (is_same && !rest.is_zero()).then_some(rest)
}

/// What a patch says of the status. Without the times of conditions, which are those of the moment.
pub fn gist(patch: &Value) -> Value {
    let mut status = patch["status"].clone();
    without_times(&mut status);
    status
}

fn without_times(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("lastTransitionTime");
            map.values_mut().for_each(without_times);
        }
        Value::Array(list) => list.iter_mut().for_each(without_times),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
