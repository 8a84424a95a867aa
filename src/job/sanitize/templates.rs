//! Marks of Portcullis in templates: on the worker its pods would be taken for copies of pods.

use std::fmt::Write as _;

use serde_json::Value;

use crate::names::PREFIX;
use crate::pod::sanitize::change::Log;

const REASON: &str =
    "a mark of Portcullis, which makes no sense of a pod that the worker's own controller made";

/// Takes our labels, annotations and scheduling gates out of everything below `spec`, whatever the kind.
pub(super) fn clean(spec: &mut Value, log: &mut Log) {
    walk(spec, &mut "spec".to_owned(), log);
}

fn walk(value: &mut Value, path: &mut String, log: &mut Log) {
    let length = path.len();
    match value {
        Value::Object(fields) => {
            if let Some(metadata) = fields.get_mut("metadata") {
                for map in ["labels", "annotations"] {
                    let Some(keys) = metadata.get_mut(map).and_then(Value::as_object_mut) else {
                        continue;
                    };
                    keys.retain(|key, _| {
                        let is_ours = key.starts_with(PREFIX);
                        if is_ours {
                            log.dropped(format_args!("{path}.metadata.{map}[{key}]"), REASON);
                        }
                        !is_ours
                    });
                }
            }
            if let Some(gates) = fields.get_mut("schedulingGates").and_then(Value::as_array_mut) {
                gates.retain(|gate| {
                    let name = gate.get("name").and_then(Value::as_str).unwrap_or_default();
                    let is_ours = name.starts_with(PREFIX);
                    if is_ours {
                        log.dropped(format_args!("{path}.schedulingGates[{name}]"), REASON);
                    }
                    !is_ours
                });
            }
            for (key, field) in fields.iter_mut() {
                let _ = write!(path, ".{key}");
                walk(field, path, log);
                path.truncate(length);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                let _ = write!(path, "[{index}]");
                walk(item, path, log);
                path.truncate(length);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::testing::{MARKS, kind, local};
    use super::super::{sanitize, source};

    #[test]
    fn marks_of_ours_in_a_template_do_not_reach_the_worker() {
        let marked = json!({
            "metadata": {
                "labels": {"app": "a", "portcullis.dev/origin": "o"},
                "annotations": {"note": "n", "portcullis.dev/local-uid": "u"},
            },
            "spec": {"schedulingGates": [{"name": "portcullis.dev/uncommitted"}, {"name": "example.com/wait"}]},
        });
        let clean = json!({
            "metadata": {"labels": {"app": "a"}, "annotations": {"note": "n"}},
            "spec": {"schedulingGates": [{"name": "example.com/wait"}]},
        });
        let spec = |template: &serde_json::Value| json!({"spec": {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": template}}}]}});
        let job_set = kind("JobSet");
        let copy = sanitize(job_set, &local(job_set, spec(&marked)), &MARKS).unwrap();
        let there = &copy.object["spec"]["replicatedJobs"][0]["template"]["spec"]["template"];
        assert_eq!(*there, clean);
        let told: Vec<&str> = copy
            .changes
            .iter()
            .map(|change| change.path.as_str())
            .filter(|path| path.starts_with("spec.replicatedJobs"))
            .collect();
        let place = "spec.replicatedJobs[0].template.spec.template";
        assert_eq!(
            told,
            [
                format!("{place}.metadata.labels[portcullis.dev/origin]"),
                format!("{place}.metadata.annotations[portcullis.dev/local-uid]"),
                format!("{place}.spec.schedulingGates[portcullis.dev/uncommitted]"),
            ]
        );
        assert_eq!(
            copy.source,
            source(job_set, &local(job_set, spec(&clean))).unwrap()
        );
    }
}
