//! What admission puts on whole jobs when they are created: `managedBy`, by which the operator of this cluster leaves them
//! to us. The layer inject has done it already where there is one; here the served schema is known, and there are warnings.

use json_patch::jsonptr::PointerBuf;
use json_patch::{Patch, PatchOperation, RemoveOperation};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{exempt, reserved_keys};
use crate::admission::decide::{Decision, Denial, Edit, Reason, Rule, Warning};
use crate::admission::facts::{Facts, JobFacts, Keeps};
use crate::admission::review::{Operation, Review};
use crate::admission::validate::JOB_KEYS;
use crate::gang::hold::{add, annotate, path};
use crate::names::{DISPATCHED_BY, EXEMPT, GATE, KUEUES_MANAGER, TRUE};
use crate::pod::narrow::{ReadError, Text, field, read};
use crate::pod::read::{Metadata, ObjectView};
use crate::workload::PodPath;
use crate::workload::jobs::{JobKind, Pods, Written, gang_kind};

/// Decides one review of a job.
#[must_use]
pub fn decide(review: &Review<'_>, facts: &dyn JobFacts) -> Decision {
    let leave = |reason| Decision::Leave(reason, Vec::new());
    let (group, version, plural) = review.resource();
    let Some(kind) = facts.job_kinds().by_resource(group, version, plural) else {
        return leave(Reason::Unknown);
    };
    if !review.subresource().is_empty() {
        return leave(Reason::Subresource);
    }
    if review.operation() != Operation::Create {
        return leave(Reason::NotMutated);
    }
    let namespace = Facts::gather(review, facts);
    if namespace.protected {
        return leave(Reason::Protected);
    }
    let Some(object) = review.object() else {
        return Decision::Deny(unreadable(&ReadError::missing("object")));
    };
    create(kind, object, &namespace, facts.keeps_managed_by(kind.resource())).unwrap_or_else(Decision::Deny)
}

fn create(
    kind: &'static dyn JobKind,
    object: &RawValue,
    namespace: &Facts,
    keeps: Keeps,
) -> Result<Decision, Denial> {
    let view: ObjectView<'_> = read(object.get()).map_err(|error| unreadable(&error))?;
    let metadata = view.metadata.as_ref();
    if let Some(owner) = metadata.and_then(Metadata::controller)
        && owner.kind.as_deref() != Some("CronJob")
    {
        return Ok(Decision::Leave(Reason::Controlled, Vec::new()));
    }
    let template = template_of(object).map_err(|error| unreadable(&error))?;
    reserved_keys(metadata, None, "metadata", JOB_KEYS)?;
    reserved_keys(template.as_ref(), None, "spec.template.metadata", JOB_KEYS)?;
    let (job_is_exempt, mut warnings) = exempt(metadata, namespace, PodPath::ITSELF);
    let (template_is_exempt, of_template) = exempt(template.as_ref(), namespace, PodPath::SPEC_TEMPLATE);
    warnings.extend(of_template);
    if job_is_exempt || template_is_exempt {
        warnings.extend(pods_are_gated(kind, object));
        return Ok(Decision::Leave(Reason::Exempt, warnings));
    }
    let job = Job {
        kind,
        place: Place::of(object, kind.managed_by().path).map_err(|error| unreadable(&error))?,
        metadata,
    };
    Ok(job.decide(keeps, warnings))
}

/// The metadata of `spec.template`, in kinds that have one.
fn template_of(object: &RawValue) -> Result<Option<Metadata<'_>>, ReadError> {
    let Some(spec) = field(object, "spec")? else {
        return Ok(None);
    };
    let template = field(spec, "template").map_err(|error| error.under("spec"))?;
    let Some(template) = template else { return Ok(None) };
    let view: ObjectView<'_> = read(template.get()).map_err(|error| error.under("spec.template"))?;
    Ok(view.metadata)
}

/// An exempt job runs here, but each of its pods is asked for itself.
fn pods_are_gated(kind: &dyn JobKind, object: &RawValue) -> Option<Warning> {
    let gang = gang_kind(&kind.resource().api_version(), kind.resource().kind)?;
    let job: Value = serde_json::from_str(object.get()).ok()?;
    let Ok(Pods::Sets(sets)) = gang.pod_sets(&job) else {
        return None;
    };
    let is_exempt = |template: Option<&Value>| {
        template.is_some_and(|template| template["metadata"]["labels"][EXEMPT] == TRUE)
    };
    if sets.iter().all(|set| is_exempt(set.template.value())) {
        return None;
    }
    Some(Warning::new(&format!(
        "metadata.labels: pods of this job are exempt only if their templates carry {EXEMPT} too"
    )))
}

/// How far the way to a field exists, and what stands there.
struct Place<'r> {
    /// So many keys lead to an object.
    parents: usize,
    value: Option<Text<'r>>,
}

impl<'r> Place<'r> {
    fn of(object: &'r RawValue, keys: &[&str]) -> Result<Self, ReadError> {
        let mut text = object;
        for (depth, key) in keys.iter().enumerate() {
            match field(text, key).map_err(|error| error.under(&keys[..depth].join(".")))? {
                Some(next) => text = next,
                None => {
                    return Ok(Self {
                        parents: depth,
                        value: None,
                    });
                }
            }
        }
        let value = read(text.get()).map_err(|error| error.under(&keys.join(".")))?;
        Ok(Self {
            parents: keys.len() - 1,
            value: Some(value),
        })
    }
}

