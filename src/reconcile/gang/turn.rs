//! One turn of one job: observe, plan, execute, learn, until nothing is left to do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::Value;

use super::cluster::{GROUP_APIS, GangCluster, GroupApi, is_dispatched};
use super::execute::{Done, Failure, Step, Why, execute};
use super::metrics::GangMetrics;
use super::observed::{LauncherSeen, Memory, Observed};
use super::plan::compare::changes;
use super::plan::{Plan, plan};
use super::store::{JobKey, Seen};
use crate::cluster::api::CallError;
use crate::gang::{Notice, hold};
use crate::names;
use crate::reconcile::events::{Note, Notes};
use crate::reconcile::queue::Queue;
use crate::reconcile::turns::{LONGEST_PAUSE, TakesTurns, Turn, pause};
use crate::workload::jobs::gang_kind;

/// More steps in one turn than any plan needs: something disagrees with itself.
const MOST_STEPS: usize = 16;
/// After a launcher was deleted its Job's controller makes a new one.
const LAUNCHER_PAUSE: Duration = Duration::from_millis(200);

/// Takes turns.
pub struct Turns {
    cluster: Arc<GangCluster>,
    notes: Notes,
    metrics: Arc<GangMetrics>,
}

impl Turns {
    /// Over this cluster.
    pub fn new(cluster: Arc<GangCluster>, notes: Notes, metrics: Arc<GangMetrics>) -> Self {
        Self {
            cluster,
            notes,
            metrics,
        }
    }
}

impl TakesTurns for Turns {
    type Key = JobKey;

    fn queue(&self) -> &Queue<JobKey> {
        &self.cluster.queue
    }

    async fn take(&self, key: &JobKey, failures: u32) -> Turn {
        let mut previous: Vec<Step> = Vec::new();
        let mut taken = 0;
        loop {
            let now = Instant::now();
            let Some(mut observed) = self.observe(key, now) else {
                self.cluster.memories.forget(key);
                self.metrics.held.gone(key);
                return Turn::default();
            };
            if observed.label.is_none()
                && hold::is_left(observed.kind, observed.object())
                && let Err(error) = self.look_at_namespace(&mut observed).await
            {
                tracing::warn!(job = %key, words = error.words(), "the namespace of a held job is not readable");
                return Turn::failed(pause(failures));
            }
            let Plan {
                steps,
                notices,
                look_again,
                keeps_hold: _,
            } = plan(&observed, now);
            for notice in notices {
                self.note(&observed, notice);
            }
            if steps.is_empty() {
                return Turn::done(look_again);
            }
            if steps == previous || taken > MOST_STEPS {
                let steps: Vec<&str> = steps.iter().map(Step::name).collect();
                tracing::warn!(job = %key, steps = steps.join(", "), "steps that were taken are planned again; they are tried later");
                return Turn::failed(pause(failures));
            }
            for step in &steps {
                taken += 1;
                let before = step.group().and_then(|key| self.cluster.store.group(key));
                let result = execute(&self.cluster.clients.calls, step).await;
                self.metrics
                    .step(step.name(), result.as_ref().err().map_or("ok", Failure::name));
                tracing::debug!(job = %key, step = step.name(), ok = result.is_ok(), "step");
                let (is_old_view, is_seen) = match result {
                    Ok(Done::LauncherDeleted) => {
                        self.learn(&observed, step, before.as_ref(), Done::LauncherDeleted);
                        return Turn::done(Some(LAUNCHER_PAUSE));
                    }
                    Ok(done) => (false, self.learn(&observed, step, before.as_ref(), done)),
                    Err(Failure::Stale(done)) => (true, self.absorb(&observed, before.as_ref(), *done)),
                    Err(failure) => {
                        let pause = self.suffer(&observed, step, failure, failures);
                        // A hold ends in time, whatever the pause.
                        return Turn::failed(look_again.map_or(pause, |delay| delay.min(pause)));
                    }
                };
                if !is_seen {
                    tracing::debug!(job = %key, step = step.name(), "the answer came late: what it shows is gone since");
                    return Turn::failed(pause(failures));
                }
                if is_old_view {
                    break;
                }
            }
            previous = steps;
        }
    }
}

