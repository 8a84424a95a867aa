//! A local object's JSON -> the parts that its copy is made of.

use serde_json::{Map, Value};

use crate::names;

/// The parts of a local pod or job that the copy is made of.
pub(crate) struct LocalObject<'a> {
    pub(crate) metadata: &'a Map<String, Value>,
    pub(crate) name: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) spec: &'a Map<String, Value>,
}

impl<'a> LocalObject<'a> {
    pub(crate) fn read(pod: &'a Value) -> Result<Self, UnreadableLocal> {
        let metadata = object(pod.get("metadata"), "metadata")?;
        Ok(Self {
            metadata,
            name: text(metadata.get("name"), "metadata.name")?,
            namespace: text(metadata.get("namespace"), "metadata.namespace")?,
            uid: text(metadata.get("uid"), "metadata.uid")?,
            spec: object(pod.get("spec"), "spec")?,
        })
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&'a str> {
        self.metadata.get("annotations")?.get(key)?.as_str()
    }

    /// How often a commit of it was cleared. Absent is 0.
    pub(crate) fn attempt(&self) -> Result<u64, UnreadableLocal> {
        self.annotation(names::ATTEMPT).map_or(Ok(0), |attempt| {
            attempt.parse().map_err(|_| UnreadableLocal::Wrong {
                path: "metadata.annotations[portcullis.dev/attempt]".to_owned(),
                found: format!("{attempt:?}"),
                expected: "a number, 0 or more",
            })
        })
    }
}

/// The local object cannot be read: a sentence with the path of the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableLocal {
    #[error("{path}: missing; expected {expected}")]
    Missing { path: String, expected: &'static str },
    #[error("{path}: found {found}, expected {expected}")]
    Wrong {
        path: String,
        found: String,
        expected: &'static str,
    },
    /// A job that asks for a gang, of which none can be made on its worker.
    #[error("{0}")]
    Gang(String),
}

impl UnreadableLocal {
    /// Fixed name for metrics and Events.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "FieldMissing",
            Self::Wrong { .. } | Self::Gang(_) => "FieldUnreadable",
        }
    }
}

pub(crate) fn object<'a>(
    value: Option<&'a Value>,
    path: &str,
) -> Result<&'a Map<String, Value>, UnreadableLocal> {
    let expected = "an object";
    match value {
        Some(Value::Object(map)) => Ok(map),
        None | Some(Value::Null) => Err(UnreadableLocal::Missing {
            path: path.to_owned(),
            expected,
        }),
        Some(other) => Err(UnreadableLocal::Wrong {
            path: path.to_owned(),
            found: describe(other),
            expected,
        }),
    }
}

fn text<'a>(value: Option<&'a Value>, path: &str) -> Result<&'a str, UnreadableLocal> {
    let expected = "a non-empty string";
    match value {
        Some(Value::String(text)) if !text.is_empty() => Ok(text),
        None | Some(Value::Null) => Err(UnreadableLocal::Missing {
            path: path.to_owned(),
            expected,
        }),
        Some(other) => Err(UnreadableLocal::Wrong {
            path: path.to_owned(),
            found: describe(other),
            expected,
        }),
    }
}

/// Short, whatever it is.
fn describe(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::String(text) => format!("{:?}", text.chars().take(40).collect::<String>()),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::super::sanitize;
    use super::super::testing::{self, MARKS};
    use super::*;

    #[test]
    fn an_unreadable_pod_is_named_by_its_field() {
        let check = |pod: Value, expect: Expect| {
            let error = sanitize(&pod, &MARKS).unwrap_err();
            expect.assert_eq(&format!("{}: {error}", error.name()));
        };
        check(
            json!(null),
            expect!["FieldMissing: metadata: missing; expected an object"],
        );
        check(
            json!({"metadata": {"name": "a"}}),
            expect!["FieldMissing: metadata.namespace: missing; expected a non-empty string"],
        );
        check(
            json!({"metadata": {"name": ""}}),
            expect![[r#"FieldUnreadable: metadata.name: found "", expected a non-empty string"#]],
        );
        check(
            json!({"metadata": {"name": 7}}),
            expect!["FieldUnreadable: metadata.name: found 7, expected a non-empty string"],
        );
        check(
            json!({"metadata": {"name": "a", "namespace": "n"}}),
            expect!["FieldMissing: metadata.uid: missing; expected a non-empty string"],
        );
        check(
            json!({"metadata": {"name": "a", "namespace": "n", "uid": "u"}}),
            expect!["FieldMissing: spec: missing; expected an object"],
        );
        check(
            json!({"metadata": {"name": "a", "namespace": "n", "uid": "u"}, "spec": []}),
            expect!["FieldUnreadable: spec: found a list, expected an object"],
        );
        let mut pod = testing::local(
            json!({"annotations": {"portcullis.dev/attempt": "-1"}}),
            json!({}),
        );
        check(
            pod.clone(),
            expect![[
                r#"FieldUnreadable: metadata.annotations[portcullis.dev/attempt]: found "-1", expected a number, 0 or more"#
            ]],
        );
        pod["metadata"]["labels"] = "app=web".into();
        check(
            pod,
            expect![[r#"FieldUnreadable: metadata.labels: found "app=web", expected an object"#]],
        );
    }
}
