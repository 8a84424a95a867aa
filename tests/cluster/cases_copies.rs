//! What a worker gets: R13, R14, R15, R32, R65, R68, R97.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use portcullis_testbed::case;
use serde_json::{Value, json};

use crate::rig::{Case, Rig};
use crate::sides::{At, annotation, plain, pod, running, set, text, uid};

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_copy_has_no_owner_of_the_manager_and_is_made_once),
        case!(what_kueue_adds_on_the_manager_stays_there),
        case!(a_worker_gives_its_own_priority_and_a_missing_class_is_told),
        case!(fields_that_we_do_not_know_reach_the_worker),
        case!(the_same_deployment_on_the_worker_takes_no_copies),
        case!(ephemeral_containers_are_not_copied),
        case!(overhead_is_the_workers_own_and_a_missing_runtime_class_is_a_verdict),
    ]
}

/// R13. The owner must exist, or the manager's garbage collector would take the pod itself.
async fn a_copy_has_no_owner_of_the_manager_and_is_made_once(rig: Arc<Rig>) -> Result<()> {
    let ns = "r13";
    rig.opted_in(ns).await?;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}});
    let owner = rig.create(At::Manager, ns, owner).await?;
    let metadata = json!({
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid(&owner), "controller": true}],
        "finalizers": ["example.com/mine"], "labels": {"app": "x"}, "annotations": {"example.com/note": "kept"},
    });
    rig.create(At::Manager, ns, pod("one", metadata, json!({})))
        .await?;
    let local = rig.until_ready(ns, "one").await?;
    let remote = rig.seen(At::A, ns, "pod/one").await?;
    let space = rig.seen(At::A, "", "namespace/r13").await?;
    let owners = remote["metadata"]["ownerReferences"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    ensure!(
        owners.len() == 1 && owners[0]["uid"] == uid(&space).as_str(),
        "its owners are {owners:?}"
    );
    ensure!(
        remote["metadata"]["finalizers"].is_null(),
        "{}",
        remote["metadata"]
    );
    ensure!(uid(&remote) != uid(&local) && remote["metadata"]["labels"]["app"] == "x");
    ensure!(annotation(&remote, "example.com/note") == "kept");
    // Were it collected, it would be by now: a pod with an owner that never existed is.
    let invented = json!({"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "no", "uid": "b5b9a0e0-0000-4000-8000-000000000000"}]});
    let probe = rig.create(At::A, ns, pod("probe", invented, json!({}))).await?;
    rig.until_gone(At::A, ns, "pod/probe", &uid(&probe)).await?;
    ensure!(running(&rig.seen(At::A, ns, "pod/one").await?));
    ensure!(
        rig.created(At::A, ns)? == ["one", "probe"],
        "{:?}",
        rig.created(At::A, ns)?
    );
    rig.patch(
        At::Manager,
        ns,
        "pod/one",
        json!({"metadata": {"finalizers": ["portcullis.dev/remote-copy"]}}),
    )
    .await
    .map(drop)
}

/// R14. The snapshot only subtracts: what a user forges into it adds nothing.
async fn what_kueue_adds_on_the_manager_stays_there(rig: Arc<Rig>) -> Result<()> {
    let ns = "r14";
    rig.opted_in(ns).await?;
    rig.world.manager.grant_edit("alice", ns).await?;
    let forged = json!({
        "nodeSelector": {"pool": "forged", "type": "kwok"},
        "tolerations": [{"key": "forged", "operator": "Exists"}],
    });
    let forged = json!({"portcullis.dev/submitted": forged.to_string()});
    for (name, annotations) in [("honest", json!({})), ("forger", forged)] {
        let labels = json!({"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/managed": "true"});
        let spec = json!({
            "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}],
            "nodeSelector": {"type": "kwok"},
            "tolerations": [{"key": "mine", "operator": "Exists"}],
        });
        let made = pod(name, json!({"labels": labels, "annotations": annotations}), spec);
        let created = rig.create(At::Manager, ns, made).await?;
        let mut tolerations = created["spec"]["tolerations"].clone();
        tolerations
            .as_array_mut()
            .context("tolerations")?
            .push(json!({"key": "m-only", "operator": "Exists"}));
        let admit = json!({
            "metadata": {"labels": {"kueue.x-k8s.io/podset": "main"}, "annotations": {"kueue.x-k8s.io/workload": "w"}},
            "spec": {
                "schedulingGates": [{"name": "portcullis.dev/multikueue"}],
                "nodeSelector": {"pool": "m-only"},
                "tolerations": tolerations,
            },
        });
        let (object, admit) = (format!("pod/{name}"), admit.to_string());
        let patch = ["patch", "-n", ns, &object, "--type=merge", "-p", &admit];
        rig.world.manager.kubectl_with("alice", &patch, "").await?;
        rig.until_ready(ns, name).await?;
        let remote = rig.seen(At::A, ns, &object).await?;
        ensure!(
            remote["spec"]["nodeSelector"] == json!({"type": "kwok"}),
            "{}",
            remote["spec"]["nodeSelector"]
        );
        let tolerations = remote["spec"]["tolerations"].to_string();
        ensure!(
            !tolerations.contains("m-only") && !tolerations.contains("forged"),
            "{tolerations}"
        );
        ensure!(
            tolerations.contains("mine") == (name == "honest"),
            "{tolerations}"
        );
        ensure!(
            !remote["metadata"].to_string().contains("kueue.x-k8s.io"),
            "{}",
            remote["metadata"]
        );
    }
    Ok(())
}

/// R15.
async fn a_worker_gives_its_own_priority_and_a_missing_class_is_told(rig: Arc<Rig>) -> Result<()> {
    let ns = "r15";
    let class = |name: &str, value: i64, default: bool| json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value, "globalDefault": default});
    rig.create(At::A, "", class("r15-default", 1000, true)).await?;
    rig.create(At::Manager, "", class("r15-here", 7, false)).await?;
    rig.opted_in_to(
        ns,
        json!({"clusters": ["worker-a"], "namespaces": {"create": true}}),
    )
    .await?;
    rig.create(At::Manager, ns, plain("one")).await?;
    rig.until_ready(ns, "one").await?;
    let remote = rig.seen(At::A, ns, "pod/one").await?;
    rig.delete(At::A, "", "priorityclass/r15-default").await?;
    ensure!(
        remote["spec"]["priority"] == 1000,
        "{}",
        remote["spec"]["priority"]
    );
    let before = rig.tries(At::A, ns)?;
    rig.create(
        At::Manager,
        ns,
        pod("missing", json!({}), json!({"priorityClassName": "r15-here"})),
    )
    .await?;
    let local = rig
        .until_dispatched(
            ns,
            "missing",
            "NoClusterTakesIt",
            "no PriorityClass with name r15-here",
        )
        .await?;
    rig.until_event(ns, "missing", "Forbidden", "worker-a: ").await?;
    ensure!(text(&local, "/status/phase") == "Pending");
    rig.create(At::A, "", class("r15-here", 9, false)).await?;
    rig.until_ready(ns, "missing").await?;
    let tries = rig.tries(At::A, ns)? - before;
    ensure!(tries <= 5, "{tries} tries are a hot retry");
    Ok(())
}