/// Who runs a job, as it says itself.
enum Manager<'j> {
    /// Nobody in particular, or the operator of this cluster.
    Local,
    Us,
    Other(&'j str),
}

/// A job whose maker wants it dispatched.
struct Job<'r> {
    kind: &'static dyn JobKind,
    place: Place<'r>,
    metadata: Option<&'r Metadata<'r>>,
}

impl Job<'_> {
    fn decide(&self, keeps: Keeps, mut warnings: Vec<Warning>) -> Decision {
        let dotted = self.keys().join(".");
        match (self.manager(), keeps) {
            (Manager::Other(name), _) => {
                let name = shown(name);
                warnings.push(Warning::new(&format!(
                    "{dotted} is {name:?}: it runs the job, and Portcullis only gates pods of it here"
                )));
                Decision::Leave(Reason::ManagedElsewhere, warnings)
            }
            (manager, Keeps::No) => {
                warnings.push(Warning::new(&format!(
                    "{dotted}: {} has no such field on this cluster, so its pods are dispatched one by one",
                    self.kind.resource().kind
                )));
                match manager {
                    Manager::Us => self.edited(Reason::FieldDropped, self.take_back(), warnings),
                    Manager::Local | Manager::Other(_) => Decision::Leave(Reason::FieldDropped, warnings),
                }
            }
            (Manager::Us, Keeps::Yes | Keeps::Unknown) => Decision::Leave(Reason::Complete, warnings),
            (Manager::Local, Keeps::Yes | Keeps::Unknown) => {
                self.edited(Reason::Managed, self.write(), warnings)
            }
        }
    }

    fn keys(&self) -> &'static [&'static str] {
        self.kind.managed_by().path
    }

    fn manager(&self) -> Manager<'_> {
        let takes_kueues = self.kind.dispatch().written == Written::Kueues;
        match self.place.value.as_deref() {
            None | Some("") => Manager::Local,
            Some(GATE) => Manager::Us,
            Some(KUEUES_MANAGER) if takes_kueues && self.annotation() == Some(GATE) => Manager::Us,
            Some(name) if name == self.kind.managed_by().local => Manager::Local,
            Some(name) => Manager::Other(name),
        }
    }

    fn annotation(&self) -> Option<&str> {
        self.metadata?.annotations.as_ref()?.get(DISPATCHED_BY)
    }

    fn write(&self) -> Vec<PatchOperation> {
        let (keys, written) = (self.keys(), self.kind.dispatch().written);
        let (there, below) = keys.split_at(self.place.parents + 1);
        let value = below
            .iter()
            .rev()
            .fold(json!(written.value()), |value, key| json!({*key: value}));
        let mut operations = vec![add(&path(there), value)];
        if written == Written::Kueues {
            operations.push(annotate(&self.touched(), DISPATCHED_BY, GATE));
        }
        operations
    }

    /// What the policy in the API server wrote, which knows no schemas.
    fn take_back(&self) -> Vec<PatchOperation> {
        let annotation = ["metadata", "annotations", DISPATCHED_BY];
        let marked = self.annotation().is_some().then_some(&annotation[..]);
        [self.keys()]
            .into_iter()
            .chain(marked)
            .filter_map(remove)
            .collect()
    }

    fn edited(&self, reason: Reason, operations: Vec<PatchOperation>, warnings: Vec<Warning>) -> Decision {
        let edit = Edit {
            patch: Patch(operations),
            touched: self.touched(),
            at: None,
        };
        Decision::Edit(reason, edit, warnings)
    }

    /// The part of the object that the edits touch.
    fn touched(&self) -> Value {
        let mut object = json!({});
        if let Some(metadata) = self.metadata {
            object["metadata"] = json!({});
            if let Some(annotations) = &metadata.annotations {
                let annotations = annotations
                    .iter()
                    .map(|(key, value)| (key.to_owned(), json!(value)));
                object["metadata"]["annotations"] = Value::Object(annotations.collect());
            }
        }
        let (parents, rest) = self.keys().split_at(self.place.parents);
        let mut place = &mut object;
        for key in parents {
            place = &mut place[*key];
            if place.is_null() {
                *place = json!({});
            }
        }
        if let (Some(value), [key]) = (&self.place.value, rest) {
            place[*key] = json!(**value);
        }
        object
    }
}

fn remove(keys: &[&str]) -> Option<PatchOperation> {
    let path = PointerBuf::parse(path(keys).pointer()).ok()?;
    Some(PatchOperation::Remove(RemoveOperation { path }))
}

/// A user's word, short enough to leave room for ours.
fn shown(name: &str) -> String {
    const SHOWN: usize = 27;
    match name.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

fn unreadable(error: &ReadError) -> Denial {
    Denial {
        rule: Rule::Unreadable,
        sentence: format!(
            "{error}; Portcullis must be able to read this field to run the job on a worker cluster"
        ),
    }
}
