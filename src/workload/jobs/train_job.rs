//! TrainJob: a training job of Kubeflow Trainer, described by a runtime of the cluster that runs it. The pods stand in the
//! runtime, so the job itself is no gang.

use serde_json::{Map, Value};

use super::conditions::{self, Said};
use super::{Dispatch, Failure, JobKind, ManagedBy, PodLabels, Resource, Written, dispatch, has_condition};

/// A TrainJob of trainer.kubeflow.org. The runtime that it names must be on the worker.
pub struct TrainJob;

/// The patch of a runtime by which the manager's Kueue says where pods go.
const KUEUES_PATCH: &str = "kueue.x-k8s.io/manager";
/// Before there were patches (Trainer 2.1 and older) it wrote overrides behind the user's own; this annotation, in its two
/// spellings, says how many those are.
const KUEUES_OVERRIDES: [&str; 2] = [
    "kueue.x-k8s.io/trainjob-override-idx",
    "kueue.x-k8s.io/override-idx",
];

/// The place of the first override that is Kueue's.
fn first_override(metadata: &Map<String, Value>) -> Option<usize> {
    let annotations = metadata.get("annotations")?;
    KUEUES_OVERRIDES
        .into_iter()
        .find_map(|key| annotations.get(key)?.as_str()?.parse().ok())
}

impl JobKind for TrainJob {
    fn resource(&self) -> Resource {
        Resource {
            group: "trainer.kubeflow.org",
            version: "v1alpha1",
            plural: "trainjobs",
            kind: "TrainJob",
        }
    }

    /// The schema defaults it to the local value.
    fn managed_by(&self) -> ManagedBy {
        ManagedBy {
            path: &["spec", "managedBy"],
            local: "trainer.kubeflow.org/trainjob-controller",
        }
    }

    fn suspend(&self) -> &'static [&'static str] {
        &["spec", "suspend"]
    }

    fn is_finished(&self, job: &Value) -> bool {
        has_condition(job, &["Complete", "Failed"])
    }

    fn dispatch(&self) -> Dispatch {
        Dispatch {
            written: Written::Kueues,
            takes_condition: true,
            ttl: None,
        }
    }

    fn fail(&self, status: &mut Map<String, Value>, failure: &Failure<'_>) {
        dispatch::none_of_each(status, "jobsStatus", &["ready", "active"]);
        let conditions = conditions::list(status, "conditions");
        conditions::set(conditions, &Said::of("Failed", true, failure), failure.now);
    }

    fn clean(
        &self,
        copy: &mut Value,
        metadata: &Map<String, Value>,
        dropped: &mut dyn FnMut(String, &'static str),
    ) {
        let mut take_out = |list: &'static str, is_kueues: &dyn Fn(usize, &Value) -> bool| {
            let items = copy
                .pointer_mut(&format!("/spec/{list}"))
                .and_then(Value::as_array_mut);
            let mut place = 0;
            if let Some(items) = items {
                items.retain(|item| {
                    let goes = is_kueues(place, item);
                    if goes {
                        let reason = "the manager's Kueue names nodes of the manager";
                        dropped(format!("spec.{list}[{place}]"), reason);
                    }
                    place += 1;
                    !goes
                });
            }
        };
        take_out("runtimePatches", &|_, patch| patch["manager"] == KUEUES_PATCH);
        if let Some(first) = first_override(metadata) {
            take_out("podTemplateOverrides", &|place, _| place >= first);
        }
    }

    /// Its JobSet has its name.
    fn pod_labels(&self) -> Option<PodLabels> {
        Some(PodLabels::Name("jobset.sigs.k8s.io/jobset-name", None))
    }

    fn example(&self) -> &'static str {
        EXAMPLE
    }
}

const EXAMPLE: &str = "\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: train
spec:
  runtimeRef:
    name: torch-distributed
  trainer:
    numNodes: 2
";
