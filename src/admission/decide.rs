//! A review and its facts -> [`Decision`]: one table says what happens to which request, [`mutate`] says how.

use crate::admission::facts::Facts;
use crate::admission::mutate;
use crate::admission::review::{Operation, Review};
use crate::pod::narrow::ReadError;
use crate::workload::{self, PodPath, Resource, Treatment, WorkloadKind};
use json_patch::Patch;
use serde_json::Value;

/// What the answer will be.
#[derive(Debug)]
pub enum Decision {
    /// Allowed as it is.
    Leave(Reason, Vec<Warning>),
    /// Allowed with edits.
    Edit(Reason, Edit, Vec<Warning>),
    /// Refused: the user's to mend.
    Deny(Denial),
}

/// A patch with what is needed to try it before it is sent.
#[derive(Debug)]
pub struct Edit {
    /// The operations.
    pub patch: Patch,
    /// The part of the received object that they touch.
    pub touched: Value,
    /// Where in the object the pod is that must still be readable afterwards; none if there is none.
    pub at: Option<PodPath>,
}

/// Why a request was answered as it was: metric label and audit annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A pod got the gate.
    Gated,
    /// A template got gate, label or root, since it is new or was changed anyway.
    Marked,
    /// A template without our marks is otherwise the stored one: it gets them back, and nothing rolls out.
    Restored,
    /// A template that became exempt lost our marks.
    Unmarked,
    /// Nothing is missing.
    Complete,
    /// The template is the stored one, so it stays as it is.
    Unchanged,
    /// The object or its template is exempt, and the namespace allows that.
    Exempt,
    /// The pod has a node: the guard's to refuse.
    NodeName,
    /// A static pod shows itself.
    MirrorPod,
    /// A pod of a DaemonSet from before the opt-in.
    DaemonSetPod,
    /// Another object controls this one.
    Controlled,
    /// It is being deleted.
    Terminating,
    /// A system namespace or our own.
    Protected,
    /// A kind or operation that admission has nothing to do with, but that we know.
    NotMutated,
    /// A job got the marks of its gang, or its hold.
    Ganged,
    /// A job that is no gang, or none of ours.
    NoGang,
    /// A job got our `managedBy`: it is dispatched whole.
    Managed,
    /// A job's `managedBy` names somebody else.
    ManagedElsewhere,
    /// This cluster's schema of the job lacks `managedBy`: it is dispatched by its pods.
    FieldDropped,
    /// A subresource.
    Subresource,
    /// A kind, version or operation that we do not know.
    Unknown,
}

impl Reason {
    /// The name in metrics and audit annotations.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gated => "gated",
            Self::Marked => "marked",
            Self::Restored => "restored",
            Self::Unmarked => "unmarked",
            Self::Complete => "complete",
            Self::Unchanged => "unchanged",
            Self::Exempt => "exempt",
            Self::NodeName => "node-name",
            Self::MirrorPod => "mirror-pod",
            Self::DaemonSetPod => "daemon-set-pod",
            Self::Controlled => "controlled",
            Self::Terminating => "terminating",
            Self::Protected => "protected",
            Self::NotMutated => "not-mutated",
            Self::Ganged => "ganged",
            Self::NoGang => "no-gang",
            Self::Managed => "managed",
            Self::ManagedElsewhere => "managed-elsewhere",
            Self::FieldDropped => "field-dropped",
            Self::Subresource => "subresource",
            Self::Unknown => "unknown",
        }
    }
}

/// Which rule a refused object breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// A key that only the reconciler writes.
    ReservedKey,
    /// A value of our label that means nothing.
    GatedValue,
    /// The reconciler could not read it.
    Unreadable,
    /// A gang that could never start, or that nobody could make.
    InvalidGang,
}

impl Rule {
    /// The name in metrics and audit annotations.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ReservedKey => "reserved-key",
            Self::GatedValue => "gated-value",
            Self::Unreadable => "unreadable",
            Self::InvalidGang => "invalid-gang",
        }
    }

    /// Code and reason of the Status that the user gets.
    #[must_use]
    pub fn status(self) -> (u16, &'static str) {
        match self {
            Self::ReservedKey | Self::GatedValue => (403, "Forbidden"),
            Self::Unreadable | Self::InvalidGang => (422, "Invalid"),
        }
    }
}

