//! Bad input: each gives a sentence, nothing crashes, others go on.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use portcullis_testbed::case;
use serde_json::{Value, json};

use crate::rig::{Case, Rig};
use crate::sides::{At, US, annotation, condition, ensure_refused, plain, pod, text};

pub fn cases() -> Vec<Case> {
    vec![
        case!(each_unsafe_kubeconfig_is_refused_with_its_own_reason),
        case!(a_missing_secret_is_told_and_found_when_it_comes),
        case!(two_worker_clusters_of_one_cluster_do_not_fight),
        case!(a_policy_of_unknown_clusters_says_so_and_so_do_its_pods),
        case!(a_namespace_that_names_no_policy_is_told),
        case!(what_does_not_fit_on_a_pod_is_told_and_goes_on_when_there_is_room),
        case!(alone an_object_that_cannot_be_read_stops_nothing_else),
    ]
}

/// R77 on the object.
async fn each_unsafe_kubeconfig_is_refused_with_its_own_reason(rig: Arc<Rig>) -> Result<()> {
    let secret = rig
        .seen(At::Manager, "portcullis-system", "secret/worker-b")
        .await?;
    let good = String::from_utf8(base64::Engine::decode(
        &base64::prelude::BASE64_STANDARD,
        text(&secret, "/data/kubeconfig"),
    )?)?;
    let token = good
        .lines()
        .find(|line| line.trim_start().starts_with("token:"))
        .unwrap_or_default()
        .to_owned();
    let instead = |user: &str| good.replace(&token, &format!("    {user}"));
    let authority = good
        .lines()
        .find(|line| line.contains("certificate-authority-data"))
        .unwrap_or_default()
        .to_owned();
    let cases = [
        (
            "exec",
            instead("exec: {command: aws, apiVersion: client.authentication.k8s.io/v1}"),
            "UnsafeKubeconfig",
            "exec is set",
        ),
        (
            "token-file",
            instead("tokenFile: /var/run/secret"),
            "UnsafeKubeconfig",
            "tokenFile is set",
        ),
        (
            "http",
            good.replace("https://", "http://"),
            "UnsafeKubeconfig",
            "only https:// is used",
        ),
        (
            "insecure",
            good.replace(&authority, "    insecure-skip-tls-verify: true"),
            "UnsafeKubeconfig",
            "insecure-skip-tls-verify is set",
        ),
        (
            "ca-file",
            good.replace(&authority, "    certificate-authority: /etc/ca.crt"),
            "UnsafeKubeconfig",
            "certificate-authority is set",
        ),
        (
            "garbage",
            "{no kubeconfig".to_owned(),
            "UnusableKubeconfig",
            "cannot be read",
        ),
        (
            "stale-token",
            instead("token: nobody"),
            "Unauthorized",
            "put a new one into the Secret",
        ),
        (
            "nowhere",
            good.replace("127.0.0.1:", "127.0.0.9:"),
            "Unreachable",
            "",
        ),
    ];
    for (name, kubeconfig, _, _) in &cases {
        rig.register(&format!("bad-{name}"), kubeconfig).await?;
    }
    for (name, _, reason, words) in &cases {
        let name = format!("bad-{name}");
        let cluster = rig.until_cluster(&name, reason, words).await?;
        let text = cluster.to_string();
        let secret = token.trim().trim_start_matches("token: ");
        ensure!(
            !text.contains(secret) && !text.contains("no kubeconfig"),
            "a secret is told: {text}"
        );
    }
    rig.opted_in("bad-kubeconfigs").await?;
    rig.create(At::Manager, "bad-kubeconfigs", plain("one")).await?;
    rig.until_ready("bad-kubeconfigs", "one").await?;
    for (name, _, _, _) in &cases {
        rig.unregister(&format!("bad-{name}")).await?;
    }
    Ok(())
}

async fn a_missing_secret_is_told_and_found_when_it_comes(rig: Arc<Rig>) -> Result<()> {
    let cluster = json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": "WorkerCluster", "metadata": {"name": "bad-secret"},
        "spec": {"kubeconfigSecretRef": {"name": "bad-secret", "key": "config"}},
    });
    rig.create(At::Manager, "", cluster).await?;
    rig.until_cluster("bad-secret", "SecretNotFound", "\"bad-secret\"")
        .await?;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bad-secret"}, "stringData": {"other": "x"}});
    rig.create(At::Manager, "portcullis-system", secret).await?;
    rig.until_cluster("bad-secret", "SecretKeyNotFound", "no key \"config\"")
        .await?;
    let patch = json!({"stringData": {"config": "apiVersion: v1\nkind: Config\ncurrent-context: x\n"}});
    rig.patch(At::Manager, "portcullis-system", "secret/bad-secret", patch)
        .await?;
    rig.until_cluster("bad-secret", "UnusableKubeconfig", "names no context")
        .await?;
    rig.unregister("bad-secret").await
}

