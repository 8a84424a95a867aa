//! What the manager shows: R03, R04, R24, R28, R49, R50, R53, R90, and the worker's own words.

use std::sync::Arc;

use anyhow::{Result, ensure};
use portcullis_testbed::case;
use serde_json::{Value, json};

use crate::rig::{Case, Rig};
use crate::sides::{
    At, US, annotation, condition, dispatched, plain, play, pod, running, terminating, text, uid,
};

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_pod_that_waits_on_the_worker_is_gated_here_and_scheduled_once_it_is_there),
        case!(a_worker_that_changes_the_quality_of_service_still_has_its_status_mirrored),
        case!(addresses_are_kept_back_unless_the_policy_shows_them),
        case!(a_steady_pair_is_not_written_to),
        case!(conditions_of_the_manager_survive_the_mirror),
        case!(restart_counts_never_go_down),
        case!(the_objects_tell_where_a_pod_runs),
        case!(the_last_warning_of_the_worker_is_told),
    ]
}

/// R03, R04.
async fn a_pod_that_waits_on_the_worker_is_gated_here_and_scheduled_once_it_is_there(
    rig: Arc<Rig>,
) -> Result<()> {
    let ns = "r03";
    rig.opted_in(ns).await?;
    rig.create(
        At::Manager,
        ns,
        pod("one", json!({}), json!({"nodeSelector": {"case": "r03"}})),
    )
    .await?;
    let local = rig
        .until_dispatched(ns, "one", "WaitingOnWorker", "Unschedulable")
        .await?;
    ensure!(text(&local, "/status/phase") == "Pending");
    ensure!(condition(&local, "PodScheduled")["reason"] == "SchedulingGated");
    let conditions = local["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    ensure!(
        conditions
            .iter()
            .all(|condition| condition["reason"] != "Unschedulable"),
        "an autoscaler would buy nodes"
    );
    rig.patch(
        At::A,
        "",
        "node/worker-a-0",
        json!({"metadata": {"labels": {"case": "r03"}}}),
    )
    .await?;
    let local = rig.until_ready(ns, "one").await?;
    ensure!(
        condition(&local, "PodScheduled")["status"] == "True"
            && condition(&local, "PodScheduled")["reason"].is_null()
    );
    ensure!(
        local["spec"]["schedulingGates"][0]["name"] == "portcullis.dev/multikueue",
        "the gate stays in the spec"
    );
    rig.patch(At::A, ns, "pod/one", play("unready", "true")).await?;
    let local = rig
        .until(At::Manager, ns, "pod/one", "not ready", |pod| {
            condition(pod, "Ready")["status"] == "False"
        })
        .await?;
    ensure!(
        condition(&local, "PodScheduled")["status"] == "True",
        "it never flips back"
    );
    Ok(())
}

/// R24.
async fn a_worker_that_changes_the_quality_of_service_still_has_its_status_mirrored(
    rig: Arc<Rig>,
) -> Result<()> {
    let ns = "r24";
    rig.consenting(At::A, ns).await?;
    let limits = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "all"}, "spec": {"limits": [
        {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"}},
    ]}});
    rig.create(At::A, ns, limits).await?;
    rig.opted_in(ns).await?;
    rig.create(At::Manager, ns, plain("one")).await?;
    let local = rig.until_ready(ns, "one").await?;
    ensure!(text(&local, "/status/qosClass") == "BestEffort");
    ensure!(text(&rig.seen(At::A, ns, "pod/one").await?, "/status/qosClass") == "Burstable");
    Ok(())
}

