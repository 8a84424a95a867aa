//! A kind that only the configuration knows: where it keeps the fields by which every job can be dispatched.

use serde_json::{Map, Value};

use super::conditions::{self, Said};
use super::{Dispatch, Failure, JobKind, ManagedBy, Resource, Written, has_condition_at};

/// A kind of the configuration. Its texts live as long as the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfiguredKind {
    /// Its names in the API.
    pub resource: Resource,
    /// Where `managedBy` is, and the value that is as good as none.
    pub managed_by: ManagedBy,
    /// What is written there.
    pub written: Written,
    /// Where `suspend` is.
    pub suspend: &'static [&'static str],
    /// Where the conditions are, below `status`.
    pub conditions: &'static [&'static str],
    /// The conditions that say True when it has ended.
    pub finished: &'static [&'static str],
    /// The one of them that is set when its copy is lost.
    pub failed: &'static str,
    /// Where its TTL is, in seconds after its end, if it has one.
    pub ttl: Option<&'static [&'static str]>,
}

impl JobKind for ConfiguredKind {
    fn resource(&self) -> Resource {
        self.resource
    }

    fn managed_by(&self) -> ManagedBy {
        self.managed_by
    }

    fn suspend(&self) -> &'static [&'static str] {
        self.suspend
    }

    fn is_finished(&self, job: &Value) -> bool {
        has_condition_at(job, self.conditions, self.finished).is_some()
    }

    fn finished_at<'j>(&self, job: &'j Value) -> Option<&'j str> {
        has_condition_at(job, self.conditions, self.finished)?
            .get("lastTransitionTime")?
            .as_str()
    }

    fn conditions(&self) -> &'static [&'static str] {
        self.conditions
    }

    fn dispatch(&self) -> Dispatch {
        Dispatch {
            written: self.written,
            takes_condition: true,
            ttl: self.ttl,
        }
    }

    fn fail(&self, status: &mut Map<String, Value>, failure: &Failure<'_>) {
        if let Some(conditions) = conditions::make(status, self.conditions) {
            conditions::set(conditions, &Said::of(self.failed, true, failure), failure.now);
        }
    }

    fn example(&self) -> &'static str {
        ""
    }
}
