//! Jobs that could never be gangs: refused or remarked upon, with the field; others go on.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use portcullis_testbed::{case, wait_for};
use serde_json::{Value, json};

use crate::jobs::{batch, mpi, with};
use crate::rig::{Case, Rig, SOON};

pub fn cases() -> Vec<Case> {
    vec![
        case!(bad_fields_are_refused_with_their_paths_and_others_go_on),
        case!(an_unknown_role_is_told_and_not_held),
        case!(a_long_name_has_a_group_with_a_short_one),
        case!(an_update_out_of_range_is_refused),
        case!(an_unrelated_update_of_an_old_bad_job_is_not_refused),
        case!(a_label_that_names_no_back_end_refuses_gangs_only),
    ]
}

const GROUP: &str = "podgroups.scheduling.x-k8s.io";
const POLICY: &str = "spec.runPolicy.schedulingPolicy";

fn policy(policy: Value) -> Value {
    json!({"spec": {"runPolicy": {"schedulingPolicy": policy}}})
}

async fn bad_fields_are_refused_with_their_paths_and_others_go_on(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("bad", "coscheduling").await?;
    let min_available = format!("{POLICY}.minAvailable");
    let two = json!({
        "Launcher": {"template": {"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "x"}}}},
        "Worker": {"template": {"metadata": {"annotations": {"scheduling.k8s.io/group-name": "y"}}}},
    });
    let rows: [(Value, &str, &str); 11] = [
        (policy(json!({"minAvailable": 0})), &min_available, "found 0"),
        (policy(json!({"minAvailable": -1})), &min_available, "found -1"),
        (policy(json!({"minAvailable": 4})), &min_available, "from 1 to 3"),
        (policy(json!({"minAvailable": "two"})), &min_available, "two"),
        (
            policy(json!({"minResources": {"cpu": "1.5.0Gi"}})),
            "schedulingPolicy.minResources",
            "1.5.0Gi",
        ),
        (
            policy(json!({"minResources": {"cpu": "-1"}})),
            "schedulingPolicy.minResources",
            "-1",
        ),
        (
            policy(json!({"scheduleTimeoutSeconds": -1})),
            "schedulingPolicy.scheduleTimeoutSeconds",
            "-1",
        ),
        (policy(json!("all")), POLICY, "all"),
        (
            json!({"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 2_147_483_648_u64}}}}),
            "spec.mpiReplicaSpecs.Worker.replicas",
            "2147483648",
        ),
        (
            json!({"metadata": {"annotations": {"portcullis.dev/gang-scheduler": "nonsense"}}}),
            "portcullis.dev/gang-scheduler",
            "expected coscheduling, volcano, native or auto",
        ),
        (
            json!({"spec": {"mpiReplicaSpecs": two}}),
            "group-name",
            "one gang scheduler",
        ),
    ];
    for (patch, path, words) in rows {
        let said = rig.refusal(&with(mpi("bad", "bad", 2, "1"), &patch)).await?;
        ensure!(said.contains(path) && said.contains(words), "{patch}: {said}");
        ensure!(
            said.contains("portcullis"),
            "refused by somebody else: {patch}: {said}"
        );
    }
    rig.others_go_on("bad").await
}

async fn an_unknown_role_is_told_and_not_held(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("role", "coscheduling").await?;
    let role = crate::jobs::template("main", "1");
    let patch = json!({"spec": {"mpiReplicaSpecs": {"Helper": {"replicas": 1, "template": role}}}});
    rig.create(&with(mpi("role", "helped", 1, "1"), &patch)).await?;
    rig.await_event("role", "helped", "UnknownReplicaType").await?;
    let hold = rig.hold("role", "mpijob/helped").await?;
    ensure!(!hold.contains("true"), "{hold}");
    ensure!(!rig.exists("role", &format!("{GROUP}/helped")).await?, "a group");
    rig.others_go_on("role").await
}

async fn a_long_name_has_a_group_with_a_short_one(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("long", "coscheduling").await?;
    let name = "n".repeat(200);
    rig.create(&mpi("long", &name, 1, "1")).await?;
    wait_for("a group with a name of 63 characters", SOON, async || {
        let group = rig
            .kubectl(&["get", GROUP, "-n=long", "-o=jsonpath={.items[*].metadata.name}"])
            .await?;
        (group.len() == 63).then_some(Some(())).context(group)
    })
    .await?;
    let (job, path) = (
        format!("mpijob/{name}"),
        r"{.metadata.annotations.portcullis\.dev/held}",
    );
    rig.await_value("long", &job, path, "").await?; // its operator refuses it; that is not ours to say
    rig.others_go_on("long").await
}

async fn an_update_out_of_range_is_refused(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("upd", "coscheduling").await?;
    rig.create(&mpi("upd", "good", 2, "1")).await?;
    rig.await_running("upd", "good", 3).await?;
    let error = rig
        .merge("upd", "mpijob/good", &policy(json!({"minAvailable": 4})))
        .await;
    let said = format!("{:#}", error.err().context("not refused")?);
    ensure!(said.contains(&format!("{POLICY}.minAvailable")), "{said}");
    let fewer = json!({"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 1}}}});
    rig.merge("upd", "mpijob/good", &policy(json!({"minAvailable": 3})))
        .await?;
    let error = rig.merge("upd", "mpijob/good", &fewer).await;
    let said = format!("{:#}", error.err().context("not refused")?);
    ensure!(said.contains(&format!("{POLICY}.minAvailable")), "{said}");
    rig.others_go_on("upd").await
}

async fn an_unrelated_update_of_an_old_bad_job_is_not_refused(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("old", "coscheduling").await?;
    rig.portcullis.lock().await.kill9();
    let bad = policy(json!({"minAvailable": 9}));
    rig.create(&with(mpi("old", "old", 2, "1"), &bad)).await?;
    rig.portcullis.lock().await.start().await?;
    let said = rig.await_event("old", "old", "InvalidMinAvailable").await?;
    ensure!(said.contains("minAvailable"), "{said}");
    rig.await_running("old", "old", 3).await?;
    rig.await_value("old", &format!("{GROUP}/old"), "{.spec.minMember}", "3")
        .await?;
    let all = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"runPolicy": {"cleanPodPolicy": "All"}}});
    rig.merge("old", "mpijob/old", &all).await?;
    rig.await_running("old", "old", 3).await
}

async fn a_label_that_names_no_back_end_refuses_gangs_only(rig: Arc<Rig>) -> Result<()> {
    rig.namespace("odd", &[("portcullis.dev/gang", "nonsense")])
        .await?;
    wait_for("a gang to be refused", SOON, async || {
        let said = rig.refusal(&mpi("odd", "odd", 1, "1")).await;
        if said.is_err() {
            rig.delete("odd", "mpijob/odd").await?;
            rig.await_gone("odd", "mpijob/odd").await?;
        }
        let said = said?;
        let names = said.contains("portcullis.dev/gang") && said.contains("nonsense");
        names.then_some(Some(())).context(said)
    })
    .await?;
    // What asks for no gang is not held up by the label.
    let plain = with(
        batch("odd", "plain", 1, "1"),
        &json!({"metadata": {"annotations": null}}),
    );
    rig.create(&plain).await?;
    rig.await_selected("odd", "batch.kubernetes.io/job-name=plain", 1)
        .await?;
    let plain = with(mpi("odd", "plain", 1, "1"), &policy(Value::Null));
    rig.create(&plain).await?;
    rig.await_running("odd", "plain", 2).await
}
