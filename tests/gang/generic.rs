//! Kinds without a schedulingPolicy, which ask by annotation.

use std::sync::Arc;

use anyhow::{Result, ensure};
use portcullis_testbed::case;
use serde_json::{Value, json};

use crate::jobs::{batch, job_set, with};
use crate::rig::{Case, Rig};

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_batch_job_is_a_gang_of_coscheduling),
        case!(a_batch_job_is_a_native_gang),
        case!(a_job_set_is_a_gang_of_either),
        case!(a_batch_job_that_does_not_ask_is_left_alone),
    ]
}

const OF_GROUP: &str = r"{.metadata.labels.scheduling\.x-k8s\.io/pod-group} {.spec.schedulerName}";
const OF_NATIVE: &str = "{.spec.schedulingGroup.podGroupName}";

fn of(job: &str) -> String {
    format!("batch.kubernetes.io/job-name={job}")
}

/// All pods say the same, which is not nothing.
async fn one(rig: &Rig, namespace: &str, selector: &str, path: &str) -> Result<String> {
    let mut said = rig.of_pods(namespace, selector, path).await?;
    said.dedup();
    ensure!(said.len() == 1 && !said[0].is_empty(), "{said:?}");
    Ok(said.remove(0))
}

async fn a_batch_job_is_a_gang_of_coscheduling(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("bco", "coscheduling").await?;
    rig.create(&batch("bco", "job", 3, "1")).await?;
    rig.await_selected("bco", &of("job"), 3).await?;
    let said = one(&rig, "bco", &of("job"), OF_GROUP).await?;
    ensure!(said == "job coscheduling", "{said}");
    let group = "podgroups.scheduling.x-k8s.io/job";
    rig.await_value("bco", group, "{.spec.minMember} {.spec.minResources.cpu}", "3 3")
        .await?;
    rig.end_pods("bco", &of("job")).await?;
    rig.await_condition("bco", "job/job", "Complete").await?;
    rig.await_gone("bco", group).await
}

async fn a_batch_job_is_a_native_gang(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("bna", "native").await?;
    rig.create(&batch("bna", "job", 3, "1")).await?;
    rig.await_selected("bna", &of("job"), 3).await?;
    let name = one(&rig, "bna", &of("job"), OF_NATIVE).await?;
    let group = format!("podgroups.scheduling.k8s.io/{name}");
    rig.await_value("bna", &group, "{.spec.schedulingPolicy.gang.minCount}", "3")
        .await?;
    rig.end_pods("bna", &of("job")).await?;
    rig.await_condition("bna", "job/job", "Complete").await?;
    rig.await_gone("bna", &group).await
}

async fn a_job_set_is_a_gang_of_either(rig: Arc<Rig>) -> Result<()> {
    rig.cluster().start_jobset().await?;
    let pods = "jobset.sigs.k8s.io/jobset-name=set";
    rig.ganged("sco", "coscheduling").await?;
    let set = job_set("sco", "set", 2, "1");
    rig.would_be_held(&set).await?; // for a moment after a CRD came, policies do not know the kind and refuse it
    rig.create(&set).await?;
    rig.await_selected("sco", pods, 4).await?;
    let said = one(&rig, "sco", pods, OF_GROUP).await?;
    ensure!(said == "set coscheduling", "{said}");
    let group = "podgroups.scheduling.x-k8s.io/set";
    rig.await_value("sco", group, "{.spec.minMember} {.spec.minResources.cpu}", "4 4")
        .await?;
    rig.end_pods("sco", pods).await?;
    rig.await_condition("sco", "jobset/set", "Completed").await?;
    rig.await_gone("sco", group).await?;

    rig.ganged("sna", "native").await?;
    rig.create(&job_set("sna", "set", 2, "1")).await?;
    rig.await_selected("sna", pods, 4).await?;
    let name = one(&rig, "sna", pods, OF_NATIVE).await?;
    let group = format!("podgroups.scheduling.k8s.io/{name}");
    rig.await_value("sna", &group, "{.spec.schedulingPolicy.gang.minCount}", "4")
        .await
}

async fn a_batch_job_that_does_not_ask_is_left_alone(rig: Arc<Rig>) -> Result<()> {
    for (namespace, back_end) in [("pco", "coscheduling"), ("pna", "native")] {
        rig.ganged(namespace, back_end).await?;
        let unasked = json!({"metadata": {"annotations": Value::Null}});
        rig.create(&with(batch(namespace, "plain", 2, "1"), &unasked))
            .await?;
        rig.await_selected(namespace, &of("plain"), 2).await?;
        let path =
            r"{.metadata.labels.portcullis\.dev/pod-group}{.spec.schedulingGroup}{.spec.schedulerName}";
        let said = one(&rig, namespace, &of("plain"), path).await?;
        ensure!(said == "default-scheduler", "{said}");
        let writes = rig.our_writes(namespace)?;
        ensure!(writes.is_empty(), "{writes:?}");
    }
    Ok(())
}
