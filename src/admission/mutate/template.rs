//! What admission puts on pod templates: gate, label and root, and never so that something rolls out.
//!
//! A template gets our marks when it is created. Later only if it changes anyway: a template that is the stored one but for
//! our marks (a manifest applied again that never heard of us) gets exactly the stored marks back, so that nothing has
//! changed. A stored template without marks, from before the opt-in, stays without them until somebody changes it.

use serde_json::Value;
use serde_json::value::RawValue;

use super::{edited, exempt, gated_value, reserved_keys};
use crate::admission::decide::{Decision, Denial, Reason, Warning};
use crate::admission::facts::Facts;
use crate::admission::review::{Operation, Review};
use crate::admission::validate::TEMPLATE_KEYS;
use crate::names;
use crate::pod::edit::Edits;
use crate::pod::narrow::{ReadError, field, read};
use crate::pod::read::{Metadata, ObjectView, PodView};
use crate::workload::{PodPath, Resource};

/// Marks the template of an object that is created or updated.
///
/// # Errors
/// If the template cannot be read, or carries what only we write.
pub fn mark(review: &Review<'_>, facts: &Facts, names: Resource, at: PodPath) -> Result<Decision, Denial> {
    let object = review.object().ok_or_else(|| ReadError::missing("object"))?;
    let metadata = read::<ObjectView<'_>>(object.get())?.metadata.unwrap_or_default();
    if metadata.controller().is_some() {
        return Ok(Decision::Leave(Reason::Controlled, Vec::new()));
    }
    if metadata.is_terminating() {
        return Ok(Decision::Leave(Reason::Terminating, Vec::new()));
    }
    let new = template_in(object, at)?;
    // What is stored may be from before the opt-in: if it cannot be read, it is no measure.
    let old = match review.operation() {
        Operation::Update => review.old_object().and_then(|old| template_in(old, at).ok()),
        Operation::Create | Operation::Delete | Operation::Connect | Operation::Unknown => None,
    };
    match old {
        Some(old) if old.get() == new.get() => Ok(Decision::Leave(Reason::Unchanged, Vec::new())),
        Some(old) => update(&metadata, new, old, facts, names, at),
        None => create(&metadata, new, review.operation(), facts, names, at),
    }
}

fn create(
    metadata: &Metadata<'_>,
    text: &RawValue,
    operation: Operation,
    facts: &Facts,
    names: Resource,
    at: PodPath,
) -> Result<Decision, Denial> {
    if operation == Operation::Create {
        reserved_keys(Some(metadata), None, "metadata", TEMPLATE_KEYS)?;
    }
    let pod = read_template(text, at)?;
    reserved_keys(pod.metadata.as_ref(), None, &at.field("metadata"), TEMPLATE_KEYS)?;
    gated_value(&pod, None, at)?;
    let mut decision = inject(&pod, root(names, metadata).as_deref(), facts, at);
    warn_of_misplaced_exempt(metadata, at, &mut decision);
    Ok(decision)
}

fn update(
    metadata: &Metadata<'_>,
    new_text: &RawValue,
    old_text: &RawValue,
    facts: &Facts,
    names: Resource,
    at: PodPath,
) -> Result<Decision, Denial> {
    let new = read_template(new_text, at)?;
    let old = PodView::read(old_text.get()).unwrap_or_default();
    reserved_keys(
        new.metadata.as_ref(),
        old.metadata.as_ref(),
        &at.field("metadata"),
        TEMPLATE_KEYS,
    )?;
    gated_value(&new, Some(&old), at)?;
    if brings_no_marks(&new, &old) && differ_in_marks_only(new_text, old_text) {
        return Ok(restore(&new, &old, at));
    }
    let own_root = root(names, metadata);
    let root = old.annotation(names::ROOT).or(own_root.as_deref());
    Ok(inject(&new, root, facts, at))
}

/// A new or changed template: all marks, or none if it is exempt.
fn inject(pod: &PodView<'_>, root: Option<&str>, facts: &Facts, at: PodPath) -> Decision {
    let (exempt, mut warnings) = exempt(pod.metadata.as_ref(), facts, at);
    let mut edits = Edits::of(pod, at);
    if exempt {
        edits.remove_label(names::GATED);
        edits.remove_annotation(names::ROOT);
        edits.remove_gate(names::GATE);
        return edited(Reason::Unmarked, Reason::Exempt, &edits, warnings);
    }
    if pod.node_name().is_some() {
        let field = at.field("spec.nodeName");
        warnings.push(Warning::new(&format!(
            "{field}: pods of this namespace run on worker clusters; remove it"
        )));
        return Decision::Leave(Reason::NodeName, warnings);
    }
    edits.set_label(names::GATED, names::TRUE);
    if let Some(root) = root {
        edits.set_annotation(names::ROOT, root);
    }
    edits.add_gate(names::GATE);
    edited(Reason::Marked, Reason::Complete, &edits, warnings)
}