/// They would take each other's copies for strays.
async fn two_worker_clusters_of_one_cluster_do_not_fight(rig: Arc<Rig>) -> Result<()> {
    let ns = "twins";
    let secret = rig
        .seen(At::Manager, "portcullis-system", "secret/worker-b")
        .await?;
    let good = base64::Engine::decode(
        &base64::prelude::BASE64_STANDARD,
        text(&secret, "/data/kubeconfig"),
    )?;
    rig.register("worker-b-twin", &String::from_utf8(good)?).await?;
    rig.until_cluster("worker-b-twin", "DuplicateCluster", "WorkerCluster worker-b")
        .await?;
    rig.opted_in_to(
        ns,
        json!({"clusters": ["worker-b-twin", "worker-b"], "namespaces": {"create": true}}),
    )
    .await?;
    for number in 0..5 {
        rig.create(At::Manager, ns, plain(&format!("pod-{number}")))
            .await?;
    }
    for number in 0..5 {
        let local = rig.until_ready(ns, &format!("pod-{number}")).await?;
        ensure!(annotation(&local, "portcullis.dev/cluster") == "worker-b");
    }
    ensure!(
        rig.created(At::B, ns)?.len() == 5,
        "{:?}",
        rig.created(At::B, ns)?
    );
    rig.unregister("worker-b-twin").await
}

async fn a_policy_of_unknown_clusters_says_so_and_so_do_its_pods(rig: Arc<Rig>) -> Result<()> {
    let ns = "unknown-cluster";
    rig.opted_in_to(
        ns,
        json!({"clusters": ["nowhere"], "namespaces": {"create": true}}),
    )
    .await?;
    rig.until(
        At::Manager,
        "",
        "dispatchpolicy/unknown-cluster",
        "NoUsableCluster",
        |policy| {
            let ready = condition(policy, "Ready");
            ready["reason"] == "NoUsableCluster"
                && ready["message"]
                    .as_str()
                    .unwrap_or_default()
                    .contains("no WorkerCluster nowhere")
        },
    )
    .await?;
    rig.create(At::Manager, ns, plain("one")).await?;
    rig.until_dispatched(
        ns,
        "one",
        "NoClusterTakesIt",
        "there is no WorkerCluster \"nowhere\"",
    )
    .await?;
    rig.patch(
        At::Manager,
        "",
        "dispatchpolicy/unknown-cluster",
        json!({"spec": {"clusters": ["nowhere", "worker-b"]}}),
    )
    .await?;
    let local = rig.until_ready(ns, "one").await?;
    ensure!(annotation(&local, "portcullis.dev/cluster") == "worker-b");
    rig.until(
        At::Manager,
        "",
        "dispatchpolicy/unknown-cluster",
        "Degraded",
        |policy| {
            condition(policy, "Ready")["reason"] == "Degraded"
                && policy["status"]["clusters"][0]["reason"] == "ClusterNotFound"
        },
    )
    .await?;
    // What the schema itself refuses, with a sentence.
    ensure_refused(
        rig.policy("bad-empty", json!({"clusters": []})).await,
        "spec.clusters",
    )?;
    ensure_refused(
        rig.policy(
            "bad-duration",
            json!({"clusters": ["a"], "unschedulableAfter": "soon"}),
        )
        .await,
        "write a number and a unit",
    )?;
    ensure_refused(
        rig.policy("bad-strategy", json!({"clusters": ["a"], "strategy": "Random"}))
            .await,
        "Ordered",
    )
}

