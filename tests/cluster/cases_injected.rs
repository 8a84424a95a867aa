//! What clusters inject into pods: R31, R98.

use std::sync::Arc;

use anyhow::{Result, ensure};
use portcullis_testbed::case;
use serde_json::{Value, json};

use crate::rig::{Case, Rig};
use crate::sides::{At, plain, pod, text};

pub fn cases() -> Vec<Case> {
    vec![
        case!(tokens_are_the_workers_own_in_every_container),
        case!(a_missing_service_account_is_told_and_awaited),
        case!(a_sidecar_that_both_clusters_inject_is_there_once),
    ]
}

/// R31.
async fn tokens_are_the_workers_own_in_every_container(rig: Arc<Rig>) -> Result<()> {
    let ns = "r31";
    rig.opted_in(ns).await?;
    let spec = json!({
        "initContainers": [
            {"name": "first", "image": "app:1"},
            {"name": "sidecar", "image": "app:1", "restartPolicy": "Always"},
        ],
        "volumes": [{"name": "mine", "emptyDir": {}}],
    });
    rig.create(At::Manager, ns, pod("one", json!({}), spec)).await?;
    let local = rig.until_ready(ns, "one").await?;
    let remote = rig.seen(At::A, ns, "pod/one").await?;
    let tokens = |pod: &Value| -> Vec<String> {
        let volumes = pod["spec"]["volumes"].as_array().cloned().unwrap_or_default();
        volumes
            .iter()
            .map(|volume| text(volume, "/name").to_owned())
            .filter(|name| name.starts_with("kube-api-access-"))
            .collect()
    };
    let (here, there) = (tokens(&local), tokens(&remote));
    ensure!(
        here.len() == 1 && there.len() == 1 && here != there,
        "here {here:?}, there {there:?}"
    );
    let containers = ["initContainers", "containers"]
        .map(|list| remote["spec"][list].as_array().cloned().unwrap_or_default())
        .concat();
    ensure!(containers.len() == 3);
    for container in containers {
        let mounts = container["volumeMounts"].to_string();
        ensure!(
            mounts.matches("kube-api-access-").count() == 1 && mounts.contains(&there[0]),
            "{container}"
        );
    }
    Ok(())
}

/// R31, last half.
async fn a_missing_service_account_is_told_and_awaited(rig: Arc<Rig>) -> Result<()> {
    let ns = "r31sa";
    rig.opted_in(ns).await?;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    rig.create(At::Manager, ns, account.clone()).await?;
    rig.create(
        At::Manager,
        ns,
        pod("one", json!({}), json!({"serviceAccountName": "robot"})),
    )
    .await?;
    rig.until_dispatched(ns, "one", "NotYet", "serviceaccount \"robot\" not found")
        .await?;
    rig.until_event(
        ns,
        "one",
        "NamespaceNotReady",
        "serviceaccount \"robot\" not found",
    )
    .await?;
    ensure!(
        rig.created(At::B, ns)?.is_empty(),
        "it is awaited there, not elsewhere"
    );
    rig.create(At::A, ns, account).await?;
    rig.until_ready(ns, "one").await?;
    ensure!(text(&rig.seen(At::A, ns, "pod/one").await?, "/spec/serviceAccountName") == "robot");
    Ok(())
}

/// R98. `docs/decisions/0022-sidecars-travel-with-the-pod.md`.
async fn a_sidecar_that_both_clusters_inject_is_there_once(rig: Arc<Rig>) -> Result<()> {
    let ns = "r98";
    for at in [At::Manager, At::A] {
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": "r98"},
            "spec": {
                "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
                "reinvocationPolicy": "Never",
                "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {
                    "expression": "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'mesh', image: 'mesh:1'}]}}",
                }}],
            },
        });
        rig.create(at, "", policy).await?;
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": "r98"},
            "spec": {"policyName": "r98", "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns}}}},
        });
        rig.create(at, "", binding).await?;
    }
    rig.opted_in(ns).await?;
    let mut name = String::new();
    // A policy works a moment after its creation: the first pod that has the sidecar is the one to look at.
    for attempt in 0..40 {
        name = format!("try-{attempt}");
        let created = rig.create(At::Manager, ns, plain(&name)).await?;
        if created["spec"]["containers"]
            .as_array()
            .is_some_and(|containers| containers.len() == 2)
        {
            break;
        }
        rig.until_ready(ns, &name).await?;
    }
    let local = rig.until_ready(ns, &name).await?;
    for pod in [local, rig.seen(At::A, ns, &format!("pod/{name}")).await?] {
        let containers = pod["spec"]["containers"].as_array().cloned().unwrap_or_default();
        let meshes = containers
            .iter()
            .filter(|container| container["name"] == "mesh")
            .count();
        ensure!(containers.len() == 2 && meshes == 1, "{containers:?}");
    }
    Ok(())
}
