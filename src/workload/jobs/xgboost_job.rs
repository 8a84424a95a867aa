//! XGBoostJob: a master and workers.

use serde_json::{Map, Value};

use super::kubeflow::{self, Role};
use super::{Dispatch, Failure, GangKind, InvalidField, JobKind, ManagedBy, PodLabels, Pods, Resource};

/// A XGBoostJob of kubeflow.org, run by the training operator.
pub struct XgBoostJob;

/// Its validation refuses all others.
const ROLES: &[Role] = &[("Master", 1), ("Worker", 1)];

impl JobKind for XgBoostJob {
    fn resource(&self) -> Resource {
        Resource {
            group: "kubeflow.org",
            version: "v1",
            plural: "xgboostjobs",
            kind: "XGBoostJob",
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
        Some(kubeflow::pod_labels("xgboostjob-controller"))
    }

    fn example(&self) -> &'static str {
        EXAMPLE
    }
}

impl GangKind for XgBoostJob {
    fn pod_sets<'j>(&self, job: &'j Value) -> Result<Pods<'j>, InvalidField> {
        kubeflow::replicas(job, "xgbReplicaSpecs", ROLES)
    }

    fn scheduling_policy(&self) -> Option<&'static [&'static str]> {
        Some(kubeflow::SCHEDULING_POLICY)
    }
}

const EXAMPLE: &str = "\
apiVersion: kubeflow.org/v1
kind: XGBoostJob
metadata:
  name: train
spec:
  runPolicy:
    schedulingPolicy: {}
  xgbReplicaSpecs:
    Master:
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