async fn a_namespace_that_names_no_policy_is_told(rig: Arc<Rig>) -> Result<()> {
    let ns = "no-policy";
    rig.world
        .manager
        .create_namespace(
            ns,
            &[
                ("portcullis.dev/dispatch", "nosuch"),
                ("portcullis.dev/allow-exempt", "TRUE"),
            ],
        )
        .await?;
    rig.await_gate(ns).await?;
    rig.create(At::Manager, ns, plain("one")).await?;
    rig.until_dispatched(
        ns,
        "one",
        "PolicyNotFound",
        "\"nosuch\", which does not exist; create it or change the label",
    )
    .await?;
    rig.until_list(
        At::Manager,
        "default",
        "events",
        "those about the labels of the namespace",
        |events| {
            let told = |words: &str| {
                events.iter().any(|event| {
                    text(event, "/involvedObject/name") == ns && text(event, "/message").contains(words)
                })
            };
            told("names a DispatchPolicy that does not exist")
                && told("metadata.labels[portcullis.dev/allow-exempt]: found \"TRUE\", allowed is \"true\"")
        },
    )
    .await?;
    rig.policy(
        "nosuch",
        json!({"clusters": ["worker-a"], "namespaces": {"create": true}}),
    )
    .await?;
    rig.until_ready(ns, "one").await.map(drop)
}

/// The schema refuses what we cannot read; so it is made lax for a moment, as an older version of it may have been.
async fn an_object_that_cannot_be_read_stops_nothing_else(rig: Arc<Rig>) -> Result<()> {
    let ns = "broken-object";
    rig.opted_in(ns).await?;
    let crd = "customresourcedefinition/workerclusters.portcullis.dev";
    let held = rig.seen(At::Manager, "", crd).await?;
    let mut lax = held["spec"]["versions"].clone();
    lax[0]["schema"] =
        json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    rig.patch(At::Manager, "", crd, json!({"spec": {"versions": lax}}))
        .await?;
    let broken = |name: &str| {
        json!({
            "apiVersion": "portcullis.dev/v1alpha1", "kind": "WorkerCluster", "metadata": {"name": name},
            "spec": {"kubeconfigSecretRef": 7},
        })
    };
    // The lax schema is in force a moment later.
    portcullis_testbed::wait_for(
        "the broken object to be let in",
        crate::sides::PATIENCE,
        async || rig.create(At::Manager, "", broken("broken-one")).await.map(Some),
    )
    .await?;
    rig.until_list(At::Manager, "default", "events", "one about it", |events| {
        events.iter().any(|event| {
            text(event, "/involvedObject/name") == "broken-one" && text(event, "/reason") == "Unreadable"
        })
    })
    .await?;
    rig.create(At::Manager, ns, plain("one")).await?;
    rig.until_ready(ns, "one").await?;
    // Also as part of the list at a start.
    rig.restart().await?;
    rig.create(At::Manager, ns, plain("two")).await?;
    rig.until_ready(ns, "two").await?;
    rig.delete(At::Manager, "", "workercluster/broken-one").await?;
    let versions: &Value = &held["spec"]["versions"];
    rig.patch(At::Manager, "", crd, json!({"spec": {"versions": versions}}))
        .await?;
    rig.await_workers().await
}

/// An object's annotations together weigh 256 KiB at most. Of these two pods the first has no room for the commit, the
/// second none for the name of its node.
async fn what_does_not_fit_on_a_pod_is_told_and_goes_on_when_there_is_room(rig: Arc<Rig>) -> Result<()> {
    const NOT_COPIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let ns = "full";
    rig.opted_in(ns).await?;
    let began = Instant::now();
    let cases = [("commit", 100), ("node", 200)];
    for (name, room) in cases {
        let weight = 256 * 1024 - NOT_COPIED.len() - room;
        let metadata = json!({"annotations": {NOT_COPIED: "x".repeat(weight)}});
        rig.create(At::Manager, ns, pod(name, metadata, json!({})))
            .await?;
    }
    for (name, _) in cases {
        rig.until_dispatched(ns, name, "WriteRefused", "metadata.annotations: Too long")
            .await?;
        rig.until_event(ns, name, "WriteRefused", "metadata.annotations: Too long")
            .await?;
        let mine = |line: &&str| {
            let path = format!("\"requestURI\":\"/api/v1/namespaces/{ns}/pods/{name}");
            line.contains(&path) && line.contains(US) && line.contains("\"code\":422")
        };
        let log = std::fs::read_to_string(rig.cluster(At::Manager).folder().join("audit.log"))?;
        let tries = log.lines().filter(mine).count();
        ensure!(
            tries > 0 && tries as u64 <= began.elapsed().as_secs() + 2,
            "{name}: refused {tries} times"
        );
        let smaller = json!({"metadata": {"annotations": {NOT_COPIED: null}}});
        rig.patch(At::Manager, ns, &format!("pod/{name}"), smaller)
            .await?;
        rig.until_ready(ns, name).await?;
    }
    Ok(())
}
