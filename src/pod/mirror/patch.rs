//! What a status should say -> the merge patch that changes just that.

use serde_json::{Map, Value, json};

/// A merge patch under way, against one local pod.
pub(super) struct StatusPatch<'a> {
    local: &'a Value,
    status: Map<String, Value>,
    annotations: Map<String, Value>,
}

impl<'a> StatusPatch<'a> {
    pub(super) fn of(local: &'a Value) -> Self {
        Self {
            local,
            status: Map::new(),
            annotations: Map::new(),
        }
    }

    pub(super) fn local(&self) -> &'a Value {
        self.local
    }

    /// Makes the field say `value`; null takes it away.
    pub(super) fn set(&mut self, field: &str, value: Value) {
        if !same(&self.local["status"][field], &value) {
            self.status.insert(field.to_owned(), value);
        }
    }

    /// As [`Self::set`]; an empty list takes the field away.
    pub(super) fn set_list(&mut self, field: &str, list: Vec<Value>) {
        self.set(
            field,
            if list.is_empty() {
                Value::Null
            } else {
                Value::Array(list)
            },
        );
    }

    pub(super) fn annotate(&mut self, key: &str, value: &str) {
        if self.local["metadata"]["annotations"][key] != value {
            self.annotations.insert(key.to_owned(), value.into());
        }
    }

    /// The body with its preconditions; `None` if nothing differs.
    pub(super) fn into_body(self) -> Option<Value> {
        if self.status.is_empty() && self.annotations.is_empty() {
            return None;
        }
        let mut metadata = Map::new();
        for precondition in ["uid", "resourceVersion"] {
            if let Some(value) = self.local["metadata"][precondition].as_str() {
                metadata.insert(precondition.to_owned(), value.into());
            }
        }
        if !self.annotations.is_empty() {
            metadata.insert("annotations".to_owned(), Value::Object(self.annotations));
        }
        let mut body = json!({"metadata": metadata});
        if !self.status.is_empty() {
            body["status"] = Value::Object(self.status);
        }
        Some(body)
    }
}

/// Equal but for what one API server prints and another leaves out: null, empty strings, objects and lists.
pub(super) fn same(left: &Value, right: &Value) -> bool {
    same_but_for(is_empty, left, right)
}

/// Equal but for values that are as good as absent by this rule.
pub(crate) fn same_but_for(is_nothing: fn(&Value) -> bool, left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let null = &Value::Null;
            left.iter()
                .all(|(key, value)| same_but_for(is_nothing, value, right.get(key).unwrap_or(null)))
                && right
                    .iter()
                    .all(|(key, value)| left.contains_key(key) || is_nothing(value))
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|(left, right)| same_but_for(is_nothing, left, right))
        }
        (left, right) => left == right || is_nothing(left) && is_nothing(right),
    }
}

/// Null, or nothing in it.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.values().all(is_empty),
        Value::Bool(_) | Value::Number(_) => false,
    }
}
