//! What should stand on a pod or template -> JSON patch operations that put it there.
//!
//! The edits name keys and never positions of things that others own: a label is set, a gate appended. An edit that the
//! object already satisfies vanishes, so a second pass finds nothing to do. A map or list that is missing (or null) is
//! added whole, one that is there gets the single entry. No `test`, no `replace`, no negative index: a patch that the
//! API server cannot apply fails the user's request even under `failurePolicy: Ignore`.

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation, RemoveOperation};
use serde_json::{Map, Value, json};

use crate::pod::narrow::StringMap;
use crate::pod::read::PodView;
use crate::workload::PodPath;

/// Edits of one pod or template, collected against what it holds now.
#[derive(Debug)]
pub struct Edits<'p> {
    pod: &'p PodView<'p>,
    at: PodPath,
    labels: Vec<Entry>,
    annotations: Vec<Entry>,
    gate: Option<GateEdit>,
}

/// One key of a map: the value it gets, or none to take it out.
#[derive(Debug)]
struct Entry {
    key: String,
    value: Option<String>,
}

#[derive(Debug)]
enum GateEdit {
    Append(String),
    Insert(usize, String),
    Remove(usize),
}

impl<'p> Edits<'p> {
    /// No edits yet of the pod found at `at` in its object.
    #[must_use]
    pub fn of(pod: &'p PodView<'p>, at: PodPath) -> Self {
        Self {
            pod,
            at,
            labels: Vec::new(),
            annotations: Vec::new(),
            gate: None,
        }
    }

    /// The label has this value.
    pub fn set_label(&mut self, key: &str, value: &str) {
        set(&mut self.labels, self.pod.labels(), key, value);
    }

    /// The label is not there.
    pub fn remove_label(&mut self, key: &str) {
        remove(&mut self.labels, self.pod.labels(), key);
    }

    /// The annotation has this value.
    pub fn set_annotation(&mut self, key: &str, value: &str) {
        set(&mut self.annotations, self.pod.annotations(), key, value);
    }

    /// The annotation is not there.
    pub fn remove_annotation(&mut self, key: &str) {
        remove(&mut self.annotations, self.pod.annotations(), key);
    }

    /// The gate is there: behind the others if it is new.
    pub fn add_gate(&mut self, name: &str) {
        if self.pod.gate_index(name).is_none() {
            self.gate = Some(GateEdit::Append(name.to_owned()));
        }
    }

    /// The gate is there: with `before` gates in front of it (at most all of them) if it is new.
    pub fn insert_gate(&mut self, name: &str, before: usize) {
        let present = self.pod.gates().map_or(0, <[_]>::len);
        if before >= present {
            self.add_gate(name);
        } else if self.pod.gate_index(name).is_none() {
            self.gate = Some(GateEdit::Insert(before, name.to_owned()));
        }
    }

    /// The gate is not there. Sound by index: the object is patched exactly as it was read.
    pub fn remove_gate(&mut self, name: &str) {
        if let Some(index) = self.pod.gate_index(name) {
            self.gate = Some(GateEdit::Remove(index));
        }
    }

