//! A job -> its gang: the group that its scheduler needs, the marks of its pods, and what is to be said about it (pure).
//!
//! [`gang`] is the whole translation. Whatever holds for all gang schedulers is in the neutral [`PodGroup`]; the files
//! [`coscheduling`], [`volcano`] and [`native`] spell it.

use serde_json::Value;

pub mod back_end;
pub mod birth;
pub mod coscheduling;
pub mod facts;
mod group_label;
pub mod hold;
pub mod marks;
pub mod name;
pub mod native;
pub mod notice;
mod opt_in;
pub mod pod_group;
pub mod policy;
mod priority;
pub mod requests;
pub mod size;
pub mod standing;
mod templates;
mod unspoken;
pub mod volcano;

#[cfg(test)]
mod tests;

pub use back_end::{BackEnd, Choice, Family, Served, Wanted, choose, wanted};
pub use facts::{ClusterFacts, ContainerDefaults, ElasticMin, GangSettings, NameStyle, PriorityClasses};
pub use group_label::{marked, unmarked};
pub use marks::{Marks, PodMark, TemplateMarks};
pub use native::NativeVersion;
pub use notice::{Notice, Reason};
pub use pod_group::{JobRef, MinResources, PodGroup, Role};
pub use policy::Policy;
pub use size::{Share, Size, first};
pub use standing::{DeleteOnFinish, Standing, is_over, standing};

use crate::workload::jobs::{GangKind, InvalidField, PodSet, Pods, Presence};
use requests::{PodNeeds, Resources, add, pod_needs};
use size::size;

/// The scheduler of pods that name none. It is as good as no name, for some clients write it down.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// A job, and what is asked about it.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// Its kind.
    pub kind: &'static dyn GangKind,
    /// The object, with its namespace.
    pub job: &'a Value,
    /// Whose group it is to be.
    pub back_end: BackEnd,
    /// Whether it can still be refused.
    pub moment: Moment,
    /// At admission, the UID of the request: a job without a name yet has a group whose name is made of it.
    pub seed: &'a str,
    /// Pods that come later than the others exist already.
    pub late_pods_exist: bool,
}

/// When a job is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// It is being created or changed: what is out of range is refused.
    Admission,
    /// It is stored: what is out of range counts as left out, with a remark.
    Stored,
}

/// What becomes of a job.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// It is a gang.
    Gang(Box<Gang>),
    /// It is none of ours, for this reason; nothing is written.
    Alone(Notice),
}

/// A job's gang.
#[derive(Debug, Clone, PartialEq)]
pub struct Gang {
    /// The group.
    pub pod_group: PodGroup,
    /// What ties the pods to it.
    pub marks: Marks,
    /// What the user should know, in the order of the job's fields.
    pub notices: Vec<Notice>,
}

impl Gang {
    /// The gang with the native group's name of this number; the first that is free is taken.
    #[must_use]
    pub fn of_attempt(mut self, back_end: BackEnd, attempt: u32) -> Self {
        self.marks.pods = templates::pod_mark(back_end, &self.pod_group, attempt);
        self
    }
}

