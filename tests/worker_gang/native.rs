//! Gangs of Kubernetes itself on a worker: of Jobs, whose templates keep the group, and of other kinds, for which a policy on
//! the worker puts it on the pods.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use portcullis_testbed::{case, wait_for};
use serde_json::{Value, json};

use crate::kinds::{asking, batch, job_set, pytorch};
use crate::rig::{At, Case, Rig, SOON, printed};
use crate::starts::{mpi, of};
use crate::workers::Refusal;

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_batch_job_is_in_a_native_group_on_its_worker),
        case!(an_mpi_job_is_a_native_gang_once_the_policy_stands_on_its_worker),
        case!(other_kinds_are_native_gangs_and_what_has_no_marks_is_not_touched),
        case!(a_copy_is_not_opened_while_the_policy_is_gone),
    ]
}

const POLICY: &str = "portcullis-worker-gang-pods";
const NATIVE: &str = "podgroups.scheduling.k8s.io";
const COMMAND: &str = "apply `portcullis manifests rbac-worker --gang native` there";

/// What of the policy stands on worker-a.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Policy {
    Absent,
    /// One that lets a pod in without its group when it fails.
    FailsOpen,
    AsPrinted,
}

/// Worker-a has native gangs, and this of their policy.
async fn begin(rig: &Rig, policy: Policy) -> Result<()> {
    let printed = printed(&["manifests", "rbac-worker", "--gang=native"]).await?;
    let is_policy = |document: &&str| document.contains("kind: MutatingAdmissionPolicy");
    let (policies, roles): (Vec<&str>, Vec<&str>) = printed.split("\n---\n").partition(is_policy);
    // Under a name of its own: that of coscheduling stays.
    let roles = roles.join("\n---\n");
    let roles = roles.replace("name: portcullis-worker", "name: portcullis-worker-native");
    let a = rig.cluster(At::A);
    a.apply(&roles).await?;
    let printed = policies.join("\n---\n");
    match policy {
        Policy::Absent => gone(rig).await?,
        Policy::FailsOpen => {
            a.apply(&printed.replace("failurePolicy: Fail", "failurePolicy: Ignore"))
                .await?;
        }
        Policy::AsPrinted => {
            a.apply(&printed).await?;
        }
    }
    rig.set_gang("worker-a", json!({"scheduler": "Native"})).await
}

async fn gone(rig: &Rig) -> Result<()> {
    let both = "mutatingadmissionpolicybinding,mutatingadmissionpolicy";
    rig.kubectl(At::A, &["delete", both, POLICY, "--ignore-not-found"])
        .await
        .map(drop)
}

/// The native groups that pods with this label name; empty for one without.
async fn groups(rig: &Rig, namespace: &str, selector: &str) -> Result<Vec<String>> {
    let path = r#"-o=jsonpath={range .items[*]}{.spec.schedulingGroup.podGroupName}{"\n"}{end}"#;
    let args = ["get", "pods", "-n", namespace, "-l", selector, path];
    let lines = rig.kubectl(At::A, &args).await?;
    Ok(lines.lines().map(str::to_owned).collect())
}

/// The one native group that all of so many pods name.
async fn one_group(rig: &Rig, namespace: &str, selector: &str, pods: usize) -> Result<String> {
    let groups = groups(rig, namespace, selector).await?;
    let names: BTreeSet<&String> = groups.iter().collect();
    ensure!(groups.len() == pods && names.len() == 1, "{groups:?}");
    let name = names.first().context("a name")?;
    ensure!(!name.is_empty(), "the pods of {selector} have no group");
    Ok((*name).clone())
}

