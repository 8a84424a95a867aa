//! `portcullis preview admission`: manifests -> the objects as admission would leave them, or why it refuses them.
//!
//! The webhook's own pipeline answers a review of each object, and the guard's rules look at the result; there is no
//! cluster. So what an API server fills in by itself (defaults, other webhooks) is not to be seen here.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::admission::review::{API_VERSION, KIND};
use crate::admission::{JobFacts, Keeps, NamespaceFacts, NamespaceLabels, admit, admit_job, validate};
use crate::cli::documents::{self, Format, Source, UnreadableDocument};
use crate::cli::manifests::configured;
use crate::cli::schema;
use crate::names;
use crate::workload::jobs::{JobKind, JobKinds};
use crate::workload::{self, PodPath, Resource, WorkloadKind};

/// The user of the previewed requests: one like any other.
const USER: &str = "preview";
/// Where an object goes that names no namespace.
const DEFAULT_NAMESPACE: &str = "default";

/// Options of `portcullis preview admission`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// File with objects, YAML or JSON, several documents each; - is the standard input. May be repeated.
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Label of the namespace, KEY=VALUE to add, KEY- to take away; it has portcullis.dev/dispatch=default already.
    /// May be repeated.
    #[arg(long = "namespace-label", value_name = "KEY=VALUE", value_parser = parse_label)]
    pub namespace_labels: Vec<LabelChange>,
    /// The PortcullisConfiguration that `serve` gets, if it names kinds of jobs.
    #[arg(long = "config", value_name = "FILE", value_parser = configured)]
    pub kinds: Option<JobKinds>,
    /// How the objects are printed.
    #[arg(short = 'o', long = "output", value_enum, default_value_t)]
    pub output: Format,
}

/// A label that is set, or taken away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelChange {
    key: String,
    value: Option<String>,
}

/// Reads `KEY=VALUE` or `KEY-`, as `kubectl label` does.
///
/// # Errors
/// If the text is neither.
pub fn parse_label(text: &str) -> Result<LabelChange, String> {
    let (key, value) = match (text.split_once('='), text.strip_suffix('-')) {
        (Some((key, value)), _) => (key, Some(value.to_owned())),
        (None, Some(key)) => (key, None),
        (None, None) => ("", None),
    };
    if key.is_empty() {
        return Err("write KEY=VALUE, or KEY- to take the label away".to_owned());
    }
    Ok(LabelChange {
        key: key.to_owned(),
        value,
    })
}

/// Why there is nothing to print.
#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    /// A file holds no objects.
    #[error(transparent)]
    Documents(#[from] UnreadableDocument),
    /// Admission or the guard refuses one or more of the objects.
    #[error("{}", lines(refusals))]
    Refused {
        /// One sentence each.
        refusals: Vec<Refusal>,
        /// The objects that are not refused, printed.
        printed: String,
    },
}

/// An object that would not be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Kind, namespace and name.
    pub object: String,
    /// The field, and the way out.
    pub sentence: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} is refused: {}", self.object, self.sentence)
    }
}

/// What a preview has to say: on the standard output, and beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// The objects.
    pub printed: String,
    /// What `kubectl` would print as warnings.
    pub warnings: Vec<String>,
}

/// Reads the files and answers with what is to be printed; warnings go to the standard error at once.
///
/// # Errors
/// If a file cannot be read, or an object is refused.
pub fn preview_admission(args: &Args) -> Result<String, PreviewError> {
    let sources: Vec<Source> = args
        .files
        .iter()
        .map(|file| documents::read(file))
        .collect::<Result<_, _>>()?;
    let namespace = namespace_labels(&args.namespace_labels);
    let preview = preview(&sources, &namespace, args.kinds.unwrap_or_default(), args.output)?;
    for warning in &preview.warnings {
        eprintln!("Warning: {warning}");
    }
    Ok(preview.printed)
}

/// The labels of the namespace that is previewed: opted in, and as changed.
#[must_use]
pub fn namespace_labels(changes: &[LabelChange]) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([(names::DISPATCH.to_owned(), "default".to_owned())]);
    for LabelChange { key, value } in changes {
        match value {
            Some(value) => labels.insert(key.clone(), value.clone()),
            None => labels.remove(key),
        };
    }
    labels
}

/// The pure part: texts in, text out.
///
/// # Errors
/// If a text holds no objects, or an object is refused.
pub fn preview(
    sources: &[Source],
    namespace: &BTreeMap<String, String>,
    kinds: JobKinds,
    output: Format,
) -> Result<Preview, PreviewError> {
    let mut admitted = Vec::new();
    let mut refusals = Vec::new();
    for document in documents::parse(sources)? {
        match admission_of(document.object, namespace, kinds) {
            Ok(object) => admitted.push(object),
            Err(refusal) => refusals.push(refusal),
        }
    }
    let printed = print(&admitted, output);
    if !refusals.is_empty() {
        return Err(PreviewError::Refused { refusals, printed });
    }
    let warnings = admitted.into_iter().flat_map(|object| object.warnings).collect();
    Ok(Preview { printed, warnings })
}

/// An object as it would be stored.
struct Admitted {
    object: Value,
    name: String,
    decision: String,
    reason: String,
    warnings: Vec<String>,
}

