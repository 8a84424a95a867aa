//! The policies on objects as large as etcd takes them, and what the API server thinks of their expressions.

use anyhow::{Result, ensure};
use portcullis_testbed::wait_for;
use serde_json::{Value, json};

use super::checks;
use super::ground::{PATIENCE, Site, container, has_gate, pod, refused, with, workload};

checks![
    a_huge_template_is_within_the_cost_of_cel,
    a_huge_pod_is_within_the_cost_of_cel,
    a_namespace_with_many_labels_is_within_the_cost_of_cel,
    the_api_server_finds_no_fault_with_the_expressions,
];

/// A container of about 900 KB.
fn huge() -> Value {
    let env: Vec<Value> = (0..6000)
        .map(|number| json!({"name": format!("VARIABLE_{number}"), "value": format!("{number:0>110}")}))
        .collect();
    with(container(), "/env", json!(env))
}

async fn a_huge_template_is_within_the_cost_of_cel(site: Site) -> Result<()> {
    let ground = site.opted_in("huge-template").await?;
    let manifest = with(
        workload("Deployment", "web"),
        "/spec/template/spec/containers",
        json!([huge()]),
    );
    let manifest = with(manifest, "/spec/replicas", json!(0));
    let made = ground.alice().create("deployments", &manifest).await?;
    let template = &made["spec"]["template"];
    ensure!(has_gate(template), "marked");
    let after = ground
        .alice()
        .replace("deployments", "web", "", &manifest)
        .await?;
    ensure!(after["spec"]["template"] == *template, "unchanged");
    Ok(())
}

async fn a_huge_pod_is_within_the_cost_of_cel(site: Site) -> Result<()> {
    let ground = site.opted_in("huge-pod").await?;
    let labels: serde_json::Map<String, Value> = (0..400)
        .map(|number| (format!("example.com/label-{number}"), json!("x".repeat(60))))
        .collect();
    let manifest = with(pod("one"), "/spec/containers", json!([huge()]));
    let manifest = with(
        manifest,
        "/metadata/annotations",
        json!({"note": "x".repeat(200_000)}),
    );
    let manifest = with(manifest, "/metadata/labels", Value::Object(labels));
    ground.committed_pod("one", &manifest).await?;
    ground
        .alice()
        .patch("pods", "one", "", &json!({"metadata": {"labels": {"team": "a"}}}))
        .await?;
    let last = json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "app:2"}]);
    refused(
        ground.alice().patch("pods", "one", "", &last).await,
        "handed to the worker cluster",
    )
}

async fn a_namespace_with_many_labels_is_within_the_cost_of_cel(site: Site) -> Result<()> {
    let ground = site.opted_in("many-labels").await?;
    let labels: serde_json::Map<String, Value> = (0..2000)
        .map(|number| (format!("example.com/label-{number}"), json!("x")))
        .collect();
    let mut patch = json!({"metadata": {"labels": labels}});
    patch["metadata"]["labels"]["portcullis.dev/dispatch"] = json!("other");
    ground
        .admin()
        .patch("namespaces", &ground.namespace, "", &patch)
        .await?;
    ground.gated_pod("one").await?;
    Ok(())
}

async fn the_api_server_finds_no_fault_with_the_expressions(site: Site) -> Result<()> {
    let ground = site.plain("type-check").await?;
    for name in ["create", "templates", "pods", "namespaces", "job-create", "jobs"] {
        let name = format!("portcullis-guard-{name}");
        let policy = wait_for("the type check", PATIENCE, async || {
            let policy = ground.admin().get("validatingadmissionpolicies", &name).await?;
            let checked = policy["status"]["observedGeneration"] == policy["metadata"]["generation"];
            anyhow::Ok(checked.then_some(policy))
        })
        .await?;
        let warnings = &policy["status"]["typeChecking"]["expressionWarnings"];
        ensure!(warnings.is_null(), "{name}: {warnings}");
    }
    Ok(())
}
