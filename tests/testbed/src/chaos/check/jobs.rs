//! Jobs as they stand on the clusters now -> violations.

use std::collections::BTreeMap;

use anyhow::Result;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use super::super::audit::REMOTE_UID;
use super::super::load::jobs::{JOB, MPI_JOB, resource};
use super::{Checker, Kind, ORIGIN, Violation};
use crate::ledger::LOCAL_UID;

/// Annotation of a remote job that is not committed.
const UNCOMMITTED: &str = "portcullis.dev/uncommitted";
const DISPATCHED: &str = "portcullis.dev/Dispatched";

/// A job as JSON, whatever its kind.
struct Job {
    kind: &'static str,
    cluster: String,
    at: (String, String),
    uid: String,
    content: Value,
}

impl Checker<'_> {
    /// Jobs that are neither finished, nor on a worker, nor suspended by their user.
    pub(super) async fn jobs_not_running(&self) -> Result<Vec<Violation>> {
        let locals = self.local_jobs().await?;
        Ok(locals.iter().filter_map(not_running).collect())
    }

    /// Jobs that disagree with their copies.
    pub(super) async fn jobs_untrue(&self) -> Result<Vec<Violation>> {
        let locals = self.local_jobs().await?;
        let by_uid: BTreeMap<&str, &Job> = locals.iter().map(|job| (job.uid.as_str(), job)).collect();
        let mut violations = Vec::new();
        for remote in self.remote_jobs(true).await? {
            match by_uid.get(remote.annotation(LOCAL_UID)) {
                Some(local) => violations.extend(untrue(local, &remote)),
                None => violations.push(
                    remote.violation(Kind::LeftOver, format!("on {} has no local job", remote.cluster)),
                ),
            }
        }
        Ok(violations)
    }

    /// After everything was deleted: jobs on either side, and the pods of jobs there.
    pub(super) async fn jobs_left_over(&self) -> Result<Vec<Violation>> {
        let mut left = self.local_jobs().await?;
        let there = self.remote_jobs(false).await?.into_iter();
        left.extend(there.filter(|job| job.label("whose") != "not-ours"));
        let mut violations: Vec<Violation> = left
            .iter()
            .map(|job| job.violation(Kind::LeftOver, format!("on {}", job.cluster)))
            .collect();
        for worker in &self.world.workers {
            let client = worker.cluster.admin_client().await?;
            for namespace in &self.namespaces {
                let pods = Api::<k8s_openapi::api::core::v1::Pod>::namespaced(client.clone(), namespace);
                for pod in pods.list(&ListParams::default()).await? {
                    let of_a_job = |kind: &str| kind == JOB || kind == MPI_JOB;
                    if pod.owner_references().iter().any(|owner| of_a_job(&owner.kind)) {
                        violations.push(Violation {
                            kind: Kind::LeftOver,
                            what: format!(
                                "{namespace}/{} of a job on {}",
                                pod.name_any(),
                                worker.cluster.name()
                            ),
                            pod: Some((namespace.clone(), pod.name_any())),
                        });
                    }
                }
            }
        }
        Ok(violations)
    }

    async fn local_jobs(&self) -> Result<Vec<Job>> {
        let manager = &self.world.manager;
        let client = manager.admin_client().await?;
        self.jobs(&client, manager.name(), &ListParams::default()).await
    }

    async fn remote_jobs(&self, only_ours: bool) -> Result<Vec<Job>> {
        let which = match only_ours {
            true => ListParams::default().labels(ORIGIN),
            false => ListParams::default(),
        };
        let mut jobs = Vec::new();
        for worker in &self.world.workers {
            let client = worker.cluster.admin_client().await?;
            jobs.extend(self.jobs(&client, worker.cluster.name(), &which).await?);
        }
        Ok(jobs)
    }

    async fn jobs(&self, client: &Client, cluster: &str, which: &ListParams) -> Result<Vec<Job>> {
        let mut jobs = Vec::new();
        for kind in [JOB, MPI_JOB] {
            for namespace in &self.namespaces {
                for job in list(client, &resource(kind), namespace, which).await? {
                    jobs.push(Job {
                        kind,
                        cluster: cluster.to_owned(),
                        at: (namespace.clone(), job.name_any()),
                        uid: job.uid().unwrap_or_default(),
                        content: serde_json::to_value(&job)?,
                    });
                }
            }
        }
        Ok(jobs)
    }
}

