//! A kind of job whose CRD is installed while we run: AppWrapper with its real definition, without its operator.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use portcullis_testbed::{Crds, case, wait_for};
use serde_json::{Value, json};

use crate::cases_jobs_real::app_wrapper;
use crate::rig::{Case, Rig};
use crate::sides::{At, annotation, dispatched, uid};
use crate::whole::runs_whole;

pub fn cases() -> Vec<Case> {
    vec![case!(
        a_kind_comes_alive_where_it_is_installed_and_never_runs_where_suspend_is_dropped
    )]
}

const NAME: &str = "customresourcedefinition/appwrappers.workload.codeflare.dev";

/// The real definition, as the manager has it; `edit` changes the schema of its spec.
async fn definition(rig: &Rig, edit: impl Fn(&mut Value)) -> Result<Value> {
    let mut spec = rig.seen(At::Manager, "", NAME).await?["spec"].take();
    edit(&mut spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]);
    Ok(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "appwrappers.workload.codeflare.dev"}, "spec": spec,
    }))
}

/// Without the field in the schema.
fn without(field: &'static str) -> impl Fn(&mut Value) {
    move |spec| {
        spec["properties"]
            .as_object_mut()
            .and_then(|fields| fields.remove(field));
    }
}

async fn a_kind_comes_alive_where_it_is_installed_and_never_runs_where_suspend_is_dropped(
    rig: Arc<Rig>,
) -> Result<()> {
    let (ns, object) = ("jobs-kinds", "appwrapper/train");
    rig.on_a(ns).await?;
    rig.cluster(At::Manager).install_crds(Crds::AppWrapper).await?;
    let wrapper = json!({
        "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "metadata": {"name": "train"},
        "spec": {"components": [{"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "main"}}}]},
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
    let narrow = definition(&rig, without("suspend")).await?;
    rig.create(At::A, "", narrow).await?;
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
    let wider = definition(&rig, |_| ()).await?;
    let versions = json!({"spec": {"versions": wider["spec"]["versions"]}});
    rig.patch(At::A, "", NAME, versions).await?;
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
    runs_whole(&rig, &app_wrapper()).await?;
    where_managed_by_is_dropped(&rig, ns).await
}

/// A schema that keeps all that it does not know says nothing of the operator: the job may run here too.
async fn where_managed_by_is_dropped(rig: &Rig, ns: &str) -> Result<()> {
    let object = "appwrapper/late";
    let wrapper = json!({
        "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "metadata": {"name": "late"},
        "spec": {"suspend": true, "components": [{"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "main"}}}]},
    });
    let local = rig.create(At::Manager, ns, wrapper).await?;
    rig.until(At::Manager, ns, object, "suspended", |wrapper| {
        dispatched(wrapper)["reason"] == "Suspended"
    })
    .await?;
    let older = definition(rig, |spec| {
        without("managedBy")(spec);
        spec["x-kubernetes-preserve-unknown-fields"] = true.into();
    })
    .await?;
    let versions = json!({"spec": {"versions": older["spec"]["versions"]}});
    rig.patch(At::Manager, "", NAME, versions).await?;
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