/// R28.
async fn addresses_are_kept_back_unless_the_policy_shows_them(rig: Arc<Rig>) -> Result<()> {
    for (ns, shown) in [("r28", false), ("r28-shown", true)] {
        rig.opted_in_to(
            ns,
            json!({"clusters": ["worker-a"], "namespaces": {"create": true}, "mirrorPodIPs": shown}),
        )
        .await?;
        if !shown {
            let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {
                "selector": {"app": "web"}, "ports": [{"port": 80}], "publishNotReadyAddresses": true,
            }});
            rig.create(At::Manager, ns, service).await?;
        }
        rig.create(
            At::Manager,
            ns,
            pod("one", json!({"labels": {"app": "web"}}), json!({})),
        )
        .await?;
        let local = rig.until_ready(ns, "one").await?;
        let remote = rig.seen(At::A, ns, "pod/one").await?;
        ensure!(
            !text(&remote, "/status/podIP").is_empty(),
            "the copy has an address"
        );
        let expected = if shown {
            remote["status"]["podIP"].clone()
        } else {
            Value::Null
        };
        ensure!(
            local["status"]["podIP"] == expected,
            "shown is {}",
            local["status"]["podIP"]
        );
    }
    let slices = rig
        .until_list(At::Manager, "r28", "endpointslices", "one", |slices| {
            slices.len() == 1
        })
        .await?;
    ensure!(
        slices[0]["endpoints"].as_array().is_none_or(Vec::is_empty),
        "it has endpoints {}",
        slices[0]["endpoints"]
    );
    let log = rig.world.manager.folder().join("kube-controller-manager.log");
    let errors = std::fs::read_to_string(log)?
        .lines()
        .filter(|line| line.contains("r28/web") && line.contains("rror"))
        .count();
    ensure!(errors < 3, "the Service controller complains {errors} times");
    Ok(())
}

/// R49. A change of the copy that nobody mirrors is the awaited event: our turn came and wrote nothing.
async fn a_steady_pair_is_not_written_to(rig: Arc<Rig>) -> Result<()> {
    let ns = "r49";
    rig.opted_in(ns).await?;
    rig.create(At::Manager, ns, plain("one")).await?;
    let local = rig.until_ready(ns, "one").await?;
    let ours = |rig: &Rig| -> Result<usize> {
        let mut count = 0;
        for at in [At::Manager, At::A] {
            count += rig
                .writes(at, ns)?
                .iter()
                .filter(|write| write.user == US && write.name == "one")
                .count();
        }
        Ok(count)
    };
    let before = ours(&rig)?;
    for round in 0..3 {
        rig.patch(
            At::A,
            ns,
            "pod/one",
            json!({"metadata": {"labels": {"round": format!("{round}")}}}),
        )
        .await?;
        rig.patch(
            At::Manager,
            ns,
            "pod/one",
            json!({"metadata": {"labels": {"round": format!("{round}")}}}),
        )
        .await?;
    }
    let other = format!("later-{}", &uid(&local)[..4]);
    rig.create(At::Manager, ns, plain(&other)).await?;
    rig.until_ready(ns, &other).await?;
    ensure!(ours(&rig)? == before, "{} writes, {before} before", ours(&rig)?);
    Ok(())
}

/// R50.
async fn conditions_of_the_manager_survive_the_mirror(rig: Arc<Rig>) -> Result<()> {
    let ns = "r50";
    rig.opted_in(ns).await?;
    rig.create(At::Manager, ns, plain("one")).await?;
    rig.until_ready(ns, "one").await?;
    let mut conditions = rig.seen(At::Manager, ns, "pod/one").await?["status"]["conditions"].clone();
    conditions
        .as_array_mut()
        .expect("a list")
        .push(json!({"type": "example.com/mine", "status": "True"}));
    rig.patch(
        At::Manager,
        ns,
        "pod/one/status",
        json!({"status": {"conditions": conditions}}),
    )
    .await?;
    rig.patch(At::A, ns, "pod/one", play("terminate-after", "8s"))
        .await?;
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "one"}});
    rig.post(At::Manager, ns, "pod/one/eviction", eviction).await?;
    rig.until_dispatched(ns, "one", "Terminating", "worker-a").await?;
    rig.until(At::A, ns, "pod/one", "terminating", terminating)
        .await?;
    let local = rig.seen(At::Manager, ns, "pod/one").await?;
    ensure!(
        condition(&local, "DisruptionTarget")["status"] == "True",
        "{}",
        local["status"]["conditions"]
    );
    ensure!(
        condition(&local, "example.com/mine")["status"] == "True",
        "{}",
        local["status"]["conditions"]
    );
    rig.until_gone(At::Manager, ns, "pod/one", &uid(&local)).await
}

