//! Whole jobs: what users do with them, and what people on the workers do.

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::{Load, NAMESPACES, USER};
use crate::World;

pub const JOB: &str = "Job";
pub const MPI_JOB: &str = "MPIJob";
/// More unfinished jobs at a time than this are not made.
const MOST_JOBS: usize = 10;

/// A job that was made.
#[derive(Clone, Debug)]
pub(super) struct Made {
    place: usize,
    kind: &'static str,
    name: String,
}

/// Of [`JOB`] or [`MPI_JOB`].
#[must_use]
pub fn resource(kind: &str) -> ApiResource {
    let (group, version) = match kind {
        MPI_JOB => ("kubeflow.org", "v2beta1"),
        _ => ("batch", "v1"),
    };
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// `edit` does not know MPIJobs.
pub(super) async fn allow(world: &World, namespace: &str) -> Result<()> {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "mpi-jobs", "namespace": namespace},
        "rules": [{"apiGroups": ["kubeflow.org"], "resources": ["*"], "verbs": ["*"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "mpi-jobs", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "mpi-jobs"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
    });
    world.manager.apply(&role.to_string()).await?;
    world.manager.apply(&binding.to_string()).await?;
    Ok(())
}

impl Load<'_> {
    pub(super) async fn act_on_jobs(&mut self) -> Result<()> {
        match self.dice.roll(100) {
            0..30 if self.unfinished().await? < MOST_JOBS => self.make_job().await,
            30..42 if self.unfinished().await? < MOST_JOBS => self.make_mpi_job().await,
            42..60 => self.toggle_job().await,
            60..66 => self.resize_job().await,
            66..78 => self.delete_job().await,
            78..90 => self.end_pods_of_a_job().await,
            90..96 => self.delete_copy_of_a_job().await,
            96..98 => self.foreign_job().await,
            _ => Ok(()),
        }
    }

    fn jobs_in(&self, place: usize, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.users.clone(), NAMESPACES[place].0, &resource(kind))
    }

    async fn unfinished(&self) -> Result<usize> {
        let mut count = 0;
        for kind in [JOB, MPI_JOB] {
            for place in 0..NAMESPACES.len() {
                let jobs = self.jobs_in(place, kind).list(&ListParams::default()).await?;
                count += jobs.iter().filter(|job| !is_finished(&job.data)).count();
            }
        }
        Ok(count)
    }

    /// Small; what fails, fails at once: a Job that tries again later is not at rest.
    async fn make_job(&mut self) -> Result<()> {
        let mut spec = json!({
            "parallelism": 1 + self.dice.roll(2), "completions": 3, "backoffLimit": 0, "suspend": self.dice.happens(20),
            "template": self.job_template(55),
        });
        if self.dice.happens(25) {
            spec["ttlSecondsAfterFinished"] = 3.into();
        }
        self.make(JOB, json!({ "spec": spec })).await
    }

    async fn make_mpi_job(&mut self) -> Result<()> {
        let mut policy =
            json!({"cleanPodPolicy": "Running", "backoffLimit": 0, "suspend": self.dice.happens(20)});
        if self.dice.happens(25) {
            policy["ttlSecondsAfterFinished"] = 3.into();
        }
        let (launcher, worker) = (self.job_template(55), self.job_template(0));
        let spec = json!({
            "runPolicy": policy,
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": launcher},
                "Worker": {"replicas": 1, "template": worker},
            },
        });
        self.make(MPI_JOB, json!({ "spec": spec })).await
    }

    async fn make(&mut self, kind: &'static str, mut job: Value) -> Result<()> {
        let (place, name) = self.next(if kind == JOB { "job" } else { "mpi" });
        let gvk = resource(kind);
        job["apiVersion"] = gvk.api_version.into();
        job["kind"] = kind.into();
        job["metadata"] = json!({ "name": name });
        let api = self.jobs_in(place, kind);
        self.jobs.push(Made { place, kind, name });
        api.create(&PostParams::default(), &serde_json::from_value(job)?)
            .await?;
        Ok(())
    }

    fn job_template(&mut self, may_end: usize) -> Value {
        let mut annotations = json!({});
        if self.dice.happens(25) {
            annotations["kwok.test/start-after"] = format!("{}s", 1 + self.dice.roll(3)).into();
        }
        if self.dice.happens(30) {
            annotations["kwok.test/terminate-after"] = format!("{}s", 1 + self.dice.roll(4)).into();
        }
        if self.dice.happens(may_end) {
            annotations["kwok.test/end"] = if self.dice.happens(75) { "complete" } else { "fail" }.into();
        }
        let mut spec = super::spec("app:1");
        spec["restartPolicy"] = "Never".into();
        json!({"metadata": {"annotations": annotations}, "spec": spec})
    }

    async fn patch_job(&mut self, patch: impl Fn(&Made) -> Option<Value>) -> Result<()> {
        let Some(made) = self.dice.pick(&self.jobs).cloned() else {
            return Ok(());
        };
        if let Some(patch) = patch(&made) {
            self.jobs_in(made.place, made.kind)
                .patch(&made.name, &PatchParams::default(), &Patch::Merge(patch))
                .await?;
        }
        Ok(())
    }

    async fn toggle_job(&mut self) -> Result<()> {
        let suspend = self.dice.happens(40);
        self.patch_job(|made| {
            Some(match made.kind {
                MPI_JOB => json!({"spec": {"runPolicy": {"suspend": suspend}}}),
                _ => json!({"spec": {"suspend": suspend}}),
            })
        })
        .await
    }

    async fn resize_job(&mut self) -> Result<()> {
        let parallelism = 1 + self.dice.roll(3);
        self.patch_job(|made| (made.kind == JOB).then(|| json!({"spec": {"parallelism": parallelism}})))
            .await
    }

    async fn delete_job(&mut self) -> Result<()> {
        if self.jobs.is_empty() {
            return Ok(());
        }
        let made = self.jobs.swap_remove(self.dice.roll(self.jobs.len()));
        let params = match self.dice.roll(4) {
            0 => DeleteParams::foreground(),
            1 => DeleteParams::orphan(),
            _ => DeleteParams::background(),
        };
        self.jobs_in(made.place, made.kind)
            .delete(&made.name, &params)
            .await?;
        // Sometimes a new one takes the name at once.
        if self.dice.happens(30) {
            let (place, name) = (made.place, made.name.clone());
            let api = self.jobs_in(place, made.kind);
            if made.kind == JOB {
                let spec = json!({"parallelism": 1, "completions": 3, "backoffLimit": 0, "template": self.job_template(55)});
                let job =
                    json!({"apiVersion": "batch/v1", "kind": JOB, "metadata": {"name": name}, "spec": spec});
                self.jobs.push(made);
                api.create(&PostParams::default(), &serde_json::from_value(job)?)
                    .await?;
            }
        }
        Ok(())
    }

    /// Any copy on a worker.
    async fn any_copy(&mut self) -> Result<Option<(usize, usize, &'static str, DynamicObject)>> {
        let worker = self.dice.roll(self.workers.len());
        let place = self.dice.roll(NAMESPACES.len());
        let kind = if self.dice.happens(60) { JOB } else { MPI_JOB };
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.workers[worker].clone(), NAMESPACES[place].0, &resource(kind));
        let all = api
            .list(&ListParams::default().labels("portcullis.dev/origin"))
            .await?;
        Ok(self
            .dice
            .pick(&all.items)
            .map(|job| (worker, place, kind, job.clone())))
    }

    /// The kubelet lets pods of a job end: all of a Job, the launcher of an MPIJob.
    async fn end_pods_of_a_job(&mut self) -> Result<()> {
        let Some((worker, place, kind, job)) = self.any_copy().await? else {
            return Ok(());
        };
        self.counts[2] += 1;
        let name = match kind {
            MPI_JOB => format!("{}-launcher", job.name_any()),
            _ => job.name_any(),
        };
        let end = if self.dice.happens(75) { "complete" } else { "fail" };
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"kwok.test/end": end}}}));
        let pods: Api<Pod> = Api::namespaced(self.workers[worker].clone(), NAMESPACES[place].0);
        let label = format!("batch.kubernetes.io/job-name={name}");
        for pod in pods.list(&ListParams::default().labels(&label)).await? {
            pods.patch(&pod.name_any(), &PatchParams::default(), &patch)
                .await?;
        }
        Ok(())
    }

    async fn delete_copy_of_a_job(&mut self) -> Result<()> {
        let Some((worker, place, kind, job)) = self.any_copy().await? else {
            return Ok(());
        };
        self.counts[2] += 1;
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.workers[worker].clone(), NAMESPACES[place].0, &resource(kind));
        api.delete(&job.name_any(), &DeleteParams::background()).await?;
        Ok(())
    }

    /// On one worker, under the name that the next Job may have. It is suspended: nobody but us could have a reason to touch it.
    async fn foreign_job(&mut self) -> Result<()> {
        let worker = self.dice.roll(self.workers.len());
        for next in 1..=3 {
            let name = format!("job-{}", self.made + next);
            if self.foreign_jobs.contains(&name) {
                continue; // on all workers it would leave the job no place
            }
            for (namespace, _) in NAMESPACES {
                let api: Api<DynamicObject> =
                    Api::namespaced_with(self.workers[worker].clone(), namespace, &resource(JOB));
                let job = json!({
                    "apiVersion": "batch/v1", "kind": JOB,
                    "metadata": {"name": name, "labels": {"whose": "not-ours"}},
                    "spec": {"suspend": true, "template": self.job_template(0)},
                });
                match api
                    .create(&PostParams::default(), &serde_json::from_value(job)?)
                    .await
                {
                    Ok(_) => {
                        self.foreign_jobs.insert(name.clone());
                    }
                    // The worker has the namespace only once something of it came there.
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }
}

fn is_finished(job: &Value) -> bool {
    let conditions = job["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| {
        let ended = ["Complete", "Succeeded", "Failed"]
            .iter()
            .any(|kind| condition["type"] == *kind);
        ended && condition["status"] == "True"
    })
}