/// Its template keeps the group, so it needs no policy.
async fn a_batch_job_is_in_a_native_group_on_its_worker(rig: Arc<Rig>) -> Result<()> {
    begin(&rig, Policy::Absent).await?;
    rig.opted_in("native", "a").await?;
    rig.empty(At::A).await?;
    let missing = rig.cluster(At::A).nodes().pop().context("a node")?;
    rig.kubectl(At::A, &["cordon", &missing]).await?;
    let mut large = batch("large", 4, asking());
    large["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "10".into();
    rig.create("native", &large).await?;
    let selector = "batch.kubernetes.io/job-name=large";
    wait_for("the pods of the Job", SOON, async || {
        let pods = rig.pods(At::A, "native", selector).await?;
        (pods.len() == 4)
            .then_some(Some(()))
            .with_context(|| format!("{pods:?}"))
    })
    .await?;
    let said = rig
        .await_event_of("native", "job/large", "WaitingForGang")
        .await?;
    ensure!(said.starts_with("worker-a: "), "{said}");
    let pods = rig.pods(At::A, "native", selector).await?;
    ensure!(pods.iter().all(|(_, node)| node.is_empty()), "{pods:?}");
    rig.kubectl(At::A, &["uncordon", &missing]).await?;
    rig.await_running("native", selector, 4).await?;
    let name = rig
        .get(
            At::A,
            "native",
            "job/large",
            "{.spec.template.spec.schedulingGroup.podGroupName}",
        )
        .await?;
    let path = "{.spec.schedulingPolicy.gang.minCount} {.metadata.ownerReferences[0].uid}";
    let uid = rig.get(At::A, "native", "job/large", "{.metadata.uid}").await?;
    let group = format!("podgroups.scheduling.k8s.io/{name}");
    let found = rig.get(At::A, "native", &group, path).await?;
    ensure!(found == format!("4 {uid}"), "{found}");

    let suspend = async |value: bool| {
        let patch = json!({"spec": {"suspend": value}}).to_string();
        let args = ["patch", "-n", "native", "job/large", "--type=merge", "-p", &patch];
        rig.cluster(At::Manager).kubectl_with("alice", &args, "").await
    };
    suspend(true).await?;
    rig.await_value(At::A, "native", &group, "{.metadata.name}", "")
        .await?;
    suspend(false).await?;
    rig.await_running("native", selector, 4).await?;
    rig.await_value(At::A, "native", &group, path, &format!("4 {uid}"))
        .await?;
    rig.kubectl(
        At::Manager,
        &["delete", "-n", "native", "job/large", "--wait=false"],
    )
    .await?;
    rig.await_value(At::A, "native", &group, "{.metadata.name}", "")
        .await?;
    rig.no_pod_here("native")
}

async fn an_mpi_job_is_a_native_gang_once_the_policy_stands_on_its_worker(rig: Arc<Rig>) -> Result<()> {
    begin(&rig, Policy::Absent).await?;
    rig.opted_in("nmpi", "a").await?;
    rig.empty(At::A).await?;
    let missing = rig.cluster(At::A).nodes().pop().context("a node")?;
    rig.kubectl(At::A, &["cordon", &missing]).await?;
    rig.create("nmpi", &mpi("large", 4, "10")).await?;
    let said = |what: &str| format!("MutatingAdmissionPolicy {POLICY}, which {what}; {COMMAND}");
    let copy = "mpijob/large";
    for (policy, what) in [
        (Policy::Absent, "is not there"),
        (Policy::FailsOpen, "stands there in another version"),
    ] {
        begin(&rig, policy).await?;
        let words = said(what);
        rig.await_said("nmpi", copy, "NoClusterTakesIt", &words).await?;
        rig.await_said("nmpi", copy, "NoClusterTakesIt", "(GangUnsupported)")
            .await?;
    }
    ensure!(rig.made(At::A, "nmpi", "mpijobs")?.is_empty(), "a copy was made");

    begin(&rig, Policy::AsPrinted).await?;
    let selector = of("large");
    wait_for("the pods of the MPIJob", SOON, async || {
        let pods = rig.pods(At::A, "nmpi", &selector).await?;
        (pods.len() == 5)
            .then_some(Some(()))
            .with_context(|| format!("{pods:?}"))
    })
    .await?;
    let name = one_group(&rig, "nmpi", &selector, 5).await?;
    let said = rig.await_event("nmpi", "large", "WaitingForGang").await?;
    ensure!(said.starts_with("worker-a: "), "{said}");
    let pods = rig.pods(At::A, "nmpi", &selector).await?;
    ensure!(pods.iter().all(|(_, node)| node.is_empty()), "{pods:?}");
    rig.kubectl(At::A, &["uncordon", &missing]).await?;
    rig.await_running("nmpi", &selector, 5).await?;

    let group = format!("{NATIVE}/{name}");
    let path = "{.spec.schedulingPolicy.gang.minCount} {.metadata.ownerReferences[0].uid}";
    let uid = rig.get(At::A, "nmpi", copy, "{.metadata.uid}").await?;
    rig.await_value(At::A, "nmpi", &group, path, &format!("5 {uid}"))
        .await?;
    let (groups, pods) = (
        rig.made(At::A, "nmpi", "podgroups")?,
        rig.made(At::A, "nmpi", "pods")?,
    );
    ensure!(groups.first().map(|(place, _)| place) < pods.first().map(|(place, _)| place));
    let marks = "{.spec.mpiReplicaSpecs.Worker.template.metadata}";
    ensure!(rig.get(At::Manager, "nmpi", copy, marks).await?.is_empty());

    let suspend = async |value: bool| {
        let patch = json!({"spec": {"runPolicy": {"suspend": value}}}).to_string();
        let args = ["patch", "-n", "nmpi", copy, "--type=merge", "-p", &patch];
        rig.cluster(At::Manager).kubectl_with("alice", &args, "").await
    };
    suspend(true).await?;
    rig.await_value(At::A, "nmpi", &group, "{.metadata.name}", "")
        .await?;
    suspend(false).await?;
    rig.await_running("nmpi", &selector, 5).await?;
    ensure!(one_group(&rig, "nmpi", &selector, 5).await? == name);
    rig.await_value(At::A, "nmpi", &group, path, &format!("5 {uid}"))
        .await?;
    rig.kubectl(At::Manager, &["delete", "-n", "nmpi", copy, "--wait=false"])
        .await?;
    rig.await_value(At::A, "nmpi", &group, "{.metadata.name}", "")
        .await?;
    rig.no_pod_here("nmpi")
}

async fn other_kinds_are_native_gangs_and_what_has_no_marks_is_not_touched(rig: Arc<Rig>) -> Result<()> {
    begin(&rig, Policy::AsPrinted).await?;
    rig.opted_in("nkinds", "a").await?;
    rig.create("nkinds", &pytorch("torch")).await?;
    rig.create("nkinds", &job_set("set")).await?;
    let mut alone = mpi("alone", 1, "1");
    alone["spec"]["runPolicy"] = json!({});
    // What its user writes here is taken off on the way: it is no gang.
    alone["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["metadata"] = json!({
        "labels": {"portcullis.dev/pod-group": "torch"},
        "annotations": {"portcullis.dev/gang-scheduler": "native"},
    });
    rig.create("nkinds", &alone).await?;
    for (selector, count) in [
        ("training.kubeflow.org/job-name=torch", 4),
        ("jobset.sigs.k8s.io/jobset-name=set", 4),
        (&*of("alone"), 2),
    ] {
        rig.await_running("nkinds", selector, count).await?;
    }
    one_group(&rig, "nkinds", "training.kubeflow.org/job-name=torch", 4).await?;
    one_group(&rig, "nkinds", "jobset.sigs.k8s.io/jobset-name=set", 4).await?;
    let none = groups(&rig, "nkinds", &of("alone")).await?;
    ensure!(none == ["", ""], "{none:?}");

    let a = rig.cluster(At::A);
    a.create_namespace("nforeign", &[("gang.test", "true")]).await?;
    let both = json!({
        "labels": {"portcullis.dev/pod-group": "g"}, "annotations": {"portcullis.dev/gang-scheduler": "native"},
    });
    let label = json!({"labels": {"portcullis.dev/pod-group": "g"}});
    for (namespace, metadata, group) in [
        ("nkinds", &both, "g"),
        ("nkinds", &label, ""),
        ("nforeign", &both, ""),
    ] {
        let found = tried(&rig, namespace, metadata).await?;
        ensure!(found == group, "{namespace} {metadata}: {found:?}");
    }
    rig.no_pod_here("nkinds")
}

