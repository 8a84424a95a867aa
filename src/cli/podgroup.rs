//! `portcullis podgroup`: jobs -> the objects of their gangs, or the marks of their pods, and remarks. No cluster.

use std::fmt;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Value, json};

mod facts;
#[cfg(test)]
mod tests;
mod unknown_fields;

use facts::{container_defaults, of_kind};
use unknown_fields::unknown_fields;

use super::documents::{self, Document, Printout, Source, UnreadableDocument};
use crate::gang::{
    Choice, ClusterFacts, Decision, Family, Gang, Moment, NativeVersion, Notice, Reason, Served, Subject,
    Wanted, choose, gang,
};
use crate::names::GANG_SCHEDULER;
use crate::workload::jobs::{GANG_KINDS, GangKind, InvalidField, gang_kind_of};

/// Shows, without a cluster, the objects that would be created for jobs, as a `kind: List`. Remarks go to the standard
/// error, one per line, as `Reason: sentence`. A job that admission would refuse is named there, and the exit code is 1.
///
/// A manifest that no API server has seen gets a name, the namespace `default` and a UID; what only a cluster can give
/// is a placeholder in the output, the UID of a Workload too. What the cluster has is what the options say.
#[derive(Debug, Clone, clap::Args)]
pub struct PodgroupArgs {
    /// File with jobs, YAML or JSON, several documents each; - is the standard input. May be repeated.
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The gang scheduler, as the namespace's label names it, but for `auto`, for which a cluster is needed; a job's annotation
    /// `portcullis.dev/gang-scheduler` wins.
    #[arg(long, value_parser = families())]
    scheduler: Family,
    /// The cluster's release, such as 1.37: native objects differ in each.
    #[arg(long, value_name = "VERSION", default_value = "1.37", value_parser = minor)]
    kubernetes: u32,
    /// A PriorityClass that the cluster has, and its value. May be repeated.
    #[arg(long = "priority-class", value_name = "NAME=VALUE", value_parser = priority_class)]
    priority_classes: Vec<(String, i32)>,
    /// The value of the PriorityClass with `globalDefault`, which pods without a class get.
    #[arg(long, value_name = "VALUE", allow_negative_numbers = true)]
    global_default_priority: Option<i32>,
    /// File with LimitRanges, whose defaults count as requests; those of another namespace than the job's do not. May be
    /// repeated.
    #[arg(long = "limit-range", value_name = "FILE")]
    limit_ranges: Vec<PathBuf>,
    /// File with RuntimeClasses, whose overhead counts. May be repeated.
    #[arg(long = "runtime-class", value_name = "FILE")]
    runtime_classes: Vec<PathBuf>,
    /// The scheduler's name in pods, if it is not `scheduler-plugins-scheduler` or `volcano`.
    #[arg(long, value_name = "NAME")]
    scheduler_name: Option<String>,
    /// Kubeflow jobs without a schedulingPolicy are gangs too.
    #[arg(long)]
    gang_all: bool,
    /// What is printed.
    #[arg(long, value_enum, default_value_t)]
    show: Show,
    /// How it is printed.
    #[arg(short = 'o', long, value_enum, default_value_t)]
    output: ListFormat,
}

/// What is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum Show {
    /// The objects that would be created, in this order.
    #[default]
    Objects,
    /// One PodTemplate per role, which holds nothing but what the pods of that role get.
    Marks,
}

/// How a List is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum ListFormat {
    #[default]
    Yaml,
    Json,
}