/// R32. Young and rare fields, none of which the code names on the way; the local pod is committed by patches.
async fn fields_that_we_do_not_know_reach_the_worker(rig: Arc<Rig>) -> Result<()> {
    let ns = "r32";
    rig.opted_in(ns).await?;
    let spec = json!({
        "resources": {"requests": {"cpu": "10m"}, "limits": {"cpu": "20m"}},
        "os": {"name": "linux"},
        "hostAliases": [{"ip": "10.1.2.3", "hostnames": ["x"]}],
        "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
        "containers": [{
            "name": "main", "image": "app:1",
            "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
            "lifecycle": {"stopSignal": "SIGUSR1"},
        }],
    });
    let created = rig.create(At::Manager, ns, pod("one", json!({}), spec)).await?;
    let local = rig.until_ready(ns, "one").await?;
    let remote = rig.seen(At::A, ns, "pod/one").await?;
    for field in ["resources", "os", "hostAliases", "dnsConfig", "containers"] {
        let strip = |pod: &Value| {
            let mut value = pod["spec"][field].clone();
            for container in value
                .as_array_mut()
                .into_iter()
                .flatten()
                .filter_map(Value::as_object_mut)
            {
                container.remove("volumeMounts");
            }
            value
        };
        ensure!(
            strip(&created) == strip(&local),
            "on the manager {field} became {}",
            local["spec"][field]
        );
        ensure!(
            strip(&created) == strip(&remote),
            "on the worker {field} is {}",
            remote["spec"][field]
        );
    }
    ensure!(
        !local["spec"]["resources"].is_null(),
        "the server knows the field"
    );
    Ok(())
}

