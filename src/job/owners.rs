//! The objects of a namespace and who owns whom -> what belongs to one job (pure).

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// API version and kind of an owner.
pub type OwnerKind = (String, String);

/// Who owns whom in a namespace, as far as it was read.
#[derive(Debug, Default)]
pub struct Owners(BTreeMap<String, Vec<OwnerReference>>);

impl Owners {
    /// An object and its owners.
    pub fn add(&mut self, metadata: &ObjectMeta) {
        if let Some(uid) = &metadata.uid {
            let owners = metadata.owner_references.clone();
            self.0.insert(uid.clone(), owners.unwrap_or_default());
        }
    }

    /// Kinds of owners that were not read. Of the core group only pods own pods, and they are all there.
    #[must_use]
    pub fn unknown(&self, root: &str) -> BTreeSet<OwnerKind> {
        self.0
            .values()
            .flatten()
            .filter(|owner| {
                owner.uid != root && !self.0.contains_key(&owner.uid) && owner.api_version != "v1"
            })
            .map(|owner| (owner.api_version.clone(), owner.kind.clone()))
            .collect()
    }

    /// Whether the object is owned by this one, or by one that is.
    #[must_use]
    pub fn is_below(&self, uid: &str, root: &str) -> bool {
        let mut seen = BTreeSet::new();
        let mut next = vec![uid];
        while let Some(uid) = next.pop() {
            for owner in self.0.get(uid).into_iter().flatten() {
                if owner.uid == root {
                    return true;
                }
                if seen.insert(owner.uid.as_str()) {
                    next.push(&owner.uid);
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn owned(uid: &str, owners: &[(&str, &str, &str)]) -> ObjectMeta {
        let owner = |(version, kind, uid): &(&str, &str, &str)| json!({"apiVersion": version, "kind": kind, "name": "x", "uid": uid});
        let owners: Vec<Value> = owners.iter().map(owner).collect();
        serde_json::from_value(json!({"name": uid, "uid": uid, "ownerReferences": owners})).unwrap()
    }

    #[test]
    fn owners_are_followed_to_the_job() {
        let mut owners = Owners::default();
        owners.add(&owned("launcher-pod", &[("batch/v1", "Job", "launcher")]));
        owners.add(&owned(
            "worker-pod",
            &[("kubeflow.org/v2beta1", "MPIJob", "root")],
        ));
        owners.add(&owned("executor", &[("v1", "Pod", "driver")]));
        owners.add(&owned("driver", &[("kubeflow.org/v2beta1", "MPIJob", "root")]));
        owners.add(&owned("single", &[("v1", "Namespace", "shop")]));
        let kind = |version: &str, kind: &str| (version.to_owned(), kind.to_owned());
        assert_eq!(owners.unknown("root"), BTreeSet::from([kind("batch/v1", "Job")]));
        let below = |owners: &Owners| -> Vec<&'static str> {
            ["launcher-pod", "worker-pod", "executor", "single"]
                .into_iter()
                .filter(|pod| owners.is_below(pod, "root"))
                .collect()
        };
        assert_eq!(below(&owners), ["worker-pod", "executor"]);
        owners.add(&owned("launcher", &[("kubeflow.org/v2beta1", "MPIJob", "root")]));
        assert_eq!(owners.unknown("root"), BTreeSet::new());
        assert_eq!(below(&owners), ["launcher-pod", "worker-pod", "executor"]);
    }

    #[test]
    fn owners_in_a_circle_end() {
        let mut owners = Owners::default();
        owners.add(&owned("a", &[("v1", "Pod", "b")]));
        owners.add(&owned("b", &[("v1", "Pod", "a")]));
        assert!(!owners.is_below("a", "root"));
    }
}
