//! How much is written, and that kills at any moment lose nothing.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use portcullis_testbed::{case, wait_for};
use serde_json::json;

use crate::jobs::{mpi, pytorch, template, with};
use crate::rig::{Case, Rig, SOON};

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_job_of_coscheduling_costs_two_writes_and_then_none),
        case!(a_job_starts_whenever_the_process_is_killed),
        case!(a_held_job_is_released_when_its_namespace_is_no_gangs_any_more),
        case!(a_group_that_cannot_be_made_ends_the_hold_in_time),
        case!(a_namespace_that_is_dispatched_has_no_gangs),
    ]
}

const GROUP: &str = "podgroups.scheduling.x-k8s.io";
const OURS: &str = "portcullis.dev/multikueue";
/// In this time nothing is written.
const QUIET: Duration = Duration::from_secs(15);

async fn a_job_of_coscheduling_costs_two_writes_and_then_none(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("quiet", "coscheduling").await?;
    rig.ganged("nquiet", "native").await?;
    rig.create(&mpi("quiet", "job", 3, "1")).await?;
    rig.create(&mpi("nquiet", "job", 3, "1")).await?;
    rig.create(&pytorch("quiet", "torch", 2, "1")).await?;
    for (namespace, name, pods) in [("quiet", "job", 4), ("nquiet", "job", 4), ("quiet", "torch", 3)] {
        rig.await_running(namespace, name, pods).await?;
    }
    let mut writes = rig.our_writes("quiet")?;
    writes.sort();
    let expected = [
        "patch mpijobs.kubeflow.org job",
        "patch podgroups.scheduling.x-k8s.io job",
        "patch podgroups.scheduling.x-k8s.io torch",
        "patch pytorchjobs.kubeflow.org torch",
    ];
    ensure!(writes == expected, "{writes:#?}");
    let all = |rig: &Rig| anyhow::Ok([rig.our_writes("quiet")?, rig.our_writes("nquiet")?].concat());
    let before = all(&rig)?;
    let began = std::time::Instant::now();
    wait_for("a quiet time", QUIET + SOON, async || {
        let now = all(&rig)?;
        ensure!(now == before, "written at rest: {now:#?}");
        Ok((began.elapsed() > QUIET).then_some(()))
    })
    .await
}

/// The moments are spread over the second in which a job gets its group and starts.
async fn a_job_starts_whenever_the_process_is_killed(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("kill", "coscheduling").await?;
    rig.ganged("nkill", "native").await?;
    for moment in 0..8_u64 {
        let (namespace, name) = (["kill", "nkill"][(moment % 2) as usize], format!("job{moment}"));
        rig.create(&mpi(namespace, &name, 1, "1")).await?;
        tokio::time::sleep(Duration::from_millis(moment * 60)).await;
        let mut portcullis = rig.portcullis.lock().await;
        portcullis.kill9();
        portcullis.start().await?;
    }
    for moment in 0..8_u64 {
        let (namespace, name) = (["kill", "nkill"][(moment % 2) as usize], format!("job{moment}"));
        rig.await_running(namespace, &name, 2).await?;
    }
    for (namespace, group) in [("kill", GROUP), ("nkill", "podgroups.scheduling.k8s.io")] {
        let args = [
            "get",
            group,
            "-n",
            namespace,
            "-o=jsonpath={.items[*].metadata.ownerReferences[0].name}",
        ];
        let text = rig.kubectl(&args).await?;
        let mut owners: Vec<&str> = text.split(' ').collect();
        owners.sort_unstable();
        owners.dedup();
        ensure!(owners.len() == 4 && text.split(' ').count() == 4, "{owners:?}");
        let held = rig
            .kubectl(&["get", "mpijobs", "-n", namespace, "-o=yaml"])
            .await?;
        ensure!(!held.contains("portcullis.dev/held"), "a hold is left");
    }
    Ok(())
}

async fn a_held_job_is_released_when_its_namespace_is_no_gangs_any_more(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("label", "coscheduling").await?;
    rig.portcullis.lock().await.kill9();
    rig.create(&mpi("label", "job", 1, "1")).await?;
    rig.must_be_held("label", "mpijob/job").await?;
    rig.kubectl(&["label", "namespace", "label", "portcullis.dev/gang-"])
        .await?;
    rig.portcullis.lock().await.start().await?;
    rig.await_running("label", "job", 2).await?;
    ensure!(!rig.exists("label", &format!("{GROUP}/job")).await?, "a group");
    Ok(())
}

