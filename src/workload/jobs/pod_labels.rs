//! By which labels the pods of a copy are found on its worker, without following owners.

use serde_json::Value;

/// A label's value has room for so much.
const LONGEST_VALUE: usize = 63;

/// The label that all pods of a job carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodLabels {
    /// It has the job's UID.
    Uid(&'static str),
    /// It has the job's name; the other label tells kinds apart that share the first.
    Name(&'static str, Option<(&'static str, &'static str)>),
    /// It has what stands at this path of the job.
    At(&'static str, &'static [&'static str]),
}

impl PodLabels {
    /// As a query. None where the value is not there yet, or has no room in a label.
    #[must_use]
    pub fn selector(self, copy: &Value) -> Option<String> {
        let (label, path, and) = match self {
            Self::Uid(label) => (label, &["metadata", "uid"][..], None),
            Self::Name(label, and) => (label, &["metadata", "name"][..], and),
            Self::At(label, path) => (label, path, None),
        };
        let value = path
            .iter()
            .try_fold(copy, |place, key| place.get(*key))?
            .as_str()?;
        let fits = !value.is_empty() && value.len() <= LONGEST_VALUE;
        let and = and.map(|(label, value)| format!(",{label}={value}"));
        fits.then(|| format!("{label}={value}{}", and.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::workload::jobs::{BatchJob, JOB_KINDS, JobKind, MpiJob, PyTorchJob, RayJob};

    #[test]
    fn pods_are_found_by_the_labels_that_their_operators_give_them() {
        let copy =
            json!({"metadata": {"name": "train", "uid": "u1"}, "status": {"rayClusterName": "train-x"}});
        let selector = |kind: &dyn JobKind| kind.pod_labels().unwrap().selector(&copy).unwrap();
        assert_eq!(selector(&BatchJob), "batch.kubernetes.io/controller-uid=u1");
        assert_eq!(
            selector(&PyTorchJob),
            "training.kubeflow.org/job-name=train,training.kubeflow.org/operator-name=pytorchjob-controller"
        );
        assert_eq!(
            selector(&MpiJob),
            "training.kubeflow.org/job-name=train,training.kubeflow.org/operator-name=mpi-operator"
        );
        assert_eq!(selector(&RayJob), "ray.io/cluster=train-x");
        assert!(JOB_KINDS.iter().all(|kind| kind.pod_labels().is_some()));
    }

    #[test]
    fn what_has_no_room_in_a_label_is_not_asked_for() {
        let named = |name: String| json!({"metadata": {"name": name}});
        let labels = PyTorchJob.pod_labels().unwrap();
        assert!(labels.selector(&named("n".repeat(63))).is_some());
        assert_eq!(labels.selector(&named("n".repeat(64))), None);
        assert_eq!(
            RayJob.pod_labels().unwrap().selector(&named("j".to_owned())),
            None
        );
    }
}