/// The native group that a pod with this metadata would be in.
async fn tried(rig: &Rig, namespace: &str, metadata: &Value) -> Result<String> {
    let mut metadata = metadata.clone();
    metadata["name"] = "tried".into();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": {"containers": [{"name": "main", "image": "main"}]},
    });
    let path = "-o=jsonpath={.spec.schedulingGroup.podGroupName}";
    let args = ["create", "-n", namespace, "--dry-run=server", path, "-f", "-"];
    let a = rig.cluster(At::A);
    wait_for("the namespace's ServiceAccount", SOON, async || {
        let answer = a.kubectl_with("admin", &args, &pod.to_string()).await?;
        Ok::<_, anyhow::Error>(Some(answer))
    })
    .await
}

/// Its pods would be born without a group, for good.
async fn a_copy_is_not_opened_while_the_policy_is_gone(rig: Arc<Rig>) -> Result<()> {
    begin(&rig, Policy::AsPrinted).await?;
    let refusal = Refusal::of_opening("no-native-opening", "ngone");
    refusal.begin(&rig).await?;
    rig.opted_in("ngone", "a").await?;
    rig.create("ngone", &mpi("train", 2, "1")).await?;
    let stands = async || {
        let args = ["get", NATIVE, "-n", "ngone", "-o=name", "--ignore-not-found"];
        let found = rig.kubectl(At::A, &args).await?;
        (!found.is_empty()).then_some(Some(())).context("no group yet")
    };
    wait_for("its group", SOON, stands).await?;
    gone(&rig).await?;
    let words = format!("{POLICY}, which is not there; {COMMAND}");
    rig.await_said("ngone", "mpijob/train", "WaitingForPodGroup", &words)
        .await?;
    refusal.end(&rig).await?;
    let suspend = "{.spec.runPolicy.suspend}";
    ensure!(rig.get(At::A, "ngone", "mpijob/train", suspend).await? == "true");
    begin(&rig, Policy::AsPrinted).await?;
    rig.await_running("ngone", &of("train"), 3).await?;
    one_group(&rig, "ngone", &of("train"), 3).await?;
    rig.no_pod_here("ngone")
}
