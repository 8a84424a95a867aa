//! What a user creates -> where its pods are described, and what admission does with it (pure).
//!
//! A kind is one file and one line of [`WORKLOAD_KINDS`]. Webhook rules, policies and RBAC are rendered from that list.

use std::fmt;

mod daemon_set;
mod deployment;
pub mod jobs;
mod pod;
mod replica_set;
mod stateful_set;

pub use daemon_set::DaemonSet;
pub use deployment::Deployment;
pub use pod::Pod;
pub use replica_set::ReplicaSet;
pub use stateful_set::StatefulSet;

/// Every kind that Portcullis knows; the only place that names them all.
pub static WORKLOAD_KINDS: &[&dyn WorkloadKind] = &[&Pod, &Deployment, &StatefulSet, &ReplicaSet, &DaemonSet];

/// A kind of object that is a pod or makes pods.
pub trait WorkloadKind: Sync {
    /// Its names in the API.
    fn resource(&self) -> Resource;

    /// Where it describes its pods.
    fn pod(&self) -> PodPath;

    /// What admission does with it in an opted-in namespace.
    fn treatment(&self) -> Treatment;

    /// A manifest as users write it, for documentation and for the laws that every kind must keep.
    fn example(&self) -> &'static str;
}

/// The names of a kind in the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// API group, empty for the core group.
    pub group: &'static str,
    /// The version that webhook and policies are called with.
    pub version: &'static str,
    /// Plural, as in URLs and rules.
    pub plural: &'static str,
    /// Kind, as in manifests.
    pub kind: &'static str,
}

impl Resource {
    /// `group/version`, or `version` alone in the core group.
    #[must_use]
    pub fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }
}

/// What admission does with a kind in an opted-in namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// The object is a pod: gate and label when it is created, never later.
    GatePod,
    /// Its pod template carries gate, label and root, from creation or from the template's next change on.
    GateTemplate,
    /// Its pods cannot be dispatched: the guard refuses to create it, unless it is exempt.
    Refuse,
}

/// The keys that lead from an object to the pod in it; none for a pod itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PodPath(&'static [&'static str]);

impl PodPath {
    /// The object is the pod.
    pub const ITSELF: Self = Self(&[]);
    /// Where every kind of group `apps` has its template.
    pub const SPEC_TEMPLATE: Self = Self(&["spec", "template"]);

    /// A path made of these keys.
    #[must_use]
    pub const fn new(keys: &'static [&'static str]) -> Self {
        Self(keys)
    }

    /// The keys, outermost first.
    #[must_use]
    pub fn keys(&self) -> &'static [&'static str] {
        self.0
    }

    /// As in messages and in CEL: `spec.template`, or nothing for a pod itself.
    #[must_use]
    pub fn dotted(&self) -> String {
        self.0.join(".")
    }

    /// The path of a field of the pod, as in messages and in CEL: `spec.template.spec.nodeName`.
    #[must_use]
    pub fn field(&self, field: &str) -> String {
        self.0
            .iter()
            .copied()
            .chain([field])
            .collect::<Vec<_>>()
            .join(".")
    }
}

impl fmt::Debug for PodPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "PodPath({})", self.dotted())
    }
}

/// The kind with these names, if it is one of ours.
#[must_use]
pub fn by_resource(group: &str, version: &str, plural: &str) -> Option<&'static dyn WorkloadKind> {
    find(|names| (names.group, names.version, names.plural) == (group, version, plural))
}

/// The kind of a manifest, if it is one of ours.
#[must_use]
pub fn by_kind(api_version: &str, kind: &str) -> Option<&'static dyn WorkloadKind> {
    find(|names| names.kind == kind && names.api_version() == api_version)
}

fn find(wanted: impl Fn(&Resource) -> bool) -> Option<&'static dyn WorkloadKind> {
    WORKLOAD_KINDS
        .iter()
        .copied()
        .find(|kind| wanted(&kind.resource()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_kind_is_found_by_its_names_and_by_its_example() {
        for kind in WORKLOAD_KINDS {
            let names = kind.resource();
            let found = by_resource(names.group, names.version, names.plural);
            assert_eq!(found.map(WorkloadKind::resource), Some(names));
            let example: serde_json::Value = serde_saphyr::from_str(kind.example()).unwrap();
            let text = |key: &str| example[key].as_str().unwrap_or_default().to_owned();
            let found = by_kind(&text("apiVersion"), &text("kind"));
            assert_eq!(found.map(WorkloadKind::resource), Some(names));
        }
    }

    #[test]
    fn no_two_kinds_share_a_name() {
        let names: HashSet<Resource> = WORKLOAD_KINDS.iter().map(|kind| kind.resource()).collect();
        assert_eq!(names.len(), WORKLOAD_KINDS.len());
    }

    #[test]
    fn a_path_is_written_as_in_messages() {
        assert_eq!(PodPath::SPEC_TEMPLATE.dotted(), "spec.template");
        assert_eq!(PodPath::ITSELF.dotted(), "");
        assert_eq!(format!("{:?}", PodPath::SPEC_TEMPLATE), "PodPath(spec.template)");
    }

    #[test]
    fn unknown_versions_are_not_ours() {
        assert!(by_resource("apps", "v1beta1", "deployments").is_none());
        assert!(by_kind("extensions/v1beta1", "Deployment").is_none());
    }
}
