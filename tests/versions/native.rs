//! Native groups in the form of this release: a Job of the built-in controller runs as a gang of its scheduler.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use portcullis_testbed::{KubeVersion, wait_for};
use serde_json::{Value, json};

use crate::case;
use crate::rig::{Case, Rig, SOON, batch};

pub fn cases() -> Vec<Case> {
    vec![
        case!(the_pods_of_a_job_are_born_in_its_group_and_start),
        case!(with_a_node_missing_no_pod_is_bound_and_with_it_all_are),
        case!(a_resumed_job_has_a_group_of_its_own),
        case!(what_is_over_leaves_no_group),
        case!(a_job_made_while_portcullis_is_down_does_not_start_without_its_group).only(KubeVersion::V1_36),
        case!(without_inject_no_job_and_no_gang_pod_is_made_while_portcullis_is_down)
            .only(KubeVersion::V1_35),
    ]
}

const RUNNING: &str = "{.status.phase}";
/// The group of a pod, in the field of each release.
const OF_GROUP: &str =
    "{.spec.workloadRef.name} {.spec.workloadRef.podGroup} {.spec.schedulingGroup.podGroupName}";

/// What the one group of a job says: its object, its size and whom it names as the owner.
async fn group(rig: &Rig, namespace: &str) -> Result<(String, Value)> {
    let kinds = match rig.version {
        KubeVersion::V1_35 => "workloads.scheduling.k8s.io",
        KubeVersion::V1_36 | KubeVersion::V1_37 => "podgroups.scheduling.k8s.io",
    };
    let text = rig.kubectl(&["get", kinds, "-n", namespace, "-o=json"]).await?;
    let list: Value = serde_json::from_str(&text)?;
    let [object] = &list["items"].as_array().context("a list")?[..] else {
        anyhow::bail!("not one group: {text}");
    };
    let name = object["metadata"]["name"].as_str().context("a name")?;
    Ok((name.to_owned(), object.clone()))
}

/// What pods in the group say under [`OF_GROUP`].
fn named(rig: &Rig, group: &str) -> String {
    match rig.version {
        KubeVersion::V1_35 => format!("{group} gang "),
        KubeVersion::V1_36 | KubeVersion::V1_37 => format!("  {group}"),
    }
}

async fn the_pods_of_a_job_are_born_in_its_group_and_start(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("born").await?;
    rig.create("born", &batch("job", 3, "1")).await?;
    rig.await_pods("born", RUNNING, &["Running"; 3]).await?;
    let (name, object) = group(&rig, "born").await?;
    let named = named(&rig, &name);
    rig.await_pods("born", OF_GROUP, &[named.as_str(); 3]).await?;
    let uid = rig.get("born", "job/job", "{.metadata.uid}").await?;
    let owner = &object["metadata"]["ownerReferences"][0];
    ensure!(owner["uid"] == uid, "{owner}");
    let spec = &object["spec"];
    match rig.version {
        KubeVersion::V1_35 => {
            let expected = json!({
                "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "job"},
                "podGroups": [{"name": "gang", "policy": {"gang": {"minCount": 3}}}],
            });
            ensure!(*spec == expected, "{spec}");
        }
        KubeVersion::V1_36 | KubeVersion::V1_37 => {
            ensure!(spec["schedulingPolicy"]["gang"]["minCount"] == 3, "{spec}");
            let reference = &spec["podGroupTemplateRef"]["workload"];
            let expected = json!({"workloadName": "job", "podGroupTemplateName": "gang"});
            ensure!(*reference == expected, "{spec}");
        }
    }
    Ok(())
}

async fn with_a_node_missing_no_pod_is_bound_and_with_it_all_are(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("room").await?;
    let missing = rig.manager().nodes().pop().context("a node")?;
    rig.kubectl(&["cordon", &missing]).await?;
    rig.create("room", &batch("large", 4, "10")).await?;
    // Some of them would fit: the scheduler has had its turns when a job that came later runs.
    rig.await_pods("room", RUNNING, &["Pending"; 4]).await?;
    rig.ganged("later").await?;
    rig.create("later", &batch("small", 2, "1")).await?;
    rig.await_pods("later", RUNNING, &["Running"; 2]).await?;
    rig.await_pods("room", "{.spec.nodeName}", &[""; 4]).await?;
    rig.kubectl(&["uncordon", &missing]).await?;
    rig.await_pods("room", RUNNING, &["Running"; 4]).await
}

