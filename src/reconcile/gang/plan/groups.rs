//! The group of a gang: made, kept as the job says, and deleted when its time is over.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::marking::Edits;
use super::{Plan, compare, natives, patches, suspended};
use crate::gang::{
    BackEnd, Gang, Marks, NativeVersion, Notice, Reason, Standing, is_over, marked, native, standing,
};
use crate::names::{ADOPT_PODGROUP, MANAGED_BY_LABEL, PORTCULLIS};
use crate::reconcile::gang::cluster::{COSCHEDULING, GROUP_APIS, NATIVE_POD_GROUP, NATIVE_WORKLOAD, VOLCANO};
use crate::reconcile::gang::execute::Step;
use crate::reconcile::gang::observed::Observed;
use crate::reconcile::gang::store::{GroupKey, PodCount, Seen, controller};

/// What waits is told again, and looked at: for a watch that lost an event, and Events of ours that were lost.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// The gang that a job should have.
pub(super) struct Wanted {
    pub(super) back_end: BackEnd,
    pub(super) attempt: u32,
    pub(super) gang: Gang,
}

pub(super) fn plan(observed: &Observed<'_>, wanted: &Wanted, now: Instant) -> Plan {
    let marks = wanted
        .gang
        .marks
        .clone()
        .with_pod_group(group_name(wanted).to_owned());
    let mut plan = match observed.is_suspended() {
        true => suspended::plan(observed, wanted, marks, now),
        false if is_marked(observed, &marks) => running(observed, wanted),
        false => {
            let sentence = "its pods do not name a PodGroup, since it started before Portcullis saw it; suspend and resume it";
            let notice = Edits::marking(observed, marks).err();
            say(notice.unwrap_or_else(|| Notice::new(Reason::NotGangScheduled, sentence)))
        }
    };
    plan.notices.splice(0..0, wanted.gang.notices.iter().cloned());
    plan
}

fn running(observed: &Observed<'_>, wanted: &Wanted) -> Plan {
    match (group_steps(observed, wanted), natives::waits(observed, wanted)) {
        (Next::Plan(plan), _) => *plan,
        (Next::Standing, None) => Plan::default(),
        (Next::Standing, Some(notice)) => Plan {
            // Nothing changes while it waits, and an Event may be lost, or be too old to be kept.
            look_again: Some(LOOK_AGAIN),
            ..say(notice)
        },
    }
}

pub(super) fn say(notice: Notice) -> Plan {
    Plan {
        notices: vec![notice],
        ..Plan::default()
    }
}

pub(super) fn waiting(notice: Notice) -> Plan {
    Plan {
        look_again: Some(LOOK_AGAIN),
        keeps_hold: true,
        ..say(notice)
    }
}

pub(super) fn step(step: Step) -> Plan {
    Plan {
        steps: vec![step],
        ..Plan::default()
    }
}

/// Whether the templates tie their pods to the group.
fn is_marked(observed: &Observed<'_>, marks: &Marks) -> bool {
    marks
        .clone()
        .only_metadata()
        .patch(observed.object())
        .0
        .is_empty()
}

pub(super) enum Next {
    /// The objects are not as they should be.
    Plan(Box<Plan>),
    /// They are.
    Standing,
}

impl Next {
    fn step(step: Step) -> Self {
        Self::Plan(Box::new(self::step(step)))
    }

    fn wait(notice: Notice) -> Self {
        Self::Plan(Box::new(waiting(notice)))
    }
}

