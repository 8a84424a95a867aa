//! What stands on a worker, and what lives on the manager -> what was left behind there (pure).

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::core::PartialObjectMeta;
use serde::Serialize;

use crate::names;
use crate::reconcile::pair::key::Subject;
use crate::workload::jobs::JobKind;

/// An open remote pod or job without its local one.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct OrphanLine {
    /// The WorkerCluster.
    pub cluster: String,
    /// Namespace.
    pub namespace: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Removes it.
    pub remove: String,
}

/// The line of a remote pod, if it is an orphan: open, and none of the living local pods made it.
pub fn orphan_line(cluster: &str, remote: &Pod, living: &BTreeSet<String>) -> Option<OrphanLine> {
    let local_uid = remote
        .annotations()
        .get(names::LOCAL_UID)
        .filter(|uid| !uid.is_empty())?;
    let gates = remote
        .spec
        .as_ref()
        .and_then(|spec| spec.scheduling_gates.as_ref());
    let uncommitted = gates.is_some_and(|gates| gates.iter().any(|gate| gate.name == names::UNCOMMITTED));
    if living.contains(local_uid) || uncommitted {
        return None;
    }
    Some(orphan(cluster, Subject::Pod, remote))
}

/// The same of a remote job: its local job is gone, or is not ours (any more).
pub fn orphan_job_line(
    cluster: &str,
    kind: &'static dyn JobKind,
    remote: &PartialObjectMeta<DynamicObject>,
    ours: &BTreeSet<String>,
) -> Option<OrphanLine> {
    let local_uid = remote
        .annotations()
        .get(names::LOCAL_UID)
        .filter(|uid| !uid.is_empty())?;
    let uncommitted = remote.annotations().contains_key(names::UNCOMMITTED);
    (!ours.contains(local_uid) && !uncommitted).then(|| orphan(cluster, Subject::Job(kind), remote))
}

fn orphan(cluster: &str, subject: Subject, remote: &impl ResourceExt) -> OrphanLine {
    let (namespace, name) = (remote.namespace().unwrap_or_default(), remote.name_any());
    OrphanLine {
        remove: format!(
            "kubectl --context {cluster} --namespace {namespace} delete {} {name}",
            subject.argument()
        ),
        cluster: cluster.to_owned(),
        namespace,
        kind: subject.resource().kind.to_owned(),
        name,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::workload::jobs::BatchJob;

    fn pod(value: Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_copy_of_a_job_that_is_gone_or_not_ours_is_an_orphan() {
        let line = |annotations: Value| {
            let copy = json!({"metadata": {"namespace": "shop", "name": "old", "annotations": annotations}});
            let ours = BTreeSet::from(["u".to_owned()]);
            orphan_job_line("w", &BatchJob, &serde_json::from_value(copy).unwrap(), &ours)
        };
        let old = line(json!({"portcullis.dev/local-uid": "v"})).unwrap();
        assert_eq!((old.kind.as_str(), old.name.as_str()), ("Job", "old"));
        assert_eq!(
            old.remove,
            "kubectl --context w --namespace shop delete jobs.batch old"
        );
        for annotations in [
            json!({}),
            json!({"portcullis.dev/local-uid": "u"}),
            json!({"portcullis.dev/local-uid": "v", "portcullis.dev/uncommitted": "true"}),
        ] {
            assert_eq!(line(annotations), None);
        }
    }

    #[test]
    fn neither_a_gated_copy_nor_that_of_a_living_pod_is_an_orphan() {
        let open = json!({"metadata": {"name": "p", "annotations": {"portcullis.dev/local-uid": "u"}}});
        assert!(orphan_line("w", &pod(open.clone()), &BTreeSet::from(["u".to_owned()])).is_none());
        let mut gated = open;
        gated["spec"] =
            json!({"containers": [], "schedulingGates": [{"name": "portcullis.dev/uncommitted"}]});
        assert!(orphan_line("w", &pod(gated), &BTreeSet::new()).is_none());
    }
}