/// The stored template but for our marks: they become the stored ones again, each in its place.
fn restore(new: &PodView<'_>, old: &PodView<'_>, at: PodPath) -> Decision {
    let mut edits = Edits::of(new, at);
    if let Some(gated) = old.label(names::GATED) {
        edits.set_label(names::GATED, gated);
    }
    if let Some(root) = old.annotation(names::ROOT) {
        edits.set_annotation(names::ROOT, root);
    }
    if let Some(before) = old.gate_index(names::GATE) {
        edits.insert_gate(names::GATE, before);
    }
    edited(Reason::Restored, Reason::Unchanged, &edits, Vec::new())
}

/// Each mark of the new template is the stored one or missing; one that a user adds or alters is a change like any other.
fn brings_no_marks(new: &PodView<'_>, old: &PodView<'_>) -> bool {
    let stored_or_missing = |new: Option<&str>, old: Option<&str>| new.is_none() || new == old;
    stored_or_missing(new.label(names::GATED), old.label(names::GATED))
        && stored_or_missing(new.annotation(names::ROOT), old.annotation(names::ROOT))
        && (new.gate_index(names::GATE).is_none() || old.gate_index(names::GATE).is_some())
}

/// Compares all of two templates, known fields and unknown ones, except our marks.
fn differ_in_marks_only(new: &RawValue, old: &RawValue) -> bool {
    let unmarked = |text: &RawValue| serde_json::from_str(text.get()).ok().map(without_marks);
    match (unmarked(new), unmarked(old)) {
        (Some(new), Some(old)) => new == old,
        (None, _) | (_, None) => false,
    }
}

/// The template as if we had never touched it; a container that held nothing but our marks is gone with them.
fn without_marks(mut template: Value) -> Value {
    if let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) {
        for (map, key) in [("labels", names::GATED), ("annotations", names::ROOT)] {
            if let Some(entries) = metadata.get_mut(map).and_then(Value::as_object_mut) {
                entries.remove(key);
            }
        }
        metadata.retain(|key, value| !matches!(key.as_str(), "labels" | "annotations") || !is_empty(value));
    }
    if let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) {
        if let Some(gates) = spec.get_mut("schedulingGates").and_then(Value::as_array_mut) {
            gates.retain(|gate| gate["name"] != names::GATE);
        }
        spec.retain(|key, value| key != "schedulingGates" || !is_empty(value));
    }
    if let Some(object) = template.as_object_mut() {
        object.retain(|key, value| key != "metadata" || !is_empty(value));
    }
    template
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// `<group>/<Kind>/<name>` of the object, if it has its name already.
fn root(names: Resource, metadata: &Metadata<'_>) -> Option<String> {
    metadata
        .given_name()
        .map(|name| format!("{}/{}/{name}", names.group, names.kind))
}

/// Walks to the template of an object.
fn template_in(object: &RawValue, at: PodPath) -> Result<&RawValue, ReadError> {
    let mut text = object;
    for (depth, key) in at.keys().iter().enumerate() {
        let parent = at.keys()[..depth].join(".");
        text = field(text, key)
            .map_err(|error| error.under(&parent))?
            .ok_or_else(|| ReadError::missing(key).under(&parent))?;
    }
    Ok(text)
}

fn read_template(text: &RawValue, at: PodPath) -> Result<PodView<'_>, Denial> {
    PodView::read(text.get()).map_err(|error| error.under(&at.dotted()).into())
}

/// The label counts on templates; on the object around one it does nothing, and nobody would notice.
fn warn_of_misplaced_exempt(metadata: &Metadata<'_>, at: PodPath, decision: &mut Decision) {
    let on_object = metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(names::EXEMPT))
        .is_some();
    match decision {
        Decision::Leave(reason, warnings) | Decision::Edit(reason, _, warnings) if on_object => {
            if !matches!(reason, Reason::Exempt | Reason::Unmarked) {
                let there = at.field("metadata.labels");
                warnings.push(Warning::new(&format!(
                    "metadata.labels: {} counts in {there} only",
                    names::EXEMPT
                )));
            }
        }
        Decision::Leave(..) | Decision::Edit(..) | Decision::Deny(_) => {}
    }
}
