//! A kind of job whose CRD is installed while we run: AppWrapper, without its operator.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use portcullis_testbed::wait_for;
use serde_json::{Value, json};

use crate::case;
use crate::rig::{Case, Rig};
use crate::sides::{At, annotation, condition, dispatched, uid};

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_kind_comes_alive_where_it_is_installed_and_never_runs_where_suspend_is_dropped),
        case!(a_kind_without_conditions_says_by_events_why_it_waits),
    ]
}

/// The CRD of AppWrapper, with these fields in its spec.
fn definition(fields: Value) -> Value {
    definition_of(["workload.codeflare.dev", "v1beta2", "AppWrapper"], fields)
}

pub fn definition_of([group, version, kind]: [&str; 3], fields: Value) -> Value {
    let singular = kind.to_lowercase();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{singular}s.{group}"),
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"}, // asked for in groups of k8s.io
        },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {
                "plural": format!("{singular}s"), "singular": singular, "kind": kind, "listKind": format!("{kind}List"),
            },
            "versions": [{
                "name": version, "served": true, "storage": true, "subresources": {"status": {}},
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
        "components": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
    });
    if suspend {
        fields["suspend"] = json!({"type": "boolean"});
    }
    fields
}

async fn a_kind_comes_alive_where_it_is_installed_and_never_runs_where_suspend_is_dropped(
    rig: Arc<Rig>,
) -> Result<()> {
    let (ns, object) = ("jobs-kinds", "appwrapper/train");
    let name = "customresourcedefinition/appwrappers.workload.codeflare.dev";
    rig.on_a(ns).await?;
    rig.create(At::Manager, "", definition(fields(true))).await?;
    let established = |definition: &Value| condition(definition, "Established")["status"] == "True";
    rig.until(At::Manager, "", name, "established", established)
        .await?;
    let wrapper = json!({
        "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "metadata": {"name": "train"},
        "spec": {"components": [{"template": {}}]},
    });
    let local = rig.create(At::Manager, ns, wrapper).await?;
    let says = |words: &'static str| {
        move |wrapper: &Value| {
            dispatched(wrapper)["message"]
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
        says("does not serve appwrappers.workload.codeflare.dev"),
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
        .until(At::A, ns, object, "opened", |wrapper| {
            wrapper["spec"]["suspend"] == false
                && annotation(wrapper, "portcullis.dev/uncommitted").is_empty()
        })
        .await?;
    rig.until(At::Manager, ns, object, "committed", |wrapper| {
        annotation(wrapper, "portcullis.dev/remote-uid").ends_with(&uid(&remote))
    })
    .await?;
    let ended = json!({"status": {"phase": "Succeeded"}});
    rig.patch(At::A, ns, &format!("{object}/status"), ended).await?;
    rig.until(At::Manager, ns, object, "succeeded", |wrapper| {
        wrapper["status"]["phase"] == "Succeeded"
    })
    .await?;
    rig.delete(At::Manager, ns, object).await?;
    rig.until_gone(At::Manager, ns, object, &uid(&local)).await?;
    rig.until_gone(At::A, ns, object, &uid(&remote)).await?;
    where_managed_by_is_dropped(&rig, ns, name).await?;
    for at in [At::Manager, At::A] {
        rig.delete(at, "", name).await?;
    }
    Ok(())
}

/// A schema that keeps all that it does not know says nothing of the operator: the job may run here too.
async fn where_managed_by_is_dropped(rig: &Rig, ns: &str, name: &str) -> Result<()> {
    let object = "appwrapper/late";
    let wrapper = json!({
        "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "metadata": {"name": "late"},
        "spec": {"suspend": true, "components": [{"template": {}}]},
    });
    let local = rig.create(At::Manager, ns, wrapper).await?;
    rig.until(At::Manager, ns, object, "suspended", |wrapper| {
        dispatched(wrapper)["reason"] == "Suspended"
    })
    .await?;
    let mut older = definition(json!({"suspend": {"type": "boolean"}}));
    older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-preserve-unknown-fields"] =
        true.into();
    rig.patch(
        At::Manager,
        "",
        name,
        json!({"spec": {"versions": older["spec"]["versions"]}}),
    )
    .await?;
    // Each touch gives it a turn; nothing else does when the schema changes.
    let mut touches = 0;
    wait_for("FieldDropped to be told", Duration::from_secs(60), async || {
        touches += 1;
        let touch = json!({"metadata": {"annotations": {"example.com/touch": touches.to_string()}}});
        rig.patch(At::Manager, ns, object, touch).await?;
        let events = rig.list(At::Manager, ns, "events").await?;
        let told =
            |event: &Value| event["reason"] == "FieldDropped" && event["involvedObject"]["name"] == "late";
        Ok::<_, anyhow::Error>(events.iter().any(told).then_some(()))
    })
    .await?;
    rig.patch(At::Manager, ns, object, json!({"spec": {"suspend": false}}))
        .await?;
    let stored = rig.seen(At::Manager, ns, object).await?;
    ensure!(
        stored["spec"]["managedBy"] == "portcullis.dev/multikueue",
        "it looks like ours: {stored}"
    );
    rig.delete(At::Manager, ns, object).await?;
    rig.until_gone(At::Manager, ns, object, &uid(&local)).await?;
    let writes = rig.writes(At::A, ns)?;
    ensure!(
        writes.iter().all(|write| write.name != "late"),
        "it has a copy: {writes:?}"
    );
    Ok(())
}

/// RayJob, on the manager only and without its operator.
async fn a_kind_without_conditions_says_by_events_why_it_waits(rig: Arc<Rig>) -> Result<()> {
    let (ns, object) = ("jobs-told", "rayjob/train");
    let name = "customresourcedefinition/rayjobs.ray.io";
    rig.on_a(ns).await?;
    rig.create(
        At::Manager,
        "",
        definition_of(["ray.io", "v1", "RayJob"], fields(true)),
    )
    .await?;
    rig.until(At::Manager, "", name, "established", |definition| {
        condition(definition, "Established")["status"] == "True"
    })
    .await?;
    let job = json!({
        "apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "train"}, "spec": {"suspend": true},
    });
    let local = rig.create(At::Manager, ns, job).await?;
    ensure!(
        local["spec"]["managedBy"] == "kueue.x-k8s.io/multikueue",
        "{local}"
    );
    rig.until_event(ns, "train", "Suspended", "once it is resumed")
        .await?;
    rig.patch(At::Manager, ns, object, json!({"spec": {"suspend": false}}))
        .await?;
    rig.until_event(ns, "train", "NoClusterTakesIt", "does not serve rayjobs.ray.io")
        .await?;
    let stored = rig.seen(At::Manager, ns, object).await?;
    ensure!(stored["status"].is_null(), "its status is not ours: {stored}");
    let said = rig.status(&["-n", ns, object]).await?;
    ensure!(
        said.contains("does not serve rayjobs.ray.io") && said.contains("has no copy on any worker yet"),
        "{said}"
    );
    rig.delete(At::Manager, ns, object).await?;
    rig.until_gone(At::Manager, ns, object, &uid(&local)).await?;
    rig.delete(At::Manager, "", name).await
}
