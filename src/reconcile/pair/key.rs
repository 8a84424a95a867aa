//! What is paired, and under which key: kind, namespace and name, the same on both sides.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use kube::core::ApiResource;

use crate::workload::jobs::JobKind;
use crate::workload::{self, Resource, WorkloadKind as _};

/// What is paired. The rules are the same for all; what differs is how one is copied, opened, shown and ended.
#[derive(Clone, Copy)]
pub enum Subject {
    /// A single pod.
    Pod,
    /// A whole job of this kind.
    Job(&'static dyn JobKind),
}

impl Subject {
    /// Two are the same if the API calls them so; there is only one kind of pod, and no need to ask.
    fn identity(self) -> Option<Resource> {
        match self {
            Self::Pod => None,
            Self::Job(kind) => Some(kind.resource()),
        }
    }
}

impl PartialEq for Subject {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Subject {}

impl Hash for Subject {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity()
            .map(|names| (names.group, names.plural))
            .hash(state);
    }
}

impl PartialOrd for Subject {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Subject {
    fn cmp(&self, other: &Self) -> Ordering {
        self.identity().cmp(&other.identity())
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.resource().kind)
    }
}

impl Subject {
    /// Its names in the API.
    #[must_use]
    pub fn resource(self) -> Resource {
        match self {
            Self::Pod => workload::Pod.resource(),
            Self::Job(kind) => kind.resource(),
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

    /// What becomes of what an object owns when it is deleted: the pods of a job go too, whatever the kind's own default is.
    #[must_use]
    pub fn propagation(self) -> Option<&'static str> {
        match self {
            Self::Pod => None,
            Self::Job(_) => Some("Background"),
        }
    }

    /// As in a sentence.
    #[must_use]
    pub fn noun(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::Job(kind) => kind.resource().kind,
        }
    }

    /// As an argument of kubectl.
    #[must_use]
    pub fn argument(self) -> String {
        match self {
            Self::Pod => "pod".to_owned(),
            Self::Job(kind) => format!("{}.{}", kind.resource().plural, kind.resource().group),
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
impl fmt::Display for PairKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::workload::jobs::{BatchJob, JobSet};

    #[test]
    fn kinds_are_told_apart_by_their_names() {
        let (job, set) = (Subject::Job(&BatchJob), Subject::Job(&JobSet));
        assert_eq!(job, Subject::Job(&BatchJob));
        assert!(job != set && job != Subject::Pod && job.cmp(&set) != Ordering::Equal);
        let key = |subject: Subject| PairKey {
            subject,
            namespace: "shop".into(),
            name: "web".into(),
        };
        assert_eq!(
            HashSet::from([key(job), key(set), key(Subject::Pod), key(job)]).len(),
            3
        );
        assert_eq!(key(job).path(), "/apis/batch/v1/namespaces/shop/jobs/web");
        assert_eq!(set.argument(), "jobsets.jobset.x-k8s.io");
    }

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