/// The gang of a job on a cluster with these facts, when it is started for the first time.
///
/// # Errors
/// The first field that cannot be read, or that is refused at [`Moment::Admission`].
pub fn gang(subject: &Subject<'_>, facts: &ClusterFacts) -> Result<Decision, InvalidField> {
    let Subject { kind, job, .. } = *subject;
    let settings = &facts.settings;
    if let Some(notice) = opt_in::alone(kind, job, settings)? {
        return Ok(Decision::Alone(notice));
    }
    let policy = Policy::read(kind, job)?;
    let sets = match kind.pod_sets(job)? {
        Pods::Sets(sets) => templates::of_gang(sets)?,
        Pods::UnknownRole { path, roles } => {
            return Ok(Decision::Alone(templates::unknown_role(kind, &path, &roles)));
        }
    };
    let mut notices = Vec::new();
    let Some(size) = size(subject, &sets, &policy.min_available, settings, &mut notices)? else {
        return Ok(Decision::Alone(Notice::new(
            Reason::NoPods,
            "the job has no pods, so there is nothing to start together",
        )));
    };
    let reference = templates::job_ref(subject)?;
    let adopted = templates::adopted(job)?;
    let name = match adopted {
        Some(adopted) => adopted.to_owned(),
        None => templates::group_name(subject, &sets, &reference, settings)?,
    };
    if let Some(notice) = templates::foreign(subject, &sets, &name, settings)? {
        return Ok(Decision::Alone(notice));
    }
    let priorities = priority::priorities(subject, &policy, &sets, facts, &mut notices)?;
    let min_resources = min_resources(&policy, &sets, &size, &priorities.of_sets, facts, &mut notices)?;
    unspoken::say(subject, &policy, settings, &mut notices)?;
    let pod_group = PodGroup {
        job: reference,
        name,
        born_in: group_label::born_in(&sets).map(str::to_owned),
        is_adopted: adopted.is_some(),
        min_member: size.min_member,
        total: size.total,
        min_resources,
        priority_class: priorities.class.map(str::to_owned),
        queue: policy.queue.map(str::to_owned),
        timeout_seconds: policy.timeout_seconds,
        roles: sets.iter().map(role).collect(),
        job_annotations: opt_in::annotations(job),
    };
    let marks = templates::marks(subject, &sets, &pod_group, priorities.given, settings);
    Ok(Decision::Gang(Box::new(Gang {
        pod_group,
        marks,
        notices,
    })))
}

fn role(set: &PodSet<'_>) -> Role {
    Role {
        name: set.role.to_ascii_lowercase(),
        count: set.count,
        is_worker: set.role == "Worker",
        counts: set.presence == Presence::Together,
    }
}

/// The policy's, or what the first `min_member` pods request, by priority and role, and the pods that come later.
fn min_resources(
    policy: &Policy<'_>,
    sets: &[PodSet<'_>],
    size: &Size,
    priorities: &[i32],
    facts: &ClusterFacts,
    notices: &mut Vec<Notice>,
) -> Result<MinResources, InvalidField> {
    let needs = sets
        .iter()
        .map(|set| pod_needs(&set.template, facts))
        .collect::<Result<Vec<PodNeeds>, _>>()?;
    if let Some(given) = &policy.min_resources {
        return Ok(MinResources::Given(given.clone()));
    }
    if let Some(place) = needs.iter().position(|needs| needs.has_claims) {
        let claims = sets[place].template.at(&["spec", "resourceClaims"]);
        notices.push(Notice::new(
            Reason::ResourceClaimsNotCounted,
            format!(
                "{} claims devices, which minResources cannot count",
                claims.path()
            ),
        ));
    }
    let share = |place: usize| Share {
        count: if sets[place].presence == Presence::Together {
            sets[place].count
        } else {
            0
        },
        minimum: size.minimums.as_ref().map_or(0, |minimums| minimums[place]),
        priority: priorities[place],
    };
    let shares: Vec<Share> = (0..sets.len()).map(share).collect();
    let mut taken = first(&shares, size.min_member);
    for (set, taken) in sets
        .iter()
        .zip(&mut taken)
        .filter(|(set, _)| set.presence == Presence::Later)
    {
        *taken = set.count;
    }
    let sum = |of: fn(&PodNeeds) -> &Resources| {
        let mut sum = Resources::new();
        for (needs, taken) in needs.iter().zip(&taken).filter(|(_, taken)| **taken > 0) {
            let times = |(key, amount): (&String, &crate::quantity::Quantity)| {
                (key.clone(), amount.times(u64::from(*taken)))
            };
            add(&mut sum, &of(needs).iter().map(times).collect());
        }
        sum
    };
    Ok(MinResources::Computed {
        requests: sum(|needs| &needs.requests),
        limits: sum(|needs| &needs.limits),
        pods: taken.iter().sum(),
    })
}