/// Why there is nothing to print.
#[derive(Debug, thiserror::Error)]
pub enum PodgroupError {
    /// A file holds no objects.
    #[error(transparent)]
    Documents(#[from] UnreadableDocument),
    /// A LimitRange or RuntimeClass cannot be read.
    #[error("{place} cannot be read")]
    Fact {
        /// File and document.
        place: String,
        /// The field.
        #[source]
        source: InvalidField,
    },
    /// Something else than a LimitRange or RuntimeClass where one should be.
    #[error("{place} is a {found}, expected a {expected}")]
    OtherKind {
        /// File and document.
        place: String,
        /// Its kind.
        found: String,
        /// The kind that belongs there.
        expected: &'static str,
    },
    /// The release has no such API.
    #[error("Kubernetes 1.{0} has no native gangs, 1.35 is the first release with them")]
    NoNative(u32),
}

/// The jobs that admission would refuse, in one line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusals(Vec<String>);

impl fmt::Display for Refusals {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for Refusals {}

/// What is printed, and what would be refused.
#[derive(Debug)]
pub struct Translation {
    /// The List of what is not refused, and the remarks.
    pub printout: Printout,
    /// None if all jobs are admitted.
    pub refusals: Option<Refusals>,
}

/// Stands for a UID that only a cluster can give.
const PLACEHOLDER_UID: &str = "00000000-0000-0000-0000-000000000000";
/// Ends a name that only an API server can make from `generateName`.
const PLACEHOLDER_SUFFIX: &str = "xxxxx";

impl PodgroupArgs {
    /// Reads the files and translates their jobs.
    ///
    /// # Errors
    /// If a file holds something else than it should; a job that is refused is no error, but is in the answer.
    pub fn run(&self) -> Result<Translation, PodgroupError> {
        let read = |files: &[PathBuf]| {
            files
                .iter()
                .map(|file| documents::read(file))
                .collect::<Result<Vec<Source>, _>>()
        };
        self.translate(
            &read(&self.files)?,
            &read(&self.limit_ranges)?,
            &read(&self.runtime_classes)?,
        )
    }

    /// The pure part: texts in, text out.
    fn translate(
        &self,
        jobs: &[Source],
        limit_ranges: &[Source],
        runtime_classes: &[Source],
    ) -> Result<Translation, PodgroupError> {
        let native = NativeVersion::of_kubernetes(self.kubernetes);
        if self.scheduler == Family::Native && native.is_none() {
            return Err(PodgroupError::NoNative(self.kubernetes));
        }
        let limit_ranges = of_kind(limit_ranges, "LimitRange")?;
        let facts = self.facts(&of_kind(runtime_classes, "RuntimeClass")?)?;
        let (mut items, mut lines, mut refusals, mut others) =
            (Vec::new(), String::new(), Vec::new(), String::new());
        let documents = match documents::parse(jobs) {
            Err(UnreadableDocument::Empty { .. }) => Vec::new(),
            documents => documents?,
        };
        let mut has_job = false;
        for Document { place, object } in documents {
            let Some(kind) = gang_kind_of(&object) else {
                let of = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
                let (kind, api_version) = (of("kind"), of("apiVersion"));
                others.push_str(&format!(
                    "NotAJob: {place} is a {kind} of {api_version}, and is passed over\n"
                ));
                continue;
            };
            has_job = true;
            let job = as_if_stored(object);
            let name = name_of(&job);
            let facts = ClusterFacts {
                container_defaults: container_defaults(&limit_ranges, &job)?,
                ..facts.clone()
            };
            for sentence in unknown_fields(kind, &job) {
                lines.push_str(&format!("UnknownField: {name}: {sentence}\n"));
            }
            match self.one(kind, &job, native, &facts) {
                Ok((printed, remarks)) => {
                    items.extend(printed);
                    lines.extend(
                        remarks
                            .iter()
                            .map(|(reason, sentence)| format!("{reason}: {name}: {sentence}\n")),
                    );
                }
                Err(refusal) => refusals.push(format!("{name} is refused: {refusal}")),
            }
        }
        lines.push_str(&others);
        if !has_job {
            lines.push_str(&format!("NoJob: no job found; {}\n", known()));
        }
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        let stdout = match self.output {
            ListFormat::Yaml => documents::yaml(&list),
            ListFormat::Json => format!("{list:#}\n"),
        };
        Ok(Translation {
            printout: Printout {
                stdout,
                stderr: lines,
            },
            refusals: (!refusals.is_empty()).then_some(Refusals(refusals)),
        })
    }

    /// Reason and sentence; what is not known is what no option says.
    fn remark(&self, Notice { reason, sentence }: Notice) -> (&'static str, String) {
        let advice = match reason {
            Reason::UnknownPriorityClass if self.priority_classes.is_empty() => {
                "; give --priority-class NAME=VALUE if it does"
            }
            _ => "",
        };
        (reason.name(), format!("{sentence}{advice}"))
    }

