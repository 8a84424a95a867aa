//! What the command line asks for -> a pod, or a job of one of the kinds that run whole (pure).

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::workload::jobs::{JobKind, JobKinds};

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asked {
    /// A pod of this name.
    Pod(String),
    /// A job.
    Job(Named),
}

/// A job as the user calls it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    /// Such as `job`, `mpijobs`, `jobset.jobset.x-k8s.io` or `mpijob.v2beta1.kubeflow.org`.
    pub(super) kind: String,
    /// Its name.
    pub(super) name: String,
}

impl FromStr for Asked {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, name) = text.split_once('/').unwrap_or(("pod", text));
        if kind.is_empty() || name.is_empty() || name.contains('/') {
            return Err(format!(
                "found {text:?}, allowed is pod/NAME, NAME, or KIND/NAME of a job"
            ));
        }
        Ok(match kind {
            "pod" | "pods" | "po" => Self::Pod(name.to_owned()),
            kind => Self::Job(Named {
                kind: kind.to_lowercase(),
                name: name.to_owned(),
            }),
        })
    }
}

impl fmt::Display for Named {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.kind, self.name)
    }
}

/// What a cluster calls one of its resources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Names {
    /// API group.
    pub(super) group: String,
    /// Version.
    pub(super) version: String,
    /// As in URLs.
    pub(super) plural: String,
    /// What else it may be called: kind and singular in lower case, short forms.
    pub(super) others: Vec<String>,
}

/// The one kind that is called so.
///
/// # Errors
/// A sentence, if none or several are.
pub(super) fn kind(kinds: JobKinds, served: &[Names], word: &str) -> Result<&'static dyn JobKind, String> {
    let mut found: Vec<_> = kinds
        .iter()
        .filter(|kind| {
            served
                .iter()
                .any(|names| is_of(*kind, names) && is_called(names, word))
        })
        .collect();
    // In several versions it is the same objects.
    found.dedup_by_key(|kind| (kind.resource().group, kind.resource().plural));
    match found[..] {
        [only] => Ok(only),
        [] => Err(nothing(kinds, word)),
        [..] => {
            let long: Vec<String> = found.iter().map(|kind| long_name(*kind)).collect();
            Err(format!(
                "several kinds match {word:?}; name one of {}",
                long.join(", ")
            ))
        }
    }
}

/// Nothing that is served is called so. Perhaps it is known all the same.
fn nothing(kinds: JobKinds, word: &str) -> String {
    let known = kinds.iter().find(|kind| {
        let names = kind.resource();
        is_called(
            &Names {
                group: names.group.to_owned(),
                version: names.version.to_owned(),
                plural: names.plural.to_owned(),
                others: vec![names.kind.to_lowercase()],
            },
            word,
        )
    });
    match known {
        Some(kind) => format!(
            "the manager does not serve {} of {}: its CRD is not installed there",
            kind.resource().kind,
            kind.resource().api_version()
        ),
        None => {
            let mut allowed: Vec<String> = kinds
                .iter()
                .map(|kind| kind.resource().kind.to_lowercase())
                .collect();
            let mut told = BTreeSet::new();
            allowed.retain(|kind| told.insert(kind.clone()));
            format!(
                "found kind {word:?}, allowed is pod or a kind of jobs that run whole: {} (those of a configuration with --config FILE); for the pods of another workload name only its namespace",
                allowed.join(", ")
            )
        }
    }
}

fn is_of(kind: &dyn JobKind, names: &Names) -> bool {
    let own = kind.resource();
    (own.group, own.version, own.plural) == (&names.group, &names.version, &names.plural)
}

/// As kubectl takes it: a name alone, with its group, or with version and group.
fn is_called(names: &Names, word: &str) -> bool {
    let (name, rest) = word.split_once('.').unwrap_or((word, ""));
    let is_named = names.plural == name || names.others.iter().any(|other| other == name);
    is_named
        && (rest.is_empty() || rest == names.group || rest == format!("{}.{}", names.version, names.group))
}

