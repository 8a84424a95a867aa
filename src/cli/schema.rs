//! An object with a pod in it -> what an API server would not take of the pod: a wrong type is an error, a field that
//! nobody knows is told.
//!
//! For the commands of `preview` alone. What is dispatched stays raw JSON: a field that this version does not know is
//! the API server's to judge, and it survives.

use k8s_openapi::api::core::v1::{PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::workload::PodPath;

/// The version of Kubernetes whose fields are known: the feature of `k8s-openapi` in `Cargo.toml`.
const KUBERNETES: &str = "1.37";

/// A field that holds something else than its type.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct WrongType {
    path: String,
    problem: String,
}

/// A sentence for each field that no pod has, in the metadata of the object and in its pod.
///
/// # Errors
/// The first field of another type than a pod's.
pub fn unknown_fields(object: &Value, at: PodPath) -> Result<Vec<String>, WrongType> {
    let mut unknown = Vec::new();
    let pointer: String = at.keys().iter().map(|key| format!("/{key}")).collect();
    let pod = object.pointer(&pointer).unwrap_or(&Value::Null);
    compare::<ObjectMeta>(&object["metadata"], "metadata", &mut unknown)?;
    let known: &[&str] = match at.keys() {
        [] => &["apiVersion", "kind", "metadata", "spec", "status"],
        _ => {
            compare::<ObjectMeta>(&pod["metadata"], &at.field("metadata"), &mut unknown)?;
            &["metadata", "spec"]
        }
    };
    compare::<PodSpec>(&pod["spec"], &at.field("spec"), &mut unknown)?;
    compare::<PodStatus>(&pod["status"], &at.field("status"), &mut unknown)?;
    let fields = pod.as_object().into_iter().flatten().map(|(key, _)| key);
    unknown.extend(
        fields
            .filter(|key| !known.contains(&key.as_str()))
            .map(|key| at.field(key)),
    );
    let sentence = |path| {
        format!(
            "{path}: no pod of Kubernetes {KUBERNETES} has this field, so it does nothing; correct its name or its place, or remove it"
        )
    };
    Ok(unknown.into_iter().map(sentence).collect())
}