    /// The object satisfies every edit already.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty() && self.gate.is_none()
    }

    /// The operations, in an order that applies.
    #[must_use]
    pub fn patch(&self) -> Patch {
        let mut operations = Vec::with_capacity(4);
        if self.pod.metadata.is_none() {
            let maps = [("labels", &self.labels), ("annotations", &self.annotations)];
            let metadata: Map<String, Value> = maps
                .into_iter()
                .filter(|(_, entries)| !entries.is_empty())
                .map(|(name, entries)| (name.to_owned(), whole(entries)))
                .collect();
            if !metadata.is_empty() {
                operations.push(self.add(&["metadata"], metadata.into()));
            }
        } else {
            self.map_operations(&mut operations, "labels", self.pod.labels(), &self.labels);
            self.map_operations(
                &mut operations,
                "annotations",
                self.pod.annotations(),
                &self.annotations,
            );
        }
        if let Some(gate) = &self.gate {
            operations.push(self.gate_operation(gate));
        }
        Patch(operations)
    }

    fn map_operations(
        &self,
        operations: &mut Vec<PatchOperation>,
        name: &str,
        present: Option<&StringMap<'_>>,
        entries: &[Entry],
    ) {
        if present.is_none() && !entries.is_empty() {
            operations.push(self.add(&["metadata", name], whole(entries)));
            return;
        }
        operations.extend(entries.iter().map(|Entry { key, value }| match value {
            Some(value) => self.add(&["metadata", name, key], value.as_str().into()),
            None => self.remove(&["metadata", name, key]),
        }));
    }

    fn gate_operation(&self, gate: &GateEdit) -> PatchOperation {
        const GATES: [&str; 2] = ["spec", "schedulingGates"];
        let named = |name: &str| json!({ "name": name });
        match (gate, self.pod.gates().is_some()) {
            (GateEdit::Append(name), true) => self.add(&[GATES[0], GATES[1], "-"], named(name)),
            (GateEdit::Append(name) | GateEdit::Insert(_, name), false) => {
                self.add(&GATES, json!([named(name)]))
            }
            (GateEdit::Insert(at, name), true) => {
                self.add(&[GATES[0], GATES[1], &at.to_string()], named(name))
            }
            (GateEdit::Remove(at), _) => self.remove(&[GATES[0], GATES[1], &at.to_string()]),
        }
    }

    /// The part of the object that [`patch`](Self::patch) touches: the containers on the way, the touched keys, the
    /// gates. To apply the patch to it is to apply it to the whole object: `add` and `remove` of a member look at
    /// nothing but the kind of the containers above it and at that member, those of a list element at the list's length
    /// too, and all of that is here as it is there.
    #[must_use]
    pub fn touched(&self) -> Value {
        let mut pod = Map::new();
        if let Some(metadata) = &self.pod.metadata {
            let mut maps = Map::new();
            for (name, present, entries) in [
                ("labels", &metadata.labels, &self.labels),
                ("annotations", &metadata.annotations, &self.annotations),
            ] {
                if let Some(present) = present {
                    let entry = |Entry { key, .. }: &Entry| Some((key.clone(), present.get(key)?.into()));
                    maps.insert(
                        name.to_owned(),
                        Value::Object(entries.iter().filter_map(entry).collect()),
                    );
                }
            }
            pod.insert("metadata".to_owned(), maps.into());
        }
        if let Some(spec) = &self.pod.spec {
            let gates = spec.gates.iter().map(|gates| {
                let named = gates.iter().map(|gate| json!({ "name": &*gate.name }));
                ("schedulingGates".to_owned(), Value::Array(named.collect()))
            });
            pod.insert("spec".to_owned(), Value::Object(gates.collect()));
        }
        let inner = Value::Object(pod);
        self.at
            .keys()
            .iter()
            .rev()
            .fold(inner, |inner, key| json!({ *key: inner }))
    }

    /// Where in the object the edited pod is.
    #[must_use]
    pub fn at(&self) -> PodPath {
        self.at
    }

    fn add(&self, path: &[&str], value: Value) -> PatchOperation {
        PatchOperation::Add(AddOperation {
            path: self.pointer(path),
            value,
        })
    }

    fn remove(&self, path: &[&str]) -> PatchOperation {
        PatchOperation::Remove(RemoveOperation {
            path: self.pointer(path),
        })
    }

    /// Escapes `~` and `/` of every key.
    fn pointer(&self, path: &[&str]) -> PointerBuf {
        PointerBuf::from_tokens(self.at.keys().iter().chain(path).copied())
    }
}

fn set(entries: &mut Vec<Entry>, present: Option<&StringMap<'_>>, key: &str, value: &str) {
    if present.and_then(|map| map.get(key)) != Some(value) {
        entries.push(Entry {
            key: key.to_owned(),
            value: Some(value.to_owned()),
        });
    }
}

fn remove(entries: &mut Vec<Entry>, present: Option<&StringMap<'_>>, key: &str) {
    if present.and_then(|map| map.get(key)).is_some() {
        entries.push(Entry {
            key: key.to_owned(),
            value: None,
        });
    }
}

