//! The marks on the templates of a suspended job: they come before it starts, and go when another gang scheduler, or none,
//! is asked for. A launcher that its operator made early does not follow its template in everything: what it lacks, or keeps,
//! is changed first, then it is made anew (decision 0062). Our own label or, for marks that come, all metadata are last, so
//! that what is left to do can be seen on the job.

use std::time::{Duration, Instant};

use json_patch::PatchOperation;

use super::{Plan, groups, patches};
use crate::gang::{DEFAULT_SCHEDULER, Marks, Notice, Reason, marked, unmarked};
use crate::reconcile::gang::execute::{LauncherMust, Step};
use crate::reconcile::gang::observed::{LauncherSeen, Observed};

/// How long a launcher that was deleted may take to be made anew.
const LAUNCHER_RETURNS: Duration = Duration::from_secs(5);

/// What is to change in the templates of a job.
pub(super) struct Edits {
    /// Before a launcher is looked at; empty once that is done.
    first: Vec<PatchOperation>,
    /// All of it; empty if nothing is to do.
    pub(super) all: Vec<PatchOperation>,
    /// What a launcher must be like then.
    launcher: LauncherMust,
}

impl Edits {
    /// These marks are to be there.
    ///
    /// # Errors
    /// If the job cannot get them any more.
    pub(super) fn marking(observed: &Observed<'_>, mut marks: Marks) -> Result<Self, Notice> {
        if observed.kind.has_fixed_templates() {
            marks
                .templates
                .iter_mut()
                .for_each(|mark| mark.priority_class_name = None);
        }
        let first = marks.clone().only_spec().patch(observed.object()).0;
        if observed.kind.has_fixed_templates() && !first.is_empty() {
            let sentence = "its templates were made without the name of the gang's scheduler, and cannot be changed any more; create the job anew";
            return Err(Notice::new(Reason::NotGangScheduled, sentence));
        }
        let launcher = marks.templates.first();
        Ok(Self {
            first,
            all: marks.patch(observed.object()).0,
            launcher: LauncherMust {
                scheduler: launcher.and_then(|mark| mark.scheduler_name.clone()),
                class: launcher.and_then(|mark| mark.priority_class_name.clone()),
                be_unmarked: false,
            },
        })
    }

    /// Our marks are to go.
    fn unmarking(observed: &Observed<'_>) -> Self {
        let (first, labels) = unmarked(observed.kind, observed.object(), &observed.facts.settings);
        Self {
            all: [first.clone(), labels].concat(),
            first,
            launcher: LauncherMust {
                scheduler: Some(DEFAULT_SCHEDULER.to_owned()),
                class: None,
                be_unmarked: true,
            },
        }
    }

    /// What must be done before all of it is written; none if nothing must.
    pub(super) fn before_the_last(&self, observed: &Observed<'_>, now: Instant) -> Option<Step> {
        if self.all.is_empty() || !observed.kind.makes_launcher_early() {
            return None;
        }
        let LauncherMust { scheduler, class, .. } = &self.launcher;
        let looks = match observed.memory.launcher {
            LauncherSeen::Good => false,
            LauncherSeen::Deleted(at) => now.saturating_duration_since(at) < LAUNCHER_RETURNS,
            LauncherSeen::Unknown => scheduler.is_some() || class.is_some(),
        };
        patches::templates(observed, self.first.clone()).or_else(|| {
            looks.then(|| Step::Launcher {
                job: observed.key.clone(),
                uid: (*observed.job.uid).into(),
                must: self.launcher.clone(),
            })
        })
    }
}

/// Whether nothing of the job runs and its templates have marks of ours, so that these can be taken off. A copy keeps those
/// that it was born with.
pub(super) fn can_be_unmarked(observed: &Observed<'_>) -> bool {
    observed.copy.is_none()
        && observed.is_suspended()
        && !observed.kind.is_finished(observed.object())
        && !observed.job.terminating()
        && marked(observed.kind, observed.object()).is_some()
        && groups::living(observed) == 0
}

/// Our groups and marks go; the hold ends with them if `releases`.
pub(super) fn unmark(observed: &Observed<'_>, releases: bool, now: Instant) -> Plan {
    let mut steps = groups::over(observed);
    if steps.is_empty() {
        let edits = Edits::unmarking(observed);
        let next = edits.before_the_last(observed, now);
        steps.extend(next.or_else(|| match releases {
            true => Some(patches::release(observed, edits.all)),
            false => patches::templates(observed, edits.all),
        }));
    }
    Plan {
        steps,
        ..Plan::default()
    }
}
