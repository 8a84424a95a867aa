//! What users of the manager and people on the workers do with whole jobs.

use anyhow::Result;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use portcullis_testbed::chaos::load::jobs::{JOB, MPI_JOB, resource};
use serde_json::{Value, json};

use super::{FIRST, SECOND, Stage};

impl Stage {
    async fn jobs(&self, kind: &str, worker: Option<usize>) -> Result<Api<DynamicObject>> {
        let world = &self.rig().world;
        let cluster = worker.map_or(&world.manager, |worker| &world.workers[worker].cluster);
        Ok(Api::namespaced_with(
            cluster.admin_client().await?,
            &self.namespace,
            &resource(kind),
        ))
    }

    /// The job on the manager, or its copy.
    pub async fn job(&self, kind: &str, name: &str, worker: Option<usize>) -> Result<Option<Value>> {
        let found = self.jobs(kind, worker).await?.get_opt(name).await?;
        Ok(found.map(|job| serde_json::to_value(&job)).transpose()?)
    }

    /// The user makes a job of one pod, which runs until somebody ends it.
    pub async fn create_job(&self, kind: &str, name: &str) -> Result<()> {
        let api = self.jobs(kind, None).await?;
        api.create(&PostParams::default(), &serde_json::from_value(job(kind, name))?)
            .await?;
        Ok(())
    }

    pub async fn delete_job(&self, kind: &str, name: &str) -> Result<()> {
        let api = self.jobs(kind, None).await?;
        api.delete(name, &DeleteParams::background()).await?;
        Ok(())
    }

    /// The copy is there and not suspended.
    pub async fn job_is_open(&self, kind: &str, name: &str, worker: usize) -> Result<bool> {
        let suspend = match kind {
            MPI_JOB => "/spec/runPolicy/suspend",
            _ => "/spec/suspend",
        };
        let copy = self.job(kind, name, Some(worker)).await?;
        Ok(copy.is_some_and(|copy| copy.pointer(suspend) != Some(&Value::Bool(true))))
    }

    /// The manager shows that its pods run.
    pub async fn until_job_runs(&self, kind: &str, name: &str) -> Result<()> {
        self.until(&format!("{kind} {name} to run"), async || {
            let job = self.job(kind, name, None).await?.unwrap_or_default();
            let conditions = job["status"]["conditions"].as_array();
            Ok(conditions.into_iter().flatten().any(|condition| {
                condition["type"] == "portcullis.dev/Dispatched" && condition["reason"] == "Running"
            }))
        })
        .await
    }

    pub async fn until_job_gone(&self, kind: &str, name: &str) -> Result<()> {
        self.until(&format!("{kind} {name} to go"), async || {
            Ok(self.job(kind, name, None).await?.is_none())
        })
        .await
    }

    /// As the process itself would have opened the copy of a Job: a write whose answer it never got.
    pub async fn open_as_portcullis(&self, name: &str, worker: usize) -> Result<()> {
        let open = json!({
            "metadata": {"annotations": {"portcullis.dev/uncommitted": null}},
            "spec": {"suspend": false},
        });
        let user = "--as=system:serviceaccount:portcullis-system:portcullis";
        let (namespace, open) = (&self.namespace, open.to_string());
        let args = [
            "patch",
            "job",
            name,
            "-n",
            namespace,
            user,
            "--type=merge",
            "-p",
            &open,
        ];
        let cluster = &self.rig().world.workers[worker].cluster;
        cluster.kubectl(&args).await?;
        Ok(())
    }

    /// Somebody on the worker removes the copy.
    pub async fn delete_copy(&self, kind: &str, name: &str, worker: usize) -> Result<()> {
        let api = self.jobs(kind, Some(worker)).await?;
        api.delete(name, &DeleteParams::background()).await?;
        self.until("the copy to go", async || {
            Ok(self.job(kind, name, Some(worker)).await?.is_none())
        })
        .await
    }

    /// Somebody on the worker makes a Job of this name that has nothing to do with us.
    pub async fn foreign_job(&self, name: &str, worker: usize) -> Result<()> {
        let mut theirs = job(JOB, name);
        theirs["spec"]["suspend"] = true.into();
        theirs["metadata"]["labels"] = json!({"whose": "not-ours"});
        let api = self.jobs(JOB, Some(worker)).await?;
        api.create(&PostParams::default(), &serde_json::from_value(theirs)?)
            .await?;
        Ok(())
    }

    /// No job is left on either side, whoever holds it.
    pub(crate) async fn clear_jobs(&self) -> Result<()> {
        for kind in [JOB, MPI_JOB] {
            for place in [Some(FIRST), Some(SECOND), None] {
                let api = self.jobs(kind, place).await?;
                for job in api.list(&ListParams::default()).await? {
                    let name = job.name_any();
                    let _gone = api.delete(&name, &DeleteParams::background()).await;
                    if !job.finalizers().is_empty() {
                        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
                        let _gone = api.patch(&name, &PatchParams::default(), &free).await;
                    }
                }
            }
        }
        Ok(())
    }
}

fn job(kind: &str, name: &str) -> Value {
    let container = json!({"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "10m"}}});
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
    let of = resource(kind);
    let spec = match kind {
        MPI_JOB => json!({"mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "template": template},
            "Worker": {"replicas": 1, "template": template},
        }}),
        _ => json!({"template": template}),
    };
    json!({"apiVersion": of.api_version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}