/// A policy of the test refuses PodGroups.
const REFUSING: &str = "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: gang-test-refuses}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [scheduling.x-k8s.io], apiVersions: ['*'], resources: [podgroups], operations: [CREATE]}
  validations: [{expression: 'false', message: no groups today}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: gang-test-refuses}
spec: {policyName: gang-test-refuses, validationActions: [Deny]}
";

async fn a_group_that_cannot_be_made_ends_the_hold_in_time(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("never", "coscheduling").await?;
    rig.cluster().apply(REFUSING).await?;
    let result = times_out(&rig).await;
    let kinds = "validatingadmissionpolicybinding,validatingadmissionpolicy";
    rig.kubectl(&["delete", kinds, "gang-test-refuses"]).await?;
    result?;
    // The scheduler keeps its pods until the group is there, which is tried on and on.
    rig.await_running("never", "job", 2).await
}

async fn times_out(rig: &Rig) -> Result<()> {
    let group = json!({
        "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": "probe", "namespace": "never"}, "spec": {"minMember": 1},
    });
    wait_for("the policy to refuse groups", SOON, async || {
        match rig.refusal(&group).await {
            Ok(_) => Ok(Some(())),
            Err(error) => {
                rig.delete("never", &format!("{GROUP}/probe")).await?;
                rig.await_gone("never", &format!("{GROUP}/probe")).await?;
                Err(error)
            }
        }
    })
    .await?;
    rig.create(&mpi("never", "job", 1, "1")).await?;
    let said = rig.await_event("never", "job", "PodGroupRefused").await?;
    ensure!(said.contains("no groups today"), "{said}");
    rig.must_be_held("never", "mpijob/job").await?;
    // What the hold has lasted so far is forgotten with the process, and while it is down nothing ends it.
    rig.portcullis.lock().await.kill9();
    rig.portcullis.lock().await.start().await?;
    let began = std::time::Instant::now();
    rig.await_event("never", "job", "HoldTimedOut").await?;
    let lasted = began.elapsed();
    ensure!(
        lasted > Duration::from_secs(14),
        "after {lasted:?}, not 20 s from the start on"
    );
    rig.await_pods("never", "job", 2).await?;
    let hold = rig.hold("never", "mpijob/job").await?;
    ensure!(hold == "false ", "{hold}");
    Ok(())
}

async fn a_namespace_that_is_dispatched_has_no_gangs(rig: Arc<Rig>) -> Result<()> {
    let labels = [
        ("portcullis.dev/gang", "coscheduling"),
        ("portcullis.dev/dispatch", "default"),
    ];
    rig.namespace("both", &labels).await?;
    let job = |name: &str| with(mpi("both", name, 1, "1"), &json!({}));
    wait_for("a job to come back as it was", SOON, async || {
        let args = ["create", "--dry-run=server", "-o=yaml", "-f", "-"];
        let answer = rig
            .cluster()
            .kubectl_with("admin", &args, &job("probe").to_string())
            .await?;
        if answer.contains("portcullis.dev/held") {
            bail!("held");
        }
        Ok(Some(()))
    })
    .await?;
    rig.create(&job("job")).await?;
    let managed_by = r"{.spec.runPolicy.managedBy}";
    rig.await_value("both", "mpijob/job", managed_by, OURS).await?;
    let hold = rig.hold("both", "mpijob/job").await?;
    ensure!(!hold.contains("true"), "{hold}");
    ensure!(!rig.exists("both", &format!("{GROUP}/job")).await?, "a group");
    // Its operator runs it here whatever it says, so its pods are dispatched one by one.
    let jax = json!({
        "apiVersion": "kubeflow.org/v1", "kind": "JAXJob", "metadata": {"name": "jax", "namespace": "both"},
        "spec": {
            "runPolicy": {"schedulingPolicy": {}},
            "jaxReplicaSpecs": {"Worker": {"replicas": 2, "template": template("jax", "1")}},
        },
    });
    rig.create(&jax).await?;
    let said = rig.await_event("both", "jax", "GangUnsupported").await?;
    ensure!(said.contains("worker clusters"), "{said}");
    // Held while we are down, for the policy in the API server cannot know; released when we are back.
    rig.portcullis.lock().await.kill9();
    rig.create(&job("late")).await?;
    rig.portcullis.lock().await.start().await?;
    for (path, value) in [
        (r"{.metadata.annotations.portcullis\.dev/held}", ""),
        ("{.spec.runPolicy.suspend}", "false"),
    ] {
        rig.await_value("both", "mpijob/late", path, value)
            .await
            .context("the hold stays")?;
    }
    rig.await_value("both", "mpijob/late", managed_by, OURS).await
}
