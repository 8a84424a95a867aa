//! Writes that were taken and came to nothing: people are told, since no error tells.

use std::time::Instant;

use super::Turns;
use crate::names;
use crate::reconcile::execute::Done;
use crate::reconcile::pair::observed::Observed;
use crate::reconcile::pair::vain::{Copies, Stuck};
use crate::reconcile::step::Step;
use crate::reconcile::turns::Turn;

/// The first times something else may have come between.
const PATIENCE: u32 = 3;

impl Turns {
    /// Steps that were taken are planned again: they are tried later, whatever wakes the pair until then.
    pub(super) fn stuck(&self, observed: &Observed, steps: &[Step]) -> Turn {
        let key = &observed.key;
        let now = Instant::now();
        let stuck = Stuck::again(observed.memory.stuck.as_ref(), steps, now);
        let names: Vec<&str> = steps.iter().map(Step::name).collect();
        let names = names.join(", ");
        tracing::warn!(kind = key.subject.noun(), object = %key, steps = names, "steps that were taken are planned again; they are tried later");
        if let Some(local) = observed.local.as_ref().filter(|_| stuck.times() >= PATIENCE) {
            let message = format!(
                "{names}: done and to be done again, so something (a mutating webhook or policy) undoes it, here or on the worker; it is tried ever more rarely"
            );
            self.notes.warn(local, "NoProgress", &message);
        }
        let rest = stuck.until().saturating_duration_since(now);
        self.world
            .memories
            .change(key, |memory| memory.stuck = Some(stuck));
        Turn::failed(rest)
    }

    /// A copy was made, or the commit was answered with this.
    pub(super) fn count(&self, observed: &Observed, step: &Step, done: &Done) {
        let key = &observed.key;
        match (step, done) {
            (Step::Prepare { local, .. }, _) => self.world.memories.change(key, |memory| {
                let copies = Copies::and_one(memory.copies.as_ref(), &local.uid, Instant::now());
                memory.copies = Some(copies);
            }),
            (Step::Commit { .. }, Done::Local(object)) => {
                let mut missing = Vec::new();
                match object.committed() {
                    Some(_) => self.world.memories.change(key, |memory| memory.copies = None),
                    None => missing.push(format!("annotation {}", names::REMOTE_UID)),
                }
                if object.finalizer.is_none() {
                    missing.push(format!("finalizer {}", names::REMOTE_COPY));
                }
                if missing.is_empty() {
                    return;
                }
                let message = format!(
                    "something on this cluster (a mutating webhook or policy) removes what records the copy: {}; exempt objects in dispatched namespaces from it",
                    missing.join(", ")
                );
                tracing::warn!(kind = key.subject.noun(), object = %key, %message, "the commit was not kept");
                self.notes.warn(object, "CommitNotKept", &message);
            }
            _ => {}
        }
    }
}
