//! TFJob: a parameter server job of TensorFlow. `enableDynamicWorker` lets workers come and go; the gang follows the spec.

use serde_json::{Map, Value};

use super::kubeflow::{self, Role};
use super::{Dispatch, Failure, GangKind, InvalidField, JobKind, ManagedBy, PodLabels, Pods, Resource};

/// A TFJob of kubeflow.org, run by the training operator.
pub struct TfJob;

/// Its validation refuses all others.
const ROLES: &[Role] = &[
    ("Chief", 1),
    ("Master", 1),
    ("PS", 1),
    ("Worker", 1),
    ("Evaluator", 1),
];

impl JobKind for TfJob {
    fn resource(&self) -> Resource {
        Resource {
            group: "kubeflow.org",
            version: "v1",
            plural: "tfjobs",
            kind: "TFJob",
        }
    }

    fn managed_by(&self) -> ManagedBy {
        kubeflow::TRAINING_OPERATOR
    }

    fn suspend(&self) -> &'static [&'static str] {
        kubeflow::SUSPEND
    }

    fn is_finished(&self, job: &Value) -> bool {
        kubeflow::is_finished(job)
    }

    fn dispatch(&self) -> Dispatch {
        kubeflow::DISPATCH
    }

    fn fail(&self, status: &mut Map<String, Value>, failure: &Failure<'_>) {
        kubeflow::fail(status, failure);
    }

    fn pod_labels(&self) -> Option<PodLabels> {
        Some(kubeflow::pod_labels("tfjob-controller"))
    }

    fn example(&self) -> &'static str {
        EXAMPLE
    }
}

impl GangKind for TfJob {
    fn pod_sets<'j>(&self, job: &'j Value) -> Result<Pods<'j>, InvalidField> {
        kubeflow::replicas(job, "tfReplicaSpecs", ROLES)
    }

    fn scheduling_policy(&self) -> Option<&'static [&'static str]> {
        Some(kubeflow::SCHEDULING_POLICY)
    }
}

const EXAMPLE: &str = "\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata:
  name: train
spec:
  runPolicy:
    schedulingPolicy: {}
  tfReplicaSpecs:
    Chief:
      replicas: 1
      template:
        spec:
          containers:
          - name: main
            image: registry.k8s.io/pause:3.10
            resources: {requests: {cpu: 1, memory: 1Gi}}
    PS:
      replicas: 2
      template:
        spec:
          containers:
          - name: main
            image: registry.k8s.io/pause:3.10
            resources: {requests: {cpu: 1, memory: 1Gi}}
    Worker:
      replicas: 4
      template:
        spec:
          containers:
          - name: main
            image: registry.k8s.io/pause:3.10
            resources: {requests: {cpu: 1, memory: 1Gi}}
";
