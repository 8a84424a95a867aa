//! Gates and the door: R01, R02, R16, R29, R30, R72.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use portcullis_testbed::{case, wait_for};
use serde_json::json;

use crate::rig::{Case, Rig};
use crate::sides::{At, annotation, ensure_refused, plain, pod, running, set, text, uid};

pub fn cases() -> Vec<Case> {
    vec![
        case!(kueues_gate_falls_and_ours_stays_while_the_pod_runs_on_a_worker),
        case!(gates_of_others_are_waited_for_and_never_copied),
        case!(a_template_with_a_node_is_warned_about_where_it_is_applied),
        case!(a_pod_with_a_node_is_refused_and_the_pods_of_an_older_daemon_set_go_on),
        case!(a_forged_commit_is_refused_and_the_other_pod_lives),
        case!(alone while_we_are_stopped_nothing_starts_no_gate_falls_and_the_rest_of_the_cluster_works),
    ]
}

const KGATE: &str = "kueue.x-k8s.io/admission";

/// R01. Kueue's move is played by a user who may edit pods.
async fn kueues_gate_falls_and_ours_stays_while_the_pod_runs_on_a_worker(rig: Arc<Rig>) -> Result<()> {
    let ns = "r01";
    rig.opted_in(ns).await?;
    rig.world.manager.grant_edit("alice", ns).await?;
    rig.create(
        At::Manager,
        ns,
        pod("one", json!({}), json!({"schedulingGates": [{"name": KGATE}]})),
    )
    .await?;
    rig.until_dispatched(ns, "one", "WaitingForGates", KGATE).await?;
    let gates = "[{\"name\":\"portcullis.dev/multikueue\"}]";
    let admit = format!("{{\"spec\":{{\"schedulingGates\":{gates}}}}}");
    rig.world
        .manager
        .kubectl_with(
            "alice",
            &["patch", "-n", ns, "pod/one", "--type=merge", "-p", &admit],
            "",
        )
        .await?;
    let local = rig.until_ready(ns, "one").await?;
    ensure!(
        local["spec"]["schedulingGates"] == json!([{"name": "portcullis.dev/multikueue"}]),
        "its gates are {}",
        local["spec"]["schedulingGates"]
    );
    ensure!(
        local["spec"]["nodeName"].is_null(),
        "it has no node on the manager"
    );
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "one"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "manager-0"},
    });
    ensure_refused(
        rig.post(At::Manager, ns, "pod/one/binding", binding).await,
        "schedulingGates",
    )?;
    ensure!(running(&rig.seen(At::A, ns, "pod/one").await?));
    Ok(())
}

