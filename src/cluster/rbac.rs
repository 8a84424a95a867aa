//! What we may do, on the manager and on workers: one table, from which the roles are rendered.
//!
//! Nothing is asked for that no code uses; a right is added together with the code that needs it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::admission::policies::{self, LayerKind};
use crate::gang::Family;
use crate::names::{GROUP, NAMESPACE, PORTCULLIS};
use crate::workload::Resource;
use crate::workload::jobs::{GANG_KINDS, JOB_KINDS, JobKinds};

/// Some verbs on some resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    /// API group; empty is core.
    pub group: &'static str,
    /// Plurals, with their subresource.
    pub resources: Vec<String>,
    /// Only objects of these names; empty: all.
    pub names: Vec<String>,
    /// Verbs.
    pub verbs: &'static [&'static str],
    /// What for.
    pub why: &'static str,
}

/// Everywhere on the manager, for these kinds of jobs.
#[must_use]
pub fn manager(kinds: JobKinds) -> Vec<Right> {
    let mut rights = vec![
        right(
            "",
            &["pods"],
            &["get", "list", "watch", "patch"],
            "see local pods, commit them, take the finalizer off",
        ),
        right("", &["pods/status"], &["patch"], "mirror the remote pod's status"),
        right(
            "",
            &["namespaces"],
            &["get", "list", "watch"],
            "see the opt-in; the manager's own identity",
        ),
        right(
            "apps",
            &["replicasets"],
            &["list", "watch"],
            "follow a pod's owner up to its workload",
        ),
        right("events.k8s.io", &["events"], &["create"], "tell people"),
        right(
            GROUP,
            &["workerclusters"],
            &["get", "list", "watch", "patch"],
            "the workers, and their finalizer",
        ),
        right(
            GROUP,
            &["dispatchpolicies"],
            &["get", "list", "watch"],
            "the policies",
        ),
        right(
            GROUP,
            &["workerclusters/status", "dispatchpolicies/status"],
            &["patch"],
            "say what works",
        ),
        right(
            GROUP,
            &["workerclusters/finalizers"],
            &["update"],
            "own the finalizer where admission demands the right",
        ),
    ];
    rights.extend(jobs(kinds));
    rights.extend(gangs());
    // Who may create these is cluster-admin in effect, and create cannot be limited by name: so not create.
    rights.extend(LayerKind::ALL.map(|kind| Right {
        names: policies::names(kind),
        ..right(
            "admissionregistration.k8s.io",
            match kind {
                LayerKind::MutatingAdmissionPolicy => &["mutatingadmissionpolicies"],
                LayerKind::MutatingAdmissionPolicyBinding => &["mutatingadmissionpolicybindings"],
                LayerKind::ValidatingAdmissionPolicy => &["validatingadmissionpolicies"],
                LayerKind::ValidatingAdmissionPolicyBinding => &["validatingadmissionpolicybindings"],
                LayerKind::MutatingWebhookConfiguration => &["mutatingwebhookconfigurations"],
            },
            &["get", "list", "watch", "update", "patch"],
            "keep the installed layers as they are",
        )
    }));
    rights
}

/// The plurals of some kinds, with this behind each, by API group.
fn by_group(
    kinds: impl Iterator<Item = Resource>,
    behind: &str,
    verbs: &'static [&'static str],
    why: &'static str,
) -> Vec<Right> {
    let mut groups: BTreeMap<&'static str, BTreeSet<&'static str>> = BTreeMap::new();
    for names in kinds {
        groups.entry(names.group).or_default().insert(names.plural);
    }
    groups
        .into_iter()
        .map(|(group, plurals)| Right {
            resources: plurals.iter().map(|plural| format!("{plural}{behind}")).collect(),
            ..right(group, &[], verbs, why)
        })
        .collect()
}