/// R65.
async fn the_same_deployment_on_the_worker_takes_no_copies(rig: Arc<Rig>) -> Result<()> {
    let ns = "r65";
    rig.consenting(At::A, ns).await?;
    rig.opted_in(ns).await?;
    rig.create(At::Manager, ns, set("Deployment", 2, json!({})))
        .await?;
    rig.until(At::Manager, ns, "deployment/web", "2 ready", |web| {
        web["status"]["readyReplicas"] == 2
    })
    .await?;
    let copies: Vec<String> = rig.list(At::A, ns, "pods").await?.iter().map(uid).collect();
    rig.create(At::A, ns, set("Deployment", 1, json!({}))).await?;
    rig.until(At::A, ns, "deployment/web", "1 ready", |web| {
        web["status"]["readyReplicas"] == 1
    })
    .await?;
    let pods = rig.list(At::A, ns, "pods").await?;
    ensure!(pods.len() == 3 && copies.iter().all(|copy| pods.iter().any(|pod| uid(pod) == *copy)));
    rig.patch(At::A, ns, "deployment/web", json!({"spec": {"replicas": 0}}))
        .await?;
    let left = rig
        .until_list(At::A, ns, "pods", "the worker's own is gone", |pods| {
            pods.len() <= 2
        })
        .await?;
    ensure!(
        left.iter().all(|pod| copies.contains(&uid(pod)) && running(pod)),
        "copies were scaled away"
    );
    rig.until(At::Manager, ns, "deployment/web", "2 ready", |web| {
        web["status"]["readyReplicas"] == 2
    })
    .await
    .map(drop)
}

/// R68: `kubectl debug` on a pod that still waits.
async fn ephemeral_containers_are_not_copied(rig: Arc<Rig>) -> Result<()> {
    let ns = "r68";
    rig.opted_in(ns).await?;
    rig.create(
        At::Manager,
        ns,
        pod(
            "one",
            json!({}),
            json!({"schedulingGates": [{"name": "example.com/wait"}]}),
        ),
    )
    .await?;
    let debug = json!({"spec": {"ephemeralContainers": [{"name": "debugger", "image": "busybox"}]}});
    rig.patch(At::Manager, ns, "pod/one/ephemeralcontainers", debug)
        .await?;
    rig.patch(
        At::Manager,
        ns,
        "pod/one",
        json!({"spec": {"schedulingGates": [{"name": "portcullis.dev/multikueue"}]}}),
    )
    .await?;
    let local = rig.until_ready(ns, "one").await?;
    ensure!(local["spec"]["ephemeralContainers"][0]["name"] == "debugger");
    ensure!(rig.seen(At::A, ns, "pod/one").await?["spec"]["ephemeralContainers"].is_null());
    Ok(())
}

/// R97.
async fn overhead_is_the_workers_own_and_a_missing_runtime_class_is_a_verdict(rig: Arc<Rig>) -> Result<()> {
    let ns = "r97";
    for (at, cpu) in [(At::Manager, "100m"), (At::B, "250m")] {
        let class = json!({
            "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "r97"},
            "handler": "runc", "overhead": {"podFixed": {"cpu": cpu}},
        });
        rig.create(at, "", class).await?;
    }
    rig.opted_in(ns).await?;
    rig.create(
        At::Manager,
        ns,
        pod("one", json!({}), json!({"runtimeClassName": "r97"})),
    )
    .await?;
    let local = rig.until_ready(ns, "one").await?;
    ensure!(
        annotation(&local, "portcullis.dev/cluster") == "worker-b",
        "worker-a lacks the class"
    );
    let remote = rig.seen(At::B, ns, "pod/one").await?;
    ensure!(
        local["spec"]["overhead"]["cpu"] == "100m" && remote["spec"]["overhead"]["cpu"] == "250m",
        "{}",
        remote["spec"]["overhead"]
    );
    Ok(())
}