/// R53. The one remote pod of a local pod restarts; a smaller count is an old or restored view.
async fn restart_counts_never_go_down(rig: Arc<Rig>) -> Result<()> {
    let ns = "r53";
    rig.opted_in(ns).await?;
    rig.create(At::Manager, ns, plain("one")).await?;
    rig.until_ready(ns, "one").await?;
    for (count, image) in [(3, "app:1"), (0, "app:later")] {
        let mut statuses = rig.seen(At::A, ns, "pod/one").await?["status"]["containerStatuses"].clone();
        statuses[0]["restartCount"] = count.into();
        statuses[0]["image"] = image.into();
        rig.patch(
            At::A,
            ns,
            "pod/one/status",
            json!({"status": {"containerStatuses": statuses}}),
        )
        .await?;
        rig.until(At::Manager, ns, "pod/one", "three restarts", |pod| {
            let status = &pod["status"]["containerStatuses"][0];
            status["restartCount"] == 3 && status["image"] == image
        })
        .await?;
    }
    Ok(())
}

/// R90.
async fn the_objects_tell_where_a_pod_runs(rig: Arc<Rig>) -> Result<()> {
    let ns = "r90";
    rig.opted_in(ns).await?;
    rig.create(At::Manager, ns, plain("one")).await?;
    let local = rig.until_ready(ns, "one").await?;
    let remote = rig.seen(At::A, ns, "pod/one").await?;
    ensure!(annotation(&local, "portcullis.dev/cluster") == "worker-a");
    ensure!(annotation(&local, "portcullis.dev/remote-uid") == format!("{}/{}", uid(&local), uid(&remote)));
    ensure!(annotation(&local, "portcullis.dev/remote-node") == text(&remote, "/spec/nodeName"));
    ensure!(
        dispatched(&local)["message"]
            .as_str()
            .unwrap_or_default()
            .starts_with("on worker-a, node worker-a-")
    );
    ensure!(remote["metadata"]["labels"]["portcullis.dev/origin"] == rig.origin().await?.as_str());
    ensure!(annotation(&remote, "portcullis.dev/local-name") == "r90/one");
    let cluster = rig.seen(At::Manager, "", "workercluster/worker-a").await?;
    ensure!(condition(&cluster, "Connected")["status"] == "True");
    let (_, metrics) = rig.portcullis.lock().await.get("/metrics").await?;
    ensure!(
        metrics.contains("copies_opened_total{resource=\"pods\"}") && metrics.contains("step=\"commit\""),
        "{metrics}"
    );
    Ok(())
}

/// Design section 5: `Dispatched` names what is missing. KWOK writes no such Events, so this plays the kubelet.
async fn the_last_warning_of_the_worker_is_told(rig: Arc<Rig>) -> Result<()> {
    let ns = "words";
    rig.opted_in(ns).await?;
    let annotations = json!({"annotations": {"kwok.test/hold": "true"}});
    rig.create(At::Manager, ns, pod("one", annotations, json!({})))
        .await?;
    let remote = rig
        .until(At::A, ns, "pod/one", "being made", |pod| {
            !pod["status"]["containerStatuses"].is_null()
        })
        .await?;
    let event = |uid: &str, second: u32, words: &str| {
        json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("one.{second}{}", &uid[..3])},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": ns, "name": "one", "uid": uid},
            "type": "Warning", "reason": "FailedMount", "message": words, "count": 1,
            "firstTimestamp": format!("2026-01-01T00:00:0{second}Z"), "lastTimestamp": format!("2026-01-01T00:00:0{second}Z"),
            "source": {"component": "kubelet"},
        })
    };
    rig.create(
        At::A,
        ns,
        event(&uid(&remote), 2, "configmap \"settings\" not found"),
    )
    .await?;
    rig.create(At::A, ns, event(&uid(&remote), 1, "an older one"))
        .await?;
    rig.create(
        At::A,
        ns,
        event("00000000-0000-0000-0000-000000000000", 3, "of another pod"),
    )
    .await?;
    rig.until_dispatched(
        ns,
        "one",
        "Scheduled",
        "FailedMount: configmap \"settings\" not found",
    )
    .await?;
    rig.patch(
        At::A,
        ns,
        "pod/one",
        json!({"metadata": {"annotations": {"kwok.test/hold": null}}}),
    )
    .await?;
    let local = rig.until_ready(ns, "one").await?;
    ensure!(running(&local));
    rig.until_dispatched(ns, "one", "Scheduled", "on worker-a, node ")
        .await?;
    Ok(())
}