fn whole(entries: &[Entry]) -> Value {
    let set = entries
        .iter()
        .filter_map(|Entry { key, value }| Some((key.clone(), value.as_deref()?.into())));
    Value::Object(set.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Applies what `edit` asks for to a pod at `at`, and checks on the way that the touched part tells the same.
    #[track_caller]
    fn edited(object: &Value, at: PodPath, edit: impl FnOnce(&mut Edits<'_>)) -> Value {
        let text = at
            .keys()
            .iter()
            .fold(object, |object, key| &object[*key])
            .to_string();
        let pod = PodView::read(&text).unwrap();
        let mut edits = Edits::of(&pod, at);
        edit(&mut edits);
        let (patch, mut touched) = (edits.patch(), edits.touched());
        assert_eq!(edits.is_empty(), patch.is_empty());
        let mut whole = object.clone();
        json_patch::patch(&mut whole, &patch).unwrap();
        json_patch::patch(&mut touched, &patch).unwrap();
        assert!(
            holds(&whole, &touched),
            "{touched} is not how {whole} looks where it was touched"
        );
        whole
    }

    /// All that the part says is so in the whole; lists are of the same length.
    fn holds(whole: &Value, part: &Value) -> bool {
        match (whole, part) {
            (Value::Object(whole), Value::Object(part)) => part
                .iter()
                .all(|(key, part)| whole.get(key).is_some_and(|whole| holds(whole, part))),
            (Value::Array(whole), Value::Array(part)) => {
                whole.len() == part.len() && whole.iter().zip(part).all(|(whole, part)| holds(whole, part))
            }
            (whole, part) => whole == part,
        }
    }

    /// P9
    #[test]
    fn every_key_comes_through_the_pointer() {
        for key in [
            "a/b", "a~b", "a~1b", "a~0b", "~", "/", "", "é🦀", "~/~1/~01", "-", "0",
        ] {
            for present in [
                json!({"metadata": {}, "spec": {}}),
                json!({"metadata": {"labels": {"a": "b"}}, "spec": {}}),
            ] {
                let stored = edited(&present, PodPath::ITSELF, |edits| {
                    edits.set_label(key, "v");
                    edits.set_annotation(key, "w");
                });
                assert_eq!(stored["metadata"]["labels"][key], "v", "{key}");
                assert_eq!(stored["metadata"]["annotations"][key], "w", "{key}");
                let removed = edited(&stored, PodPath::ITSELF, |edits| edits.remove_label(key));
                assert_eq!(removed["metadata"]["labels"].get(key), None, "{key}");
            }
        }
    }

    /// P10
    #[test]
    fn a_missing_parent_is_added_once_for_all_edits_in_it() {
        let stored = edited(&json!({"spec": {}}), PodPath::ITSELF, |edits| {
            edits.set_label("a", "1");
            edits.set_label("b", "2");
            edits.set_annotation("c", "3");
            edits.add_gate("g");
        });
        assert_eq!(
            stored,
            json!({
                "metadata": {"labels": {"a": "1", "b": "2"}, "annotations": {"c": "3"}},
                "spec": {"schedulingGates": [{"name": "g"}]},
            })
        );
    }

    /// P11, P12
    #[test]
    fn operations_are_add_and_remove_at_valid_places() {
        let object = json!({"spec": {"schedulingGates": [{"name": "a"}, {"name": "b"}]}});
        let names = |object: &Value| object["spec"]["schedulingGates"].to_string();
        let insert = |before| edited(&object, PodPath::ITSELF, |edits| edits.insert_gate("g", before));
        assert_eq!(names(&insert(0)), r#"[{"name":"g"},{"name":"a"},{"name":"b"}]"#);
        assert_eq!(names(&insert(1)), r#"[{"name":"a"},{"name":"g"},{"name":"b"}]"#);
        assert_eq!(names(&insert(9)), r#"[{"name":"a"},{"name":"b"},{"name":"g"}]"#);
        let removed = edited(&object, PodPath::ITSELF, |edits| edits.remove_gate("a"));
        assert_eq!(names(&removed), r#"[{"name":"b"}]"#);
    }

    #[test]
    fn an_edit_that_is_satisfied_vanishes() {
        let object = json!({
            "metadata": {"labels": {"a": "1"}, "annotations": {}},
            "spec": {"schedulingGates": [{"name": "g"}]},
        });
        let stored = edited(&object, PodPath::ITSELF, |edits| {
            edits.set_label("a", "1");
            edits.remove_label("z");
            edits.remove_annotation("z");
            edits.add_gate("g");
            edits.insert_gate("g", 0);
            edits.remove_gate("z");
            assert!(edits.is_empty());
        });
        assert_eq!(stored, object);
    }

    proptest! {
        /// P8: trying the patch on the touched part is trying it on the object.
        #[test]
        fn the_touched_part_tells_how_the_patch_applies(
            metadata in prop::option::of(prop::collection::btree_map("[lax]", prop::option::of(0..9_u8), 0..4)),
            gates in prop::option::of(prop::collection::vec("[ag]", 0..3)),
            extra in "\\PC{0,8}",
            (before, drop) in (0..4_usize, any::<bool>()),
        ) {
            let mut pod = json!({"spec": {"containers": [extra], "schedulingGates": null}, "extra": extra});
            for (key, size) in metadata.iter().flatten() {
                let name = match key.as_str() { "l" => "labels", "a" => "annotations", _ => "extra" };
                let map = size.map(|size| (0..size).map(|n| (format!("k{n}"), json!("v"))).collect::<Map<_, _>>());
                pod["metadata"][name] = json!(map);
            }
            if let Some(gates) = &gates {
                pod["spec"]["schedulingGates"] = gates.iter().map(|gate| json!({"name": gate, "new": extra})).collect();
            }
            for at in [PodPath::ITSELF, PodPath::SPEC_TEMPLATE] {
                let object = at.keys().iter().rev().fold(pod.clone(), |inner, key| json!({*key: inner, "more": 1}));
                edited(&object, at, |edits| {
                    edits.set_label("k0", "w");
                    edits.set_label("k/9", "w");
                    edits.remove_annotation("k1");
                    edits.set_annotation("k2", "w");
                    if drop { edits.remove_gate("g") } else { edits.insert_gate("g", before) }
                });
            }
        }
    }
}
