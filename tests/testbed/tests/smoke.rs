//! The test bed itself: what the other tests on real clusters stand on.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use portcullis_testbed::ledger::{GATE, LOCAL_UID};
use portcullis_testbed::{Cluster, ClusterOptions, Proxy, wait_for};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_cluster_from_start_to_end() {
    let cluster = Cluster::start(ClusterOptions::named("smoke"))
        .await
        .expect("the cluster starts");
    cluster
        .create_namespace("team", &[])
        .await
        .expect("create a namespace");

    a_pod_of_an_ordinary_namespace_runs(&cluster).await;
    the_directives_on_pods_work(&cluster).await;
    a_user_may_edit_his_own_namespace_only(&cluster).await;
    a_kubelet_may_create_its_mirror_pods(&cluster).await;
    admission_policies_are_served(&cluster).await;
    the_proxy_cuts_and_heals(&cluster).await;
    lost_answers_took_effect(&cluster).await;
    the_ledger_sees_openings_and_bindings(&cluster).await;
    an_api_server_comes_back_at_the_same_port(&cluster).await;
    a_cluster_comes_back_with_its_data(&cluster).await;

    let ids = cluster.process_ids();
    assert_eq!(ids.len(), 5);
    assert!(ids.iter().all(portcullis_testbed::ProcessId::is_running));
    let began = Instant::now();
    drop(cluster);
    eprintln!("ended after {:?}", began.elapsed());
    assert!(
        !ids.iter().any(portcullis_testbed::ProcessId::is_running),
        "{ids:?}"
    );
}

async fn a_pod_of_an_ordinary_namespace_runs(cluster: &Cluster) {
    let pods = admin_pods(cluster).await;
    pods.create(&PostParams::default(), &pod("control", &json!({})))
        .await
        .expect("create the control pod");
    let control = cluster
        .await_phase("team", "control", "Running", SOON)
        .await
        .expect("the control pod runs");
    let node = control
        .spec
        .and_then(|spec| spec.node_name)
        .expect("it has a node");
    assert!(cluster.nodes().contains(&node), "{node}");
}

async fn the_directives_on_pods_work(cluster: &Cluster) {
    let pods = admin_pods(cluster).await;
    let annotated = |name: &str, annotations: Value| pod(name, &json!({"annotations": annotations}));
    for pod in [
        annotated("completes", json!({"kwok.test/end": "complete"})),
        annotated("fails", json!({"kwok.test/end": "fail"})),
        annotated("held", json!({"kwok.test/hold": "ImagePullBackOff"})),
        annotated("slow-start", json!({"kwok.test/start-after": "3s"})),
        annotated("slow-end", json!({"kwok.test/terminate-after": "4s"})),
    ] {
        pods.create(&PostParams::default(), &pod).await.expect("create");
    }
    cluster
        .await_phase("team", "completes", "Succeeded", SOON)
        .await
        .expect("it completes");
    cluster
        .await_phase("team", "fails", "Failed", SOON)
        .await
        .expect("it fails");
    cluster
        .await_phase("team", "slow-end", "Running", SOON)
        .await
        .expect("it runs");

    let reason = |pod: &Pod| {
        let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
        statuses.first()?.state.as_ref()?.waiting.as_ref()?.reason.clone()
    };
    wait_for("slow-start to wait", SOON, async || {
        Ok::<_, kube::Error>(reason(&pods.get("slow-start").await?))
    })
    .await
    .expect("its containers are being created");
    let held = wait_for("held to wait", SOON, async || {
        Ok::<_, kube::Error>(reason(&pods.get("held").await?))
    })
    .await;
    assert_eq!(held.expect("it waits"), "ImagePullBackOff");
    annotate(&pods, "held", json!({"kwok.test/hold": null})).await;
    cluster
        .await_phase("team", "held", "Running", SOON)
        .await
        .expect("the hold is over");
    cluster
        .await_phase("team", "slow-start", "Running", SOON)
        .await
        .expect("it has started");

    let ready = async |expected: &str| {
        wait_for(&format!("held to be Ready={expected}"), SOON, async || {
            let pod = pods.get("held").await?;
            let conditions = pod
                .status
                .and_then(|status| status.conditions)
                .unwrap_or_default();
            let now = conditions
                .into_iter()
                .find(|condition| condition.type_ == "Ready");
            Ok::<_, kube::Error>(now.filter(|condition| condition.status == expected))
        })
        .await
        .expect("readiness follows the annotation");
    };
    annotate(&pods, "held", json!({"kwok.test/unready": "true"})).await;
    ready("False").await;
    annotate(&pods, "held", json!({"kwok.test/unready": null})).await;
    ready("True").await;

    let asked = Instant::now();
    pods.delete("slow-end", &DeleteParams::default())
        .await
        .expect("delete");
    annotate(&pods, "slow-end", json!({"another": "event"})).await;
    wait_for("slow-end to be gone", SOON, async || {
        Ok::<_, kube::Error>(pods.get_opt("slow-end").await?.is_none().then_some(()))
    })
    .await
    .expect("it ends");
    assert!(
        asked.elapsed() > Duration::from_millis(2900),
        "it ended after {:?}",
        asked.elapsed()
    );
}