/// R16, R87.
async fn gates_of_others_are_waited_for_and_never_copied(rig: Arc<Rig>) -> Result<()> {
    let ns = "r16";
    rig.opted_in(ns).await?;
    let gates = json!([{"name": KGATE}, {"name": "kueue.x-k8s.io/topology"}]);
    rig.create(
        At::Manager,
        ns,
        pod("one", json!({}), json!({"schedulingGates": gates})),
    )
    .await?;
    rig.until_dispatched(ns, "one", "WaitingForGates", "kueue.x-k8s.io/topology")
        .await?;
    let one_left = json!({"spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}, {"name": "portcullis.dev/multikueue"}]}});
    rig.patch(At::Manager, ns, "pod/one", one_left).await?;
    rig.until(At::Manager, ns, "pod/one", "waits for the last one only", |pod| {
        let message = crate::sides::dispatched(pod)["message"]
            .as_str()
            .unwrap_or_default();
        message.contains("topology") && !message.contains(KGATE)
    })
    .await?;
    ensure!(
        rig.created(At::A, ns)?.is_empty(),
        "no copy before the last gate fell (R87)"
    );
    rig.patch(
        At::Manager,
        ns,
        "pod/one",
        json!({"spec": {"schedulingGates": [{"name": "portcullis.dev/multikueue"}]}}),
    )
    .await?;
    rig.until_ready(ns, "one").await?;
    let remote = rig.seen(At::A, ns, "pod/one").await?;
    ensure!(
        remote["spec"]["schedulingGates"].is_null(),
        "the copy has gates {}",
        remote["spec"]["schedulingGates"]
    );
    Ok(())
}

/// R29. A DaemonSet that is older than the opt-in keeps its pods, new ones too.
async fn a_pod_with_a_node_is_refused_and_the_pods_of_an_older_daemon_set_go_on(rig: Arc<Rig>) -> Result<()> {
    let ns = "r29";
    rig.world.manager.create_namespace(ns, &[]).await?;
    let mut agents = set("DaemonSet", 0, json!({}));
    agents["spec"].as_object_mut().map(|spec| spec.remove("replicas"));
    rig.create(At::Manager, ns, agents).await?;
    let before = rig
        .until_list(At::Manager, ns, "pods", "two agents run", |pods| {
            pods.iter().filter(|pod| running(pod)).count() == 2
        })
        .await?;
    rig.patch(
        At::Manager,
        "",
        "namespace/r29",
        json!({"metadata": {"labels": {"portcullis.dev/dispatch": "default"}}}),
    )
    .await?;
    rig.await_gate(ns).await?;
    let bound = pod("bound", json!({}), json!({"nodeName": "manager-0"}));
    ensure_refused(rig.create(At::Manager, ns, bound).await, "remove spec.nodeName")?;
    let (name, old) = (text(&before[0], "/metadata/name"), uid(&before[0]));
    rig.delete(At::Manager, ns, &format!("pod/{name}")).await?;
    let agents = rig
        .until_list(
            At::Manager,
            ns,
            "pods",
            "the agent was replaced and runs",
            |pods| {
                pods.iter().all(|pod| uid(pod) != old) && pods.iter().filter(|pod| running(pod)).count() == 2
            },
        )
        .await?;
    ensure!(
        agents
            .iter()
            .all(|pod| pod["spec"]["schedulingGates"].is_null() && !text(pod, "/spec/nodeName").is_empty())
    );
    rig.create(At::Manager, ns, plain("one")).await?;
    rig.until_ready(ns, "one").await?;
    ensure!(
        rig.created(At::A, ns)? == ["one"],
        "only the pod without a node went to the worker"
    );
    Ok(())
}

/// R72.
async fn a_forged_commit_is_refused_and_the_other_pod_lives(rig: Arc<Rig>) -> Result<()> {
    let ns = "r72";
    rig.opted_in(ns).await?;
    rig.create(At::Manager, ns, plain("victim")).await?;
    let victim = rig.until_ready(ns, "victim").await?;
    let forged = json!({"annotations": {
        "portcullis.dev/cluster": annotation(&victim, "portcullis.dev/cluster"),
        "portcullis.dev/cluster-uid": annotation(&victim, "portcullis.dev/cluster-uid"),
        "portcullis.dev/remote-uid": annotation(&victim, "portcullis.dev/remote-uid"),
    }});
    ensure_refused(
        rig.create(At::Manager, ns, pod("thief", forged.clone(), json!({})))
            .await,
        "portcullis.dev/",
    )?;
    rig.create(At::Manager, ns, plain("thief")).await?;
    rig.until_ready(ns, "thief").await?;
    ensure_refused(
        rig.patch(At::Manager, ns, "pod/thief", json!({"metadata": forged}))
            .await,
        "portcullis.dev/",
    )?;
    rig.delete(At::Manager, ns, "pod/thief").await?;
    wait_for("the thief's copy to go", Duration::from_secs(60), async || {
        Ok::<_, anyhow::Error>(rig.find(At::A, ns, "pod/thief").await?.is_none().then_some(()))
    })
    .await?;
    ensure!(
        running(&rig.seen(At::A, ns, "pod/victim").await?),
        "the victim's copy runs on"
    );
    Ok(())
}

/// R02 with our process stopped, R30.
async fn while_we_are_stopped_nothing_starts_no_gate_falls_and_the_rest_of_the_cluster_works(
    rig: Arc<Rig>,
) -> Result<()> {
    let ns = "r30";
    rig.opted_in(ns).await?;
    rig.world.manager.grant_edit("alice", ns).await?;
    let mut portcullis = rig.portcullis.lock().await;
    portcullis.kill9();
    let manager = &rig.world.manager;
    manager
        .kubectl_with(
            "alice",
            &["create", "-n", ns, "-f", "-"],
            &crate::rig::pod("one", ""),
        )
        .await?;
    let ungate = [
        "patch",
        "-n",
        ns,
        "pod/one",
        "--type=json",
        "-p",
        "[{\"op\":\"remove\",\"path\":\"/spec/schedulingGates\"}]",
    ];
    ensure_refused(manager.kubectl_with("alice", &ungate, "").await, "gate")?;
    ensure_refused(manager.kubectl(&ungate).await, "gate")?;
    // The rest of the cluster, and what would heal us.
    for namespace in ["kube-system", "portcullis-system"] {
        rig.create(At::Manager, namespace, plain("heals")).await?;
        rig.until(At::Manager, namespace, "pod/heals", "Running", running)
            .await?;
        rig.kill(At::Manager, namespace, "pod/heals").await?;
    }
    let local = rig.seen(At::Manager, ns, "pod/one").await?;
    ensure!(
        local["spec"]["schedulingGates"][0]["name"] == "portcullis.dev/multikueue",
        "born gated without us"
    );
    portcullis.start().await?;
    drop(portcullis);
    rig.await_workers().await?;
    rig.until_ready(ns, "one").await?;
    Ok(())
}

/// Its pods would be refused one by one, which only its conditions and Events would tell.
async fn a_template_with_a_node_is_warned_about_where_it_is_applied(rig: Arc<Rig>) -> Result<()> {
    let ns = "node-in-template";
    rig.opted_in(ns).await?;
    let warning =
        "Warning: spec.template.spec.nodeName: pods of this namespace run on worker clusters; remove it";
    for kind in ["Deployment", "StatefulSet", "ReplicaSet"] {
        let manifest = set(kind, 1, json!({"spec": {"nodeName": "manager-0"}})).to_string();
        let apply = ["apply", "-n", ns, "-f", "-"];
        let (_, words) = rig
            .world
            .manager
            .kubectl_output("admin", &apply, &manifest)
            .await?;
        ensure!(words.trim() == warning, "{kind}: {words:?}");
    }
    Ok(())
}