/// Where whole jobs are dispatched.
fn jobs(kinds: JobKinds) -> Vec<Right> {
    let names = || kinds.iter().map(|kind| kind.resource());
    let mut rights = by_group(
        names(),
        "",
        &["get", "list", "watch", "patch", "delete"],
        "see local jobs, commit them, take holds and finalizers off, end those whose time is over",
    );
    rights.extend(by_group(
        names(),
        "/status",
        &["patch"],
        "mirror the remote job's status",
    ));
    rights
}

/// Where jobs run and get PodGroups.
fn gangs() -> Vec<Right> {
    let names = || GANG_KINDS.iter().map(|kind| kind.resource());
    let mut rights = by_group(
        names(),
        "/finalizers",
        &["update"],
        "own PodGroups in the job's name where admission demands the right",
    );
    // The others are seen, and taken off hold, as jobs.
    rights.extend(by_group(
        names().filter(|gang| JOB_KINDS.iter().all(|job| job.resource() != *gang)),
        "",
        &["get", "list", "watch", "patch"],
        "see gangs that are not dispatched whole, mark them, take holds off",
    ));
    let families = [Family::Coscheduling, Family::Volcano, Family::Native];
    rights.extend(families.into_iter().flat_map(group_objects));
    rights.extend(classes());
    rights.extend([right(
        "apiextensions.k8s.io",
        &["customresourcedefinitions"],
        &["get", "list", "watch"],
        "find kinds that are installed later, and which of them have managedBy",
    )]);
    rights
}

/// In our own namespace on the manager.
#[must_use]
pub fn own_namespace() -> Vec<Right> {
    vec![
        right(
            "",
            &["secrets"],
            &["get", "list", "watch"],
            "kubeconfigs of workers; our certificate",
        ),
        right(
            "",
            &["pods"],
            &["create"],
            "try (dry run) whether pods can be in native groups",
        ),
        // create cannot be limited by name
        right("", &["secrets"], &["create"], "our certificate, the first time"),
        Right {
            names: vec![TLS_SECRET.to_owned()],
            ..right("", &["secrets"], &["update", "patch"], "renew our certificate")
        },
    ]
}

/// The Secret that holds the webhook's CA and leaf.
pub const TLS_SECRET: &str = "portcullis-tls";

/// In one namespace of a worker that takes pods and these kinds of jobs.
#[must_use]
pub fn worker_namespace(kinds: JobKinds) -> Vec<Right> {
    let mut rights = vec![
        right("", &["namespaces"], &["get"], "read the namespace's consent"),
        right(
            "",
            &["pods"],
            &["get", "list", "watch", "create", "patch", "delete"],
            "the remote pods",
        ),
        right(
            "",
            &["serviceaccounts"],
            &["get"],
            "wait for the account a pod runs under",
        ),
        right(
            "",
            &["events"],
            &["list", "watch"],
            "tell the owner of a local object what the worker says",
        ),
    ];
    rights.extend(by_group(
        kinds.iter().map(|kind| kind.resource()),
        "",
        &["get", "list", "watch", "create", "patch", "delete"],
        "the remote jobs",
    ));
    rights
}

/// Everywhere on a worker, for a policy with `namespaces.create`, and for gangs of this scheduler there.
#[must_use]
pub fn worker_cluster(kinds: JobKinds, gang: Option<Family>) -> Vec<Right> {
    let mut rights = worker_namespace(kinds);
    rights[0] = right(
        "",
        &["namespaces"],
        &["get", "create"],
        "read consent; create what the policy says",
    );
    rights.extend(gang.into_iter().flat_map(worker_gangs));
    rights
}

/// Everywhere on a worker whose WorkerCluster names this gang scheduler.
fn worker_gangs(family: Family) -> Vec<Right> {
    let mut rights = by_group(
        GANG_KINDS.iter().map(|kind| kind.resource()),
        "/finalizers",
        &["update"],
        "own PodGroups in the copy's name where admission demands the right",
    );
    rights.extend(group_objects(family));
    if family == Family::Native {
        rights.extend(pod_policy());
    }
    rights.extend(classes());
    rights
}

