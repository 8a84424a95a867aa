//! JobSet: replicated Jobs, that start together or one after the other.
//!
//! One that another waits for to *complete* ends before the gang starts and is no part of it. One that starts when
//! another is *ready* (`dependsOn`, or `startupPolicy: InOrder`) comes later: it needs room, but does not count.

use serde_json::{Map, Value};

use super::batch_job::at_a_time;
use super::conditions::{self, Said};
use super::{
    Dispatch, Failure, Field, GangKind, InvalidField, JobKind, ManagedBy, PodLabels, PodSet, Pods, Presence,
    Resource, Written, dispatch, has_condition,
};

/// A JobSet of jobset.x-k8s.io, ganged by annotation.
pub struct JobSet;

impl JobKind for JobSet {
    fn resource(&self) -> Resource {
        Resource {
            group: "jobset.x-k8s.io",
            version: "v1alpha2",
            plural: "jobsets",
            kind: "JobSet",
        }
    }

    fn managed_by(&self) -> ManagedBy {
        ManagedBy {
            path: &["spec", "managedBy"],
            local: "jobset.sigs.k8s.io/jobset-controller",
        }
    }

    fn suspend(&self) -> &'static [&'static str] {
        &["spec", "suspend"]
    }

    fn is_finished(&self, job: &Value) -> bool {
        has_condition(job, &["Completed", "Failed"])
    }

    fn dispatch(&self) -> Dispatch {
        Dispatch {
            written: Written::Ours,
            takes_condition: true,
            ttl: Some(&["spec", "ttlSecondsAfterFinished"]),
        }
    }

    fn fail(&self, status: &mut Map<String, Value>, failure: &Failure<'_>) {
        status.insert("terminalState".to_owned(), "Failed".into());
        dispatch::none_of_each(status, "replicatedJobsStatus", &["ready", "active"]);
        let conditions = conditions::list(status, "conditions");
        conditions::set(conditions, &Said::of("Failed", true, failure), failure.now);
    }

    fn pod_labels(&self) -> Option<PodLabels> {
        Some(PodLabels::Uid("jobset.sigs.k8s.io/jobset-uid"))
    }

    fn example(&self) -> &'static str {
        EXAMPLE
    }
}

impl GangKind for JobSet {
    fn pod_sets<'j>(&self, job: &'j Value) -> Result<Pods<'j>, InvalidField> {
        let spec = Field::root(job).get("spec");
        let order = spec.at(&["startupPolicy", "startupPolicyOrder"]).text()?;
        let jobs = spec.get("replicatedJobs").items()?;
        let waits = jobs.iter().map(waits).collect::<Result<Vec<_>, _>>()?;
        let is_awaited = |name: &str| {
            waits
                .iter()
                .flatten()
                .any(|wait| wait.until == Until::Complete && wait.name == name)
        };
        let mut sets = Vec::with_capacity(jobs.len());
        for (place, job) in jobs.iter().enumerate() {
            let name = job.get("name").text()?.unwrap_or_default();
            let follows = waits[place].iter().any(|wait| wait.until == Until::Ready);
            let presence = match (
                is_awaited(name),
                follows || (order == Some("InOrder") && place > 0),
            ) {
                (true, _) => Presence::Before,
                (false, true) => Presence::Later,
                (false, false) => Presence::Together,
            };
            sets.push(PodSet {
                role: name.to_owned(),
                count: pods(job)?,
                presence,
                at_least: None,
                template: job.at(&["template", "spec", "template"]),
            });
        }
        Ok(Pods::Sets(sets))
    }

    fn has_fixed_templates(&self) -> bool {
        true
    }
}

/// What a replicated Job waits for.
struct Wait<'j> {
    name: &'j str,
    until: Until,
}

#[derive(PartialEq, Eq)]
enum Until {
    Ready,
    Complete,
}

fn waits<'j>(job: &Field<'j>) -> Result<Vec<Wait<'j>>, InvalidField> {
    let mut waits = Vec::new();
    for dependency in job.get("dependsOn").items()? {
        let until = match dependency.get("status").text()? {
            Some("Complete") => Until::Complete,
            Some(_) | None => Until::Ready,
        };
        let name = dependency.get("name").text()?.unwrap_or_default();
        waits.push(Wait { name, until });
    }
    Ok(waits)
}

/// `replicas` Jobs with their pods.
fn pods(job: &Field<'_>) -> Result<u32, InvalidField> {
    let replicas = job.get("replicas");
    let each = at_a_time(&job.at(&["template", "spec"]))?.left_after(0);
    let pods = u64::from(replicas.count()?.unwrap_or(1)) * u64::from(each);
    match i32::try_from(pods) {
        Ok(pods) => Ok(pods.unsigned_abs()),
        Err(_) => Err(replicas.invalid(format!(
            "{pods} pods are more than 2147483647, the most of a group"
        ))),
    }
}

const EXAMPLE: &str = "\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: train
  annotations: {portcullis.dev/gang-scheduling: \"true\"}
spec:
  replicatedJobs:
  - name: leader
    template:
      spec:
        template:
          spec:
            containers:
            - name: main
              image: registry.k8s.io/pause:3.10
              resources: {requests: {cpu: 1, memory: 1Gi}}
  - name: workers
    replicas: 2
    template:
      spec:
        parallelism: 4
        completions: 4
        template:
          spec:
            containers:
            - name: main
              image: registry.k8s.io/pause:3.10
              resources: {requests: {cpu: 1, memory: 1Gi}}
";
