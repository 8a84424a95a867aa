//! A job and what is beside it -> its line (pure).

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use serde_json::Value;

use super::GangLine;
use super::why::{Situation, State, why};
use crate::gang::{
    self, Choice, ClusterFacts, Decision, Family, GangSettings, JobRef, Moment, Notice, PriorityClasses,
    Reason, Standing, Subject, choose, hold, marked, standing,
};
use crate::names;
use crate::reconcile::gang::cluster::{COSCHEDULING, NATIVE_POD_GROUP, VOLCANO};
use crate::workload::jobs::{GangKind, InvalidField, Pods};

/// What is beside the jobs of a namespace.
#[derive(Debug, Default)]
pub(super) struct Around {
    /// The namespace's label `gang`.
    pub(super) label: Option<String>,
    /// Its pods run on worker clusters.
    pub(super) is_dispatched: bool,
    /// What the cluster serves.
    pub(super) served: gang::Served,
    /// Its PriorityClasses; none if they may not be read.
    pub(super) classes: Option<PriorityClasses>,
    /// PodGroups by API group and name.
    pub(super) groups: BTreeMap<(&'static str, String), Value>,
    /// Pods by the name of their group.
    pub(super) pods: BTreeMap<String, PodCount>,
    /// Events of ours by the UID of what they are about.
    pub(super) told: BTreeMap<String, Vec<Told>>,
}

/// Pods of a group.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct PodCount {
    /// Those that have not ended.
    pub(super) there: u32,
    /// Any of them ever got a node.
    pub(super) any_has_node: bool,
}

/// An Event of ours.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) time: Option<Timestamp>,
    pub(super) reason: String,
    pub(super) sentence: String,
}

impl Around {
    /// Keeps an Event.
    pub(super) fn hear(&mut self, event: Event) {
        if let Some(uid) = event.regarding.and_then(|about| about.uid) {
            self.told.entry(uid).or_default().push(Told {
                time: event.event_time.map(|time| time.0),
                reason: event.reason.unwrap_or_default(),
                sentence: event.note.unwrap_or_default(),
            });
        }
    }

    /// Counts a pod.
    pub(super) fn count(&mut self, pod: &Pod) {
        let group = pod.labels().get(names::POD_GROUP).cloned().unwrap_or_default();
        let count = self.pods.entry(group).or_default();
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        count.there += u32::from(!matches!(phase, Some("Succeeded" | "Failed")));
        count.any_has_node |= pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    }

    /// Whether any PodGroup is one that we made for this job.
    fn has_group_of(&self, job: &JobRef) -> bool {
        self.groups
            .values()
            .any(|group| group["metadata"]["labels"][names::JOB_UID] == *job.uid)
    }
}

/// What is wanted for the job, as far as can be known from outside: [`Decision`] with its scheduler.
enum Outcome {
    NotAsked,
    NotServed(Family),
    Alone(Notice),
    Invalid(InvalidField),
    Gang(Family, Box<gang::Gang>),
}

