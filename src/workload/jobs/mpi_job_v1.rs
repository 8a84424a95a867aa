//! MPIJob of version v1: the training operator creates launcher and workers in one pass, so all of them count.

use serde_json::{Map, Value};

use super::kubeflow::{self, Role};
use super::{Dispatch, Failure, GangKind, InvalidField, JobKind, ManagedBy, PodLabels, Pods, Resource};

/// A MPIJob of kubeflow.org, run by the training operator.
pub struct MpiJobV1;

/// Its validation refuses all others.
const ROLES: &[Role] = &[("Launcher", 1), ("Worker", 0)];

impl JobKind for MpiJobV1 {
    fn resource(&self) -> Resource {
        Resource {
            group: "kubeflow.org",
            version: "v1",
            plural: "mpijobs",
            kind: "MPIJob",
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
        Some(kubeflow::pod_labels("mpijob-controller"))
    }

    fn example(&self) -> &'static str {
        EXAMPLE
    }
}

impl GangKind for MpiJobV1 {
    fn pod_sets<'j>(&self, job: &'j Value) -> Result<Pods<'j>, InvalidField> {
        kubeflow::replicas(job, "mpiReplicaSpecs", ROLES)
    }

    fn scheduling_policy(&self) -> Option<&'static [&'static str]> {
        Some(kubeflow::SCHEDULING_POLICY)
    }

    fn is_rigid(&self) -> bool {
        true // mpirun waits for every host of its list
    }
}

const EXAMPLE: &str = "\
apiVersion: kubeflow.org/v1
kind: MPIJob
metadata:
  name: train
spec:
  runPolicy:
    schedulingPolicy: {}
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template:
        spec:
          containers:
          - name: main
            image: registry.k8s.io/pause:3.10
            resources: {requests: {cpu: 1, memory: 1Gi}}
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - name: main
            image: registry.k8s.io/pause:3.10
            resources: {requests: {cpu: 1, memory: 1Gi}}
";
