//! An object -> what `preview` can show of it: a pod, or a job that is dispatched whole.

use std::path::PathBuf;

use serde_json::Value;

use crate::config::{ConfigError, Configuration};
use crate::workload::jobs::{JobKind, JobKinds};

/// Which kinds of jobs there are.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct KindArgs {
    /// File of kind PortcullisConfiguration, for the kinds of jobs that it lists.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl KindArgs {
    /// The kinds that are built in, and those of the file.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub fn read(&self) -> Result<JobKinds, ConfigError> {
        match &self.config {
            Some(path) => Ok(JobKinds::with(Configuration::read(path)?.kinds)),
            None => Ok(JobKinds::BUILT_IN),
        }
    }
}

/// What is dispatched.
#[derive(Clone, Copy)]
pub enum Subject {
    /// A pod.
    Pod,
    /// A job, whole.
    Job(&'static dyn JobKind),
}

impl Subject {
    /// What this object is, if it is one of them.
    #[must_use]
    pub fn of(object: &Value, kinds: JobKinds) -> Option<Self> {
        let is_pod = object["apiVersion"] == "v1" && object["kind"] == "Pod";
        match is_pod {
            true => Some(Self::Pod),
            false => kinds.of(object).map(Self::Job),
        }
    }
}

/// As in messages: `a Deployment of apps/v1`.
#[must_use]
pub fn found(object: &Value) -> String {
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    format!("a {} of {}", text("kind"), text("apiVersion"))
}

/// As in messages: what there is.
#[must_use]
pub fn expected(kinds: JobKinds) -> String {
    let mut names: Vec<&str> = kinds.iter().map(|kind| kind.resource().kind).collect();
    names.dedup(); // versions of a kind are neighbours
    format!("a Pod of v1 or one of the jobs {}", names.join(", "))
}
