//! The layers as this release takes them: what is gated, what is refused, with portcullis up and down.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use portcullis_testbed::KubeVersion;
use serde_json::{Value, json};

use crate::case;
use crate::rig::{Case, Rig, US, pod};

pub fn cases() -> Vec<Case> {
    vec![
        case!(the_layers_stand_as_rendered_and_a_restart_writes_none_of_them),
        case!(the_guard_keeps_gates_and_labels),
        case!(without_inject_the_webhook_gates_and_what_it_misses_is_refused).only(KubeVersion::V1_35),
        case!(with_inject_pods_are_gated_also_while_portcullis_is_down).only(KubeVersion::V1_36),
    ]
}

const GATES: &str = "{.spec.schedulingGates[*].name}";
const GATE: &str = "portcullis.dev/multikueue";

async fn the_layers_stand_as_rendered_and_a_restart_writes_none_of_them(rig: Arc<Rig>) -> Result<()> {
    let mut portcullis = rig.portcullis.lock().await;
    let layers = || -> Result<Vec<String>> {
        let ledger = rig.manager().ledger()?;
        let writes = ledger.writes_by(US).into_iter();
        Ok(writes
            .filter(|write| write.group == "admissionregistration.k8s.io")
            .map(|write| format!("{} {} {}", write.verb, write.resource, write.name))
            .collect())
    };
    let before = layers()?;
    portcullis.sigterm(Duration::from_secs(20)).await?;
    portcullis.start().await?;
    let (_, ready) = portcullis.get("/readyz").await?;
    ensure!(ready.contains("as rendered"), "{ready}");
    let after = layers()?;
    ensure!(after == before, "{:?}", &after[before.len()..]);
    // The CA, once.
    ensure!(
        before == ["patch mutatingwebhookconfigurations portcullis"],
        "{before:?}"
    );
    Ok(())
}

async fn the_guard_keeps_gates_and_labels(rig: Arc<Rig>) -> Result<()> {
    rig.opted_in("guarded").await?;
    // One that no policy of placement takes away while we look at it.
    let mut object = pod("plain");
    object["spec"]["nodeSelector"] = json!({"no": "node"});
    rig.create("guarded", &object).await?;
    for (what, patch) in [
        ("the gate", json!({"spec": {"schedulingGates": null}})),
        (
            "the label",
            json!({"metadata": {"labels": {"portcullis.dev/gated": null}}}),
        ),
        (
            "a key of the reconciler",
            json!({"metadata": {"annotations": {"portcullis.dev/remote-uid": "a/b"}}}),
        ),
    ] {
        let patch = patch.to_string();
        let args = [
            "patch",
            "pod",
            "plain",
            "-n=guarded",
            "--type=merge",
            "-p",
            &patch,
        ];
        match rig.kubectl(&args).await {
            Ok(answer) => anyhow::bail!("{what} could be changed: {answer}"),
            Err(error) => ensure!(format!("{error:#}").contains("portcullis"), "{error:#}"),
        }
    }
    let mut object = pod("bound");
    object["spec"]["nodeName"] = json!(rig.manager().nodes().first());
    let refused = rig.refusal("guarded", &object).await?;
    ensure!(refused.contains("nodeName"), "{refused}");
    // Whoever may label namespaces, but use no policy, opts none in.
    rig.manager().grant_edit("alice", "guarded").await?;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "labels"},
        "rules": [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["*"]}],
    });
    rig.create("default", &role).await?;
    rig.kubectl(&[
        "create",
        "clusterrolebinding",
        "labels",
        "--clusterrole=labels",
        "--user=alice",
    ])
    .await?;
    let label = ["label", "namespace", "default", "portcullis.dev/dispatch=default"];
    match rig.manager().kubectl_with("alice", &label, "").await {
        Ok(answer) => anyhow::bail!("she could: {answer}"),
        Err(error) => ensure!(format!("{error:#}").contains("use"), "{error:#}"),
    }
    Ok(())
}

async fn without_inject_the_webhook_gates_and_what_it_misses_is_refused(rig: Arc<Rig>) -> Result<()> {
    rig.opted_in("closed").await?;
    rig.create("closed", &pod("up")).await?;
    ensure!(rig.get("closed", "pod/up", GATES).await? == GATE);
    rig.create("closed", &deployment("up")).await?;
    let of_template = format!("{{.spec.template{}", GATES.trim_start_matches('{'));
    let gates = rig.get("closed", "deployment/up", &of_template).await?;
    ensure!(gates == GATE, "{gates}");

    let mut portcullis = rig.portcullis.lock().await;
    portcullis.sigterm(Duration::from_secs(20)).await?;
    for object in [pod("down"), deployment("down")] {
        let refused = rig.refusal("closed", &object).await?;
        ensure!(refused.contains("failed calling webhook"), "{refused}");
    }
    // Others go on.
    rig.create("default", &pod("other")).await?;
    rig.kubectl(&["delete", "pod", "other", "-n=default", "--wait=false"])
        .await?;
    rig.kubectl(&["scale", "deployment", "up", "-n=closed", "--replicas=2"])
        .await?;
    portcullis.start().await?;
    drop(portcullis);
    // What was refused meanwhile comes by itself.
    rig.await_value("closed", "deployment/up", "{.status.replicas}", "2")
        .await?;
    let gates = rig.of_pods("closed", GATES).await?;
    ensure!(gates.iter().all(|gates| gates == GATE), "{gates:?}");
    Ok(())
}

async fn with_inject_pods_are_gated_also_while_portcullis_is_down(rig: Arc<Rig>) -> Result<()> {
    rig.opted_in("injected").await?;
    let mut portcullis = rig.portcullis.lock().await;
    portcullis.sigterm(Duration::from_secs(20)).await?;
    rig.create("injected", &pod("down")).await?;
    rig.create("injected", &deployment("down")).await?;
    rig.await_pods("injected", GATES, &[GATE, GATE]).await?;
    portcullis.start().await?;
    Ok(())
}

fn deployment(name: &str) -> Value {
    let mut template = pod("");
    template["metadata"] = json!({"labels": {"app": name}});
    for key in ["apiVersion", "kind"] {
        template.as_object_mut().expect("an object").remove(key);
    }
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template},
    })
}
