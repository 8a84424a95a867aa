//! Job of group batch: as many pods at a time as `parallelism` says, but never more than still have to complete.
//!
//! A Job with more completions than parallelism runs in waves; the gang is one wave. With `spec.scheduling` (Kubernetes
//! 1.37, feature WorkloadWithJob) the Job controller makes a group itself.

use serde_json::Value;

use super::{Field, InvalidField, JobKind, ManagedBy, PodSet, Pods, Presence, Resource, has_condition};

/// A Job of group batch, ganged by annotation.
pub struct BatchJob;

impl JobKind for BatchJob {
    fn resource(&self) -> Resource {
        Resource {
            group: "batch",
            version: "v1",
            plural: "jobs",
            kind: "Job",
        }
    }

    fn pod_sets<'j>(&self, job: &'j Value) -> Result<Pods<'j>, InvalidField> {
        let spec = Field::root(job).get("spec");
        spec.object()?;
        let succeeded = Field::root(job).at(&["status", "succeeded"]).count()?;
        Ok(Pods::Sets(vec![PodSet {
            role: "Job".to_owned(),
            count: at_a_time(&spec)?.left_after(succeeded.unwrap_or(0)),
            presence: Presence::Together,
            at_least: None,
            template: spec.get("template"),
        }]))
    }

    fn managed_by(&self) -> ManagedBy {
        ManagedBy {
            path: &["spec", "managedBy"],
            local: "kubernetes.io/job-controller",
        }
    }

    fn suspend(&self) -> &'static [&'static str] {
        &["spec", "suspend"]
    }

    fn has_fixed_templates(&self) -> bool {
        true
    }

    fn is_finished(&self, job: &Value) -> bool {
        has_condition(job, &["Complete", "Failed"])
    }

    fn own_group(&self) -> Option<&'static [&'static str]> {
        Some(&["spec", "scheduling"])
    }

    fn example(&self) -> &'static str {
        EXAMPLE
    }
}

/// How many pods of a JobSpec run at a time, and how many must complete.
pub(super) struct AtATime {
    parallelism: u32,
    completions: Option<u32>,
}

impl AtATime {
    /// With so many completed already.
    pub(super) fn left_after(&self, succeeded: u32) -> u32 {
        match self.completions {
            Some(completions) => self.parallelism.min(completions.saturating_sub(succeeded)),
            None => self.parallelism,
        }
    }
}

/// Reads a JobSpec. `parallelism` is 1 if left out; without `completions` any number of pods runs.
pub(super) fn at_a_time(spec: &Field<'_>) -> Result<AtATime, InvalidField> {
    Ok(AtATime {
        parallelism: spec.get("parallelism").count()?.unwrap_or(1),
        completions: spec.get("completions").count()?,
    })
}

const EXAMPLE: &str = "\
apiVersion: batch/v1
kind: Job
metadata:
  name: solve
  annotations: {portcullis.dev/gang-scheduling: \"true\"}
spec:
  parallelism: 4
  completions: 4
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: registry.k8s.io/pause:3.10
        resources: {requests: {cpu: 1, memory: 1Gi}}
";
