//! What of an opted-in namespace stays on this cluster: by identity, or because the namespace allows it.

use anyhow::{Result, ensure};
use portcullis_testbed::wait_for;
use serde_json::{Value, json};

use super::checks;
use super::ground::{
    Ground, PATIENCE, Site, exempt, gate, has_gate, has_label, pod, refused, with, workload,
};

checks![
    a_forged_daemon_set_owner_is_no_way_around_the_gate,
    a_forged_mirror_annotation_is_no_way_around_the_gate,
    a_kubelet_shows_its_static_pods,
    an_exempt_pod_runs_here_where_the_namespace_allows_it,
    an_exempt_pod_is_gated_where_the_namespace_does_not_allow_it,
    a_pod_with_gate_and_exempt_counts_as_gated,
    a_daemon_set_is_refused_with_the_way_out,
    an_exempt_daemon_set_is_allowed_where_the_namespace_allows_it,
    a_daemon_set_from_before_the_opt_in_keeps_its_pods,
    a_pod_from_before_the_opt_in_is_left_alone,
    pods_of_other_namespaces_run_as_ever,
    pods_of_protected_namespaces_are_never_touched,
];

async fn a_forged_daemon_set_owner_is_no_way_around_the_gate(site: Site) -> Result<()> {
    let ground = site.opted_in("forged-owner").await?;
    let owner = json!([{
        "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "x", "controller": true,
        "uid": "11111111-1111-1111-1111-111111111111",
    }]);
    let made = ground
        .alice()
        .create("pods", &with(pod("one"), "/metadata/ownerReferences", owner))
        .await?;
    ensure!(has_gate(&made) && has_label(&made), "{made}");
    Ok(())
}

async fn a_forged_mirror_annotation_is_no_way_around_the_gate(site: Site) -> Result<()> {
    let ground = site.opted_in("forged-mirror").await?;
    let mirror = mirror(&ground, "static", "manager-0").await?;
    for actor in [ground.alice(), ground.admin()] {
        refused(actor.create("pods", &mirror).await, "remove spec.nodeName")?;
    }
    Ok(())
}

async fn a_kubelet_shows_its_static_pods(site: Site) -> Result<()> {
    let ground = site.opted_in("mirror").await?;
    ground.grant_pods("system:node:manager-0").await?;
    let mirror = mirror(&ground, "static", "manager-0").await?;
    let made = ground.kubelet("manager-0").create("pods", &mirror).await?;
    ensure!(
        !has_gate(&made) && made["metadata"].get("labels").is_none(),
        "{made}"
    );
    Ok(())
}

/// A static pod as its kubelet shows it.
async fn mirror(ground: &Ground, name: &str, node: &str) -> Result<Value> {
    let node_object = ground.admin().get("nodes", node).await?;
    let owner = json!([{
        "apiVersion": "v1", "kind": "Node", "name": node, "uid": node_object["metadata"]["uid"], "controller": true,
    }]);
    let manifest = with(
        pod(name),
        "/metadata/annotations",
        json!({"kubernetes.io/config.mirror": "abc"}),
    );
    let manifest = with(manifest, "/metadata/ownerReferences", owner);
    Ok(with(manifest, "/spec/nodeName", json!(node)))
}

async fn an_exempt_pod_runs_here_where_the_namespace_allows_it(site: Site) -> Result<()> {
    let ground = site.allowing_exempt("exempt").await?;
    let made = ground.alice().create("pods", &exempt("one")).await?;
    ensure!(!has_gate(&made) && !has_label(&made), "{made}");
    ground
        .await_object("the pod to run", "pods", "one", |pod| {
            pod["status"]["phase"] == "Running"
        })
        .await?;
    let other = with(
        pod("two"),
        "/metadata/labels",
        json!({"portcullis.dev/exempt": "yes"}),
    );
    ensure!(
        has_gate(&ground.alice().create("pods", &other).await?),
        "only the value true exempts"
    );
    Ok(())
}

async fn an_exempt_pod_is_gated_where_the_namespace_does_not_allow_it(site: Site) -> Result<()> {
    let ground = site.opted_in("exempt-in-vain").await?;
    let made = ground.alice().create("pods", &exempt("one")).await?;
    ensure!(has_gate(&made) && has_label(&made), "{made}");
    Ok(())
}

async fn a_pod_with_gate_and_exempt_counts_as_gated(site: Site) -> Result<()> {
    let ground = site.allowing_exempt("both").await?;
    let with_gate = with(exempt("one"), "/spec/schedulingGates", json!([gate()]));
    let with_label = with(
        exempt("two"),
        "/metadata/labels/portcullis.dev~1gated",
        json!("true"),
    );
    for manifest in [with_gate, with_label] {
        let made = ground.alice().create("pods", &manifest).await?;
        ensure!(has_gate(&made) && has_label(&made), "{made}");
    }
    Ok(())
}

