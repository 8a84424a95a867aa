//! Files with Kubernetes objects -> JSON values, and values -> text for people.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// How objects are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    Yaml,
    Json,
}

/// What a command says: objects on standard output, remarks on standard error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Printout {
    pub stdout: String,
    pub stderr: String,
}

#[derive(Debug, thiserror::Error)]
pub enum UnreadableDocument {
    #[error("read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("parse YAML or JSON")]
    Yaml {
        #[source]
        source: Box<serde_saphyr::Error>,
    },
    #[error("document {number}: found {found}, expected a Kubernetes object")]
    NoObject { number: usize, found: String },
    #[error("no object found in the input")]
    Empty,
}

/// The text of a file; `-` is standard input.
pub fn read(path: &Path) -> Result<String, UnreadableDocument> {
    let text = if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    text.map_err(|source| UnreadableDocument::Read {
        path: path.to_owned(),
        source,
    })
}

/// The objects of a YAML stream, or of JSON values one after the other. Lists are opened, empty documents skipped;
/// at least one object is there. `0644` is octal, as kubectl reads it.
pub fn parse(text: &str) -> Result<Vec<Value>, UnreadableDocument> {
    let documents = match parse_json(text) {
        Some(documents) => documents,
        None => parse_yaml(text)?,
    };
    let mut objects = Vec::new();
    for (index, document) in documents.into_iter().enumerate() {
        open(index + 1, document, &mut objects)?;
    }
    if objects.is_empty() {
        Err(UnreadableDocument::Empty)
    } else {
        Ok(objects)
    }
}

/// `None` if it is not JSON: it may still be YAML that starts like it.
fn parse_json(text: &str) -> Option<Vec<Value>> {
    serde_json::Deserializer::from_str(text)
        .into_iter()
        .collect::<Result<_, _>>()
        .ok()
}

fn parse_yaml(text: &str) -> Result<Vec<Value>, UnreadableDocument> {
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|source| UnreadableDocument::Yaml {
        source: Box::new(source),
    })
}

fn open(number: usize, document: Value, objects: &mut Vec<Value>) -> Result<(), UnreadableDocument> {
    match document {
        Value::Null => Ok(()),
        Value::Object(mut list) if is_list(&list) => {
            let Some(Value::Array(items)) = list.remove("items") else {
                return Ok(());
            };
            items.into_iter().try_for_each(|item| open(number, item, objects))
        }
        Value::Object(object) => {
            objects.push(Value::Object(object));
            Ok(())
        }
        other => Err(UnreadableDocument::NoObject {
            number,
            found: other.to_string(),
        }),
    }
}

fn is_list(object: &serde_json::Map<String, Value>) -> bool {
    let kind = object.get("kind").and_then(Value::as_str);
    kind.is_some_and(|kind| kind.ends_with("List")) && object.get("items").is_some_and(Value::is_array)
}

/// Several objects are a YAML stream, or a `List` in JSON.
pub fn print(objects: &[Value], format: Format) -> String {
    match (format, objects) {
        (Format::Yaml, objects) => objects.iter().map(yaml).collect::<Vec<_>>().join("---\n"),
        (Format::Json, [object]) => json_text(object),
        (Format::Json, objects) => json_text(&json!({"apiVersion": "v1", "kind": "List", "items": objects})),
    }
}

fn yaml(object: &Value) -> String {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false, compact_list_indent: true };
    serde_saphyr::to_string_with_options(object, options).expect("a Value has only string keys")
}

