//! Workers that cannot have the gang, and groups that are refused.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use portcullis_testbed::{Crds, case, wait_for};
use serde_json::{Value, json};

use crate::rig::{At, Case, GROUP, Rig, SOON, printed};
use crate::starts::{mpi, of};

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_worker_that_does_not_serve_its_groups_is_passed_over),
        case!(a_worker_without_a_gang_scheduler_runs_the_job_and_says_so),
        case!(a_worker_with_volcano_needs_its_rights_and_gets_its_groups),
        case!(a_group_that_is_refused_is_told_and_lets_the_job_go_in_time),
    ]
}

async fn a_worker_that_does_not_serve_its_groups_is_passed_over(rig: Arc<Rig>) -> Result<()> {
    rig.set_gang("worker-b", json!({"scheduler": "Coscheduling"}))
        .await?;
    rig.opted_in("only-b", "b").await?;
    rig.create("only-b", &mpi("train", 1, "1")).await?;
    let words = "(GangUnsupported)";
    rig.await_said("only-b", "mpijob/train", "NoClusterTakesIt", words)
        .await?;
    ensure!(
        rig.get(At::B, "only-b", "mpijob/train", "{.metadata.name}")
            .await?
            .is_empty()
    );
    let mut alone = mpi("alone", 1, "1");
    alone["spec"]["runPolicy"] = json!({});
    rig.create("only-b", &alone).await?;
    let suspend = "{.spec.runPolicy.suspend}";
    rig.await_value(At::B, "only-b", "mpijob/alone", suspend, "false")
        .await?;

    rig.opted_in("passed", "b-a").await?;
    rig.create("passed", &mpi("train", 2, "1")).await?;
    rig.await_running("passed", &of("train"), 3).await?;
    let cluster = r"{.metadata.annotations.portcullis\.dev/cluster}";
    rig.await_value(At::Manager, "passed", "mpijob/train", cluster, "worker-a")
        .await?;

    // Without the field it goes there all the same.
    rig.set_gang("worker-b", json!({"scheduler": "None"})).await?;
    rig.await_value(At::B, "only-b", "mpijob/train", suspend, "false")
        .await
}

async fn a_worker_without_a_gang_scheduler_runs_the_job_and_says_so(rig: Arc<Rig>) -> Result<()> {
    rig.opted_in("none", "b").await?;
    rig.create("none", &mpi("train", 1, "1")).await?;
    let said = rig.await_event("none", "train", "GangUnsupported").await?;
    ensure!(
        said.starts_with("worker-b: its WorkerCluster names no gang scheduler"),
        "{said}"
    );
    rig.await_value(
        At::B,
        "none",
        "mpijob/train",
        "{.spec.runPolicy.suspend}",
        "false",
    )
    .await?;
    let labels = "{.spec.mpiReplicaSpecs.Worker.template.metadata.labels}";
    ensure!(rig.get(At::B, "none", "mpijob/train", labels).await?.is_empty());
    Ok(())
}

/// There is no scheduler of Volcano here: its objects and marks are checked.
async fn a_worker_with_volcano_needs_its_rights_and_gets_its_groups(rig: Arc<Rig>) -> Result<()> {
    let b = rig.cluster(At::B);
    b.install_crds(Crds::Volcano).await?;
    rig.set_gang("worker-b", json!({"scheduler": "Volcano"})).await?;
    rig.opted_in("volcano", "b").await?;
    let mut job = mpi("train", 2, "1");
    job["spec"]["runPolicy"]["schedulingPolicy"] = json!({"minAvailable": 2, "queue": "research"});
    rig.create("volcano", &job).await?;
    let words = "list podgroups.scheduling.volcano.sh";
    rig.await_said("volcano", "mpijob/train", "NoClusterTakesIt", words)
        .await?;
    b.apply(&printed(&["manifests", "rbac-worker", "--gang=volcano"]).await?)
        .await?;
    let group = "podgroups.scheduling.volcano.sh/train";
    let path = "{.spec.minMember} {.spec.queue} {.metadata.ownerReferences[0].kind}";
    rig.await_value(At::B, "volcano", group, path, "2 research MPIJob")
        .await?;
    let suspend = "{.spec.runPolicy.suspend}";
    rig.await_value(At::B, "volcano", "mpijob/train", suspend, "false")
        .await?;
    let template = "{.spec.mpiReplicaSpecs.Worker.template.spec.schedulerName} \
                    {.spec.mpiReplicaSpecs.Worker.template.metadata.annotations.scheduling\\.k8s\\.io/group-name}";
    let found = rig.get(At::B, "volcano", "mpijob/train", template).await?;
    ensure!(found == "volcano train", "{found}");
    let uid = rig
        .get(At::B, "volcano", "mpijob/train", "{.metadata.uid}")
        .await?;
    let owner = "{.metadata.ownerReferences[0].uid}";
    ensure!(rig.get(At::B, "volcano", group, owner).await? == uid);
    Ok(())
}