/// The first object that is not as it should be; a PodGroup names its Workload by UID, so they come one by one.
pub(super) fn group_steps(observed: &Observed<'_>, wanted: &Wanted) -> Next {
    let group = &wanted.gang.pod_group;
    if group.is_adopted {
        return adopted(observed, wanted);
    }
    let settings = &observed.facts.settings;
    let objects = |workload: Option<&str>| {
        wanted.back_end.objects(
            &natives::sized(observed, wanted),
            wanted.attempt,
            workload,
            settings,
        )
    };
    let mut workload: Option<String> = None;
    for place in 0..objects(None).len() {
        let Some(object) = objects(workload.as_deref()).into_iter().nth(place) else {
            break;
        };
        let Some(key) = key_of(&object) else { break };
        if !observed.knows.contains(&(key.group, key.plural)) {
            return Next::Plan(Box::default()); // its list tells
        }
        let Some(seen) = observed.groups.group(&key) else {
            return Next::step(Step::Create {
                key,
                object: Box::new(object),
            });
        };
        let name = &key.name;
        match standing(&seen.object, &group.job) {
            Standing::Ours => {
                if has_changed(wanted.back_end, &seen.object, &object) {
                    if observed.memory.met_owner > 1 {
                        let whose = observed.memory.refused.as_deref();
                        let whose = whose.unwrap_or("somebody else writes its PodGroup");
                        let advice = "change the job instead, undo it there, and remove this annotation";
                        return Next::step(patches::stand_down(observed, &format!("{whose}; {advice}")));
                    }
                    let object = match wanted.back_end {
                        BackEnd::Coscheduling | BackEnd::Volcano => object,
                        BackEnd::Native(_) => native::resized(&seen.object, object),
                    };
                    return Next::step(Step::Update {
                        key,
                        object: Box::new(object),
                    });
                }
                if observed.is_held() && !observed.memory.proven.contains(&seen.uid) {
                    return Next::step(Step::Look {
                        key,
                        api_version: text(&object, "apiVersion"),
                    });
                }
                if place == 0 {
                    workload = Some(seen.uid.to_string());
                }
            }
            Standing::Operators => {
                return Next::step(patches::stand_down(
                    observed,
                    "its operator makes the PodGroup; switch its gang scheduling off, and remove this annotation",
                ));
            }
            Standing::Terminating | Standing::Stale => {
                return Next::wait(Notice::new(
                    Reason::WaitingForOldGroup,
                    format!(
                        "{} {name} of an earlier start or job of this name is going; if it stays, look at its finalizers",
                        text(&object, "kind")
                    ),
                ));
            }
            Standing::Foreign => {
                return Next::wait(conflict(observed, &seen.object));
            }
        }
    }
    Next::Standing
}

/// The group's name is taken: by whom, and what becomes of the job.
fn conflict(observed: &Observed<'_>, object: &Value) -> Notice {
    let is_ours = object["metadata"]["labels"][MANAGED_BY_LABEL] == *PORTCULLIS;
    let owner = match (controller(object), is_ours) {
        (Some(owner), _) => format!("belongs to {} {}", owner.kind, owner.name),
        (None, true) => "is left of a job that is gone".to_owned(),
        (None, false) => "belongs to nobody, so a person made it".to_owned(),
    };
    let outcome = match observed.is_held() {
        true => "the job waits",
        false => "the job's pods have no group of their own",
    };
    let sentence = format!(
        "{outcome}: {} {} {owner}; delete it, or give the job another name",
        text(object, "kind"),
        text(&object["metadata"], "name")
    );
    Notice::new(Reason::PodGroupConflict, sentence)
}

/// The group that the job adopts is somebody else's, so it is only awaited.
fn adopted(observed: &Observed<'_>, wanted: &Wanted) -> Next {
    let key = key_named(observed, wanted.back_end, &wanted.gang.pod_group.name);
    if !observed.knows.contains(&(key.group, key.plural)) {
        return Next::Plan(Box::default()); // its list tells
    }
    let state = match observed.groups.group(&key) {
        Some(seen) if !seen.terminating() => return Next::Standing,
        Some(_) => "is being deleted",
        None => "does not exist",
    };
    let sentence = format!(
        "the job waits for {} {}, which {state}; create it, or correct the annotation {ADOPT_PODGROUP}",
        key.plural, key.name
    );
    Next::wait(Notice::new(Reason::WaitingForPodGroup, sentence))
}

