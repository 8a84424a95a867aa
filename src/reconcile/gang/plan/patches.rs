//! Edits of a job: its hold ends, its templates get marks, it is left to somebody else.

use json_patch::PatchOperation;

use super::{Step, Why, patch};
use crate::gang::hold;
use crate::names::STAND_DOWN;
use crate::reconcile::gang::observed::Observed;

/// The hold ends, in one patch with these edits of the templates.
pub(super) fn release(observed: &Observed<'_>, mut edits: Vec<PatchOperation>) -> Step {
    edits.extend(hold::end(observed.kind));
    patch(observed, Why::Release, edits)
}

/// Marks come or go; none if there is nothing to do.
pub(super) fn templates(observed: &Observed<'_>, edits: Vec<PatchOperation>) -> Option<Step> {
    (!edits.is_empty()).then(|| patch(observed, Why::Mark, edits))
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