async fn a_group_that_is_refused_is_told_and_lets_the_job_go_in_time(rig: Arc<Rig>) -> Result<()> {
    let refusal = Refusal {
        name: "no-groups",
        namespace: "refused",
        resource: ("scheduling.x-k8s.io", "podgroups"),
        unless: "false",
        message: "no groups today",
        probe: json!({
            "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "probe"},
            "spec": {"minMember": 1},
        }),
    };
    refusal.begin(&rig).await?;
    rig.opted_in("refused", "a").await?;
    rig.create("refused", &mpi("train", 2, "1")).await?;
    rig.await_said("refused", "mpijob/train", "WaitingForPodGroup", "no groups today")
        .await?;
    let suspend = "{.spec.runPolicy.suspend}";
    ensure!(rig.get(At::A, "refused", "mpijob/train", suspend).await? == "true");
    rig.await_event("refused", "train", "PodGroupRefused").await?;
    rig.await_event("refused", "train", "HoldTimedOut").await?;
    rig.await_value(At::A, "refused", "mpijob/train", suspend, "false")
        .await?;
    let group = format!("{GROUP}/train");
    ensure!(
        rig.get(At::A, "refused", &group, "{.metadata.name}")
            .await?
            .is_empty()
    );
    refusal.end(&rig).await
}

/// A policy of worker-a that refuses writes.
pub struct Refusal<'a> {
    /// Its name.
    pub name: &'a str,
    /// Where, beside `default`.
    pub namespace: &'a str,
    /// API group and plural of what is written.
    pub resource: (&'a str, &'a str),
    /// A CEL expression: what is let in.
    pub unless: &'a str,
    /// Its words.
    pub message: &'a str,
    /// An object that it refuses, in `default`.
    pub probe: Value,
}

impl<'a> Refusal<'a> {
    /// MPIJobs cannot be opened.
    pub fn of_opening(name: &'a str, namespace: &'a str) -> Self {
        Self {
            name,
            namespace,
            resource: ("kubeflow.org", "mpijobs"),
            unless: "has(object.metadata.annotations) && 'portcullis.dev/uncommitted' in object.metadata.annotations",
            message: "not opened today",
            probe: mpi("probe", 1, "1"),
        }
    }

    /// Answers once it refuses.
    pub async fn begin(&self, rig: &Rig) -> Result<()> {
        let (group, resource) = self.resource;
        let rule = json!({
            "apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": [resource],
        });
        let api_version = "admissionregistration.k8s.io/v1";
        let namespaces = json!({"matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["default", self.namespace]},
        ]});
        let policy = json!({
            "apiVersion": api_version, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": self.name},
            "spec": {
                "matchConstraints": {"resourceRules": [rule], "namespaceSelector": namespaces},
                "validations": [{"expression": self.unless, "message": self.message}],
            },
        });
        let binding = json!({
            "apiVersion": api_version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": self.name},
            "spec": {"policyName": self.name, "validationActions": ["Deny"]},
        });
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [policy, binding]});
        let a = rig.cluster(At::A);
        a.apply(&list.to_string()).await?;
        let args = ["create", "-n=default", "--dry-run=server", "-f", "-"];
        let probe = self.probe.to_string();
        wait_for(&format!("{} to refuse", self.name), SOON, async || {
            let answer = a.kubectl_with("admin", &args, &probe).await;
            let is_refused = answer
                .as_ref()
                .is_err_and(|error| format!("{error:#}").contains(self.message));
            is_refused
                .then_some(Some(()))
                .with_context(|| format!("{answer:?}"))
        })
        .await
    }

    /// It refuses nothing any more.
    pub async fn end(&self, rig: &Rig) -> Result<()> {
        let both = "validatingadmissionpolicybinding,validatingadmissionpolicy";
        rig.kubectl(At::A, &["delete", both, self.name]).await.map(drop)
    }
}