fn json_text(object: &Value) -> String {
    format!("{object:#}\n")
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use expect_test::{Expect, expect};

    use super::*;

    #[test]
    fn yaml_is_read_as_kubectl_reads_it() {
        let text = "a: 0644\nb: 'yes'\nc: \"0644\"\nd: 1e3\ne: 2026-11-30\nf: null\ng: on\n";
        check(
            text,
            expect![[r#"
            {"a":420,"b":"yes","c":"0644","d":1000.0,"e":"2026-11-30","f":null,"g":true}
        "#]],
        );
    }

    #[test]
    fn several_documents_and_lists_are_several_objects() {
        check(
            "---\nkind: A\n---\n---\n# nothing\n---\nkind: List\nitems:\n- kind: B\n- kind: C\n",
            expect![[r#"
                {"kind":"A"}
                {"kind":"B"}
                {"kind":"C"}
            "#]],
        );
        check(
            "{\"kind\": \"A\"}\n\t{\"kind\": \"PodList\", \"items\": [{\"kind\": \"B\"}]}",
            expect![[r#"
                {"kind":"A"}
                {"kind":"B"}
            "#]],
        );
        check(
            "kind: AllowList\nspec: {}\n",
            expect![[r#"
            {"kind":"AllowList","spec":{}}
        "#]],
        );
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        check("", expect!["no object found in the input"]);
        check("--- # only a comment\n", expect!["no object found in the input"]);
        check(
            "just text",
            expect![[r#"document 1: found "just text", expected a Kubernetes object"#]],
        );
        check(
            "- a\n- b\n",
            expect![[r#"document 1: found ["a","b"], expected a Kubernetes object"#]],
        );
        check(
            "a: [",
            expect![[r#"
                parse YAML or JSON: error: line 1 column 4: unclosed bracket '['
                 --> <input>:1:4
                  |
                1 | a: [
                  |    ^ unclosed bracket '['"#]],
        );
        check(
            "a: 1\na: 2\n",
            expect![[r#"
                parse YAML or JSON: error: line 2 column 1: duplicate mapping key: a, set DuplicateKeyPolicy in Options if acceptable
                 --> <input>:2:1
                  |
                1 | a: 1
                2 | a: 2
                  | ^ duplicate mapping key: a, set DuplicateKeyPolicy in Options if acceptable"#]],
        );
        check(
            "{\"a\": }",
            expect![[r#"
                {"a":null}
            "#]],
        );
    }

    #[test]
    fn what_is_printed_is_read_back_the_same() {
        let tricky = json!({
            "quoted": ["yes", "on", "0644", "1e3", "null", "~", "", " x ", "- a", "a: b", "#x", "*a", "&a", "!a", "%a", "2026-11-30", "0x1f", "1_000", ".inf", "=", "<<"],
            "lines": "one\ntwo\n", "tabs": "a\tb", "long": "word ".repeat(60), "unicode": "\u{1F6A7}\u{7f}\u{85}",
            "numbers": [0, -1, 1.5, 1e300, u64::MAX], "empty": [{}, [], null], "nested": [[1, [2]], {"a": [{"b": 1}]}],
        });
        for format in [Format::Yaml, Format::Json] {
            let objects = vec![tricky.clone(), json!({"kind": "A"})];
            assert_eq!(parse(&print(&objects, format)).unwrap(), objects, "{format:?}");
        }
    }

    #[test]
    fn yaml_looks_like_kubectls() {
        let pod = json!({
            "kind": "Pod", "metadata": {"annotations": {"note": format!("{{\"long\":\"{}\"}}", "x ".repeat(60))}},
            "spec": {"containers": [{"name": "app", "args": ["-c", "true"], "tty": false}], "volumes": [], "x": {}},
        });
        expect![[r#"
            kind: Pod
            metadata:
              annotations:
                note: "{\"long\":\"x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x \"}"
            spec:
              containers:
              - args:
                - -c
                - "true"
                name: app
                tty: false
              volumes: []
              x: {}
        "#]].assert_eq(&print(&[pod], Format::Yaml));
    }

    #[track_caller]
    #[allow(clippy::needless_pass_by_value)]
    fn check(text: &str, expect: Expect) {
        expect.assert_eq(&match parse(text) {
            Ok(objects) => objects.iter().map(|object| format!("{object}\n")).collect(),
            Err(error) => match error.source() {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            },
        });
    }
}
