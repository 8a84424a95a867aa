//! Jobs of gang namespaces when they are created or changed: marks on their templates, a hold until their PodGroup exists,
//! and refusals of what could never start. Pure, like all of admission.

use std::sync::Arc;

use json_patch::{Patch, PatchOperation};
use serde_json::{Value, json};

use super::decide::{Decision, Denial, Edit, Reason, Rule, Warning};
use super::review::{Operation, Review};
use crate::gang::hold::{self, KUEUE_QUEUE, add, path};
use crate::gang::{
    self, BackEnd, Choice, ClusterFacts, Decision as Ganging, Gang, Moment, NativeVersion, Notice, PodMark,
    Served, Subject, choose, native,
};
use crate::names::{GANG_SCHEDULER, HELD, POD_GROUP, TRUE};
use crate::workload::jobs::{GangKind, InvalidField, gang_kind_of};

/// What is known of gangs, from memory: no lock that waits, no I/O.
pub trait GangFacts: Send + Sync {
    /// The label `gang` of a namespace; none: it has none, or has not been seen.
    fn label(&self, namespace: &str) -> Option<Arc<str>>;
    /// Pods of the namespace are dispatched to workers.
    fn is_dispatched(&self, namespace: &str) -> bool;
    /// The gang schedulers of this cluster.
    fn served(&self) -> Served;
    /// Classes and configuration.
    fn cluster(&self) -> Arc<ClusterFacts>;
}

/// Decides one review.
#[must_use]
pub fn decide(review: &Review<'_>, facts: &dyn GangFacts) -> Decision {
    let leave = |reason| Decision::Leave(reason, Vec::new());
    if !review.subresource().is_empty() {
        return leave(Reason::Subresource);
    }
    let Some(object) = read(review.object().map(serde_json::value::RawValue::get)) else {
        return leave(Reason::Unknown);
    };
    if let ("", "v1", "pods") = review.resource() {
        return match review.operation() {
            Operation::Create => pod(&object, facts),
            Operation::Update | Operation::Delete | Operation::Connect | Operation::Unknown => {
                leave(Reason::NotMutated)
            }
        };
    }
    let Some(kind) = gang_kind_of(&object) else {
        return leave(Reason::Unknown);
    };
    let Some(label) = facts.label(review.namespace()) else {
        return leave(Reason::NotMutated); // seen too late: the reconciler does what is missing while the job is held
    };
    let job = Job {
        kind,
        object: &in_namespace(object, review.namespace()),
        label: &label,
        dispatched: facts.is_dispatched(review.namespace()),
        served: facts.served(),
        cluster: &facts.cluster(),
        seed: review.uid(),
    };
    match review.operation() {
        Operation::Create => job.create(),
        Operation::Update => match read(review.old_object().map(serde_json::value::RawValue::get)) {
            Some(old) => job.update(&in_namespace(old, review.namespace())),
            None => leave(Reason::Unknown),
        },
        Operation::Delete | Operation::Connect | Operation::Unknown => leave(Reason::NotMutated),
    }
}

fn read(text: Option<&str>) -> Option<Value> {
    serde_json::from_str(text?).ok()
}

fn in_namespace(mut object: Value, namespace: &str) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.entry("namespace").or_insert_with(|| json!(namespace));
    }
    object
}

/// A job, and what is known around it.
struct Job<'r> {
    kind: &'static dyn GangKind,
    object: &'r Value,
    label: &'r str,
    dispatched: bool,
    served: Served,
    cluster: &'r ClusterFacts,
    seed: &'r str,
}

