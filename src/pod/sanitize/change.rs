//! What the copy does not share with the local pod, and why.

use std::fmt;

/// One difference between the local pod and its copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// As in `spec.containers[0].volumeMounts[1]` or `metadata.labels[job-name]`; indices are those of the local pod.
    pub path: String,
    pub what: What,
    pub reason: &'static str,
}

/// What was done to the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    Dropped,
    Rewritten,
    Added,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dropped => "dropped",
            Self::Rewritten => "rewritten",
            Self::Added => "added",
        })
    }
}

/// Takes the changes down, or nothing where only the hash is wanted.
pub(crate) struct Log(Option<Vec<Change>>);

impl Log {
    pub(crate) fn on() -> Self {
        Self(Some(Vec::new()))
    }

    pub(crate) fn off() -> Self {
        Self(None)
    }

    pub(crate) fn into_changes(self) -> Vec<Change> {
        self.0.unwrap_or_default()
    }

    pub(crate) fn dropped(&mut self, path: fmt::Arguments<'_>, reason: &'static str) {
        self.note(path, What::Dropped, reason);
    }

    pub(crate) fn rewritten(&mut self, path: fmt::Arguments<'_>, reason: &'static str) {
        self.note(path, What::Rewritten, reason);
    }

    pub(crate) fn added(&mut self, path: fmt::Arguments<'_>, reason: &'static str) {
        self.note(path, What::Added, reason);
    }

    fn note(&mut self, path: fmt::Arguments<'_>, what: What, reason: &'static str) {
        if let Some(changes) = &mut self.0 {
            changes.push(Change {
                path: path.to_string(),
                what,
                reason,
            });
        }
    }
}
