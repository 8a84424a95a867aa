//! Edits of a job: its hold ends, its templates get marks, it is left to somebody else.

use super::{Step, Why, patch};
use crate::gang::{Marks, hold};
use crate::names::STAND_DOWN;
use crate::reconcile::gang::observed::Observed;

/// The hold ends, in one patch with what is missing on the templates.
pub(super) fn release(observed: &Observed<'_>, marks: Option<&Marks>) -> Step {
    let mut operations = marks.map_or_else(Vec::new, |marks| marks.patch(observed.object()).0);
    operations.extend(hold::end(observed.kind));
    patch(observed, Why::Release, operations)
}

/// The templates get what is missing on them; none if nothing is.
pub(super) fn mark(observed: &Observed<'_>, marks: &Marks) -> Option<Step> {
    let operations = marks.patch(observed.object()).0;
    (!operations.is_empty()).then(|| patch(observed, Why::Mark, operations))
}

/// Somebody else manages its PodGroup: it is left alone from now on, and not held.
pub(super) fn stand_down(observed: &Observed<'_>, sentence: &str) -> Step {
    let mut operations = vec![hold::annotate(observed.object(), STAND_DOWN, sentence)];
    if observed.is_held() {
        operations.extend(hold::end(observed.kind));
    }
    patch(observed, Why::StandDown, operations)
}

/// Our claim goes from a job that somebody started himself.
pub(super) fn drop_claim(observed: &Observed<'_>) -> Step {
    patch(observed, Why::DropClaim, vec![hold::drop_claim()])
}
