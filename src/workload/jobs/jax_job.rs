//! JAXJob: workers only. Its operator (1.9.3, the last release) reads `managedBy` nowhere, unlike that of its sisters, so it is
//! no kind that is dispatched whole.

use serde_json::{Map, Value};

use super::kubeflow::{self, Role};
use super::{Dispatch, Failure, GangKind, InvalidField, JobKind, ManagedBy, Pods, Resource};

/// A JAXJob of kubeflow.org, run by the training operator.
pub struct JaxJob;

/// Its validation refuses all others.
const ROLES: &[Role] = &[("Worker", 1)];

impl JobKind for JaxJob {
    fn resource(&self) -> Resource {
        Resource {
            group: "kubeflow.org",
            version: "v1",
            plural: "jaxjobs",
            kind: "JAXJob",
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

    fn example(&self) -> &'static str {
        EXAMPLE
    }
}

impl GangKind for JaxJob {
    fn pod_sets<'j>(&self, job: &'j Value) -> Result<Pods<'j>, InvalidField> {
        kubeflow::replicas(job, "jaxReplicaSpecs", ROLES)
    }

    fn scheduling_policy(&self) -> Option<&'static [&'static str]> {
        Some(kubeflow::SCHEDULING_POLICY)
    }
}

const EXAMPLE: &str = "\
apiVersion: kubeflow.org/v1
kind: JAXJob
metadata:
  name: train
spec:
  runPolicy:
    schedulingPolicy: {}
  jaxReplicaSpecs:
    Worker:
      replicas: 4
      template:
        spec:
          containers:
          - name: main
            image: registry.k8s.io/pause:3.10
            resources: {requests: {cpu: 1, memory: 1Gi}}
";
