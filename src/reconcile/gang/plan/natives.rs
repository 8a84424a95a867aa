//! What is special about native groups: the first free one of several names, a size that shrinks as pods end, and pods that
//! say nothing while they wait.

use super::groups::{Wanted, group_name, key_named, pods};
use crate::gang::{
    BackEnd, Family, NativeVersion, Notice, PodGroup, Reason, Standing, marked, native, standing,
};
use crate::reconcile::gang::observed::Observed;
use crate::reconcile::gang::store::Seen;

/// A native group has had at most so many names of which the old objects are still there.
const MOST_ATTEMPTS: u32 = 64;

/// The group of a copy has the name that its marks have had since it was made, before it had a UID. They are all that names it
/// where the template does not keep it.
pub(super) fn keep_name(observed: &Observed<'_>, back_end: BackEnd, group: &mut PodGroup) {
    if observed.copy.is_none() || group.born_in.is_some() || !matches!(back_end, BackEnd::Native(_)) {
        return;
    }
    let marked = marked(observed.kind, observed.object());
    group.born_in = marked
        .filter(|(family, _)| *family == Some(Family::Native))
        .map(|(_, name)| name.to_owned());
}

/// How often a native group of this job was begun: pods of a running job name theirs, a waiting one takes the first name
/// that is free.
pub(super) fn attempt(observed: &Observed<'_>, back_end: BackEnd, group: &PodGroup) -> u32 {
    let BackEnd::Native(version) = back_end else {
        return 0;
    };
    if group.born_in.is_some() {
        return 0; // its pods name no other
    }
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

/// The group with the size that it should have now: pods that ended do not count in a native one. While no pod waits,
/// that keeps none from starting, so nothing is written for each pod that ends.
pub(super) fn sized(observed: &Observed<'_>, wanted: &Wanted) -> PodGroup {
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

/// A native group that waits says nothing on its pods, so it is said on the job.
pub(super) fn waits(observed: &Observed<'_>, wanted: &Wanted) -> Option<Notice> {
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
