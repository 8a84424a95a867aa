//! The group of a gang: made, kept as the job says, and deleted when its time is over.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Plan, compare, patches};
use crate::gang::{
    BackEnd, Gang, Marks, NativeVersion, Notice, PodGroup, Reason, Standing, is_over, marked, native,
    standing,
};
use crate::names::{ADOPT_PODGROUP, MANAGED_BY_LABEL, PORTCULLIS};
use crate::reconcile::gang::cluster::{COSCHEDULING, GROUP_APIS, NATIVE_POD_GROUP, NATIVE_WORKLOAD, VOLCANO};
use crate::reconcile::gang::execute::Step;
use crate::reconcile::gang::observed::{LauncherSeen, Observed};
use crate::reconcile::gang::store::{GroupKey, PodCount, Seen, controller};

/// A native group has had at most so many names of which the old objects are still there.
const MOST_ATTEMPTS: u32 = 64;
/// What waits is told again, and looked at: for a watch that lost an event, and Events of ours that were lost.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// How long a launcher that was deleted may take to be made anew.
const LAUNCHER_RETURNS: Duration = Duration::from_secs(5);

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
    let mut plan = match (observed.is_suspended(), observed.is_held()) {
        (true, false) => waiting_for_its_user(observed, wanted, &marks),
        (false, _) if !is_marked(observed, &marks) => Plan {
            notices: vec![Notice::new(
                Reason::NotGangScheduled,
                "its pods do not name a PodGroup, since it started before Portcullis saw it; suspend and resume it",
            )],
            ..Plan::default()
        },
        (true | false, _) => wanted_now(observed, wanted, &marks, now),
    };
    plan.notices.splice(0..0, wanted.gang.notices.iter().cloned());
    plan
}

/// Suspended by somebody else: what we made goes once its pods are gone, and with native groups the templates name the
/// next one already, for whoever resumes the job does not wait for us.
fn waiting_for_its_user(observed: &Observed<'_>, wanted: &Wanted, marks: &Marks) -> Plan {
    let mut steps = over(observed);
    if let (true, BackEnd::Native(_)) = (steps.is_empty(), wanted.back_end) {
        steps.extend(patches::mark(observed, marks));
    }
    Plan {
        steps,
        ..Plan::default()
    }
}

fn wanted_now(observed: &Observed<'_>, wanted: &Wanted, marks: &Marks, now: Instant) -> Plan {
    match group_steps(observed, wanted) {
        Next::Plan(plan) => *plan,
        Next::Standing if observed.is_held() => hold_ends(observed, wanted, marks, now),
        Next::Standing => {
            let waits = waits(observed, wanted);
            Plan {
                // Nothing changes while it waits, and an Event may be lost, or be too old to be kept.
                look_again: waits.as_ref().map(|_| LOOK_AGAIN),
                notices: waits.into_iter().collect(),
                ..Plan::default()
            }
        }
    }
}

enum Next {
    /// The objects are not as they should be.
    Plan(Box<Plan>),
    /// They are.
    Standing,
}

impl Next {
    fn step(step: Step) -> Self {
        Self::Plan(Box::new(Plan {
            steps: vec![step],
            ..Plan::default()
        }))
    }

    fn wait(notice: Option<Notice>) -> Self {
        Self::Plan(Box::new(Plan {
            notices: notice.into_iter().collect(),
            look_again: Some(LOOK_AGAIN),
            keeps_hold: true,
            ..Plan::default()
        }))
    }
}

