//! Files with Kubernetes objects -> JSON values with their places, and values -> text for people.

use std::io::Read as _;
use std::path::Path;

use serde_json::{Map, Value, json};

/// How objects are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// One YAML document each.
    #[default]
    Yaml,
    /// The object, or a List of several.
    Json,
    /// Lines for people.
    Table,
}

/// What a command says: objects on standard output, remarks on standard error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Printout {
    pub stdout: String,
    pub stderr: String,
}

/// The text of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// As in messages.
    pub name: String,
    /// Its documents.
    pub text: String,
}

/// An object and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// As in `pods.yaml, document 2, item 1`.
    pub place: String,
    pub object: Value,
}

/// Why files hold no objects.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableDocument {
    #[error("read {file}")]
    Read {
        file: String,
        #[source]
        source: std::io::Error,
    },
    #[error("{0} is a folder; name the files in it")]
    Folder(String),
    #[error("{file} is neither YAML nor JSON: {problem}")]
    Syntax { file: String, problem: String },
    #[error("{place}: found {found}, expected an object with apiVersion and kind")]
    NoObject { place: String, found: String },
    #[error("{place}: {field}: {found}; expected a string such as {example}")]
    NoType {
        place: String,
        field: &'static str,
        found: String,
        example: &'static str,
    },
    #[error("no object found in {files}")]
    Empty { files: String },
}

/// The text of a file; `-` is standard input.
///
/// # Errors
/// If the file cannot be opened or is no text.
pub fn read(file: &Path) -> Result<Source, UnreadableDocument> {
    let (name, text) = if file == Path::new("-") {
        let mut text = String::new();
        let read = std::io::stdin().read_to_string(&mut text);
        ("standard input".to_owned(), read.map(|_| text))
    } else {
        (file.display().to_string(), std::fs::read_to_string(file))
    };
    match text {
        Ok(text) => Ok(Source { name, text }),
        Err(_) if file.is_dir() => Err(UnreadableDocument::Folder(name)),
        Err(source) => Err(UnreadableDocument::Read { file: name, source }),
    }
}

/// The objects of these files: YAML streams, or JSON values one after the other. Lists are opened, empty documents
/// skipped; at least one object is there. `0644` is octal, as kubectl reads it.
///
/// # Errors
/// If a file is neither YAML nor JSON, a document is no object, or there is none in any file.
pub fn parse(sources: &[Source]) -> Result<Vec<Document>, UnreadableDocument> {
    let mut objects = Vec::new();
    for source in sources {
        for (number, document) in (1..).zip(documents(source)?) {
            let place = format!("{}, document {number}", source.name);
            open(document, place, &mut objects)?;
        }
    }
    if objects.is_empty() {
        let files: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
        return Err(UnreadableDocument::Empty {
            files: files.join(", "),
        });
    }
    Ok(objects)
}

fn documents(source: &Source) -> Result<Vec<Value>, UnreadableDocument> {
    let json: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(&source.text)
        .into_iter()
        .collect();
    if let Ok(documents) = json {
        return Ok(documents);
    }
    // It may still be YAML that starts like JSON.
    let options = serde_saphyr::options! { legacy_octal_numbers: true, with_snippet: false };
    serde_saphyr::from_multiple_with_options(&source.text, options).map_err(|error| {
        UnreadableDocument::Syntax {
            file: source.name.clone(),
            problem: error.to_string(),
        }
    })
}

fn open(document: Value, place: String, objects: &mut Vec<Document>) -> Result<(), UnreadableDocument> {
    match document {
        Value::Null => Ok(()),
        Value::Object(mut object) => {
            for (field, example) in [("apiVersion", "v1 or apps/v1"), ("kind", "Pod or Deployment")] {
                let found = match object.get(field) {
                    Some(Value::String(text)) if !text.is_empty() => continue,
                    None | Some(Value::Null) => "missing".to_owned(),
                    Some(other) => format!("found {other}"),
                };
                return Err(UnreadableDocument::NoType {
                    place,
                    field,
                    found,
                    example,
                });
            }
            match items(&mut object) {
                Some(items) => (1..)
                    .zip(items)
                    .try_for_each(|(number, item)| open(item, format!("{place}, item {number}"), objects)),
                None => {
                    let object = Value::Object(object);
                    objects.push(Document { place, object });
                    Ok(())
                }
            }
        }
        Value::Array(_) => Err(UnreadableDocument::NoObject {
            place,
            found: "a list".to_owned(),
        }),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let mut found = document.to_string();
            if let Some((end, _)) = found.char_indices().nth(SHOWN) {
                found.truncate(end);
                found.push('…');
            }
            Err(UnreadableDocument::NoObject { place, found })
        }
    }
}

/// So many characters of a document that is none are told.
const SHOWN: usize = 40;

/// The members of a list, taken out.
fn items(object: &mut Map<String, Value>) -> Option<Vec<Value>> {
    let kind = object.get("kind").and_then(Value::as_str);
    if !kind.is_some_and(|kind| kind.ends_with("List")) {
        return None;
    }
    object
        .get_mut("items")
        .and_then(Value::as_array_mut)
        .map(std::mem::take)
}

/// Several objects are a YAML stream, or a `List` in JSON; what stands in a table the caller knows.
pub fn print(objects: &[Value], format: Format, table: impl FnOnce() -> String) -> String {
    match (format, objects) {
        (Format::Table, _) => table(),
        (Format::Yaml, objects) => objects.iter().map(yaml).collect::<Vec<_>>().join("---\n"),
        (Format::Json, []) => String::new(),
        (Format::Json, [object]) => json_text(object),
        (Format::Json, objects) => json_text(&json!({"apiVersion": "v1", "kind": "List", "items": objects})),
    }
}