async fn a_user_may_edit_his_own_namespace_only(cluster: &Cluster) {
    cluster.grant_edit("alice", "team").await.expect("bind edit");
    let alice = cluster.client_for("alice").await.expect("a client");
    let own: Api<Pod> = Api::namespaced(alice.clone(), "team");
    wait_for("alice to be allowed", SOON, async || {
        own.create(&PostParams::default(), &pod("of-alice", &json!({})))
            .await
            .map(Some)
    })
    .await
    .expect("alice creates pods in her namespace");
    let other: Api<Pod> = Api::namespaced(alice.clone(), "default");
    assert_eq!(
        code(
            other
                .create(&PostParams::default(), &pod("of-alice", &json!({})))
                .await
        ),
        403
    );
    let namespaces: Api<Namespace> = Api::all(alice);
    assert_eq!(
        code(namespaces.get("team").await.map(drop)),
        200,
        "edit may read its own namespace"
    );
    let label = Patch::Merge(json!({"metadata": {"labels": {"x": "y"}}}));
    assert_eq!(
        code(namespaces.patch("team", &PatchParams::default(), &label).await),
        403
    );
}

async fn a_kubelet_may_create_its_mirror_pods(cluster: &Cluster) {
    let node = cluster.nodes().remove(0);
    let kubelet = cluster
        .client_for(&format!("system:node:{node}"))
        .await
        .expect("a client");
    let pods: Api<Pod> = Api::namespaced(kubelet, "team");
    let mut mirror = pod(
        "static",
        &json!({"annotations": {"kubernetes.io/config.mirror": "hash"}}),
    );
    let uid = cluster
        .kubectl(&["get", "node", &node, "-o=jsonpath={.metadata.uid}"])
        .await
        .expect("the node");
    mirror.metadata.owner_references = serde_json::from_value(json!([
        {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": true}
    ]))
    .expect("owner references");
    assert_eq!(
        code(pods.create(&PostParams::default(), &mirror).await),
        403,
        "without nodeName"
    );
    mirror.spec.as_mut().expect("a spec").node_name = Some(node);
    pods.create(&PostParams::default(), &mirror)
        .await
        .expect("a kubelet creates its mirror pod");
}

async fn admission_policies_are_served(cluster: &Cluster) {
    let args = [
        "api-resources",
        "--api-group=admissionregistration.k8s.io",
        "--no-headers",
    ];
    let served = cluster.kubectl(&args).await.expect("api-resources");
    let stable = |kind: &str| {
        served
            .lines()
            .any(|line| line.starts_with(kind) && line.contains("admissionregistration.k8s.io/v1 "))
    };
    assert!(
        stable("mutatingadmissionpolicies ") && stable("validatingadmissionpolicies "),
        "{served}"
    );
}

async fn the_proxy_cuts_and_heals(cluster: &Cluster) {
    let proxy = Proxy::start(cluster.server()).expect("a proxy");
    let client = cluster
        .kubeconfig_for("admin")
        .via(proxy.address())
        .client()
        .await
        .expect("a client");
    let pods: Api<Pod> = Api::namespaced(client, "team");
    let answers = async |within: Duration| {
        tokio::time::timeout(within, pods.get("control"))
            .await
            .is_ok_and(|answer| answer.is_ok())
    };
    assert!(answers(SOON).await, "through the proxy");
    proxy.cut();
    assert!(!answers(SOON).await, "cut");
    proxy.pass();
    assert!(answers(SOON).await, "healed");
    proxy.pause();
    assert!(!answers(Duration::from_millis(500)).await, "paused");
    proxy.pass();
    assert!(answers(SOON).await, "healed again");
    proxy.slow(Duration::from_millis(200));
    let began = Instant::now();
    assert!(answers(SOON).await, "slow");
    assert!(
        began.elapsed() >= Duration::from_millis(400),
        "both ways: {:?}",
        began.elapsed()
    );
}

async fn lost_answers_took_effect(cluster: &Cluster) {
    let proxy = Proxy::start(cluster.server()).expect("a proxy");
    let client = cluster
        .kubeconfig_for("admin")
        .via(proxy.address())
        .client()
        .await
        .expect("a client");
    let through: Api<Pod> = Api::namespaced(client, "team");
    let straight = admin_pods(cluster).await;
    // On a new connection, then on one that is in use.
    for name in ["lost-first", "lost-later"] {
        proxy.lose_answers(1);
        let answer = through
            .create(&PostParams::default(), &pod(name, &json!({})))
            .await;
        assert!(answer.is_err(), "{name}: the answer was to be lost");
        straight.get(name).await.expect("the request took effect");
        through.get(name).await.expect("only one answer was lost");
    }
    assert_eq!(proxy.lost_answers(), 2);
}

async fn the_ledger_sees_openings_and_bindings(cluster: &Cluster) {
    let pods = admin_pods(cluster).await;
    let mut gated = pod("gated", &json!({"annotations": {LOCAL_UID: "uid-of-local"}}));
    gated.spec.as_mut().expect("a spec").scheduling_gates =
        serde_json::from_value(json!([{"name": "other"}, {"name": GATE}])).expect("gates");
    pods.create(&PostParams::default(), &gated).await.expect("create");
    let openings = || cluster.ledger().expect("the ledger").openings();
    assert_eq!(openings(), [], "it is still gated");

    let open = json!([
        {"op": "test", "path": "/spec/schedulingGates/1/name", "value": GATE},
        {"op": "remove", "path": "/spec/schedulingGates/1"},
    ]);
    let open = Patch::Json::<()>(serde_json::from_value(open).expect("a JSON patch"));
    let dry = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    pods.patch("gated", &dry, &open).await.expect("a dry run");
    assert_eq!(openings(), [], "a dry run opens nothing");
    let opened = pods
        .patch("gated", &PatchParams::default(), &open)
        .await
        .expect("open");
    annotate(&pods, "gated", json!({"another": "event"})).await;
    let rest = Patch::Merge(json!({"spec": {"schedulingGates": null}}));
    pods.patch("gated", &PatchParams::default(), &rest)
        .await
        .expect("the other gate");
    cluster
        .await_phase("team", "gated", "Running", SOON)
        .await
        .expect("it runs");

    let openings = openings();
    let [opening] = &openings[..] else {
        panic!("one opening: {openings:?}")
    };
    assert_eq!(Some(&opening.uid), opened.metadata.uid.as_ref());
    assert_eq!(
        (opening.user.as_str(), opening.local_uid.as_deref()),
        ("admin", Some("uid-of-local"))
    );
    let ledger = cluster.ledger().expect("the ledger");
    let bindings: Vec<_> = ledger
        .bindings()
        .into_iter()
        .filter(|binding| binding.uid == opening.uid)
        .collect();
    let [binding] = &bindings[..] else {
        panic!("one binding: {bindings:?}")
    };
    assert_eq!(binding.user, "system:kube-scheduler");
    assert_eq!(binding.local_uid.as_deref(), Some("uid-of-local"));
    assert!(
        ledger
            .pod_writes_by("kwok")
            .iter()
            .any(|write| write.resource == "pods/status")
    );
}

async fn an_api_server_comes_back_at_the_same_port(cluster: &Cluster) {
    use portcullis_testbed::Part;
    let pods = admin_pods(cluster).await;
    cluster.stop(Part::ApiServer).await;
    pods.get("control").await.expect_err("nobody listens");
    cluster.resume(Part::ApiServer).await.expect("it comes back");
    pods.get("control")
        .await
        .expect("same port, same certificate, same data");
}

async fn a_cluster_comes_back_with_its_data(cluster: &Cluster) {
    cluster.stop_all().await;
    assert_eq!(cluster.process_ids(), []);
    cluster.resume_all().await.expect("all come back");
    let pods = admin_pods(cluster).await;
    pods.get("control").await.expect("the data is there");
    pods.create(&PostParams::default(), &pod("after-all", &json!({})))
        .await
        .expect("create");
    cluster
        .await_phase("team", "after-all", "Running", SOON)
        .await
        .expect("and pods run again");
}

async fn admin_pods(cluster: &Cluster) -> Api<Pod> {
    Api::namespaced(cluster.admin_client().await.expect("a client"), "team")
}

async fn annotate(pods: &Api<Pod>, name: &str, annotations: Value) {
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    pods.patch(name, &PatchParams::default(), &patch)
        .await
        .expect("annotate");
}

fn pod(name: &str, metadata: &Value) -> Pod {
    let mut pod = json!({
        "metadata": metadata,
        "spec": {"containers": [{"name": "main", "image": "registry.example/main:1"}]},
    });
    pod["metadata"]["name"] = json!(name);
    serde_json::from_value(pod).expect("a pod")
}

fn code<T>(answer: kube::Result<T>) -> u16 {
    match answer {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("{error}"),
    }
}