    /// What is printed for one job, and remarks by reason.
    #[allow(clippy::type_complexity)]
    fn one(
        &self,
        kind: &'static dyn GangKind,
        job: &Value,
        native: Option<NativeVersion>,
        facts: &ClusterFacts,
    ) -> Result<(Vec<Value>, Vec<(&'static str, String)>), InvalidField> {
        let label = self.scheduler.to_string();
        let annotation = job
            .pointer("/metadata/annotations")
            .and_then(|annotations| annotations.get(GANG_SCHEDULER));
        let is_open = |family| annotation.and_then(Value::as_str) != Some("auto") || self.scheduler == family;
        let served = Served {
            coscheduling: is_open(Family::Coscheduling),
            volcano: is_open(Family::Volcano),
            native: native.filter(|_| is_open(Family::Native)),
        };
        let back_end = match choose(kind, job, &label, served, &facts.settings)? {
            Choice::Alone(notice) => return Ok((Vec::new(), vec![(notice.reason.name(), notice.sentence)])),
            Choice::Use(back_end) => back_end,
            Choice::NotServed(family) => {
                let sentence = format!(
                    "Kubernetes 1.{} serves no API of {family}, so no group is made",
                    self.kubernetes
                );
                return Ok((Vec::new(), vec![("NotServed", sentence)]));
            }
        };
        let subject = Subject {
            kind,
            job,
            back_end,
            moment: Moment::Admission,
            seed: PLACEHOLDER_UID,
            late_pods_exist: false,
        };
        match gang(&subject, facts)? {
            Decision::Alone(notice) => Ok((Vec::new(), vec![(notice.reason.name(), notice.sentence)])),
            Decision::Gang(gang) => {
                let printed = match self.show {
                    Show::Objects => {
                        back_end.objects(&gang.pod_group, 0, Some(PLACEHOLDER_UID), &facts.settings)
                    }
                    Show::Marks => marks(&gang),
                };
                let remarks = gang.notices.into_iter().map(|notice| self.remark(notice));
                Ok((printed, remarks.collect()))
            }
        }
    }
}

/// One PodTemplate per role.
fn marks(gang: &Gang) -> Vec<Value> {
    let job = &gang.pod_group.job;
    let template = |marks: &crate::gang::TemplateMarks| {
        json!({
            "apiVersion": "v1", "kind": "PodTemplate",
            "metadata": {"name": format!("{}-{}", job.name, marks.role.to_ascii_lowercase()), "namespace": job.namespace},
            "template": marks.alone(gang.marks.pods.as_ref()),
        })
    };
    gang.marks.templates.iter().map(template).collect()
}

/// The job with what only an API server gives it.
fn as_if_stored(mut job: Value) -> Value {
    let generated = text(&job, "/metadata/generateName").to_owned();
    if job["metadata"].is_null() {
        job["metadata"] = json!({});
    }
    let Some(metadata) = job["metadata"].as_object_mut() else {
        return job;
    };
    let mut give = |key: &str, value: String| {
        if metadata
            .get(key)
            .is_none_or(|value| value.is_null() || value == "")
        {
            metadata.insert(key.to_owned(), json!(value));
        }
    };
    give("namespace", "default".to_owned());
    give("uid", PLACEHOLDER_UID.to_owned());
    if !generated.is_empty() {
        give("name", format!("{generated}{PLACEHOLDER_SUFFIX}"));
    }
    job
}

fn name_of(job: &Value) -> String {
    format!(
        "{} {}/{}",
        text(job, "/kind"),
        text(job, "/metadata/namespace"),
        text(job, "/metadata/name")
    )
}

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn known() -> String {
    let names = GANG_KINDS
        .iter()
        .map(|kind| format!("{} {}", kind.resource().api_version(), kind.resource().kind));
    format!("the kinds of jobs are {}", names.collect::<Vec<_>>().join(", "))
}

fn families() -> impl TypedValueParser<Value = Family> {
    PossibleValuesParser::new(["coscheduling", "volcano", "native"]).try_map(|name| match name.parse()? {
        Wanted::One(family) => Ok(family),
        Wanted::Auto => Err(name),
    })
}

/// The number behind `1.`, of `1.37` as of `v1.37.2`.
fn minor(text: &str) -> Result<u32, String> {
    let number = text.strip_prefix('v').unwrap_or(text).strip_prefix("1.");
    let number = number
        .and_then(|number| number.split('.').next())
        .and_then(|number| number.parse().ok());
    number.ok_or_else(|| format!("found {text:?}, expected a release such as 1.37"))
}

fn priority_class(text: &str) -> Result<(String, i32), String> {
    let read = text
        .split_once('=')
        .and_then(|(name, value)| Some((name.to_owned(), value.parse().ok()?)));
    read.filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| format!("found {text:?}, expected NAME=VALUE, such as high=1000"))
}