/// The first object that is not as it should be; a PodGroup names its Workload by UID, so they come one by one.
fn group_steps(observed: &Observed<'_>, wanted: &Wanted) -> Next {
    let group = &wanted.gang.pod_group;
    if group.is_adopted {
        return adopted(observed, wanted);
    }
    let settings = &observed.facts.settings;
    let objects = |workload: Option<&str>| {
        wanted
            .back_end
            .objects(&sized(observed, wanted), wanted.attempt, workload, settings)
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
                return Next::wait(Some(Notice::new(
                    Reason::WaitingForOldGroup,
                    format!(
                        "{} {name} of an earlier start or job of this name is going; if it stays, look at its finalizers",
                        text(&object, "kind")
                    ),
                )));
            }
            Standing::Foreign => {
                return Next::wait(Some(conflict(observed, &seen.object)));
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
    Next::wait(Some(Notice::new(Reason::WaitingForPodGroup, sentence)))
}

/// The group with the size that it should have now: pods that ended do not count in a native one. While no pod waits,
/// that keeps none from starting, so nothing is written for each pod that ends.
fn sized(observed: &Observed<'_>, wanted: &Wanted) -> PodGroup {
    let mut group = wanted.gang.pod_group.clone();
    if let BackEnd::Native(version) = wanted.back_end
        && version.can_resize()
    {
        let pods = pods(observed, group_name(wanted));
        let full = group.min_member;
        group.min_member = native::min_count_for(full, group.total.saturating_sub(pods.succeeded));
        let stands = native_group(observed, wanted)
            .and_then(|seen| native::min_count(&seen.object))
            .and_then(|size| u32::try_from(size).ok());
        if let (Some(stands), true) = (stands, pods.active == pods.bound)
            && (group.min_member..=full).contains(&stands)
        {
            group.min_member = stands;
        }
    }
    group
}

fn has_changed(back_end: BackEnd, live: &Value, wanted: &Value) -> bool {
    match back_end {
        BackEnd::Coscheduling | BackEnd::Volcano => compare::differs(live, wanted),
        BackEnd::Native(version) => version.can_resize() && compare::size_differs(live, wanted),
    }
}

fn hold_ends(observed: &Observed<'_>, wanted: &Wanted, marks: &Marks, now: Instant) -> Plan {
    let step = |step| Plan {
        steps: vec![step],
        ..Plan::default()
    };
    let missing = !marks.patch(observed.object()).0.is_empty();
    if missing && observed.kind.makes_launcher_early() {
        if let Some(mark) = patches::mark(observed, &marks.clone().only_spec()) {
            return step(mark);
        }
        let looks = match observed.memory.launcher {
            LauncherSeen::Good => false,
            LauncherSeen::Deleted(at) => now.saturating_duration_since(at) < LAUNCHER_RETURNS,
            LauncherSeen::Unknown => true,
        };
        if looks {
            let mark = wanted.gang.marks.templates.first();
            return step(Step::Launcher {
                job: observed.key.clone(),
                uid: (*observed.job.uid).into(),
                scheduler: mark.and_then(|mark| mark.scheduler_name.clone()),
                class: mark.and_then(|mark| mark.priority_class_name.clone()),
            });
        }
    }
    step(patches::release(observed, Some(marks)))
}

/// What was made for the job and is not needed any more.
pub(super) fn over(observed: &Observed<'_>) -> Vec<Step> {
    let ours = observed.groups.of_job(&observed.key.namespace, &observed.job.uid);
    let living: u32 = ours
        .iter()
        .map(|(key, _)| {
            observed
                .groups
                .pods(&key.namespace, &key.name, &observed.key.name)
                .active
        })
        .sum();
    if !is_over(
        observed.kind,
        observed.object(),
        living,
        observed.delete_on_finish,
    ) {
        return Vec::new();
    }
    deletions(observed, ours)
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

/// How often a native group of this job was begun: pods of a running job name theirs, a waiting one takes the first name
/// that is free.
pub(super) fn attempt(observed: &Observed<'_>, back_end: BackEnd, group: &PodGroup) -> u32 {
    let BackEnd::Native(version) = back_end else {
        return 0;
    };
    let named = marked(observed.kind, observed.object()).map(|(_, name)| name);
    let fits = |attempt: &u32| {
        let names = native::names(group, version, *attempt);
        let name = match version {
            NativeVersion::V1alpha1 => names.workload,
            NativeVersion::V1alpha2 | NativeVersion::V1alpha3 | NativeVersion::V1beta1 => names.pod_group,
        };
        if !observed.is_suspended() {
            return named == Some(name.as_str());
        }
        let found = observed.groups.group(&key_named(observed, back_end, &name));
        found.is_none_or(|seen| standing(&seen.object, &group.job) == Standing::Ours)
    };
    (0..MOST_ATTEMPTS).find(fits).unwrap_or(0)
}

fn group_name(wanted: &Wanted) -> &str {
    wanted.gang.marks.group_name(&wanted.gang.pod_group.name)
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

fn pods(observed: &Observed<'_>, group: &str) -> PodCount {
    observed
        .groups
        .pods(&observed.key.namespace, &group.into(), &observed.key.name)
}

/// A native group that waits says nothing on its pods, so it is said on the job.
fn waits(observed: &Observed<'_>, wanted: &Wanted) -> Option<Notice> {
    let BackEnd::Native(_) = wanted.back_end else {
        return None;
    };
    let pods = pods(observed, group_name(wanted));
    if pods.active == 0 || pods.bound > 0 {
        return None;
    }
    let group = native_group(observed, wanted)?.object;
    let needed = native::min_count(&group)?;
    let sentence = if u64::from(pods.active) < needed {
        // Without the number of those that are there: it would be another Event for each pod.
        format!("not all of {needed} pods are there yet; before that, none of them is scheduled")
    } else {
        let conditions = group.pointer("/status/conditions")?.as_array()?;
        let waits = conditions
            .iter()
            .find(|condition| condition["status"] == "False")?;
        waits["message"].as_str()?.to_owned()
    };
    Some(Notice::new(Reason::WaitingForGang, sentence))
}

/// The PodGroup that stands there.
fn native_group(observed: &Observed<'_>, wanted: &Wanted) -> Option<Seen> {
    observed
        .groups
        .group(&key_named(observed, wanted.back_end, group_name(wanted)))
}

/// Where the group of this name is: with Kubernetes 1.35 it is the Workload.
fn key_named(observed: &Observed<'_>, back_end: BackEnd, name: &str) -> GroupKey {
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
