//! Files of YAML or JSON, `-` for the standard input -> the Kubernetes objects in them.

use std::io::Read;
use std::path::PathBuf;

use serde_json::Value;

/// The text of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// As in messages.
    pub name: String,
    /// Its documents.
    pub text: String,
}

/// Why files hold no objects.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableDocuments {
    /// A file cannot be opened or is no text.
    #[error("read {}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file is neither YAML nor JSON.
    #[error("{file} is neither YAML nor JSON: {problem}")]
    Syntax {
        /// The file.
        file: String,
        /// Where and why.
        problem: String,
    },
    /// A document is no Kubernetes object.
    #[error("{place}: no object, it needs apiVersion and kind")]
    NoObject {
        /// File and number of the document.
        place: String,
    },
}

/// Reads the files.
///
/// # Errors
/// If one cannot be opened or is no text.
pub fn read(files: &[PathBuf]) -> Result<Vec<Source>, UnreadableDocuments> {
    let mut sources = Vec::with_capacity(files.len());
    for file in files {
        let text = if file.as_os_str() == "-" {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map(|_| text)
        } else {
            std::fs::read_to_string(file)
        };
        let text = text.map_err(|source| UnreadableDocuments::Read {
            file: file.clone(),
            source,
        })?;
        let name = file.display().to_string();
        sources.push(Source { name, text });
    }
    Ok(sources)
}

/// All objects of all documents, members of lists one by one.
///
/// # Errors
/// If a document is neither YAML nor JSON, or no object.
pub fn objects(sources: &[Source]) -> Result<Vec<Value>, UnreadableDocuments> {
    let mut objects = Vec::new();
    for source in sources {
        for (at, document) in documents(source)?.into_iter().enumerate() {
            let place = format!("{}, document {}", source.name, at + 1);
            collect(document, &place, &mut objects)?;
        }
    }
    Ok(objects)
}

fn collect(document: Value, place: &str, objects: &mut Vec<Value>) -> Result<(), UnreadableDocuments> {
    let is_text = |key: &str| {
        document
            .get(key)
            .and_then(Value::as_str)
            .is_some_and(|text| !text.is_empty())
    };
    match (
        &document,
        is_text("apiVersion") && is_text("kind"),
        &document["items"],
    ) {
        (Value::Null, _, _) => Ok(()),
        (_, true, Value::Array(items))
            if document["kind"]
                .as_str()
                .is_some_and(|kind| kind.ends_with("List")) =>
        {
            let mut numbered = items.iter().zip(1..);
            numbered.try_for_each(|(item, at)| collect(item.clone(), &format!("{place}, item {at}"), objects))
        }
        (_, true, _) => {
            objects.push(document);
            Ok(())
        }
        (_, false, _) => Err(UnreadableDocuments::NoObject {
            place: place.to_owned(),
        }),
    }
}

fn documents(source: &Source) -> Result<Vec<Value>, UnreadableDocuments> {
    if source.text.trim_start().starts_with('{') {
        let json: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(&source.text)
            .into_iter()
            .collect();
        if let Ok(documents) = json {
            return Ok(documents);
        }
    }
    let options = serde_saphyr::options! { legacy_octal_numbers: true, with_snippet: false };
    serde_saphyr::from_multiple_with_options(&source.text, options).map_err(|error| {
        UnreadableDocuments::Syntax {
            file: source.name.clone(),
            problem: error.to_string(),
        }
    })
}
