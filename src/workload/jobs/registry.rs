//! The kinds of jobs of this process: those that are built in, and those of the configuration.

use std::fmt;

use serde_json::Value;

use super::{ConfiguredKind, JOB_KINDS, JobKind};

/// The kinds of jobs of this process. A copy costs nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct JobKinds {
    configured: &'static [ConfiguredKind],
}

impl JobKinds {
    /// Those that every Portcullis knows.
    pub const BUILT_IN: Self = Self { configured: &[] };

    /// Those and these. They stay in memory for the life of the process, so this is called once, at its start.
    #[must_use]
    pub fn with(configured: Vec<ConfiguredKind>) -> Self {
        Self {
            configured: configured.leak(),
        }
    }

    /// All of them.
    pub fn iter(self) -> impl Iterator<Item = &'static dyn JobKind> {
        let configured = self.configured.iter().map(|kind| kind as &dyn JobKind);
        JOB_KINDS.iter().copied().chain(configured)
    }

    /// The kind with these names.
    #[must_use]
    pub fn named(self, api_version: &str, kind: &str) -> Option<&'static dyn JobKind> {
        self.iter()
            .find(|known| known.resource().kind == kind && known.resource().api_version() == api_version)
    }

    /// The kind of this object.
    #[must_use]
    pub fn of(self, job: &Value) -> Option<&'static dyn JobKind> {
        let text = |key: &str| job.get(key).and_then(Value::as_str).unwrap_or_default();
        self.named(text("apiVersion"), text("kind"))
    }

    /// The kind that the API calls so.
    #[must_use]
    pub fn by_resource(self, group: &str, version: &str, plural: &str) -> Option<&'static dyn JobKind> {
        self.iter().find(|known| {
            let names = known.resource();
            (names.group, names.version, names.plural) == (group, version, plural)
        })
    }
}

impl Default for JobKinds {
    fn default() -> Self {
        Self::BUILT_IN
    }
}

impl fmt::Debug for JobKinds {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list()
            .entries(self.iter().map(|kind| kind.resource()))
            .finish()
    }
}
