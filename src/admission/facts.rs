//! A review and the namespaces in memory -> [`Facts`]: what deciding needs beside the review itself.

use std::sync::Arc;

use crate::admission::review::Review;
use crate::names;
use crate::workload::Resource;
use crate::workload::jobs::JobKinds;

/// The namespaces as the process last saw them. Answers from memory: no lock that waits, no allocation, no I/O.
pub trait NamespaceFacts: Send + Sync {
    /// What the labels of a namespace say, or nothing if it has not been seen.
    fn namespace(&self, name: &str) -> Option<NamespaceLabels>;

    /// The namespace that Portcullis itself runs in.
    fn own_namespace(&self) -> &str {
        names::NAMESPACE
    }
}

/// The kinds of jobs that are dispatched whole, as this cluster serves them. Answers from memory, too.
pub trait JobFacts: NamespaceFacts {
    /// Whether an object of this kind keeps its `managedBy` here.
    fn keeps_managed_by(&self, kind: Resource) -> Keeps;

    /// All kinds.
    fn job_kinds(&self) -> JobKinds {
        JobKinds::BUILT_IN
    }
}

/// Whether a kind of job keeps `managedBy` on a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// The served schema has the field.
    Yes,
    /// It has not: the operator of the cluster runs every job, whatever it says.
    No,
    /// Nobody has looked yet, or the kind is not served.
    Unknown,
}

/// What a namespace's labels say, small enough to be copied.
///
/// Not whether it is opted in: the API server sends only reviews of namespaces that are (the webhook configuration's
/// selector says so), and what it knows is newer than any snapshot of ours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceLabels {
    /// Whether single objects may be exempted from dispatch.
    pub allow_exempt: AllowExempt,
}

/// What a namespace says of exempt objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AllowExempt {
    /// Nothing, or `false`.
    #[default]
    No,
    /// They may be.
    Yes,
    /// A value that means nothing, and so allows nothing: somebody should be told.
    Meaningless(Arc<str>),
}

impl AllowExempt {
    /// Reads the value of the label.
    pub fn of(value: Option<&str>) -> Self {
        match value {
            None | Some(names::FALSE) => Self::No,
            Some(names::TRUE) => Self::Yes,
            Some(other) => Self::Meaningless(other.into()),
        }
    }
}

impl NamespaceLabels {
    /// Reads the labels of a namespace.
    pub fn of<'l>(labels: impl IntoIterator<Item = (&'l str, &'l str)>) -> Self {
        let label = labels.into_iter().find(|(key, _)| *key == names::ALLOW_EXEMPT);
        Self {
            allow_exempt: AllowExempt::of(label.map(|(_, value)| value)),
        }
    }
}

/// Namespaces that are never dispatched, whatever their labels and whoever routed the review to us.
pub const PROTECTED_NAMESPACES: [&str; 2] = ["kube-system", "kube-node-lease"];

/// What deciding needs beside the review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The namespace is never dispatched: a system namespace or our own.
    pub protected: bool,
    /// Whether single objects of the namespace may be exempted. An unseen namespace allows nothing: what we do not know never
    /// lets a pod go ungated.
    pub allow_exempt: AllowExempt,
}

impl Facts {
    /// Looks up what the review's namespace says.
    pub fn gather(review: &Review<'_>, namespaces: &dyn NamespaceFacts) -> Self {
        let name = review.namespace();
        Self {
            protected: PROTECTED_NAMESPACES.contains(&name) || name == namespaces.own_namespace(),
            allow_exempt: namespaces.namespace(name).unwrap_or_default().allow_exempt,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_value_true_allows_exempt_objects() {
        let meaningless = |value: &str| AllowExempt::Meaningless(value.into());
        for (value, allowed) in [
            ("true", AllowExempt::Yes),
            ("false", AllowExempt::No),
            ("", meaningless("")),
            ("True", meaningless("True")),
        ] {
            let labels = [
                ("portcullis.dev/dispatch", "default"),
                ("portcullis.dev/allow-exempt", value),
            ];
            assert_eq!(NamespaceLabels::of(labels).allow_exempt, allowed, "{value}");
        }
        assert_eq!(NamespaceLabels::of([]).allow_exempt, AllowExempt::No);
    }
}