/// One object as a YAML document.
pub fn yaml(object: &Value) -> String {
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
        let text = "apiVersion: v1\nkind: A\na: 0644\nb: 'yes'\nc: \"0644\"\nd: 1e3\ne: 2026-11-30\nf: null\ng: on\n";
        check(
            text,
            expect![[r#"
                app.yaml, document 1: {"a":420,"apiVersion":"v1","b":"yes","c":"0644","d":1000.0,"e":"2026-11-30","f":null,"g":true,"kind":"A"}
            "#]],
        );
    }

    #[test]
    fn several_documents_and_lists_are_several_objects() {
        check(
            "---\n{apiVersion: v1, kind: A}\n---\n---\n# nothing\n---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: B}\n- {apiVersion: v1, kind: C}\n",
            expect![[r#"
                app.yaml, document 1: {"apiVersion":"v1","kind":"A"}
                app.yaml, document 2, item 1: {"apiVersion":"v1","kind":"B"}
                app.yaml, document 2, item 2: {"apiVersion":"v1","kind":"C"}
            "#]],
        );
        check(
            "{\"apiVersion\": \"v1\", \"kind\": \"A\"}\n\t{\"apiVersion\": \"v1\", \"kind\": \"PodList\", \"items\": [{\"apiVersion\": \"v1\", \"kind\": \"B\"}]}",
            expect![[r#"
                app.yaml, document 1: {"apiVersion":"v1","kind":"A"}
                app.yaml, document 2, item 1: {"apiVersion":"v1","kind":"B"}
            "#]],
        );
        check(
            "apiVersion: v1\nkind: AllowList\nspec: {}\n",
            expect![[r#"
            app.yaml, document 1: {"apiVersion":"v1","kind":"AllowList","spec":{}}
        "#]],
        );
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_place() {
        check("", expect!["no object found in app.yaml"]);
        check("--- # only a comment\n", expect!["no object found in app.yaml"]);
        check(
            "just text",
            expect![[
                r#"app.yaml, document 1: found "just text", expected an object with apiVersion and kind"#
            ]],
        );
        check(
            "- a\n- b\n",
            expect!["app.yaml, document 1: found a list, expected an object with apiVersion and kind"],
        );
        check(
            "kind: Pod\n",
            expect!["app.yaml, document 1: apiVersion: missing; expected a string such as v1 or apps/v1"],
        );
        check(
            "apiVersion: v1\nkind: Pod\n---\n[]\n",
            expect!["app.yaml, document 2: found a list, expected an object with apiVersion and kind"],
        );
        check(
            "apiVersion: v1\nkind: List\nitems: [5]\n",
            expect!["app.yaml, document 1, item 1: found 5, expected an object with apiVersion and kind"],
        );
        check(
            "a: [",
            expect!["app.yaml is neither YAML nor JSON: unclosed bracket '[' at line 1, column 4"],
        );
        check(
            "a: 1\na: 2\n",
            expect![
                "app.yaml is neither YAML nor JSON: duplicate mapping key: a, set DuplicateKeyPolicy in Options if acceptable at line 2, column 1"
            ],
        );
        check(
            "{\"a\": ",
            expect!["app.yaml is neither YAML nor JSON: unclosed bracket '{' at line 1, column 1"],
        );
    }

    #[test]
    fn an_absent_file_is_named() {
        let error = read(Path::new("/nowhere/pod.yaml")).unwrap_err();
        assert_eq!(error.to_string(), "read /nowhere/pod.yaml");
        assert!(error.source().is_some());
        let folder = std::env::temp_dir();
        let said = read(&folder).unwrap_err().to_string();
        assert!(said.ends_with(" is a folder; name the files in it"), "{said}");
    }

    #[test]
    fn what_is_printed_is_read_back_the_same() {
        let tricky = json!({
            "apiVersion": "v1", "kind": "Tricky",
            "quoted": ["yes", "on", "0644", "1e3", "null", "~", "", " x ", "- a", "a: b", "#x", "*a", "&a", "!a", "%a", "2026-11-30", "0x1f", "1_000", ".inf", "=", "<<"],
            "lines": "one\ntwo\n", "tabs": "a\tb", "long": "word ".repeat(60), "unicode": "\u{1F6A7}\u{7f}\u{85}",
            "numbers": [0, -1, 1.5, 1e300, u64::MAX], "empty": [{}, [], null], "nested": [[1, [2]], {"a": [{"b": 1}]}],
        });
        for format in [Format::Yaml, Format::Json] {
            let objects = vec![tricky.clone(), json!({"apiVersion": "v1", "kind": "A"})];
            let printed = print(&objects, format, String::new);
            let read: Vec<Value> = parsed(&printed)
                .unwrap()
                .into_iter()
                .map(|read| read.object)
                .collect();
            assert_eq!(read, objects, "{format:?}");
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
        "#]].assert_eq(&print(&[pod], Format::Yaml, String::new));
    }

    fn parsed(text: &str) -> Result<Vec<Document>, UnreadableDocument> {
        let name = "app.yaml".to_owned();
        let text = text.to_owned();
        parse(&[Source { name, text }])
    }

    #[track_caller]
    #[allow(clippy::needless_pass_by_value)]
    fn check(text: &str, expect: Expect) {
        expect.assert_eq(&match parsed(text) {
            Ok(documents) => documents
                .iter()
                .map(|Document { place, object }| format!("{place}: {object}\n"))
                .collect(),
            Err(error) => error.to_string(),
        });
    }
}
