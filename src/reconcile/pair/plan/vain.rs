//! Copies that are made again and again wait ever longer for the next.

use super::super::local::LocalObject;
use super::super::observed::{Now, Observed};
use super::{Plan, say, waiting};

const COPY_NOT_KEPT: &str = "CopyNotKept";

/// Copies were made one after the other and none was recorded: no answer and no rule says why, so the next one waits.
pub(super) fn made_in_vain(
    observed: &Observed,
    local: &LocalObject,
    cluster: &str,
    now: &Now,
) -> Option<Plan> {
    let rest = observed.memory.copies.as_ref()?.rest(&local.uid, now.monotonic)?;
    let message = format!(
        "{cluster}: copies are made there again and again, and change or go before one is recorded; see what else writes to them there, or to this {} here. It is tried ever more rarely",
        local.key.subject.noun()
    );
    Some(Plan {
        steps: say(observed, local, &waiting(COPY_NOT_KEPT, message), now)
            .into_iter()
            .collect(),
        look_again: Some(rest),
        ..Plan::default()
    })
}
