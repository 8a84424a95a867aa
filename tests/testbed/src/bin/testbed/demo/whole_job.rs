//! The scene of a job that runs whole on one worker, as a gang.

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use portcullis_testbed::Cluster;
use serde_json::Value;

use super::story::pods;
use super::{Demo, NAMESPACE, USER, print_command};

const MPI_JOB: &str = include_str!("../../../../demo/mpi-job.yaml");
/// Launcher and workers.
const PODS: usize = 3;
/// On the manager: what mpi-operator's own roles give to people who are told of them.
const MAY_USE_MPI_JOBS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: mpijobs, namespace: demo}
rules:
- {apiGroups: [kubeflow.org], resources: [mpijobs], verbs: [get, list, watch, create, update, patch, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: mpijobs, namespace: demo}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: mpijobs}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}]
";

impl Demo {
    /// The operator of MPIJobs everywhere, as an administrator has it; a gang scheduler where pods run.
    pub(super) async fn start_operators(&self) -> Result<()> {
        self.say("mpi-operator runs on all three clusters, a gang scheduler (coscheduling) on the workers");
        let operators = self
            .world
            .clusters()
            .map(|cluster| cluster.start_mpi_operator(&[]));
        let schedulers = self
            .world
            .workers
            .iter()
            .map(|worker| worker.cluster.start_coscheduler());
        try_join_all(operators).await?;
        try_join_all(schedulers).await.map(drop)
    }

    /// The workers' gang scheduler is named, and the user may make MPIJobs.
    pub(super) async fn allow_gangs(&self) -> Result<()> {
        for worker in &self.world.workers {
            let patch = [
                "patch",
                "workercluster",
                worker.cluster.name(),
                "--type=merge",
                r#"-p={"spec":{"gang":{"scheduler":"Coscheduling","schedulerName":"coscheduling"}}}"#,
            ];
            self.show(&patch).await?;
        }
        self.world.manager.apply(MAY_USE_MPI_JOBS).await.map(drop)
    }

    pub(super) async fn an_mpi_job_runs_whole_on_one_worker(&self) -> Result<()> {
        self.say("A user applies an MPIJob with a schedulingPolicy: tests/testbed/demo/mpi-job.yaml");
        let args = ["-n", NAMESPACE, "apply", "-f", "-"];
        let applied = self.world.manager.kubectl_with(USER, &args, MPI_JOB).await?;
        print_command("manager", &["apply", "-f", "mpi-job.yaml"], &applied);
        let running = r#"{.status.conditions[?(@.type=="Running")].status}=True"#;
        self.until("mpijob/train", running).await?;
        self.show_user(&[
            "get",
            "mpijob",
            "train",
            r"-o=custom-columns=NAME:.metadata.name,RUNS ON:.metadata.annotations.portcullis\.dev/cluster,WORKERS:.status.replicaStatuses.Worker.active",
        ])
        .await?;
        let worker = self.worker_of("mpijob/train").await?;
        self.say("One worker has all of it; its PodGroup was there before its pods");
        let show = ["-n", NAMESPACE, "get", "podgroups.scheduling.x-k8s.io,pods"];
        print_command(worker.name(), &show, &worker.kubectl(&show).await?);

        let get = ["-n", NAMESPACE, "get", "podgroups.scheduling.x-k8s.io", "-o=json"];
        let groups: Value = serde_json::from_str(&worker.kubectl(&get).await?)?;
        let group = groups.pointer("/items/0").context("a PodGroup")?;
        let get = ["-n", NAMESPACE, "get", "mpijob", "train", "-o=json"];
        let copy: Value = serde_json::from_str(&worker.kubectl(&get).await?)?;
        ensure!(
            group["spec"]["minMember"] == PODS
                && group.pointer("/metadata/ownerReferences/0/uid") == copy.pointer("/metadata/uid"),
            "the PodGroup is not that of the copy: {group}"
        );
        let here = its_pods(&self.world.manager).await?;
        ensure!(here.is_empty(), "on the manager: {here:?}");
        for other in &self.world.workers {
            let expected = if other.cluster.name() == worker.name() {
                PODS
            } else {
                0
            };
            let there = its_pods(&other.cluster).await?;
            ensure!(there.len() == expected, "on {}: {there:?}", other.cluster.name());
        }
        Ok(())
    }

    async fn worker_of(&self, object: &str) -> Result<&Cluster> {
        let name = self
            .user(&[
                "get",
                object,
                r"-o=jsonpath={.metadata.annotations.portcullis\.dev/cluster}",
            ])
            .await?;
        let workers = self.world.workers.iter().map(|worker| &worker.cluster);
        let mut named = workers.filter(|cluster| cluster.name() == name.trim());
        named.next().with_context(|| format!("{object} is on {name:?}"))
    }
}

async fn its_pods(cluster: &Cluster) -> Result<Vec<String>> {
    let is_its = |pod: &Pod| pod.name_any().starts_with("train-");
    let pods = pods(cluster).await?;
    Ok(pods
        .iter()
        .filter(|pod| is_its(pod))
        .map(ResourceExt::name_any)
        .collect())
}