impl Turns {
    fn observe(&self, key: &JobKey, now: Instant) -> Option<Observed<'_>> {
        let cluster = &self.cluster;
        let job = cluster.store.job(key)?;
        let kind = gang_kind(&key.resource.api_version(), key.resource.kind)?;
        let knows = GROUP_APIS
            .iter()
            .filter(|api| cluster.knows(**api))
            .map(|api| (api.group, api.plural))
            .collect();
        let mut observed = Observed {
            key: key.clone(),
            kind,
            label: cluster.namespaces.gang(&key.namespace),
            dispatched: is_dispatched(&cluster.namespaces, &key.namespace),
            served: cluster.served(),
            facts: cluster.facts(),
            hold_timeout: cluster.configuration.hold_timeout,
            delete_on_finish: cluster.configuration.delete_on_finish,
            knows,
            knows_pods: cluster.knows_pods(),
            groups: &cluster.store,
            memory: cluster.memories.of(key, &job.uid),
            job,
        };
        let held = observed.is_held();
        let uid = observed.job.uid.clone();
        self.metrics.held.is(key, &uid, held, now);
        match (held, observed.memory.held_since) {
            (true, None) => {
                cluster
                    .memories
                    .change(key, &uid, |memory| memory.held_since = Some(now));
                observed.memory.held_since = Some(now);
            }
            (false, Some(_)) => {
                cluster.memories.change(key, &uid, |memory| {
                    memory.held_since = None;
                    memory.launcher = LauncherSeen::Unknown;
                });
                observed.memory.held_since = None;
            }
            (true, Some(_)) | (false, None) => {}
        }
        Some(observed)
    }

    /// The watch of namespaces may be behind that of jobs, and then a held job looks like one whose namespace is no gang's
    /// any more. So before its hold ends for that, the namespace is asked.
    async fn look_at_namespace(&self, observed: &mut Observed<'_>) -> Result<(), CallError> {
        let path = format!("/api/v1/namespaces/{}", observed.key.namespace);
        let namespace = match self.cluster.clients.calls.get(&path).await {
            Ok(answer) => serde_json::from_str::<Value>(answer.json()).unwrap_or_default(),
            Err(CallError::Answered { code: 404, .. }) => Value::Null,
            Err(error) => return Err(error),
        };
        let label = |key: &str| namespace.pointer("/metadata/labels")?.get(key)?.as_str();
        observed.label = label(names::GANG).map(Into::into);
        observed.dispatched = label(names::DISPATCH).is_some();
        Ok(())
    }

    /// False if what the answer shows is gone since.
    fn learn(&self, observed: &Observed<'_>, step: &Step, before: Option<&Seen>, done: Done) -> bool {
        match (step, &done) {
            (Step::Create { .. } | Step::Update { .. } | Step::Look { .. }, Done::Group(_, seen)) => {
                let uid = seen.uid.clone();
                self.remember(observed, |memory| {
                    memory.proven.insert(uid);
                    memory.met_owner = 0;
                    memory.refused = None;
                });
            }
            (_, Done::LauncherGood) => self.remember(observed, |memory| memory.launcher = LauncherSeen::Good),
            (_, Done::LauncherDeleted) => {
                self.remember(observed, |memory| {
                    memory.launcher = LauncherSeen::Deleted(Instant::now());
                });
            }
            // After a delete it is awaited; without one, it will be made from the marked template.
            (_, Done::LauncherAbsent) if observed.memory.launcher == LauncherSeen::Unknown => {
                self.remember(observed, |memory| memory.launcher = LauncherSeen::Good);
            }
            // A launcher that was as its template is so no longer.
            (Step::PatchJob { why: Why::Mark, .. }, _) => {
                self.remember(observed, |memory| memory.launcher = LauncherSeen::Unknown);
            }
            _ => {}
        }
        if let Some((reason, message)) = effect(step, before) {
            self.notes
                .about(reference(observed), Note::normal(reason, message));
        }
        self.absorb(observed, before, done)
    }

    /// `before` is the group that was seen when the call was made. False if what the answer shows is gone since.
    fn absorb(&self, observed: &Observed<'_>, before: Option<&Seen>, done: Done) -> bool {
        let store = &self.cluster.store;
        let before = before.map(|seen| &*seen.uid);
        match done {
            Done::Group(key, seen) => store.group_answered(key, seen, before),
            Done::NoGroup(key) => {
                if let Some(uid) = before {
                    store.group_gone(&key, uid);
                }
                true
            }
            Done::Job(key, seen) => store.job_answered(key, seen, &observed.job.uid),
            Done::NoJob(key) => {
                store.job_gone(&key, &observed.job.uid);
                true
            }
            Done::LauncherGood | Done::LauncherAbsent | Done::LauncherDeleted => true,
        }
    }

    fn remember(&self, observed: &Observed<'_>, change: impl FnOnce(&mut Memory)) {
        let (key, uid) = (&observed.key, &observed.job.uid);
        self.cluster.memories.change(key, uid, change);
    }

    fn suffer(&self, observed: &Observed<'_>, step: &Step, failure: Failure, failures: u32) -> Duration {
        let words = match failure {
            Failure::Stale(_) => String::new(),
            Failure::Owned { message } => {
                self.remember(observed, |memory| memory.met_owner += 1);
                message
            }
            Failure::Refused { message } => {
                let note = Note::warning("PodGroupRefused", format!("{}: {message}", step.name()));
                self.notes.about(reference(observed), note);
                message
            }
            Failure::Ending => {
                tracing::debug!(job = %observed.key, step = step.name(), "its namespace is being deleted");
                return LONGEST_PAUSE;
            }
            // No answer is no refusal, and time without the API is no time in which a group could have been made.
            Failure::Unavailable { words } => {
                self.remember(observed, |memory| {
                    memory.held_since = memory.held_since.map(|_| Instant::now());
                    memory.refused = None;
                });
                tracing::warn!(job = %observed.key, step = step.name(), words, "a step of a gang had no answer; it is tried again");
                return pause(failures);
            }
        };
        self.remember(observed, |memory| memory.refused = Some(words.clone()));
        tracing::warn!(job = %observed.key, step = step.name(), words, "a step of a gang failed; it is tried again");
        pause(failures)
    }

    fn note(&self, observed: &Observed<'_>, notice: Notice) {
        let reason = notice.reason.name();
        let note = match notice.reason.is_warning() {
            true => Note::warning(reason, notice.sentence),
            false => Note::reason(reason, notice.sentence),
        };
        self.notes.about(reference(observed), note);
    }
}

