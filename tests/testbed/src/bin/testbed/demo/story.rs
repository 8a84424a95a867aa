//! The scenes of the demo, each of which fails if the promise it shows is not kept.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use portcullis_testbed::ledger::{LOCAL_UID, opened_more_than_once};
use portcullis_testbed::{Cluster, Ledger, wait_for};

use super::{Demo, NAMESPACE, PATIENCE, print_command};

const WORKLOADS: &str = include_str!("../../../../demo/workloads.yaml");

impl Demo {
    pub(super) async fn play(&mut self) -> Result<()> {
        self.workloads_run_on_the_workers().await?;
        self.an_mpi_job_runs_whole_on_one_worker().await?;
        self.a_lost_remote_pod_is_replaced().await?;
        self.without_us_nothing_starts_on_the_manager().await?;
        self.back_again_the_pod_runs().await?;
        self.the_audit_logs_agree()
    }

    async fn workloads_run_on_the_workers(&self) -> Result<()> {
        self.say("A user applies a Pod, a Deployment of 3 and a StatefulSet of 2: tests/testbed/demo/workloads.yaml");
        let args = ["-n", NAMESPACE, "apply", "-f", "-"];
        let applied = self
            .world
            .manager
            .kubectl_with(super::USER, &args, WORKLOADS)
            .await?;
        print_command("manager", &["apply", "-f", "workloads.yaml"], &applied);
        self.until("pod/hello", "{.status.phase}=Running").await?;
        self.until("deployment/web", "{.status.readyReplicas}=3").await?;
        self.until("statefulset/db", "{.status.readyReplicas}=2").await?;
        self.show_user(&["get", "pods,deployments,statefulsets"]).await?;
        self.say("They run on the workers");
        for worker in &self.world.workers {
            self.show_worker(&worker.cluster).await?;
        }
        Ok(())
    }

    async fn a_lost_remote_pod_is_replaced(&self) -> Result<()> {
        let victim = self
            .local_pods()
            .await?
            .into_iter()
            .find(|pod| pod.name_any().starts_with("web-"));
        let victim = victim.context("a pod of the Deployment")?;
        let (worker, remote) = self.remote_of(&victim).await?;
        self.say(&format!(
            "Somebody deletes {} on {}: its Deployment replaces it",
            remote.name_any(),
            worker.name()
        ));
        let pods: Api<Pod> = Api::namespaced(worker.admin_client().await?, NAMESPACE);
        pods.delete(&remote.name_any(), &DeleteParams::default()).await?;
        let uid = victim.uid().context("a pod has a UID")?;
        wait_for(
            "the Deployment to have three other ready pods",
            PATIENCE,
            async || {
                let pods = self.local_pods().await?;
                let ready = pods
                    .iter()
                    .filter(|pod| pod.name_any().starts_with("web-") && is_ready(pod));
                let others = ready.filter(|pod| pod.uid().as_ref() != Some(&uid)).count();
                if others == 3 {
                    Ok(Some(()))
                } else {
                    bail!("there are {others}")
                }
            },
        )
        .await?;
        self.show_user(&["get", "pods,deployments"]).await
    }

    async fn without_us_nothing_starts_on_the_manager(&mut self) -> Result<()> {
        self.say("Portcullis is stopped. A new pod is gated all the same, and nobody gets the gate off");
        self.portcullis.sigterm(Duration::from_secs(30)).await?;
        self.user(&["run", "late", "--image=registry.example/late:1"])
            .await?;
        self.until(
            "pod/late",
            "{.status.conditions[?(@.type==\"PodScheduled\")].reason}=SchedulingGated",
        )
        .await?;
        self.show_user(&["get", "pod", "late"]).await?;
        let ungate = [
            "patch",
            "pod",
            "late",
            "--type=json",
            "-p=[{\"op\":\"remove\",\"path\":\"/spec/schedulingGates\"}]",
        ];
        let on_behalf: Vec<&str> = ["-n", NAMESPACE].iter().chain(&ungate).copied().collect();
        for (who, answer) in [
            ("the user", self.user(&ungate).await),
            ("an administrator", self.admin(&on_behalf).await),
        ] {
            match answer {
                Ok(_) => bail!("{who} got the gate off"),
                Err(refusal) => print_command(
                    &format!("manager ({who})"),
                    &ungate,
                    &refusal.root_cause().to_string(),
                ),
            }
        }
        Ok(())
    }

    async fn back_again_the_pod_runs(&mut self) -> Result<()> {
        self.say("Portcullis is started again: the pod runs, on a worker");
        self.portcullis.start().await?;
        self.until("pod/late", "{.status.phase}=Running").await?;
        self.show_user(&["get", "pod", "late"]).await?;
        let late = self
            .local_pods()
            .await?
            .into_iter()
            .find(|pod| pod.name_any() == "late");
        let (worker, _) = self.remote_of(&late.context("the pod late")?).await?;
        self.show_worker(worker).await
    }

    fn the_audit_logs_agree(&self) -> Result<()> {
        let ran_here = self.world.manager.ledger()?.bindings();
        let ran_here: Vec<_> = ran_here
            .into_iter()
            .filter(|binding| binding.namespace == NAMESPACE)
            .collect();
        let workers = self.world.workers.iter().map(|worker| worker.cluster.ledger());
        let workers = workers.collect::<Result<Vec<_>>>()?;
        let (opened, twice) = (
            workers.iter().flat_map(Ledger::openings).count(),
            opened_more_than_once(&workers),
        );
        if !ran_here.is_empty() || !twice.is_empty() {
            bail!("ran on the manager: {ran_here:?}; opened more than once: {twice:?}");
        }
        self.say(&format!("The API servers' audit logs: {opened} pods were opened on workers, each once; none of `{NAMESPACE}` ran on the manager"));
        Ok(())
    }

    /// Waits until a field of an object of the user's has a value, as a user would: `kubectl wait`.
    pub(super) async fn until(&self, object: &str, state: &str) -> Result<()> {
        let condition = format!("--for=jsonpath={state}");
        let timeout = format!("--timeout={}s", PATIENCE.as_secs());
        match self.user(&["wait", object, &condition, &timeout]).await {
            Ok(_) => Ok(()),
            Err(error) => {
                let seen = self.user(&["describe", object]).await.unwrap_or_default();
                Err(error.context(format!("{object} never had {state}:\n{seen}")))
            }
        }
    }

    async fn local_pods(&self) -> Result<Vec<Pod>> {
        pods(&self.world.manager).await
    }

    /// The remote pod of a local one, by its UID.
    async fn remote_of(&self, local: &Pod) -> Result<(&Cluster, Pod)> {
        let uid = local.uid().context("a pod has a UID")?;
        for worker in &self.world.workers {
            let remote = pods(&worker.cluster)
                .await?
                .into_iter()
                .find(|pod| pod.annotations().get(LOCAL_UID) == Some(&uid));
            if let Some(remote) = remote {
                return Ok((&worker.cluster, remote));
            }
        }
        bail!("{} has no remote pod", local.name_any())
    }

    async fn show_worker(&self, worker: &Cluster) -> Result<()> {
        let args = ["-n", NAMESPACE, "get", "pods", "-o=wide"];
        let output = worker.kubectl(&args).await?;
        print_command(
            worker.name(),
            &args,
            if output.is_empty() { "(none)" } else { &output },
        );
        Ok(())
    }
}

pub(super) async fn pods(cluster: &Cluster) -> Result<Vec<Pod>> {
    let pods: Api<Pod> = Api::namespaced(cluster.admin_client().await?, NAMESPACE);
    Ok(pods.list(&ListParams::default()).await?.items)
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