/// Its own layers on a worker are looked at, never written.
fn pod_policy() -> impl Iterator<Item = Right> {
    policies::on_native_worker(NAMESPACE)
        .into_iter()
        .map(|layer| Right {
            resources: vec![layer.kind.resource().to_owned()],
            names: vec![layer.name],
            ..right(
                "admissionregistration.k8s.io",
                &[],
                &["get"],
                "see whether pods of copies are put into their native groups",
            )
        })
}

/// The objects of a gang of this scheduler.
fn group_objects(family: Family) -> Vec<Right> {
    let verbs: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];
    let (group, plurals, why): (_, &[_], _) = match family {
        Family::Coscheduling => ("scheduling.x-k8s.io", &["podgroups"], "PodGroups of coscheduling"),
        Family::Volcano => ("scheduling.volcano.sh", &["podgroups"], "PodGroups of Volcano"),
        Family::Native => (
            "scheduling.k8s.io",
            &["podgroups", "workloads"],
            "PodGroups of Kubernetes",
        ),
    };
    let mut rights = vec![right(group, plurals, verbs, why)];
    if family == Family::Native {
        let why = "own a PodGroup in the Workload's name where admission demands the right";
        rights.push(right(group, &["workloads/finalizers"], &["update"], why));
    }
    rights
}

/// What gangs depend on beside their jobs.
fn classes() -> [Right; 2] {
    [
        right(
            "scheduling.k8s.io",
            &["priorityclasses"],
            &["list", "watch"],
            "priorities of gangs",
        ),
        right(
            "node.k8s.io",
            &["runtimeclasses"],
            &["list", "watch"],
            "overhead of pods",
        ),
    ]
}

/// In kube-system of a worker, if the role is not cluster-wide: its UID is the cluster's identity.
#[must_use]
pub fn worker_identity() -> Vec<Right> {
    vec![Right {
        names: vec!["kube-system".to_owned()],
        ..right("", &["namespaces"], &["get"], "the cluster's identity")
    }]
}

fn right(
    group: &'static str,
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
    why: &'static str,
) -> Right {
    Right {
        group,
        resources: resources.iter().map(|resource| (*resource).to_owned()).collect(),
        names: Vec::new(),
        verbs,
        why,
    }
}

/// Where a role holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach<'a> {
    /// The whole cluster.
    Cluster,
    /// One namespace.
    Namespace(&'a str),
}

/// A role and its binding to the ServiceAccount `portcullis` of `account_namespace`.
#[must_use]
pub fn role(name: &str, reach: Reach<'_>, rights: &[Right], account_namespace: &str) -> [Value; 2] {
    let (role_kind, binding_kind, mut metadata) = match reach {
        Reach::Cluster => ("ClusterRole", "ClusterRoleBinding", json!({"name": name})),
        Reach::Namespace(namespace) => (
            "Role",
            "RoleBinding",
            json!({"name": name, "namespace": namespace}),
        ),
    };
    metadata["labels"] = json!({"app.kubernetes.io/part-of": PORTCULLIS});
    let api_version = "rbac.authorization.k8s.io/v1";
    [
        json!({
            "apiVersion": api_version,
            "kind": role_kind,
            "metadata": metadata,
            "rules": rights.iter().map(policy_rule).collect::<Vec<_>>(),
        }),
        json!({
            "apiVersion": api_version,
            "kind": binding_kind,
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": PORTCULLIS, "namespace": account_namespace}],
        }),
    ]
}

fn policy_rule(right: &Right) -> Value {
    let mut rule = json!({"apiGroups": [right.group], "resources": right.resources, "verbs": right.verbs});
    if !right.names.is_empty() {
        rule["resourceNames"] = json!(right.names);
    }
    rule
}
