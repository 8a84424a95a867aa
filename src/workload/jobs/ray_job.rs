//! RayJob: a RayCluster and the job that runs on it.

use serde_json::{Map, Value, json};

use super::{Dispatch, Failure, JobKind, ManagedBy, PodLabels, Resource, ray};

/// A RayJob of ray.io.
pub struct RayJob;

impl JobKind for RayJob {
    fn resource(&self) -> Resource {
        Resource {
            group: "ray.io",
            version: "v1",
            plural: "rayjobs",
            kind: "RayJob",
        }
    }

    fn managed_by(&self) -> ManagedBy {
        ray::OPERATOR
    }

    fn suspend(&self) -> &'static [&'static str] {
        &["spec", "suspend"]
    }

    /// KubeRay marks a suspended one without it as `ValidationFailed`, and never looks at it again (1.5.1).
    fn flag_of_suspended(&self) -> Option<&'static [&'static str]> {
        Some(&["spec", "shutdownAfterJobFinishes"])
    }

    fn is_finished(&self, job: &Value) -> bool {
        let state = job.pointer("/status/jobDeploymentStatus").and_then(Value::as_str);
        matches!(state, Some("Complete" | "Failed"))
    }

    fn finished_at<'j>(&self, job: &'j Value) -> Option<&'j str> {
        job.pointer("/status/endTime")?.as_str()
    }

    /// Its status has no conditions.
    fn dispatch(&self) -> Dispatch {
        Dispatch {
            takes_condition: false,
            ..ray::DISPATCH
        }
    }

    fn fail(&self, status: &mut Map<String, Value>, failure: &Failure<'_>) {
        for (field, value) in [
            ("jobDeploymentStatus", "Failed"),
            ("jobStatus", "FAILED"),
            ("reason", failure.reason),
            ("message", failure.message),
        ] {
            status.insert(field.to_owned(), json!(value));
        }
        if status.get("endTime").is_none_or(Value::is_null) {
            status.insert("endTime".to_owned(), json!(failure.now));
        }
    }

    fn pod_labels(&self) -> Option<PodLabels> {
        Some(PodLabels::At(ray::CLUSTER_LABEL, &["status", "rayClusterName"]))
    }

    fn example(&self) -> &'static str {
        EXAMPLE
    }
}

const EXAMPLE: &str = "\
apiVersion: ray.io/v1
kind: RayJob
metadata:
  name: train
spec:
  entrypoint: python train.py
  rayClusterSpec:
    headGroupSpec:
      rayStartParams: {}
      template:
        spec:
          containers:
          - name: main
            image: registry.k8s.io/pause:3.10
    workerGroupSpecs:
    - groupName: workers
      replicas: 2
      minReplicas: 2
      maxReplicas: 2
      rayStartParams: {}
      template:
        spec:
          containers:
          - name: main
            image: registry.k8s.io/pause:3.10
";
