//! Sets of pods and `minAvailable` -> how many must start together, and which of them their resources are summed over.

use super::facts::{ElasticMin, GangSettings};
use super::notice::{Notice, Reason};
use super::{Moment, Subject};
use crate::workload::jobs::{Field, InvalidField, PodSet, Presence};

/// The most pods that APIs can count.
const MOST: u64 = i32::MAX as u64;

/// How many pods a gang has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Size {
    /// How many must be there at once; from 1 to [`Self::total`].
    pub min_member: u32,
    /// All pods of the gang, those that come later too.
    pub total: u32,
    /// How many of each set must be among them, in the order of the sets; none if any will do.
    pub minimums: Option<Vec<u32>>,
}

/// The size of a gang of these sets; none if there are no pods.
///
/// # Errors
/// If `minAvailable` is out of range and the job can still be refused, or if there are too many pods.
pub(super) fn size(
    subject: &Subject<'_>,
    sets: &[PodSet<'_>],
    min_available: &Field<'_>,
    settings: &GangSettings,
    notices: &mut Vec<Notice>,
) -> Result<Option<Size>, InvalidField> {
    let pods = |presence: &[Presence]| -> u64 {
        let sets = sets.iter().filter(|set| presence.contains(&set.presence));
        sets.map(|set| u64::from(set.count)).sum()
    };
    let total = pods(&[Presence::Together, Presence::Later]);
    let Some(total) = u32::try_from(total)
        .ok()
        .filter(|total| u64::from(*total) <= MOST)
    else {
        let spec = Field::root(subject.job).get("spec");
        return Err(spec.invalid(format!("found {total} pods, a PodGroup counts at most {MOST}")));
    };
    if total == 0 {
        return Ok(None);
    }
    let raised = settings.raise_for_launcher && subject.late_pods_exist;
    let together = pods(&[Presence::Together]);
    let ceiling = match (u32::try_from(together), raised) {
        (Ok(0) | Err(_), _) | (_, true) => total,
        (Ok(together), false) => together,
    };
    Ok(Some(match wanted(subject, total, min_available, notices)? {
        Some(wanted) => Size {
            min_member: explicit(subject, wanted, ceiling, min_available, notices),
            total,
            minimums: None,
        },
        None => by_default(sets, settings, ceiling, total),
    }))
}

/// As wanted, but no more than can be there at once.
fn explicit(
    subject: &Subject<'_>,
    wanted: u32,
    ceiling: u32,
    min_available: &Field<'_>,
    notices: &mut Vec<Notice>,
) -> u32 {
    let path = min_available.path();
    if wanted > ceiling {
        notices.push(Notice::new(
            Reason::LauncherExcluded,
            format!("the gang is {ceiling} pods, for others come once these run: {path}"),
        ));
    }
    if subject.kind.is_rigid() && wanted < ceiling {
        let kind = subject.kind.resource().kind;
        notices.push(Notice::new(
            Reason::PartialGang,
            format!("leave out {path}: {wanted} of {ceiling} pods may start, but a {kind} needs all"),
        ));
    }
    wanted.min(ceiling)
}

/// All that can be there at once, or what is enough of elastic sets.
fn by_default(sets: &[PodSet<'_>], settings: &GangSettings, ceiling: u32, total: u32) -> Size {
    let minimums = minimums(sets, settings);
    let sum = minimums
        .as_ref()
        .map_or(ceiling, |minimums| minimums.iter().sum());
    Size {
        min_member: sum.clamp(1, ceiling),
        total,
        minimums: minimums.filter(|_| sum > 0),
    }
}

/// `minAvailable`, if it is given and in range.
fn wanted(
    subject: &Subject<'_>,
    total: u32,
    min_available: &Field<'_>,
    notices: &mut Vec<Notice>,
) -> Result<Option<u32>, InvalidField> {
    let Some(found) = min_available.integer()? else {
        return Ok(None);
    };
    match (u32::try_from(found), subject.moment) {
        (Ok(wanted), _) if (1..=total).contains(&wanted) => Ok(Some(wanted)),
        (_, Moment::Admission) => Err(min_available.invalid(format!(
            "found {found}, expected a number from 1 to {total}, which are all pods of the job; left out, all must start together"
        ))),
        (_, Moment::Stored) => {
            notices.push(Notice::new(
                Reason::InvalidMinAvailable,
                format!("{} is {found}, not a number from 1 to {total}; the default counts", min_available.path()),
            ));
            Ok(None)
        }
    }
}

/// What elastic sets need at least, beside all pods of the others; none if nothing is elastic.
fn minimums(sets: &[PodSet<'_>], settings: &GangSettings) -> Option<Vec<u32>> {
    let is_elastic = sets.iter().any(|set| set.at_least.is_some());
    let counts = |set: &PodSet<'_>| match set.presence {
        Presence::Together => set.at_least.unwrap_or(set.count),
        Presence::Later | Presence::Before => 0,
    };
    match settings.elastic_min {
        ElasticMin::Policy if is_elastic => Some(sets.iter().map(counts).collect()),
        ElasticMin::Policy | ElasticMin::Upstream => None,
    }
}

/// Equal pods, as the order of a gang sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// How many there are.
    pub count: u32,
    /// How many of them come before all others.
    pub minimum: u32,
    /// Their priority: larger ones come first, and of equals the first share.
    pub priority: i32,
}

/// How many pods of each share are among the first `n`: minimums first, then by priority.
#[must_use]
pub fn first(shares: &[Share], n: u32) -> Vec<u32> {
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by_key(|place| std::cmp::Reverse(shares[*place].priority)); // stable
    let mut taken = vec![0; shares.len()];
    let mut left = n;
    let minimum = |share: &Share| share.minimum.min(share.count);
    let rounds: [&dyn Fn(&Share) -> u32; 2] = [&minimum, &|share| share.count];
    for upper in rounds {
        for place in &order {
            let more = upper(&shares[*place]).saturating_sub(taken[*place]).min(left);
            taken[*place] += more;
            left -= more;
        }
    }
    taken
}
