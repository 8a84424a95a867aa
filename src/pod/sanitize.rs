//! A local pod -> its remote copy: what a worker gets, why it differs, and the hash that says whether it still fits.
//!
//! Raw JSON in and out: a field of the spec that this program does not know reaches the worker as it is (R32).
//! Metadata goes the other way round: only what is listed in [`metadata`] is copied (R13).

pub(crate) mod change;
mod label_keys;
mod list;
pub(crate) mod local;
pub(crate) mod marks;
pub(crate) mod metadata;
mod spec;
mod submitted;
mod token;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub use change::{Change, What};
pub use local::UnreadableLocal;
pub use marks::set_owner;

use change::Log;
use local::LocalObject;

/// Part of every `source` hash. Grows whenever the same local pod would give another copy than before, so that a
/// remote pod which an older version prepared is made anew instead of being committed (protocol rule 3b).
const VERSION: &str = "1";

/// What a copy says of its origin, beyond what the local pod itself says.
#[derive(Debug, Clone, Copy)]
pub struct CopyMarks<'a> {
    /// UID of the manager's kube-system namespace.
    pub origin: &'a str,
    /// The worker's namespace. With it as controller no ReplicaSet, StatefulSet or Job of the worker takes the copy for
    /// its own (R65), and the labels that local controllers wrote can stay.
    pub owner: Option<NamespaceOwner<'a>>,
}

/// A worker's Namespace object as the controller of the remote pods in it. A namespaced object may have a
/// cluster-scoped owner; the garbage collector keeps the pod as long as that very namespace lives.
#[derive(Debug, Clone, Copy)]
pub struct NamespaceOwner<'a> {
    pub name: &'a str,
    pub uid: &'a str,
}

/// The pod to create on the worker, with the gate `uncommitted` and all our marks.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteCopy {
    pub pod: Value,
    /// Hash of the copy without our marks, and of the sanitiser's version; also an annotation of `pod`.
    pub source: String,
    /// Every difference between the local pod and the copy.
    pub changes: Vec<Change>,
}

/// The copy of `local` for a worker. `local` is the whole pod as the manager's API server gives it; its UID, name,
/// namespace and attempt are taken from it.
pub fn sanitize(local: &Value, marks: &CopyMarks<'_>) -> Result<RemoteCopy, UnreadableLocal> {
    let mut log = Log::on();
    let local = LocalObject::read(local)?;
    let mut pod = copy(&local, &mut log)?;
    let source = hash(&pod);
    marks::put(&mut pod, &local, marks, &source, &mut log)?;
    Ok(RemoteCopy {
        pod,
        source,
        changes: log.into_changes(),
    })
}

/// The `source` that [`sanitize`] would give, without marks and without reasons: for the comparison before a commit.
pub fn source(local: &Value) -> Result<String, UnreadableLocal> {
    copy(&LocalObject::read(local)?, &mut Log::off()).map(|copy| hash(&copy))
}