/// The line of a job; none if it is no gang, or has ended. Where no gangs are asked for any more, those that are held or
/// have a PodGroup of ours are still listed.
pub(super) fn line(kind: &'static dyn GangKind, job: &Value, seen: &Around) -> Option<GangLine> {
    if kind.is_finished(job) {
        return None;
    }
    let text = |pointer: &str| job.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let annotation = |key: &str| job.pointer("/metadata/annotations")?.get(key)?.as_str();
    let names = kind.resource();
    let reference = JobRef {
        api_version: names.api_version(),
        kind: names.kind.to_owned(),
        namespace: text("/metadata/namespace").to_owned(),
        name: text("/metadata/name").to_owned(),
        uid: text("/metadata/uid").to_owned(),
    };
    let mark = marked(kind, job);
    let (is_suspended, is_claimed) = (hold::is_suspended(kind, job), hold::is_claimed(job));
    let is_left = is_claimed || seen.has_group_of(&reference);
    let pods = mark.and_then(|(_, name)| seen.pods.get(name));
    let pods = pods.copied().unwrap_or_default();
    let outcome = seen.label.as_deref().map(|label| {
        // What runs stays with the gang scheduler that started it.
        let family = mark.and_then(|(family, _)| family);
        let started = family.filter(|_| !is_suspended || pods.there > 0);
        let label = started.map_or_else(|| label.to_owned(), |family| family.to_string());
        outcome(kind, job, &label, seen)
    });
    let is_listed = match &outcome {
        None => is_left,
        Some(Outcome::NotAsked) => is_left || matches!(mark, Some((Some(_), _))),
        Some(_) => true,
    };
    if !is_listed {
        return None;
    }
    let family = mark.and_then(|(family, _)| family).or(match &outcome {
        Some(Outcome::NotServed(family) | Outcome::Gang(family, _)) => Some(*family),
        _ => None,
    });
    let api_group = family.map(|family| match family {
        Family::Coscheduling => COSCHEDULING.group,
        Family::Volcano => VOLCANO.group,
        Family::Native => NATIVE_POD_GROUP.group,
    });
    let group = api_group.zip(mark).and_then(|(api_group, (_, name))| {
        let found = seen.groups.get(&(api_group, name.to_owned()))?;
        Some((name, standing(found, &reference)))
    });
    let adopts = annotation(names::ADOPT_PODGROUP);
    let is_alone = matches!(outcome, Some(Outcome::Alone(_)));
    let stand_down = annotation(names::STAND_DOWN);
    let state = match (is_suspended, is_claimed) {
        _ if stand_down.is_some() => State::StoodDown,
        _ if adopts.is_none() && matches!(group, Some((_, Standing::Foreign))) => State::Conflict,
        (true, true) => State::Held,
        (true, false) => State::Suspended,
        (false, _) if mark.is_none() => State::NoGang,
        (false, _) if pods.any_has_node => State::Running,
        (false, _) if is_alone => State::NoGang,
        (false, _) => State::Waiting,
    };
    let (notice, gang) = match outcome {
        None => (Some(Err(not_asked())), None),
        Some(Outcome::NotAsked) => (None, None),
        Some(Outcome::NotServed(family)) => {
            let sentence = format!(
                "{family} is asked for, but this cluster does not serve its PodGroups; install or switch it on"
            );
            (
                Some(Ok(Notice::new(Reason::GangSchedulerNotServed, sentence))),
                None,
            )
        }
        Some(Outcome::Alone(notice)) => (Some(Ok(notice)), None),
        Some(Outcome::Invalid(error)) => (Some(Ok(Notice::new(Reason::InvalidJob, error.to_string()))), None),
        Some(Outcome::Gang(_, gang)) => (None, Some(gang)),
    };
    let cause = why(&Situation {
        state,
        stand_down,
        notice,
        gang: gang.as_deref(),
        is_marked: mark.is_some(),
        has_fixed_templates: kind.has_fixed_templates(),
        is_native: family == Some(Family::Native),
        adopts,
        stands: match group {
            Some((_, Standing::Ours)) => true,
            Some((_, standing)) => adopts.is_some() && standing != Standing::Terminating,
            None => false,
        },
        is_dispatched: seen.is_dispatched,
        knows_classes: seen.classes.is_some(),
        pods_there: pods.there,
        told: seen.told.get(&reference.uid).map_or(&[], Vec::as_slice),
    });
    let (reason, message) = cause.map_or((None, None), |cause| (cause.reason, Some(cause.sentence)));
    Some(GangLine {
        namespace: reference.namespace,
        api_version: reference.api_version,
        kind: reference.kind,
        name: reference.name,
        scheduler: family.map(|family| family.to_string()),
        pod_group: group.map(|(name, _)| name.to_owned()),
        state: state.name(),
        reason,
        message,
    })
}

fn not_asked() -> String {
    format!("its namespace has no label {} any more", names::GANG)
}

/// What Portcullis would decide. Its configuration is not known here: what stands beside our own marks tells the parts of it
/// that matter.
fn outcome(kind: &'static dyn GangKind, job: &Value, label: &str, seen: &Around) -> Outcome {
    let settings = settings(kind, job);
    let back_end = match choose(kind, job, label, seen.served, &settings) {
        Ok(Choice::Use(back_end)) => back_end,
        Ok(Choice::NotServed(family)) => return Outcome::NotServed(family),
        Ok(Choice::Alone(notice)) if notice.reason == Reason::OperatorManagesPodGroup => {
            return Outcome::Alone(notice);
        }
        Ok(Choice::Alone(_)) => return Outcome::NotAsked,
        Err(error) => return Outcome::Invalid(error),
    };
    let subject = Subject {
        kind,
        job,
        back_end,
        moment: Moment::Stored,
        seed: "",
        late_pods_exist: false,
    };
    let facts = ClusterFacts {
        priority_classes: seen.classes.clone().unwrap_or_default(),
        settings,
        ..ClusterFacts::default()
    };
    match gang::gang(&subject, &facts) {
        Ok(Decision::Alone(notice)) => Outcome::Alone(notice),
        Ok(Decision::Gang(gang)) => Outcome::Gang(back_end.family(), gang),
        Err(error) => Outcome::Invalid(error),
    }
}

fn settings(kind: &dyn GangKind, job: &Value) -> GangSettings {
    let mut settings = GangSettings::default();
    let Some((family, _)) = marked(kind, job) else {
        return settings;
    };
    settings.gang_all = true;
    let Ok(Pods::Sets(sets)) = kind.pod_sets(job) else {
        return settings;
    };
    let mut schedulers = sets
        .iter()
        .filter_map(|set| set.template.at(&["spec", "schedulerName"]).text().ok()?);
    if let Some(scheduler) = schedulers.next() {
        match family {
            Some(Family::Coscheduling) => scheduler.clone_into(&mut settings.coscheduling_scheduler),
            Some(Family::Volcano) => scheduler.clone_into(&mut settings.volcano_scheduler),
            Some(Family::Native) | None => {}
        }
    }
    settings
}
