//! What is paired, and under which key: kind, namespace and name, the same on both sides.

use std::sync::Arc;

use kube::core::ApiResource;

use crate::workload::{self, Resource, WorkloadKind as _};

/// What is paired. The rules are the same for all; what differs is how one is copied, opened, shown and ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// A single pod.
    Pod,
}

impl Subject {
    /// Its names in the API.
    #[must_use]
    pub fn resource(self) -> Resource {
        match self {
            Self::Pod => workload::Pod.resource(),
        }
    }

    /// The same for a watch.
    #[must_use]
    pub fn api_resource(self) -> ApiResource {
        let names = self.resource();
        ApiResource {
            group: names.group.to_owned(),
            version: names.version.to_owned(),
            api_version: names.api_version(),
            kind: names.kind.to_owned(),
            plural: names.plural.to_owned(),
        }
    }

    /// Path of all of them in a namespace.
    #[must_use]
    pub fn collection(self, namespace: &str) -> String {
        let names = self.resource();
        let root = if names.group.is_empty() { "api" } else { "apis" };
        format!(
            "/{root}/{}/namespaces/{namespace}/{}",
            names.api_version(),
            names.plural
        )
    }

    /// As in a sentence.
    #[must_use]
    pub fn noun(self) -> &'static str {
        match self {
            Self::Pod => "pod",
        }
    }
}

/// Kind, namespace and name of an object; a pair has the same key on both sides.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PairKey {
    /// Its kind.
    pub subject: Subject,
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl PairKey {
    /// Path of the object.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}/{}", self.subject.collection(&self.namespace), self.name)
    }
}

/// `namespace/name`.
impl std::fmt::Display for PairKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_found_under_its_path() {
        let key = PairKey {
            subject: Subject::Pod,
            namespace: "shop".into(),
            name: "web-0".into(),
        };
        assert_eq!(key.path(), "/api/v1/namespaces/shop/pods/web-0");
        assert_eq!(key.to_string(), "shop/web-0");
    }
}
