//! RayCluster: it serves until it is deleted, so it only ends when its copy is lost.

use serde_json::{Map, Value, json};

use super::conditions::{self, Said};
use super::{Dispatch, Failure, JobKind, ManagedBy, PodLabels, Resource, dispatch, ray};

/// A RayCluster of ray.io.
pub struct RayCluster;

impl JobKind for RayCluster {
    fn resource(&self) -> Resource {
        Resource {
            group: "ray.io",
            version: "v1",
            plural: "rayclusters",
            kind: "RayCluster",
        }
    }

    fn managed_by(&self) -> ManagedBy {
        ray::OPERATOR
    }

    fn suspend(&self) -> &'static [&'static str] {
        &["spec", "suspend"]
    }

    fn is_finished(&self, job: &Value) -> bool {
        dispatch::lost_since(job).is_some()
    }

    fn finished_at<'j>(&self, job: &'j Value) -> Option<&'j str> {
        dispatch::lost_since(job)
    }

    fn dispatch(&self) -> Dispatch {
        ray::DISPATCH
    }

    fn fail(&self, status: &mut Map<String, Value>, failure: &Failure<'_>) {
        status.insert("state".to_owned(), json!("failed"));
        status.insert("reason".to_owned(), json!(failure.message));
        dispatch::none_of_map(status, &["readyWorkerReplicas", "availableWorkerReplicas"]);
        let conditions = conditions::list(status, "conditions");
        for (kind, holds) in [("HeadPodReady", false), ("ReplicaFailure", true)] {
            conditions::set(conditions, &Said::of(kind, holds, failure), failure.now);
        }
    }

    fn pod_labels(&self) -> Option<PodLabels> {
        Some(PodLabels::Name(ray::CLUSTER_LABEL, None))
    }

    fn example(&self) -> &'static str {
        EXAMPLE
    }
}

const EXAMPLE: &str = "\
apiVersion: ray.io/v1
kind: RayCluster
metadata:
  name: notebook
spec:
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
