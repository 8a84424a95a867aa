//! MPIJob of version v2beta1: a launcher, and workers. With `launcherCreationPolicy: WaitForWorkersReady` the operator
//! creates the launcher only once all workers are ready, so a gang that counts it never starts
//! (kubeflow/mpi-operator#608). `runLauncherAsWorker` changes no number: the launcher stays one pod.

use serde_json::{Map, Value};

use super::kubeflow::{self, Role};
use super::{
    Dispatch, Failure, Field, GangKind, InvalidField, JobKind, ManagedBy, PodLabels, Pods, Presence,
    Resource, Written,
};

/// A MPIJob of kubeflow.org, run by the MPI operator.
pub struct MpiJob;

/// Its validation refuses all others.
const ROLES: &[Role] = &[("Launcher", 1), ("Worker", 0)];

/// The `launcherCreationPolicy` by which the launcher comes last; the other is `AtStartup`.
const WAIT_FOR_WORKERS: &str = "WaitForWorkersReady";

fn launcher_creation_policy(job: &Value) -> Field<'_> {
    Field::root(job).at(&["spec", "launcherCreationPolicy"])
}

impl JobKind for MpiJob {
    fn resource(&self) -> Resource {
        Resource {
            group: "kubeflow.org",
            version: "v2beta1",
            plural: "mpijobs",
            kind: "MPIJob",
        }
    }

    fn managed_by(&self) -> ManagedBy {
        ManagedBy {
            path: kubeflow::TRAINING_OPERATOR.path,
            local: "kubeflow.org/mpi-operator",
        }
    }

    fn suspend(&self) -> &'static [&'static str] {
        kubeflow::SUSPEND
    }

    fn is_finished(&self, job: &Value) -> bool {
        // A Failed launcher may be tried again; the completion time says that it is not.
        let is_complete = job
            .pointer("/status/completionTime")
            .is_some_and(Value::is_string);
        is_complete && kubeflow::is_finished(job)
    }

    fn dispatch(&self) -> Dispatch {
        Dispatch {
            written: Written::Ours, // a plain text in the schema, and the operator leaves every foreign value alone
            ..kubeflow::DISPATCH
        }
    }

    fn fail(&self, status: &mut Map<String, Value>, failure: &Failure<'_>) {
        kubeflow::fail(status, failure);
    }

    fn pod_labels(&self) -> Option<PodLabels> {
        Some(kubeflow::pod_labels("mpi-operator"))
    }

    fn example(&self) -> &'static str {
        EXAMPLE
    }
}

impl GangKind for MpiJob {
    fn pod_sets<'j>(&self, job: &'j Value) -> Result<Pods<'j>, InvalidField> {
        let policy = launcher_creation_policy(job).text()?;
        let mut pods = kubeflow::replicas(job, "mpiReplicaSpecs", ROLES)?;
        if let (Some(WAIT_FOR_WORKERS), Pods::Sets(sets)) = (policy, &mut pods) {
            let has_workers = sets.iter().any(|set| set.role == "Worker" && set.count > 0);
            for set in sets
                .iter_mut()
                .filter(|set| has_workers && set.role == "Launcher")
            {
                set.presence = Presence::Later;
            }
        }
        Ok(pods)
    }

    fn scheduling_policy(&self) -> Option<&'static [&'static str]> {
        Some(kubeflow::SCHEDULING_POLICY)
    }

    /// The operator creates the launcher of a suspended job at once, and starts it with the workers
    /// (kubeflow/mpi-operator#615), so a hold would undo [`WAIT_FOR_WORKERS`].
    fn can_be_held(&self, job: &Value) -> bool {
        launcher_creation_policy(job).text() != Ok(Some(WAIT_FOR_WORKERS))
    }

    fn makes_launcher_early(&self) -> bool {
        true
    }

    fn is_rigid(&self) -> bool {
        true // mpirun waits for every host of its list
    }
}

const EXAMPLE: &str = "\
apiVersion: kubeflow.org/v2beta1
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
