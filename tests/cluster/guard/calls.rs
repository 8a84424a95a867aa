//! When the API server calls the webhook at all (A6): counted while nobody answers, as calls that were let pass.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use portcullis_testbed::wait_for;
use serde_json::{Value, json};

use super::ground::{Ground, PATIENCE, Site, job, pod, with, workload};
use crate::rig::{Case, Rig};

pub fn cases() -> Vec<Case> {
    vec![Case {
        name: "guard::calls::the_webhook_is_called_only_where_it_has_work",
        alone: true,
        limit: Duration::from_secs(180),
        run: |rig| Box::pin(the_webhook_is_called_only_where_it_has_work(rig)),
    }]
}

async fn the_webhook_is_called_only_where_it_has_work(rig: Arc<Rig>) -> Result<()> {
    let mut portcullis = rig.portcullis.lock().await;
    portcullis.sigterm(Duration::from_secs(20)).await?;
    let result = counted(rig.clone()).await;
    portcullis.start().await?;
    result
}

/// How many calls failed open so far: of the webhook for pods, and of the one for templates.
async fn calls(ground: &Ground) -> Result<[u64; 2]> {
    let metrics = ground.manager().kubectl(&["get", "--raw", "/metrics"]).await?;
    let count = |name| count(&metrics, name);
    Ok([count("pods.portcullis.dev")?, count("templates.portcullis.dev")?])
}

/// As [`calls`], of the webhook for jobs that are dispatched whole.
async fn calls_of_jobs(ground: &Ground) -> Result<u64> {
    let metrics = ground.manager().kubectl(&["get", "--raw", "/metrics"]).await?;
    count(&metrics, "dispatched-jobs.portcullis.dev")
}

fn count(metrics: &str, name: &str) -> Result<u64> {
    let label = format!("name=\"{name}\"");
    let lines = metrics
        .lines()
        .filter(|line| line.starts_with("apiserver_admission_webhook_fail_open_count{"));
    let found = lines
        .filter(|line| line.contains(&label))
        .filter_map(|line| line.rsplit(' ').next());
    found.map(|value| Ok(value.parse::<u64>()?)).sum()
}

async fn counted(rig: Arc<Rig>) -> Result<()> {
    let site = Site::alone(rig);
    let ground = site.opted_in("calls").await?;
    let other = site.plain("calls-elsewhere").await?;
    let alice = ground.alice();
    let before = calls(&ground).await?;
    let jobs_before = calls_of_jobs(&ground).await?;
    let expect = async |what: &str, pods: u64, templates: u64| {
        let now = calls(&ground).await?;
        let made = [now[0] - before[0], now[1] - before[1]];
        ensure!(
            made == [pods, templates],
            "after {what}: {made:?} calls, not {:?}",
            [pods, templates]
        );
        anyhow::Ok(())
    };

    alice.create("pods", &pod("one")).await?;
    expect("a user's pod", 1, 0).await?;
    alice
        .patch("pods", "one", "", &json!({"metadata": {"labels": {"a": "b"}}}))
        .await?;
    ground
        .admin()
        .patch("pods", "one", "status", &json!({"status": {"message": "x"}}))
        .await?;
    alice.delete("pods", "one").await?;
    expect("changes and the end of a pod", 1, 0).await?;
    let bound = with(pod("bound"), "/spec/nodeName", json!("manager-0"));
    ensure!(
        alice.create("pods", &bound).await.is_err(),
        "refused by the guard"
    );
    other.alice().create("pods", &pod("elsewhere")).await?;
    expect("pods that are refused or none of ours", 1, 0).await?;

    let manifest = with(
        workload("Deployment", "web"),
        "/metadata/finalizers",
        json!(["example.com/x"]),
    );
    alice.create("deployments", &manifest).await?;
    expect("a Deployment", 1, 1).await?;
    wait_for("its pods", PATIENCE, async || {
        anyhow::Ok((ground.all("pods").await?.len() >= 2).then_some(()))
    })
    .await?;
    expect("its ReplicaSet and its pods, which are born gated", 1, 1).await?;
    alice.replace("deployments", "web", "", &manifest).await?;
    alice
        .patch("deployments", "web", "scale", &json!({"spec": {"replicas": 1}}))
        .await?;
    alice
        .patch(
            "deployments",
            "web",
            "",
            &json!({"metadata": {"labels": {"a": "b"}}}),
        )
        .await?;
    expect("an unchanged template, restored by inject", 1, 1).await?;
    let image =
        json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "app:2"}]);
    alice.patch("deployments", "web", "", &image).await?;
    expect("a changed template", 1, 2).await?;
    alice.delete("deployments", "web").await?;
    let bare = json!([{"op": "remove", "path": "/spec/template/spec/schedulingGates"}]);
    alice.patch("deployments", "web", "", &bare).await?;
    alice
        .patch(
            "deployments",
            "web",
            "",
            &json!({"metadata": {"finalizers": null}}),
        )
        .await?;
    expect("a Deployment that goes", 1, 2).await?;

    for (name, labels) in [
        ("held", json!({"app": "held", "kueue.x-k8s.io/queue-name": "q"})),
        ("plain", json!({"app": "plain"})),
    ] {
        let set = with(workload("StatefulSet", name), "/spec/replicas", json!(1));
        alice
            .create(
                "statefulsets",
                &with(set, "/spec/template/metadata/labels", labels),
            )
            .await?;
    }
    wait_for("the pods of both sets", PATIENCE, async || {
        let pods = ground.all("pods").await?;
        let of_sets = |pod: &&Value| {
            ["held", "plain"]
                .map(Value::from)
                .contains(&pod["metadata"]["labels"]["app"])
        };
        anyhow::Ok((pods.iter().filter(of_sets).count() == 2).then_some(()))
    })
    .await?;
    expect("a pod that Kueue will edit, and one that it will not", 2, 4).await?;

    alice.create("jobs", &job("one")).await?;
    alice
        .patch("jobs", "one", "", &json!({"spec": {"parallelism": 3}}))
        .await?;
    alice.delete("jobs", "one").await?;
    other.alice().create("jobs", &job("elsewhere")).await?;
    expect("a Job, whose maker may need a warning", 2, 4).await?;
    ensure!(
        calls_of_jobs(&ground).await? - jobs_before == 1,
        "a Job is asked about when it is created"
    );
    Ok(())
}