/// What a person should hear of a write that took effect.
fn effect(step: &Step, before: Option<&Seen>) -> Option<(&'static str, String)> {
    let object = |object: &Value| {
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        format!("{} {}", text("/kind"), text("/metadata/name"))
    };
    match step {
        Step::Create { object: made, .. } => Some(("PodGroupCreated", format!("made {}", object(made)))),
        Step::Update { object: made, .. } => {
            let fields = before.map_or_else(Vec::new, |seen| changes(&seen.object, made));
            let message = match &fields[..] {
                [] => format!("{} is as the job says", object(made)),
                [field] => format!("{}: {field} is as the job says", object(made)),
                fields => format!("{}: {} are as the job says", object(made), fields.join(", ")),
            };
            Some(("PodGroupUpdated", message))
        }
        Step::Delete { key, .. } => {
            let is_its = |api: &&GroupApi| (api.group, api.plural) == (key.group, key.plural);
            let kind = GROUP_APIS.iter().find(is_its).map_or(key.plural, |api| api.kind);
            Some(("PodGroupDeleted", format!("deleted {kind} {}", key.name)))
        }
        Step::PatchJob {
            why: Why::Release, ..
        } => Some((
            "Released",
            "its hold is over, and its operator starts it".to_owned(),
        )),
        Step::PatchJob {
            why: Why::Mark | Why::StandDown | Why::DropClaim,
            ..
        }
        | Step::Look { .. }
        | Step::Launcher { .. } => None,
    }
}

fn reference(observed: &Observed<'_>) -> ObjectReference {
    let Seen { uid, .. } = &observed.job;
    ObjectReference {
        api_version: Some(observed.key.resource.api_version()),
        kind: Some(observed.key.resource.kind.to_owned()),
        namespace: Some(observed.key.namespace.to_string()),
        name: Some(observed.key.name.to_string()),
        uid: Some(uid.to_string()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::reconcile::gang::store::GroupKey;

    #[test]
    fn what_was_done_is_told_with_kind_and_name() {
        let key = GroupKey {
            group: "scheduling.x-k8s.io",
            plural: "podgroups",
            namespace: "team".into(),
            name: "train".into(),
        };
        let group = |spec: Value| {
            json!({
                "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
                "metadata": {"name": "train", "uid": "u", "resourceVersion": "1"}, "spec": spec,
            })
        };
        let update = |spec: Value| Step::Update {
            key: key.clone(),
            object: Box::new(group(spec)),
        };
        let before = Seen::of(group(json!({"minMember": 3, "minResources": {"cpu": "3"}})));
        let delete = Step::Delete {
            key: key.clone(),
            api_version: "scheduling.x-k8s.io/v1alpha1".to_owned(),
            uid: "u".into(),
        };
        for (step, words) in [
            (delete, "deleted PodGroup train"),
            (
                update(json!({"minMember": 2, "minResources": {"cpu": "3"}})),
                "PodGroup train: spec.minMember is as the job says",
            ),
            (
                update(json!({"minMember": 2, "minResources": {"cpu": "2"}})),
                "PodGroup train: spec.minMember, spec.minResources are as the job says",
            ),
        ] {
            assert_eq!(
                effect(&step, before.as_ref())
                    .map(|(_, message)| message)
                    .as_deref(),
                Some(words)
            );
        }
    }
}
