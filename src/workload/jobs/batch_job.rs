//! Job of group batch: as many pods at a time as `parallelism` says, but never more than still have to complete.
//!
//! A Job with more completions than parallelism runs in waves; the gang is one wave. With `spec.scheduling` (Kubernetes
//! 1.37, feature WorkloadWithJob) the Job controller makes a group itself.

use serde_json::{Map, Value};

use super::conditions::{self, Said};
use super::{
    Dispatch, Failure, Field, GangKind, InvalidField, JobKind, ManagedBy, PodLabels, PodSet, Pods, Presence,
    Resource, Written, batch_status, dispatch, has_condition,
};

/// A Job of group batch, ganged by annotation.
pub struct BatchJob;

impl JobKind for BatchJob {
    fn resource(&self) -> Resource {
        Resource {
            group: "batch",
            version: "v1",
            plural: "jobs",
            kind: "Job",
        }
    }

    fn managed_by(&self) -> ManagedBy {
        ManagedBy {
            path: &["spec", "managedBy"],
            local: "kubernetes.io/job-controller",
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
            written: Written::Ours,
            takes_condition: true,
            ttl: None, // the manager's own controller keeps it, whoever runs the Job
        }
    }

    fn make_acceptable(&self, status: &mut Map<String, Value>, local: &Value) {
        batch_status::make_acceptable(status, local);
    }

    /// As the API server wants it: a target first, a time of start, and nothing active. One whose success was decided can
    /// only complete.
    fn fail(&self, status: &mut Map<String, Value>, failure: &Failure<'_>) {
        for count in ["active", "ready", "terminating"] {
            dispatch::none_of_map(status, &[count]);
        }
        status.remove("uncountedTerminatedPods");
        if status.get("startTime").is_none_or(Value::is_null) {
            status.insert("startTime".to_owned(), failure.now.into());
        }
        let conditions = conditions::list(status, "conditions");
        let is_true = |kind: &str| conditions::is_true(conditions, kind);
        let succeeds = is_true("SuccessCriteriaMet");
        if is_true("Complete") || is_true("Failed") {
            return;
        }
        if succeeds {
            conditions::set(conditions, &Said::of("Complete", true, failure), failure.now);
            status.insert("completionTime".to_owned(), failure.now.into());
            return;
        }
        for kind in ["FailureTarget", "Failed"] {
            conditions::set(conditions, &Said::of(kind, true, failure), failure.now);
        }
    }

    /// The selector and its labels name the UID of the local Job; with them the server would refuse the copy.
    fn clean(
        &self,
        copy: &mut Value,
        _metadata: &Map<String, Value>,
        dropped: &mut dyn FnMut(String, &'static str),
    ) {
        let manual = copy.pointer("/spec/manualSelector") == Some(&Value::Bool(true));
        if !manual {
            dispatch::remove(copy, &["spec", "selector"], GENERATED, dropped);
        }
        let keep_ttl = "the copy stays until its end is told here";
        dispatch::remove(copy, &["spec", "ttlSecondsAfterFinished"], keep_ttl, dropped);
        let places: &[&[&str]] = match manual {
            true => &[&["metadata", "labels"]],
            false => &[
                &["metadata", "labels"],
                &["spec", "template", "metadata", "labels"],
            ],
        };
        for place in places {
            let labels = place
                .iter()
                .try_fold(&mut *copy, |object, key| object.get_mut(*key));
            let Some(labels) = labels.and_then(Value::as_object_mut) else {
                continue;
            };
            for label in GENERATED_LABELS {
                if labels.remove(label).is_some() {
                    dropped(format!("{}[{label}]", place.join(".")), GENERATED);
                }
            }
        }
    }

    fn forwarded(&self) -> &'static [&'static [&'static str]] {
        &[&["spec", "parallelism"], &["spec", "completions"]]
    }

    fn kept_here(&self) -> Option<&'static [&'static str]> {
        Some(&["spec", "ttlSecondsAfterFinished"])
    }

    fn pod_labels(&self) -> Option<PodLabels> {
        Some(PodLabels::Uid("batch.kubernetes.io/controller-uid"))
    }

    fn says_all_ready(&self, status: &Value) -> bool {
        let count = |key: &str| status[key].as_u64().unwrap_or_default();
        count("active") > 0 && count("ready") == count("active")
    }

    fn example(&self) -> &'static str {
        EXAMPLE
    }
}

impl GangKind for BatchJob {
    fn pod_sets<'j>(&self, job: &'j Value) -> Result<Pods<'j>, InvalidField> {
        let spec = Field::root(job).get("spec");
        spec.object()?;
        let succeeded = Field::root(job).at(&["status", "succeeded"]).count()?;
        Ok(Pods::Sets(vec![PodSet {
            role: "Job".to_owned(),
            count: at_a_time(&spec)?.left_after(succeeded.unwrap_or(0)),
            presence: Presence::Together,
            at_least: None,
            template: spec.get("template"),
        }]))
    }

    fn own_group(&self) -> Option<&'static [&'static str]> {
        Some(&["spec", "scheduling"])
    }

    fn has_fixed_templates(&self) -> bool {
        true
    }
}

/// Why the selector and its labels are not copied.
const GENERATED: &str = "made from the UID of the local Job; the worker makes its own";
/// What the API server writes into a Job whose selector it makes.
const GENERATED_LABELS: [&str; 4] = [
    "controller-uid",
    "job-name",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
];

/// How many pods of a JobSpec run at a time, and how many must complete.
pub(super) struct AtATime {
    parallelism: u32,
    completions: Option<u32>,
}

impl AtATime {
    /// With so many completed already.
    pub(super) fn left_after(&self, succeeded: u32) -> u32 {
        match self.completions {
            Some(completions) => self.parallelism.min(completions.saturating_sub(succeeded)),
            None => self.parallelism,
        }
    }
}

/// Reads a JobSpec. `parallelism` is 1 if left out; without `completions` any number of pods runs.
pub(super) fn at_a_time(spec: &Field<'_>) -> Result<AtATime, InvalidField> {
    Ok(AtATime {
        parallelism: spec.get("parallelism").count()?.unwrap_or(1),
        completions: spec.get("completions").count()?,
    })
}

const EXAMPLE: &str = "\
apiVersion: batch/v1
kind: Job
metadata:
  name: solve
  annotations: {portcullis.dev/gang-scheduling: \"true\"}
spec:
  parallelism: 4
  completions: 4
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: registry.k8s.io/pause:3.10
        resources: {requests: {cpu: 1, memory: 1Gi}}
";
