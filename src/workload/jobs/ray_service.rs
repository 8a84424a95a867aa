//! RayService: it serves until it is deleted, so it only ends when its copy is lost.

use serde_json::{Map, Value, json};

use super::conditions::{self, Said};
use super::{Dispatch, Failure, JobKind, ManagedBy, PodLabels, Resource, dispatch, ray};

/// A RayService of ray.io.
pub struct RayService;

impl JobKind for RayService {
    fn resource(&self) -> Resource {
        Resource {
            group: "ray.io",
            version: "v1",
            plural: "rayservices",
            kind: "RayService",
        }
    }

    fn managed_by(&self) -> ManagedBy {
        ray::OPERATOR
    }

    /// Of its RayCluster: older versions have no other.
    fn suspend(&self) -> &'static [&'static str] {
        &["spec", "rayClusterConfig", "suspend"]
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
        if status.contains_key("serviceStatus") {
            status.insert("serviceStatus".to_owned(), json!("")); // that it does not run
        }
        dispatch::none_of_map(status, &["numServeEndpoints"]);
        let conditions = conditions::list(status, "conditions");
        conditions::set(conditions, &Said::of("Ready", false, failure), failure.now);
    }

    fn pod_labels(&self) -> Option<PodLabels> {
        Some(PodLabels::At(
            ray::CLUSTER_LABEL,
            &["status", "activeServiceStatus", "rayClusterName"],
        ))
    }

    fn example(&self) -> &'static str {
        EXAMPLE
    }
}

const EXAMPLE: &str = "\
apiVersion: ray.io/v1
kind: RayService
metadata:
  name: model
spec:
  serveConfigV2: |
    applications: []
  rayClusterConfig:
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