async fn a_resumed_job_has_a_group_of_its_own(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("again").await?;
    rig.create("again", &batch("job", 2, "1")).await?;
    rig.await_pods("again", RUNNING, &["Running"; 2]).await?;
    let (_, first) = group(&rig, "again").await?;
    let suspend = |value: bool| format!(r#"{{"spec":{{"suspend":{value}}}}}"#);
    for value in [true, false] {
        let args = [
            "patch",
            "job",
            "job",
            "-n=again",
            "--type=merge",
            "-p",
            &suspend(value),
        ];
        rig.kubectl(&args).await?;
        let pods: &[&str] = if value { &[] } else { &["Running"; 2] };
        rig.await_pods("again", RUNNING, pods).await?;
    }
    let (name, second) = wait_for("the first group to go", SOON, async || {
        group(&rig, "again").await.map(Some)
    })
    .await?;
    let uid = |group: &Value| group["metadata"]["uid"].clone();
    ensure!(uid(&first) != uid(&second), "{first} again");
    let named = named(&rig, &name);
    rig.await_pods("again", OF_GROUP, &[named.as_str(); 2]).await
}

async fn what_is_over_leaves_no_group(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("over").await?;
    rig.create("over", &batch("job", 2, "1")).await?;
    rig.await_pods("over", RUNNING, &["Running"; 2]).await?;
    rig.kubectl(&["annotate", "pods", "-n=over", "--all", "kwok.test/end=complete"])
        .await?;
    rig.await_value("over", "job/job", "{.status.succeeded}", "2")
        .await?;
    let kinds = match rig.version {
        KubeVersion::V1_35 => "workloads.scheduling.k8s.io",
        KubeVersion::V1_36 | KubeVersion::V1_37 => "workloads.scheduling.k8s.io,podgroups.scheduling.k8s.io",
    };
    wait_for("its objects to go", SOON, async || {
        let left = rig.kubectl(&["get", kinds, "-n=over", "-o=name"]).await?;
        left.is_empty().then_some(Some(())).context(left)
    })
    .await
}

async fn a_job_made_while_portcullis_is_down_does_not_start_without_its_group(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("held").await?;
    let mut portcullis = rig.portcullis.lock().await;
    portcullis.sigterm(Duration::from_secs(20)).await?;
    rig.create("held", &batch("job", 2, "1")).await?;
    let held = r"{.spec.suspend} {.metadata.annotations.portcullis\.dev/held}";
    let found = rig.get("held", "job/job", held).await?;
    ensure!(found == "true true", "{found}");
    portcullis.start().await?;
    drop(portcullis);
    rig.await_pods("held", RUNNING, &["Running"; 2]).await?;
    let (name, _) = group(&rig, "held").await?;
    let named = named(&rig, &name);
    rig.await_pods("held", OF_GROUP, &[named.as_str(); 2]).await
}

/// The field of a pod cannot be added later, and its name is another one before 1.36: also the first pod after a start has
/// the right one.
async fn without_inject_no_job_and_no_gang_pod_is_made_while_portcullis_is_down(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("shut").await?;
    rig.create("shut", &batch("job", 2, "1")).await?;
    rig.await_pods("shut", RUNNING, &["Running"; 2]).await?;
    let (name, _) = group(&rig, "shut").await?;
    let mut portcullis = rig.portcullis.lock().await;
    portcullis.sigterm(Duration::from_secs(20)).await?;
    let refused = rig.refusal("shut", &batch("other", 2, "1")).await?;
    ensure!(refused.contains("failed calling webhook"), "{refused}");
    let pods = rig.kubectl(&["get", "pods", "-n=shut", "-o=name"]).await?;
    let one = pods.lines().next().context("a pod")?;
    rig.kubectl(&["delete", one, "-n=shut"]).await?;
    rig.await_event("shut", "FailedCreate").await?;
    portcullis.start().await?;
    drop(portcullis);
    rig.await_pods("shut", RUNNING, &["Running"; 2]).await?;
    let named = named(&rig, &name);
    rig.await_pods("shut", OF_GROUP, &[named.as_str(); 2]).await
}
