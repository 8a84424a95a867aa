//! What the copy of a whole job is born with on a worker that has a gang scheduler (pure): the marks that tie its pods to
//! their group. Later would be too late: a suspended Job takes labels, but no scheduler's name.

use std::sync::Arc;

use serde_json::Value;

use super::{BackEnd, ClusterFacts, Decision, GangSettings, Moment, Notice, Reason, Subject, gang, opt_in};
use crate::names::{ADOPT_PODGROUP, GANG_SCHEDULING, TRUE};
use crate::workload::jobs::{Field, GangKind};

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
            Ok(Decision::Gang(gang)) => {
                let name = gang.marks.group_name(&gang.pod_group.name).to_owned();
                gang.marks.with_pod_group(name)
            }
            Ok(Decision::Alone(notice)) => return Birth::Alone(notice),
            Err(error) => return Birth::Alone(Notice::new(Reason::InvalidJob, error.to_string())),
        };
        match marks.apply(&copy) {
            Ok(mut copy) => {
                // `gangAll` may have made it one.
                copy["metadata"]["annotations"][GANG_SCHEDULING] = TRUE.into();
                Birth::Marked {
                    copy,
                    from: self.spelled(),
                }
            }
            Err(error) => Birth::Alone(Notice::new(Reason::InvalidJob, error.to_string())),
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

fn annotation<'j>(job: &'j Value, key: &str) -> Option<&'j Value> {
    job.pointer("/metadata/annotations")?
        .get(key)
        .filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests;