fn long_name(kind: &dyn JobKind) -> String {
    let names = kind.resource();
    format!("{}.{}.{}", names.kind.to_lowercase(), names.version, names.group)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::workload::Resource;
    use crate::workload::jobs::{ConfiguredKind, ManagedBy, Written};

    /// A kind of the configuration with a name that is taken.
    const OWN: ConfiguredKind = ConfiguredKind {
        resource: Resource {
            group: "batch.example.com",
            version: "v1",
            plural: "jobs",
            kind: "Job",
        },
        managed_by: ManagedBy {
            path: &["spec", "managedBy"],
            local: "",
        },
        written: Written::Ours,
        suspend: &["spec", "suspend"],
        conditions: &["status", "conditions"],
        finished: &["Complete"],
        failed: "Failed",
        ttl: None,
    };

    #[test]
    fn an_argument_is_a_pod_or_a_job() {
        for text in ["one", "pod/one", "pods/one", "po/one"] {
            assert_eq!(text.parse(), Ok(Asked::Pod("one".to_owned())));
        }
        for text in ["", "/", "pod/", "/one", "shop/pod/one", "pod/a/b"] {
            let error = text.parse::<Asked>().unwrap_err();
            assert!(
                error.starts_with(&format!("found {text:?}, allowed is pod/NAME")),
                "{error}"
            );
        }
        let Ok(Asked::Job(named)) = "JobSet/One".parse() else {
            panic!("no job");
        };
        assert_eq!(named.to_string(), "jobset/One");
    }

    #[test]
    fn a_kind_is_known_by_any_of_its_names() {
        for word in ["jobs.batch", "job.batch", "job.v1.batch"] {
            check(word, expect!["jobs.batch/v1"]);
        }
        for word in ["jobset", "jobsets", "js", "jobset.jobset.x-k8s.io"] {
            check(word, expect!["jobsets.jobset.x-k8s.io/v1alpha2"]);
        }
        check("jobs.batch.example.com", expect!["jobs.batch.example.com/v1"]);
        // The first of those that are served.
        check("mpijob", expect!["mpijobs.kubeflow.org/v2beta1"]);
        check("mpijob.v1.kubeflow.org", expect!["mpijobs.kubeflow.org/v1"]);
    }

    #[test]
    fn what_is_no_kind_or_several_is_a_sentence() {
        check(
            "job",
            expect![[r#"several kinds match "job"; name one of job.v1.batch, job.v1.batch.example.com"#]],
        );
        check(
            "tfjobs",
            expect!["the manager does not serve TFJob of kubeflow.org/v1: its CRD is not installed there"],
        );
        check(
            "deployment",
            expect![[
                r#"found kind "deployment", allowed is pod or a kind of jobs that run whole: mpijob, tfjob, pytorchjob, xgboostjob, paddlejob, job, jobset, trainjob, rayjob, raycluster, rayservice, appwrapper, sparkapplication (those of a configuration with --config FILE); for the pods of another workload name only its namespace"#
            ]],
        );
    }

    #[track_caller]
    #[allow(clippy::needless_pass_by_value)]
    fn check(word: &str, expect: Expect) {
        let names = |group: &str, version: &str, plural: &str, others: &[&str]| Names {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            others: others.iter().map(|other| (*other).to_owned()).collect(),
        };
        let served = [
            names("batch", "v1", "jobs", &["job"]),
            names("batch.example.com", "v1", "jobs", &["job"]),
            names("jobset.x-k8s.io", "v1alpha2", "jobsets", &["jobset", "js"]),
            names("kubeflow.org", "v2beta1", "mpijobs", &["mpijob"]),
            names("kubeflow.org", "v1", "mpijobs", &["mpijob"]),
        ];
        let found = kind(JobKinds::with(vec![OWN]), &served, word);
        let text = found.map_or_else(
            |error| error,
            |kind| format!("{}.{}", kind.resource().plural, kind.resource().api_version()),
        );
        expect.assert_eq(&text);
    }
}
