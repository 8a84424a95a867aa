//! The printed roles for workers: what design.md section 3 says, and no more.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use portcullis::cli::manifests::{rbac_worker, rbac_worker_namespaced, yaml};
use portcullis::gang::Family;
use portcullis::workload::jobs::JobKinds;
use portcullis_testbed::{Cluster, wait_for};
use serde_json::json;

use super::ground::{Actor, PATIENCE};
use crate::rig::{Case, Rig};

pub fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "guard::worker_rights::the_role_per_namespace_reaches_its_namespaces_only",
            alone: false,
            limit: Duration::from_secs(60),
            run: |rig| Box::pin(per_namespace(rig)),
        },
        Case {
            name: "guard::worker_rights::the_cluster_wide_role_creates_namespaces_and_reads_no_secret",
            alone: false,
            limit: Duration::from_secs(60),
            run: |rig| Box::pin(cluster_wide(rig)),
        },
        Case {
            name: "guard::worker_rights::the_role_for_native_gangs_reads_their_policy_and_writes_none",
            alone: false,
            limit: Duration::from_secs(60),
            run: |rig| Box::pin(native_gangs(rig)),
        },
    ]
}

/// verb, resource, namespace, name, and whether it is allowed.
type Question = (&'static str, &'static str, &'static str, &'static str, bool);

const PER_NAMESPACE: &[Question] = &[
    ("get", "namespaces", "kube-system", "kube-system", true),
    ("get", "namespaces", "team-a", "team-a", true),
    ("create", "pods", "team-a", "", true),
    ("patch", "pods", "team-a", "", true),
    ("delete", "pods", "team-a", "", true),
    ("watch", "pods", "team-a", "", true),
    ("get", "serviceaccounts", "team-a", "default", true),
    ("watch", "events", "team-a", "", true),
    ("get", "namespaces", "default", "default", false),
    ("list", "namespaces", "", "", false),
    ("create", "namespaces", "", "", false),
    ("create", "pods", "default", "", false),
    ("get", "pods", "kube-system", "", false),
    ("watch", "pods", "", "", false),
    ("get", "secrets", "team-a", "x", false),
    ("create", "serviceaccounts", "team-a", "", false),
    ("update", "pods/status", "team-a", "", false),
];

const CLUSTER_WIDE: &[Question] = &[
    ("get", "namespaces", "kube-system", "kube-system", true),
    ("get", "namespaces", "default", "default", true),
    ("create", "namespaces", "", "", true),
    ("create", "pods", "default", "", true),
    ("watch", "pods", "", "", true),
    ("get", "serviceaccounts", "default", "default", true),
    ("watch", "events", "", "", true),
    ("patch", "namespaces", "default", "default", false),
    ("delete", "namespaces", "default", "default", false),
    ("get", "secrets", "default", "x", false),
    ("list", "secrets", "", "", false),
    ("create", "pods/exec", "default", "", false),
    ("get", "nodes", "", "", false),
];

const NATIVE_GANGS: &[Question] = &[
    (
        "get",
        "mutatingadmissionpolicies.admissionregistration.k8s.io",
        "",
        "rights-native-gang-pods",
        true,
    ),
    (
        "get",
        "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
        "",
        "rights-native-gang-pods",
        true,
    ),
    (
        "get",
        "mutatingadmissionpolicies.admissionregistration.k8s.io",
        "",
        "another",
        false,
    ),
    (
        "list",
        "mutatingadmissionpolicies.admissionregistration.k8s.io",
        "",
        "",
        false,
    ),
    (
        "update",
        "mutatingadmissionpolicies.admissionregistration.k8s.io",
        "",
        "rights-native-gang-pods",
        false,
    ),
];

async fn per_namespace(rig: Arc<Rig>) -> Result<()> {
    let worker = &rig.world.workers.last().context("a worker")?.cluster;
    worker.kubectl(&["create", "namespace", "team-a"]).await?;
    let objects = rbac_worker_namespaced("rights-per-namespace", &["team-a".to_owned()], JobKinds::BUILT_IN);
    ask(worker, &yaml(&objects)?, "rights-per-namespace", PER_NAMESPACE).await
}

async fn cluster_wide(rig: Arc<Rig>) -> Result<()> {
    let worker = &rig.world.workers.last().context("a worker")?.cluster;
    // Under a name of its own: the role of the world's own portcullis must stay bound to it.
    let text = yaml(&rbac_worker("rights-cluster-wide", JobKinds::BUILT_IN, None))?
        .replace("portcullis-worker", "rights-cluster-wide");
    ask(worker, &text, "rights-cluster-wide", CLUSTER_WIDE).await
}

/// The policy that is printed with it is looked at by name, and never written.
async fn native_gangs(rig: Arc<Rig>) -> Result<()> {
    let worker = &rig.world.workers.last().context("a worker")?.cluster;
    let objects = rbac_worker("rights-native", JobKinds::BUILT_IN, Some(Family::Native));
    let text = yaml(&objects)?.replace("portcullis-worker", "rights-native");
    ask(worker, &text, "rights-native", NATIVE_GANGS).await
}

async fn ask(worker: &Cluster, manifests: &str, namespace: &str, questions: &[Question]) -> Result<()> {
    worker.apply(manifests).await?;
    let admin = Actor::admin(worker.admin_client().await?);
    for &(verb, resource, in_namespace, name, allowed) in questions {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": format!("system:serviceaccount:{namespace}:portcullis"),
                "groups": ["system:serviceaccounts", "system:authenticated"],
                "resourceAttributes": {
                    "verb": verb, "group": group, "resource": resource, "subresource": subresource,
                    "namespace": in_namespace, "name": name,
                },
            },
        });
        let ask = async || {
            let answer = admin.create("subjectaccessreviews", &review).await?;
            anyhow::Ok(answer["status"]["allowed"] == true)
        };
        // A right may come late; those that are not to be are asked for after all others came.
        if allowed {
            wait_for("a right", PATIENCE, async || {
                Ok::<_, anyhow::Error>(ask().await?.then_some(()))
            })
            .await?;
        }
        ensure!(
            ask().await? == allowed,
            "{verb} {resource} {name} in {in_namespace:?}: should be {allowed}"
        );
    }
    Ok(())
}
