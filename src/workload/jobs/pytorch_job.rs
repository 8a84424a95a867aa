//! PyTorchJob: a master and workers, which may be elastic.

use serde_json::{Map, Value};

use super::kubeflow::{self, Role};
use super::{Dispatch, Failure, GangKind, InvalidField, JobKind, ManagedBy, PodLabels, Pods, Resource};

/// A PyTorchJob of kubeflow.org, run by the training operator.
pub struct PyTorchJob;

/// Its validation refuses all others.
const ROLES: &[Role] = &[("Master", 1), ("Worker", 1)];

impl JobKind for PyTorchJob {
    fn resource(&self) -> Resource {
        Resource {
            group: "kubeflow.org",
            version: "v1",
            plural: "pytorchjobs",
            kind: "PyTorchJob",
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
        Some(kubeflow::pod_labels("pytorchjob-controller"))
    }

    fn example(&self) -> &'static str {
        EXAMPLE
    }
}

impl GangKind for PyTorchJob {
    fn pod_sets<'j>(&self, job: &'j Value) -> Result<Pods<'j>, InvalidField> {
        kubeflow::elastic(job, "pytorchReplicaSpecs", ROLES)
    }

    fn scheduling_policy(&self) -> Option<&'static [&'static str]> {
        Some(kubeflow::SCHEDULING_POLICY)
    }
}

const EXAMPLE: &str = "\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: train
spec:
  runPolicy:
    schedulingPolicy: {}
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template:
        spec:
          containers:
          - name: main
            image: registry.k8s.io/pause:3.10
            resources: {requests: {cpu: 1, memory: 1Gi}}
    Worker:
      replicas: 3
      template:
        spec:
          containers:
          - name: main
            image: registry.k8s.io/pause:3.10
            resources: {requests: {cpu: 1, memory: 1Gi}}
";