/// A refusal, and the way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// Which rule.
    pub rule: Rule,
    /// Field, what is wrong with it, what to do.
    pub sentence: String,
}

impl From<ReadError> for Denial {
    fn from(error: ReadError) -> Self {
        Self {
            rule: Rule::Unreadable,
            sentence: format!(
                "{error}; Portcullis must be able to read this field to run the pod on a worker cluster"
            ),
        }
    }
}

/// A sentence for the user that does not stop him. It travels in an HTTP header: one line, short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning(String);

impl Warning {
    /// Longest warning in characters; API servers cut at 256.
    pub const LONGEST: usize = 120;

    /// Makes a sentence fit: control characters go, and what is too long ends in dots.
    #[must_use]
    pub fn new(sentence: &str) -> Self {
        let mut letters = sentence.chars().filter(|letter| !letter.is_control());
        let mut text: String = letters.by_ref().take(Self::LONGEST).collect();
        if letters.next().is_some() {
            text.truncate(
                text.char_indices()
                    .nth(Self::LONGEST - 1)
                    .map_or(text.len(), |(at, _)| at),
            );
            text.push('…');
        }
        Self(text)
    }

    /// The line.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What is done for a kind of request.
#[derive(Clone, Copy)]
enum Behaviour {
    GatePod,
    MarkTemplate(Resource, PodPath),
    Leave(Reason),
}

/// The table: resource, subresource, operation. What it does not know is allowed unchanged, and counted.
fn behaviour(kind: Option<&dyn WorkloadKind>, subresource: &str, operation: Operation) -> Behaviour {
    use Operation::{Connect, Create, Delete, Unknown, Update};
    let Some(kind) = kind else {
        return Behaviour::Leave(Reason::Unknown);
    };
    match (kind.treatment(), subresource, operation) {
        (Treatment::GatePod, "", Create) => Behaviour::GatePod,
        (Treatment::GateTemplate, "", Create | Update) => {
            Behaviour::MarkTemplate(kind.resource(), kind.pod())
        }
        (Treatment::GatePod, "", Update | Delete)
        | (Treatment::GateTemplate, "", Delete)
        | (Treatment::Refuse, "", Create | Update | Delete) => Behaviour::Leave(Reason::NotMutated),
        // binding, eviction, scale … carry other kinds of objects; status, resize, ephemeralcontainers are the guard's.
        (
            Treatment::GatePod,
            "status" | "binding" | "eviction" | "ephemeralcontainers" | "resize",
            Create | Update | Delete,
        )
        | (Treatment::GatePod, "exec" | "attach" | "portforward" | "proxy" | "log", Connect)
        | (Treatment::GateTemplate | Treatment::Refuse, "status" | "scale", Create | Update | Delete) => {
            Behaviour::Leave(Reason::Subresource)
        }
        (
            Treatment::GatePod | Treatment::GateTemplate | Treatment::Refuse,
            _,
            Create | Update | Delete | Connect | Unknown,
        ) => Behaviour::Leave(Reason::Unknown),
    }
}

/// Decides one review.
#[must_use]
pub fn decide(review: &Review<'_>, facts: &Facts) -> Decision {
    let (group, version, plural) = review.resource();
    let kind = workload::by_resource(group, version, plural);
    let behaviour = match behaviour(kind, review.subresource(), review.operation()) {
        Behaviour::GatePod | Behaviour::MarkTemplate(..) if facts.protected => {
            Behaviour::Leave(Reason::Protected)
        }
        behaviour => behaviour,
    };
    let decided = match behaviour {
        Behaviour::GatePod => gate_pod(review, facts),
        Behaviour::MarkTemplate(names, at) => mutate::template::mark(review, facts, names, at),
        Behaviour::Leave(reason) => Ok(Decision::Leave(reason, Vec::new())),
    };
    decided.unwrap_or_else(Decision::Deny)
}

fn gate_pod(review: &Review<'_>, facts: &Facts) -> Result<Decision, Denial> {
    mutate::gate(&*review.pod()?, review.username(), facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_counted_by_its_rule() {
        let names = [Rule::ReservedKey, Rule::GatedValue, Rule::Unreadable].map(Rule::name);
        assert_eq!(names, ["reserved-key", "gated-value", "unreadable"]);
    }
}