async fn a_daemon_set_is_refused_with_the_way_out(site: Site) -> Result<()> {
    let ground = site.opted_in("daemon-set").await?;
    let exempt = with(
        workload("DaemonSet", "two"),
        "/metadata/labels",
        json!({"portcullis.dev/exempt": "true"}),
    );
    for actor in [ground.alice(), ground.admin()] {
        for manifest in [workload("DaemonSet", "one"), exempt.clone()] {
            let answer = actor.create("daemonsets", &manifest).await;
            refused(
                answer,
                "label it portcullis.dev/exempt=true where the namespace allows it",
            )?;
        }
    }
    Ok(())
}

async fn an_exempt_daemon_set_is_allowed_where_the_namespace_allows_it(site: Site) -> Result<()> {
    let ground = site.allowing_exempt("exempt-daemon-set").await?;
    refused(
        ground
            .alice()
            .create("daemonsets", &workload("DaemonSet", "no"))
            .await,
        "a DaemonSet puts its pods",
    )?;
    let labelled = with(
        workload("DaemonSet", "one"),
        "/metadata/labels",
        json!({"portcullis.dev/exempt": "true"}),
    );
    let label = "/spec/template/metadata/labels/portcullis.dev~1exempt";
    let template = with(workload("DaemonSet", "two"), label, json!("true"));
    for (name, manifest) in [("one", labelled), ("two", template)] {
        ground.alice().create("daemonsets", &manifest).await?;
        ground
            .await_object("its pods to run", "daemonsets", name, |set| {
                set["status"]["numberReady"] == 2
            })
            .await?;
    }
    Ok(())
}

async fn a_daemon_set_from_before_the_opt_in_keeps_its_pods(site: Site) -> Result<()> {
    let ground = site.plain("old-daemon-set").await?;
    ground
        .alice()
        .create("daemonsets", &workload("DaemonSet", "old"))
        .await?;
    let ready = |set: &Value| set["status"]["numberReady"] == 2;
    ground
        .await_object("its pods to run", "daemonsets", "old", ready)
        .await?;
    ground.opt_in().await?;
    let image = json!({"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}});
    refused(
        ground.alice().patch("daemonsets", "old", "", &image).await,
        "a DaemonSet puts its pods",
    )?;
    let label = json!({"metadata": {"labels": {"team": "a"}}});
    ground.alice().patch("daemonsets", "old", "", &label).await?;
    let before = ground.all("pods").await?;
    for pod in &before {
        ground
            .alice()
            .delete("pods", pod["metadata"]["name"].as_str().expect("a name"))
            .await?;
    }
    wait_for(
        "new pods by the controller, running and without the gate",
        PATIENCE,
        async || {
            let now = ground.all("pods").await?;
            let new = now.iter().filter(|pod| {
                before
                    .iter()
                    .all(|old| old["metadata"]["uid"] != pod["metadata"]["uid"])
            });
            let good = new
                .filter(|pod| !has_gate(pod) && pod["status"]["phase"] == "Running")
                .count();
            anyhow::Ok((good == 2).then_some(()))
        },
    )
    .await
}

async fn a_pod_from_before_the_opt_in_is_left_alone(site: Site) -> Result<()> {
    let ground = site.plain("old-pod").await?;
    ground.alice().create("pods", &pod("old")).await?;
    ground
        .await_object("the pod to run", "pods", "old", |pod| {
            pod["status"]["phase"] == "Running"
        })
        .await?;
    ground.opt_in().await?;
    let label = json!({"metadata": {"labels": {"team": "a"}}});
    let changed = ground.alice().patch("pods", "old", "", &label).await?;
    ensure!(!has_gate(&changed) && !has_label(&changed), "{changed}");
    let mark = json!({"metadata": {"labels": {"portcullis.dev/gated": "true"}}});
    refused(
        ground.alice().patch("pods", "old", "", &mark).await,
        "never changed after its creation",
    )
}

async fn pods_of_other_namespaces_run_as_ever(site: Site) -> Result<()> {
    let ground = site.plain("elsewhere").await?;
    let made = ground.alice().create("pods", &exempt("one")).await?;
    ensure!(!has_gate(&made), "{made}");
    ground
        .await_object("the pod to run", "pods", "one", |pod| {
            pod["status"]["phase"] == "Running"
        })
        .await?;
    let bound = with(pod("two"), "/spec/nodeName", json!("manager-0"));
    ground.alice().create("pods", &bound).await?;
    ground
        .alice()
        .create("daemonsets", &workload("DaemonSet", "three"))
        .await?;
    Ok(())
}

async fn pods_of_protected_namespaces_are_never_touched(site: Site) -> Result<()> {
    let ground = site.plain("protected").await?;
    for namespace in ["kube-system", "kube-node-lease", "portcullis-system"] {
        let manifest = pod(&site.name("guard-test"));
        let manifest = with(manifest, "/metadata/namespace", json!(namespace)).to_string();
        let manager = ground.manager();
        let args = [
            "create",
            "-f",
            "-",
            "-o",
            "jsonpath={.spec.schedulingGates}{.metadata.labels}",
        ];
        let answer = manager.kubectl_with("admin", &args, &manifest).await?;
        ensure!(answer.is_empty(), "{namespace}: {answer}");
    }
    Ok(())
}