/// Inject and enrich by the webhook's pipeline, then the guard.
fn admission_of(
    object: Value,
    namespace: &BTreeMap<String, String>,
    kinds: JobKinds,
) -> Result<Admitted, Refusal> {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let kind = Kind::of(&object, kinds);
    let namespace_name = Some(text("/metadata/namespace"))
        .filter(|name| !name.is_empty())
        .unwrap_or(DEFAULT_NAMESPACE);
    let name = match (text("/metadata/name"), text("/metadata/generateName")) {
        ("", prefix) => format!("{} {namespace_name}/{prefix}*", text("/kind")),
        (name, _) => format!("{} {namespace_name}/{name}", text("/kind")),
    };
    let left = |object: Value, reason: &str| Admitted {
        object,
        name: name.clone(),
        decision: "allowed".to_owned(),
        reason: reason.to_owned(),
        warnings: Vec::new(),
    };
    let (Some(kind), true) = (kind, namespace.contains_key(names::DISPATCH)) else {
        let reason = if kind.is_none() { "unknown" } else { "not-opted-in" };
        return Ok(left(object, reason));
    };
    let refusal = |sentence: String| Refusal {
        object: name.clone(),
        sentence,
    };
    // The API server reads the object before it asks anybody.
    let unknown = match kind.pod(&object) {
        Some(pod) => schema::unknown_fields(&object, pod).map_err(|wrong| refusal(wrong.to_string()))?,
        None => Vec::new(),
    };
    let labels = namespace.iter().map(|(key, value)| (&**key, &**value));
    let facts = Labelled {
        labels: NamespaceLabels::of(labels),
        kinds,
    };
    let review = review(kind.resource(), &object, namespace_name).to_string();
    let answer = match kind {
        Kind::Workload(_) => admit(review.as_bytes(), &facts),
        Kind::Job(_) => admit_job(review.as_bytes(), &facts),
    };
    let answer: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let mut admitted = stored(object.clone(), &answer["response"]).map_err(refusal)?;
    admitted.name.clone_from(&name);
    if admitted.reason != "protected" {
        validate::guard(&admitted.object, namespace, USER, kinds)
            .map_err(|denial| refusal(denial.to_string()))?;
    }
    let warn = |warning: &String| format!("{name}: {warning}");
    admitted.warnings = unknown.iter().chain(&admitted.warnings).map(warn).collect();
    Ok(admitted)
}

/// The object after the answer's patch, or the sentence of its refusal.
fn stored(mut object: Value, response: &Value) -> Result<Admitted, String> {
    let text = |pointer: &str| {
        response
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    if response["allowed"] != true {
        return Err(text("/status/message"));
    }
    if let Some(patch) = response["patch"].as_str() {
        let patch = STANDARD.decode(patch).map_err(|error| error.to_string())?;
        let patch: json_patch::Patch = serde_json::from_slice(&patch).map_err(|error| error.to_string())?;
        json_patch::patch(&mut object, &patch).map_err(|error| error.to_string())?;
    }
    let warnings = response["warnings"].as_array().into_iter().flatten();
    Ok(Admitted {
        object,
        name: String::new(),
        decision: text("/auditAnnotations/decision"),
        reason: text("/auditAnnotations/reason"),
        warnings: warnings.filter_map(Value::as_str).map(str::to_owned).collect(),
    })
}

fn review(names: Resource, object: &Value, namespace: &str) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "request": {
            "uid": "preview",
            "resource": {"group": names.group, "version": names.version, "resource": names.plural},
            "namespace": namespace,
            "operation": "CREATE",
            "userInfo": {"username": USER},
            "object": object,
        },
    })
}

/// A kind that admission knows.
#[derive(Clone, Copy)]
enum Kind {
    Workload(&'static dyn WorkloadKind),
    Job(&'static dyn JobKind),
}

impl Kind {
    fn of(object: &Value, kinds: JobKinds) -> Option<Self> {
        let text = |key: &str| object[key].as_str().unwrap_or_default();
        let workload = workload::by_kind(text("apiVersion"), text("kind")).map(Self::Workload);
        workload.or_else(|| kinds.of(object).map(Self::Job))
    }

    fn resource(&self) -> Resource {
        match self {
            Self::Workload(kind) => kind.resource(),
            Self::Job(kind) => kind.resource(),
        }
    }

    /// Where a pod is in it whose fields are known.
    fn pod(&self, object: &Value) -> Option<PodPath> {
        match self {
            Self::Workload(kind) => Some(kind.pod()),
            // Of other kinds the API server's own schema is not known here.
            Self::Job(_) => object.pointer("/spec/template").map(|_| PodPath::SPEC_TEMPLATE),
        }
    }
}

/// The one namespace that is previewed, on a cluster that keeps every field.
struct Labelled {
    labels: NamespaceLabels,
    kinds: JobKinds,
}

impl JobFacts for Labelled {
    fn keeps_managed_by(&self, _: Resource) -> Keeps {
        Keeps::Yes
    }

    fn job_kinds(&self) -> JobKinds {
        self.kinds
    }
}

impl NamespaceFacts for Labelled {
    fn namespace(&self, _: &str) -> Option<NamespaceLabels> {
        Some(self.labels.clone())
    }
}

fn print(admitted: &[Admitted], output: Format) -> String {
    let objects: Vec<Value> = admitted.iter().map(|admitted| admitted.object.clone()).collect();
    documents::print(&objects, output, || {
        let row =
            |admitted: &Admitted| [&admitted.name, &admitted.decision, &admitted.reason].map(String::clone);
        let rows: Vec<_> = admitted.iter().map(row).collect();
        super::table::table(["OBJECT", "DECISION", "REASON"], &rows)
    })
}

fn lines(refusals: &[Refusal]) -> String {
    refusals
        .iter()
        .map(Refusal::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}