impl Job<'_> {
    fn create(&self) -> Decision {
        let (back_end, gang) = match self.ganging(self.object) {
            Ok(Ok(found)) => found,
            Ok(Err(notice)) => return self.edited(Reason::NoGang, self.unhold(), &[notice]),
            Err(error) => return Decision::Deny(error.into()),
        };
        let is_native = matches!(back_end, BackEnd::Native(_));
        // A native group's name depends on the job's UID, which it does not have yet: the reconciler writes it while the
        // job is held.
        let marks = match is_native {
            true => gang.marks.clone().only_spec(),
            false => gang.marks.clone().with_pod_group(gang.pod_group.name.clone()),
        };
        let mut operations = marks.patch(self.object).0;
        operations.extend(match self.holds(is_native) {
            true => self.hold(),
            false => self.unhold(),
        });
        self.edited(Reason::Ganged, operations, &gang.notices)
    }

    fn update(&self, old: &Value) -> Decision {
        let suspended = |object: &Value| hold::is_suspended(self.kind, object);
        let mut operations = Vec::new();
        if suspended(old) && !suspended(self.object) && hold::is_claimed(self.object) {
            operations.push(hold::drop_claim()); // somebody starts it himself
        }
        if self.object["spec"] == old["spec"] {
            return self.edited(Reason::Unchanged, operations, &[]);
        }
        match self.ganging(self.object) {
            Err(error) if self.ganging(old).is_ok() => Decision::Deny(error.into()),
            Err(_) | Ok(Err(_)) => self.edited(Reason::NoGang, operations, &[]),
            Ok(Ok((_, gang))) => self.edited(Reason::Ganged, operations, &gang.notices),
        }
    }

    /// The gang of the job in this form, or why it has none.
    fn ganging(&self, object: &Value) -> Result<Result<(BackEnd, Gang), Notice>, InvalidField> {
        let back_end = match choose(self.kind, object, self.label, self.served, &self.cluster.settings)? {
            Choice::Alone(notice) => return Ok(Err(notice)),
            Choice::Use(back_end) => back_end,
            Choice::NotServed(family) => {
                let sentence =
                    format!("this cluster does not serve {family}; the job starts without a PodGroup");
                return Ok(Err(Notice::new(gang::Reason::GangSchedulerNotServed, sentence)));
            }
        };
        let subject = Subject {
            kind: self.kind,
            job: object,
            back_end,
            moment: Moment::Admission,
            seed: self.seed,
            late_pods_exist: false,
        };
        Ok(match gang::gang(&subject, self.cluster)? {
            Ganging::Alone(notice) => Err(notice),
            Ganging::Gang(_) if self.dispatched => Err(Notice::new(
                gang::Reason::GangUnsupported,
                "pods of this namespace run on worker clusters one by one; there is no PodGroup",
            )),
            Ganging::Gang(gang) => Ok((back_end, *gang)),
        })
    }

    /// Whether it waits for its PodGroup. Kueue holds its jobs itself. A launcher that its operator makes once the workers
    /// are ready would be made at once after a hold (kubeflow/mpi-operator#615); with coscheduling and Volcano the pods
    /// wait by themselves, a native pod must be born with the name of its group.
    fn holds(&self, is_native: bool) -> bool {
        let labels = self.object.pointer("/metadata/labels");
        let is_kueues = labels.is_some_and(|labels| labels.get(KUEUE_QUEUE).is_some());
        !is_kueues && (is_native || self.kind.can_be_held(self.object))
    }

    fn hold(&self) -> Vec<PatchOperation> {
        if hold::is_suspended(self.kind, self.object) {
            return Vec::new(); // by its user, or by the policy in the API server
        }
        let mut operations = Vec::new();
        let keys = self.kind.suspend();
        for depth in 1..keys.len() {
            let path = path(&keys[..depth]);
            if !self.object.pointer(path.pointer()).is_some_and(Value::is_object) {
                operations.push(add(&path, json!({})));
            }
        }
        operations.push(add(&path(keys), json!(true)));
        operations.push(hold::annotate(self.object, HELD, TRUE));
        operations
    }

    /// Takes back what the policy in the API server did, which knows less.
    fn unhold(&self) -> Vec<PatchOperation> {
        if !hold::is_claimed(self.object) || !hold::is_suspended(self.kind, self.object) {
            return Vec::new();
        }
        hold::end(self.kind).to_vec()
    }

    fn edited(&self, reason: Reason, operations: Vec<PatchOperation>, notices: &[Notice]) -> Decision {
        let told = notices.iter().filter(|notice| notice.reason.is_warning());
        let warnings = told.map(|notice| Warning::new(&notice.to_string())).collect();
        if operations.is_empty() {
            return Decision::Leave(reason, warnings);
        }
        let edit = Edit {
            patch: Patch(operations),
            touched: self.object.clone(),
            at: None,
        };
        Decision::Edit(reason, edit, warnings)
    }
}

/// A pod whose template says that its group is a native one.
fn pod(pod: &Value, facts: &dyn GangFacts) -> Decision {
    let text = |map: &str, key: &str| {
        pod.pointer(map)
            .and_then(|map| map.get(key))
            .and_then(Value::as_str)
    };
    let (Some(group), Some("native")) = (
        text("/metadata/labels", POD_GROUP),
        text("/metadata/annotations", GANG_SCHEDULER),
    ) else {
        return Decision::Leave(Reason::NoGang, Vec::new());
    };
    let mark = match facts.served().native {
        Some(NativeVersion::V1alpha1) => PodMark::WorkloadRef {
            workload: group.to_owned(),
            pod_group: native::TEMPLATE.to_owned(),
        },
        Some(_) | None => PodMark::SchedulingGroup {
            pod_group: group.to_owned(),
        },
    };
    let patch = mark.patch(pod);
    if patch.0.is_empty() {
        return Decision::Leave(Reason::Complete, Vec::new());
    }
    let edit = Edit {
        patch,
        touched: pod.clone(),
        at: None,
    };
    Decision::Edit(Reason::Ganged, edit, Vec::new())
}

impl From<InvalidField> for Denial {
    fn from(error: InvalidField) -> Self {
        Self {
            rule: Rule::InvalidGang,
            sentence: error.to_string(),
        }
    }
}