/// A kind that is not served has no objects.
async fn list(
    client: &Client,
    resource: &ApiResource,
    namespace: &str,
    which: &ListParams,
) -> Result<Vec<DynamicObject>> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, resource);
    match api.list(which).await {
        Ok(list) => Ok(list.items),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

impl Job {
    fn text(&self, pointer: &str) -> &str {
        self.content
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    fn annotation(&self, key: &str) -> &str {
        self.content["metadata"]["annotations"][key]
            .as_str()
            .unwrap_or_default()
    }

    fn label(&self, key: &str) -> &str {
        self.content["metadata"]["labels"][key]
            .as_str()
            .unwrap_or_default()
    }

    fn spec(&self, of_a_job: &str, of_an_mpi_job: &str) -> &Value {
        let pointer = match self.kind {
            MPI_JOB => of_an_mpi_job,
            _ => of_a_job,
        };
        self.content.pointer(pointer).unwrap_or(&Value::Null)
    }

    fn suspended(&self) -> bool {
        *self.spec("/spec/suspend", "/spec/runPolicy/suspend") == true
    }

    fn is_due(&self) -> bool {
        !self
            .spec(
                "/spec/ttlSecondsAfterFinished",
                "/spec/runPolicy/ttlSecondsAfterFinished",
            )
            .is_null()
    }

    fn condition(&self, kind: &str) -> &Value {
        let conditions = self
            .content
            .pointer("/status/conditions")
            .and_then(Value::as_array);
        let found = conditions
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == kind);
        found.unwrap_or(&Value::Null)
    }

    fn end(&self) -> Option<&'static str> {
        ["Complete", "Succeeded", "Failed"]
            .into_iter()
            .find(|kind| self.condition(kind)["status"] == "True")
    }

    fn terminating(&self) -> bool {
        !self.text("/metadata/deletionTimestamp").is_empty()
    }

    fn committed(&self) -> &str {
        let commit = self.annotation(REMOTE_UID).split_once('/');
        commit.map_or("", |(_, uid)| uid)
    }

    /// Without what is ours, and without bookkeeping of one cluster.
    fn shown(&self) -> Value {
        let mut status = self.content["status"].clone();
        if let Some(fields) = status.as_object_mut() {
            for own in ["uncountedTerminatedPods", "observedGeneration"] {
                fields.remove(own);
            }
        }
        if let Some(conditions) = status["conditions"].as_array_mut() {
            conditions.retain(|condition| condition["type"] != DISPATCHED);
        }
        let empty = |value: &Value| value.is_null() || *value == Value::Array(Vec::new());
        if let Some(fields) = status.as_object_mut() {
            fields.retain(|_, value| !empty(value));
        }
        status
    }

    fn violation(&self, kind: Kind, what: impl AsRef<str>) -> Violation {
        Violation {
            kind,
            what: format!("{} {}/{} {}", self.kind, self.at.0, self.at.1, what.as_ref()),
            pod: Some(self.at.clone()),
        }
    }
}

fn not_running(job: &Job) -> Option<Violation> {
    let dispatched = job.condition(DISPATCHED);
    let here = !job.committed().is_empty() && dispatched["status"] == "True";
    let wrong = match (job.terminating(), job.end(), job.suspended()) {
        (true, _, _) => "is still going",
        (false, Some(_), _) if job.is_due() => "ended, and its time is over or will be",
        (false, Some(_), _) | (false, None, true) => return None,
        (false, None, false) if here => return None,
        (false, None, false) => "is on no worker",
    };
    Some(job.violation(
        Kind::NotRunning,
        format!("{wrong}: {} {}", dispatched["reason"], dispatched["message"]),
    ))
}

fn untrue(local: &Job, remote: &Job) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut say = |kind, what: String| violations.push(local.violation(kind, what));
    let there = &remote.cluster;
    if remote.uid != local.committed() {
        let (committed, uid) = (local.committed(), &remote.uid);
        say(
            Kind::StatusUntrue,
            format!("says commit {committed:?}, and on {there} stands {uid:?}"),
        );
        return violations;
    }
    if local.terminating() {
        return violations;
    }
    match (local.end(), remote.end()) {
        (Some(_), None) => say(
            Kind::StatusUntrue,
            format!("has ended, and on {there} it goes on"),
        ),
        (here, end) if here != end => say(
            Kind::StatusUntrue,
            format!("is {here:?}, and on {there} it is {end:?}"),
        ),
        (Some(_), Some(_)) => {} // what changes after the end is not shown
        (None, _) => {
            if !remote.annotation(UNCOMMITTED).is_empty() {
                say(Kind::NotRunning, format!("was never opened on {there}"));
            } else if local.suspended() != remote.suspended() {
                let (here, far) = (local.suspended(), remote.suspended());
                say(
                    Kind::StatusUntrue,
                    format!("suspended: {here}, and on {there}: {far}"),
                );
            } else if local.shown() != remote.shown() {
                say(
                    Kind::StatusUntrue,
                    format!("shows {}, and on {there} {}", local.shown(), remote.shown()),
                );
            }
            let size = |job: &Job| job.content.pointer("/spec/parallelism").cloned();
            if size(local) != size(remote) {
                say(
                    Kind::StaleCopy,
                    format!("has parallelism {:?}, on {there} {:?}", size(local), size(remote)),
                );
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests;
