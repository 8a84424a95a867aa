//! A kind of job whose CRD is installed while we run: JobSet, without its operator.

use std::sync::Arc;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::case;
use crate::rig::{Case, Rig};
use crate::sides::{At, annotation, condition, dispatched, text, uid};

pub fn cases() -> Vec<Case> {
    vec![case!(
        a_kind_comes_alive_where_it_is_installed_and_never_runs_where_suspend_is_dropped
    )]
}

/// The CRD, with these fields in its spec.
fn definition(fields: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "jobsets.jobset.x-k8s.io"},
        "spec": {
            "group": "jobset.x-k8s.io", "scope": "Namespaced",
            "names": {"plural": "jobsets", "singular": "jobset", "kind": "JobSet", "listKind": "JobSetList"},
            "versions": [{
                "name": "v1alpha2", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": fields},
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                }}},
            }],
        },
    })
}

fn fields(suspend: bool) -> Value {
    let mut fields = json!({
        "managedBy": {"type": "string"},
        "ttlSecondsAfterFinished": {"type": "integer"},
        "replicatedJobs": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
    });
    if suspend {
        fields["suspend"] = json!({"type": "boolean"});
    }
    fields
}

async fn a_kind_comes_alive_where_it_is_installed_and_never_runs_where_suspend_is_dropped(
    rig: Arc<Rig>,
) -> Result<()> {
    let (ns, object) = ("jobs-kinds", "jobset/train");
    let name = "customresourcedefinition/jobsets.jobset.x-k8s.io";
    rig.on_a(ns).await?;
    rig.create(At::Manager, "", definition(fields(true))).await?;
    let established = |definition: &Value| condition(definition, "Established")["status"] == "True";
    rig.until(At::Manager, "", name, "established", established)
        .await?;
    let set = json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "train"},
        "spec": {
            "managedBy": "portcullis.dev/multikueue", "ttlSecondsAfterFinished": 3,
            "replicatedJobs": [{"name": "workers", "replicas": 1}],
        },
    });
    let local = rig.create(At::Manager, ns, set).await?;
    let says = |words: &'static str| {
        move |set: &Value| {
            dispatched(set)["message"]
                .as_str()
                .unwrap_or_default()
                .contains(words)
        }
    };
    rig.until(
        At::Manager,
        ns,
        object,
        "is not served there",
        says("does not serve jobsets.jobset.x-k8s.io"),
    )
    .await?;
    rig.create(At::A, "", definition(fields(false))).await?;
    rig.until(
        At::Manager,
        ns,
        object,
        "suspend is dropped there",
        says("do not keep suspend"),
    )
    .await?;
    ensure!(
        rig.find(At::A, ns, object).await?.is_none(),
        "the copy that would run is left"
    );
    let wider = json!({"spec": {"versions": definition(fields(true))["spec"]["versions"]}});
    rig.patch(At::A, "", name, wider).await?;
    let remote = rig
        .until(At::A, ns, object, "opened", |set| {
            set["spec"]["suspend"] == false && annotation(set, "portcullis.dev/uncommitted").is_empty()
        })
        .await?;
    rig.until(At::Manager, ns, object, "committed", |set| {
        annotation(set, "portcullis.dev/remote-uid").ends_with(&uid(&remote))
    })
    .await?;
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let ended = json!({"status": {"terminalState": "Completed", "conditions": [{
        "type": "Completed", "status": "True", "reason": "AllJobsCompleted", "message": "", "lastTransitionTime": now,
    }]}});
    rig.patch(At::A, ns, &format!("{object}/status"), ended).await?;
    // Its operator would have deleted it by now: ttlSecondsAfterFinished.
    rig.until_gone(At::Manager, ns, object, &uid(&local)).await?;
    rig.until_gone(At::A, ns, object, &uid(&remote)).await?;
    ensure!(text(&local, "/metadata/name") == "train");
    for at in [At::Manager, At::A] {
        rig.delete(at, "", name).await?;
    }
    Ok(())
}