/// Reads a part as its type, and writes it again: what is lost on the way is no field of it.
fn compare<T: DeserializeOwned + Serialize>(
    part: &Value,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<(), WrongType> {
    if part.is_null() {
        return Ok(());
    }
    let typed: T = serde_path_to_error::deserialize(part).map_err(|error| {
        let below = error.path().to_string();
        WrongType {
            path: match below.as_str() {
                "." => path.to_owned(),
                below if below.starts_with('[') => format!("{path}{below}"),
                below => format!("{path}.{below}"),
            },
            problem: plain(&error.inner().to_string()),
        }
    })?;
    let written = serde_json::to_value(typed).unwrap_or_default();
    lost(part, &written, path, unknown);
    Ok(())
}

/// The parser's words, in those of the API.
fn plain(problem: &str) -> String {
    let problem = problem.replacen("invalid type: ", "found ", 1);
    let Some((found, expected)) = problem.rsplit_once(", expected ") else {
        return problem;
    };
    let found =
        found
            .replacen("found sequence", "found a list", 1)
            .replacen("found map", "found an object", 1);
    let expected = match expected {
        "i32" | "i64" => "an integer",
        "f64" => "a number",
        "a sequence" => "a list",
        "a map" => "an object",
        kind if kind.starts_with(|letter: char| letter.is_ascii_uppercase()) => {
            return format!("{found}, expected an object, a {kind}");
        }
        other => other,
    };
    format!("{found}, expected {expected}")
}

fn lost(found: &Value, written: &Value, path: &str, unknown: &mut Vec<String>) {
    match (found, written) {
        (Value::Object(found), Value::Object(written)) => {
            for (key, value) in found.iter().filter(|(_, value)| !value.is_null()) {
                let path = if key.contains(['.', '/']) {
                    format!("{path}[{key}]")
                } else {
                    format!("{path}.{key}")
                };
                match written.get(key) {
                    Some(written) => lost(value, written, &path, unknown),
                    None => unknown.push(path),
                }
            }
        }
        (Value::Array(found), Value::Array(written)) => {
            for (index, (found, written)) in found.iter().zip(written).enumerate() {
                lost(found, written, &format!("{path}[{index}]"), unknown);
            }
        }
        // A value may be written in another form, such as a quantity.
        (_, _) => {}
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::workload::WORKLOAD_KINDS;

    #[test]
    fn a_field_that_no_pod_has_is_told_with_its_path() {
        check(
            "{spec: {contaners: []}}",
            PodPath::ITSELF,
            expect!["spec.contaners"],
        );
        check(
            "{spec: {containers: [{name: a, imagePullpolicy: Always, resources: {limit: {cpu: 1}}}]}}",
            PodPath::ITSELF,
            expect![[r#"
                spec.containers[0].imagePullpolicy
                spec.containers[0].resources.limit"#]],
        );
        check(
            "{metadata: {lables: {a: b}}, specs: {}, status: {fase: Running}}",
            PodPath::ITSELF,
            expect![[r#"
                metadata.lables
                status.fase
                specs"#]],
        );
        check(
            "{metadata: {label: {}}, spec: {replicas: 1, template: {metadata: {anotations: {}}, spec: {node: a}, kind: Pod}}}",
            PodPath::SPEC_TEMPLATE,
            expect![[r#"
                metadata.label
                spec.template.metadata.anotations
                spec.template.spec.node
                spec.template.kind"#]],
        );
    }

    #[test]
    fn a_value_of_another_type_is_an_error_with_its_path() {
        check(
            "{spec: {containers: 7}}",
            PodPath::ITSELF,
            expect!["error: spec.containers: found integer `7`, expected a list"],
        );
        check(
            "{spec: {restartPolicy: 5}}",
            PodPath::ITSELF,
            expect!["error: spec.restartPolicy: found integer `5`, expected a string"],
        );
        check(
            "{metadata: {labels: {a: 1}}}",
            PodPath::ITSELF,
            expect!["error: metadata.labels.a: found integer `1`, expected a string"],
        );
        check(
            "{spec: []}",
            PodPath::ITSELF,
            expect!["error: spec: found a list, expected an object, a PodSpec"],
        );
        check(
            "{spec: {template: {spec: {containers: [{ports: [{containerPort: '80'}]}]}}}}",
            PodPath::SPEC_TEMPLATE,
            expect![[
                r#"error: spec.template.spec.containers[0].ports[0].containerPort: found string "80", expected an integer"#
            ]],
        );
    }

    #[test]
    fn what_an_api_server_takes_is_taken() {
        check(
            "{metadata: {creationTimestamp: null, labels: {a.b/c: d}}, spec: {nodeSelector: {}, tolerations: [], containers: [
             {name: a, resources: {limits: {cpu: 1, memory: 1.5, example.com/gpu: '2'}}, env: null,
              livenessProbe: {httpGet: {port: 80}}, securityContext: {}}],
             volumes: [{name: v, emptyDir: {}}, {name: w, emptyDir: {sizeLimit: 1000000}}]}}",
            PodPath::ITSELF,
            expect![""],
        );
        check("{}", PodPath::SPEC_TEMPLATE, expect![""]);
        for kind in WORKLOAD_KINDS {
            check(kind.example(), kind.pod(), expect![""]);
        }
    }

    #[track_caller]
    #[allow(clippy::needless_pass_by_value)]
    fn check(text: &str, at: PodPath, expect: Expect) {
        let object: Value = serde_saphyr::from_str(text).unwrap();
        expect.assert_eq(&match unknown_fields(&object, at) {
            Ok(sentences) => sentences
                .iter()
                .map(|sentence| sentence.split(": ").next().unwrap())
                .collect::<Vec<_>>()
                .join("\n"),
            Err(error) => format!("error: {error}"),
        });
    }
}