fn has_changed(back_end: BackEnd, live: &Value, wanted: &Value) -> bool {
    match back_end {
        BackEnd::Coscheduling | BackEnd::Volcano => compare::differs(live, wanted),
        BackEnd::Native(version) => version.can_resize() && compare::size_differs(live, wanted),
    }
}

/// What was made for the job and is not needed any more.
pub(super) fn over(observed: &Observed<'_>) -> Vec<Step> {
    let living = living(observed);
    match is_over(
        observed.kind,
        observed.object(),
        living,
        observed.delete_on_finish,
    ) {
        true => of_no_pods(observed),
        false => Vec::new(),
    }
}

/// Pods of the job that have not ended: those of its groups, and of the one that its templates name.
pub(super) fn living(observed: &Observed<'_>) -> u32 {
    let ours = observed.groups.of_job(&observed.key.namespace, &observed.job.uid);
    let mut names: BTreeSet<Arc<str>> = ours.into_iter().map(|(key, _)| key.name).collect();
    names.extend(marked(observed.kind, observed.object()).map(|(_, name)| name.into()));
    names.iter().map(|name| pods(observed, name).active).sum()
}

/// What was made for a job that has no pods.
pub(super) fn of_no_pods(observed: &Observed<'_>) -> Vec<Step> {
    deletions(
        observed,
        observed.groups.of_job(&observed.key.namespace, &observed.job.uid),
    )
}

fn deletions(observed: &Observed<'_>, groups: Vec<(GroupKey, Seen)>) -> Vec<Step> {
    let job = crate::gang::JobRef {
        api_version: observed.key.resource.api_version(),
        kind: observed.key.resource.kind.to_owned(),
        namespace: observed.key.namespace.to_string(),
        name: observed.key.name.to_string(),
        uid: observed.job.uid.to_string(),
    };
    groups
        .into_iter()
        .filter(|(_, seen)| standing(&seen.object, &job) == Standing::Ours)
        .map(|(key, seen)| Step::Delete {
            key,
            api_version: text(&seen.object, "apiVersion"),
            uid: (*seen.uid).into(),
        })
        .collect()
}

pub(super) fn group_name(wanted: &Wanted) -> &str {
    wanted.gang.marks.group_name(&wanted.gang.pod_group.name)
}

pub(super) fn pods(observed: &Observed<'_>, group: &str) -> PodCount {
    observed
        .groups
        .pods(&observed.key.namespace, &group.into(), &observed.key.name)
}

/// Where the group of this name is: with Kubernetes 1.35 it is the Workload.
pub(super) fn key_named(observed: &Observed<'_>, back_end: BackEnd, name: &str) -> GroupKey {
    let api = match back_end {
        BackEnd::Coscheduling => COSCHEDULING,
        BackEnd::Volcano => VOLCANO,
        BackEnd::Native(NativeVersion::V1alpha1) => NATIVE_WORKLOAD,
        BackEnd::Native(_) => NATIVE_POD_GROUP,
    };
    GroupKey {
        group: api.group,
        plural: api.plural,
        namespace: observed.key.namespace.clone(),
        name: name.into(),
    }
}

fn key_of(object: &Value) -> Option<GroupKey> {
    let api_version = object["apiVersion"].as_str()?;
    let (group, _) = api_version.split_once('/')?;
    let api = GROUP_APIS
        .iter()
        .find(|api| api.group == group && object["kind"] == *api.kind)?;
    Some(GroupKey {
        group: api.group,
        plural: api.plural,
        namespace: object["metadata"]["namespace"].as_str()?.into(),
        name: object["metadata"]["name"].as_str()?.into(),
    })
}

fn text(object: &Value, key: &str) -> String {
    object[key].as_str().unwrap_or_default().to_owned()
}
