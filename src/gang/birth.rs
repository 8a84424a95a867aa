//! What the copy of a whole job is born with on a worker that has a gang scheduler (pure): the marks that tie its pods to
//! their group. Later would be too late: a suspended Job takes labels, but no scheduler's name.

use std::sync::Arc;

use serde_json::Value;

use super::group_label::marked_scheduler;
use super::name::copy_name;
use super::{
    BackEnd, ClusterFacts, Decision, Family, GangSettings, Moment, NativeVersion, Notice, PodMark, Reason,
    Subject, gang, marked, opt_in,
};
use crate::names::{ADOPT_PODGROUP, ATTEMPT, GANG_SCHEDULING, TRUE};
use crate::workload::jobs::{BatchJob, Field, GangKind, JobKind as _};

/// Annotations of the local job that its copy keeps: what they ask for is done on the worker.
const KEPT: [&str; 2] = [GANG_SCHEDULING, ADOPT_PODGROUP];

/// The gang scheduler of a worker, and what is known of that cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Maker {
    /// Whose groups are made there.
    pub back_end: BackEnd,
    /// Classes there, and the settings with the name of the scheduler there.
    pub facts: Arc<ClusterFacts>,
}

/// What becomes of a copy.
#[derive(Debug, PartialEq)]
pub enum Birth {
    /// It carries the marks of its gang.
    Marked {
        /// The copy.
        copy: Value,
        /// What the marks depend on beside the job; part of what the copy was made from.
        from: String,
    },
    /// It is no gang of ours, for this reason.
    Alone(Notice),
    /// It asks for a gang, but has a field from which none can be made: it would run as what it is not.
    Refused(String),
}

impl Maker {
    /// The copy with all that its gang needs. `copy` is the job as it is to be made, without UID; `local` is where it is from.
    #[must_use]
    pub fn born(&self, kind: &'static dyn GangKind, copy: &Value, local: &Value) -> Birth {
        let mut copy = copy.clone();
        for key in KEPT {
            if let Some(value) = annotation(local, key) {
                copy["metadata"]["annotations"][key] = value.clone();
            }
        }
        let subject = Subject {
            kind,
            job: &copy,
            back_end: self.back_end,
            moment: Moment::Stored,
            seed: "",
            late_pods_exist: false,
        };
        let marks = match gang(&subject, &self.facts) {
            Ok(Decision::Gang(mut gang)) => {
                if let BackEnd::Native(version) = self.back_end {
                    if version == NativeVersion::V1alpha1 {
                        return Birth::Alone(Notice::new(Reason::GangUnsupported, NO_NATIVE));
                    }
                    let text =
                        |pointer: &str| local.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
                    let attempt = annotation(local, ATTEMPT).and_then(Value::as_str);
                    let job = &gang.pod_group.job;
                    let name = copy_name(job, text("/metadata/uid"), attempt.unwrap_or_default());
                    gang.pod_group.born_in = Some(name);
                    *gang = gang.of_attempt(self.back_end, 0);
                }
                let name = gang.marks.group_name(&gang.pod_group.name).to_owned();
                gang.marks.with_pod_group(name)
            }
            Ok(Decision::Alone(notice)) => return Birth::Alone(notice),
            Err(error) if asks(kind, local, &self.facts.settings) => {
                return Birth::Refused(error.to_string());
            }
            Err(error) => return Birth::Alone(Notice::new(Reason::InvalidJob, error.to_string())),
        };
        match marks.apply(&copy) {
            Ok(mut copy) => {
                let kept = marks.pods.as_ref().filter(|_| keeps_group(kind));
                if let Some((field, value)) = kept.map(PodMark::field) {
                    for template in &marks.templates {
                        if let Some(template) = copy.pointer_mut(template.template.pointer()) {
                            template["spec"][field] = value.clone();
                        }
                    }
                }
                // `gangAll` may have made it one.
                copy["metadata"]["annotations"][GANG_SCHEDULING] = TRUE.into();
                Birth::Marked {
                    copy,
                    from: self.spelled(),
                }
            }
            Err(error) => Birth::Refused(error.to_string()),
        }
    }

    fn spelled(&self) -> String {
        let settings = &self.facts.settings;
        let scheduler = match self.back_end {
            BackEnd::Coscheduling => &settings.coscheduling_scheduler,
            BackEnd::Volcano => &settings.volcano_scheduler,
            BackEnd::Native(version) => {
                return format!("{} {}", self.back_end.family(), version.api_version());
            }
        };
        format!("{} {scheduler}", self.back_end.family())
    }
}

/// Why no job can be in a native group on a worker.
pub const NO_NATIVE: &str =
    "on a worker jobs can be in native PodGroups from Kubernetes 1.36 on; take another gang scheduler there";

/// Whether the templates of this kind keep the native group of their pods. Others only name it in our marks, and a policy of
/// the API server puts it on the pods.
#[must_use]
pub fn keeps_group(kind: &dyn GangKind) -> bool {
    kind.resource() == BatchJob.resource()
}

/// Whether the job asks for a gang, by its policy or its annotation, wherever its pods run.
#[must_use]
pub fn asks(kind: &dyn GangKind, local: &Value, settings: &GangSettings) -> bool {
    let job = Field::root(local);
    let has_policy = kind
        .scheduling_policy()
        .is_some_and(|path| job.at(path).is_present());
    let has_own = kind.own_group().is_some_and(|path| job.at(path).is_present());
    // What cannot be read is said by whoever makes the group.
    !has_own && opt_in::is_opted_in(kind, &job.get("metadata"), has_policy, settings).unwrap_or(has_policy)
}

/// What the copy was made for, if that is not what its worker has now: then nobody makes its group. `now` is the gang
/// scheduler there, and the scheduler that its pods name.
#[must_use]
pub fn left_behind(kind: &dyn GangKind, copy: &Value, now: Option<(Family, Option<&str>)>) -> Option<String> {
    // Marks of templates may be the user's own. This annotation of ours is copied from no job: its birth wrote it.
    annotation(copy, GANG_SCHEDULING).filter(|value| *value == TRUE)?;
    let (family, _) = marked(kind, copy)?;
    let scheduler = marked_scheduler(kind, copy);
    let is_current = now.is_some_and(|(asked, name)| {
        let is_other = |(asked, found): (&str, &str)| asked != found;
        family.is_none_or(|family| family == asked) && !name.zip(scheduler).is_some_and(is_other)
    });
    let family = family.map_or_else(|| "a gang scheduler".to_owned(), |family| family.to_string());
    let name = scheduler.map_or_else(String::new, |name| format!(" with schedulerName {name:?}"));
    (!is_current).then(|| format!("{family}{name}"))
}

fn annotation<'j>(job: &'j Value, key: &str) -> Option<&'j Value> {
    job.pointer("/metadata/annotations")?
        .get(key)
        .filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests;