/// The copy without our marks: what the hash is about.
fn copy(local: &LocalObject<'_>, log: &mut Log) -> Result<Value, UnreadableLocal> {
    let metadata = metadata::copy(local, log)?;
    let spec = spec::copy(local, log);
    Ok(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
}

/// SHA-256 in hex. serde_json keeps the keys of an object sorted, so the order of the input does not matter.
fn hash(copy: &Value) -> String {
    let mut digest = Sha256::new_with_prefix(VERSION);
    serde_json::to_writer(&mut digest, copy)
        .expect("a Value always serialises, and a digest takes every byte");
    format!("{:x}", digest.finalize())
}

#[cfg(test)]
mod testing;

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::testing::{self, MARKS};
    use super::*;
    use crate::names;

    #[test]
    fn a_pod_with_everything_gives_this_copy() {
        let copy = sanitize(&testing::everything(), &MARKS).unwrap();
        expect![[r#"
            {
              "apiVersion": "v1",
              "kind": "Pod",
              "metadata": {
                "annotations": {
                  "kubectl.kubernetes.io/default-container": "app",
                  "portcullis.dev/local-attempt": "0",
                  "portcullis.dev/local-name": "shop/web-0",
                  "portcullis.dev/local-uid": "local-uid",
                  "portcullis.dev/source": "c7b17341c4af5f3d43fb7ea8808a81e0296e26b390d194ff32afea86b9ce96e8"
                },
                "labels": {
                  "app": "web",
                  "apps.kubernetes.io/pod-index": "0",
                  "controller-revision-hash": "web-6d5f",
                  "portcullis.dev/origin": "manager-uid",
                  "statefulset.kubernetes.io/pod-name": "web-0"
                },
                "name": "web-0",
                "namespace": "shop",
                "ownerReferences": [
                  {
                    "apiVersion": "v1",
                    "controller": true,
                    "kind": "Namespace",
                    "name": "shop",
                    "uid": "worker-namespace-uid"
                  }
                ]
              },
              "spec": {
                "containers": [
                  {
                    "image": "app:1",
                    "name": "app",
                    "resources": {
                      "requests": {
                        "cpu": "100m"
                      }
                    },
                    "volumeMounts": [
                      {
                        "mountPath": "/data",
                        "name": "data"
                      }
                    ]
                  }
                ],
                "hostname": "web-0",
                "nodeSelector": {
                  "disk": "ssd"
                },
                "restartPolicy": "Always",
                "schedulerName": "default-scheduler",
                "schedulingGates": [
                  {
                    "name": "portcullis.dev/uncommitted"
                  }
                ],
                "serviceAccount": "web",
                "serviceAccountName": "web",
                "subdomain": "web",
                "tomorrow": {
                  "unknown": [
                    1,
                    2.5,
                    null
                  ]
                },
                "volumes": [
                  {
                    "name": "data",
                    "persistentVolumeClaim": {
                      "claimName": "data-web-0"
                    }
                  }
                ]
              }
            }"#]]
        .assert_eq(&serde_json::to_string_pretty(&copy.pod).unwrap());
    }

    #[test]
    fn the_copy_of_a_pod_with_everything_differs_in_this() {
        let copy = sanitize(&testing::everything(), &MARKS).unwrap();
        expect![[r#"
            dropped metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]: large, and nobody applied the copy
            dropped metadata.annotations[portcullis.dev/root]: Portcullis' own, on the manager only
            dropped metadata.annotations[portcullis.dev/submitted]: Portcullis' own, on the manager only
            dropped metadata.creationTimestamp: the worker writes its own
            dropped metadata.finalizers: nobody on the worker would ever remove them
            dropped metadata.generateName: the copy has the name that the manager made
            dropped metadata.generation: counts on the manager only
            dropped metadata.labels[kueue.x-k8s.io/queue-name]: the manager's Kueue accounts for it, no Kueue on the worker does
            dropped metadata.labels[portcullis.dev/gated]: Portcullis' own, on the manager only
            dropped metadata.managedFields: the worker writes its own
            dropped metadata.ownerReferences: the owner does not exist on the worker, whose garbage collector would delete the copy
            dropped metadata.resourceVersion: counts on the manager only
            dropped metadata.uid: the worker gives the copy its own
            dropped spec.preemptionPolicy: follows from the worker's PriorityClass
            dropped spec.priority: follows from the worker's PriorityClass
            dropped spec.nodeSelector[pool]: not submitted by the user: Kueue's flavours name nodes of the manager
            dropped spec.tolerations[0]: not submitted by the user: Kueue's flavours name nodes of the manager
            dropped spec.volumes[1]: token and CA of the manager; the worker mounts its own
            dropped spec.containers[0].volumeMounts[1]: token and CA of the manager; the worker mounts its own
            dropped spec.schedulingGates[portcullis.dev/multikueue]: nobody on the worker would lift it
            dropped spec.schedulingGates[kueue.x-k8s.io/admission]: nobody on the worker would lift it
            added spec.schedulingGates[portcullis.dev/uncommitted]: holds the copy until the local pod has recorded it
            added metadata.labels[portcullis.dev/origin]: names the manager
            added metadata.annotations[portcullis.dev/local-uid]: names the local object
            added metadata.annotations[portcullis.dev/local-name]: names the local object
            added metadata.annotations[portcullis.dev/local-attempt]: counts the placements of the local object
            added metadata.annotations[portcullis.dev/source]: tells whether the copy still fits the local object
            added metadata.ownerReferences: the namespace is its controller, so that no controller on the worker adopts the copy
        "#]].assert_eq(&testing::lines(&copy.changes));
    }

    #[test]
    fn the_hash_alone_is_that_of_the_whole_copy() {
        let local = testing::everything();
        let copy = sanitize(&local, &MARKS).unwrap();
        assert_eq!(source(&local), Ok(copy.source.clone()));
        assert_eq!(
            copy.pod["metadata"]["annotations"][names::SOURCE],
            copy.source.as_str()
        );
    }

    #[test]
    fn the_hash_changes_with_this_version_only_on_purpose() {
        expect!["c7b17341c4af5f3d43fb7ea8808a81e0296e26b390d194ff32afea86b9ce96e8"]
            .assert_eq(&source(&testing::everything()).unwrap());
    }

    #[test]
    fn the_hash_says_nothing_of_marks_owner_or_commit() {
        let local = testing::everything();
        let hash = source(&local).unwrap();
        let no_owner = CopyMarks {
            origin: "another",
            owner: None,
        };
        assert_eq!(sanitize(&local, &no_owner).unwrap().source, hash);
        let mut committed = local.clone();
        for key in names::RECONCILER_KEYS {
            committed["metadata"]["annotations"][key] = "7".into();
        }
        committed["metadata"]["resourceVersion"] = "9000".into();
        committed["metadata"]["finalizers"] = json!([names::REMOTE_COPY]);
        committed["status"] = json!({"phase": "Running"});
        assert_eq!(source(&committed).unwrap(), hash);
    }

    #[test]
    fn an_edit_of_what_the_worker_gets_changes_the_hash() {
        let local = testing::everything();
        let hash = source(&local).unwrap();
        for path in [
            "/metadata/labels/app",
            "/spec/containers/0/image",
            "/spec/schedulerName",
        ] {
            let mut edited = local.clone();
            *edited.pointer_mut(path).unwrap() = "other".into();
            assert_ne!(source(&edited).unwrap(), hash, "{path}");
        }
    }

    #[test]
    fn the_hash_does_not_depend_on_the_order_of_keys() {
        let one = r#"{"metadata":{"name":"a","namespace":"n","uid":"u"},"spec":{"x":1,"containers":[{"name":"a","image":"b"}]}}"#;
        let two = r#"{"spec":{"containers":[{"image":"b","name":"a"}],"x":1},"metadata":{"uid":"u","namespace":"n","name":"a"}}"#;
        let hash = |text: &str| source(&serde_json::from_str(text).unwrap()).unwrap();
        assert_eq!(hash(one), hash(two));
    }

    #[test]
    fn a_copy_of_a_copy_is_the_same_copy() {
        let mut copy = sanitize(&testing::everything(), &MARKS).unwrap();
        let first = copy.pod.clone();
        copy.pod["metadata"]["uid"] = "another".into();
        let again = sanitize(&copy.pod, &MARKS).unwrap();
        assert_eq!(again.source, copy.source);
        assert_eq!(again.pod["spec"], first["spec"]);
    }
}
