//! What is told of the installed objects.

use crate::admission::policies::LayerKind;

/// What became of one installed object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigReport {
    /// Its kind.
    pub kind: LayerKind,
    /// Its name.
    pub name: String,
    /// What is the case now.
    pub state: ConfigState,
}

/// The state of one installed object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigState {
    /// It is as rendered, with our CA bundle.
    Current,
    /// It had our content but not our CA bundle, which is now written.
    BundleWritten,
    /// Somebody changed it; it is undone. Count these.
    Repaired,
    /// It is not there: not installed, or deleted. Only an administrator can install it.
    Missing,
    /// The API server keeps something other than what we wrote (a newer one's default, say); left alone.
    KeptOtherwise,
    /// It cannot be read or written; it will be tried again.
    Failed(String),
}

impl ConfigState {
    /// Its name in metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::BundleWritten => "bundle-written",
            Self::Repaired => "repaired",
            Self::Missing => "missing",
            Self::KeptOtherwise => "kept-otherwise",
            Self::Failed(_) => "failed",
        }
    }

    /// Whether the object stands in the API server and does what it should.
    #[must_use]
    pub fn is_good(&self) -> bool {
        matches!(
            self,
            Self::Current | Self::BundleWritten | Self::Repaired | Self::KeptOtherwise
        )
    }
}

/// What the absence of an object of this kind means, and what to do.
#[must_use]
pub fn missing(kind: LayerKind) -> String {
    let (meaning, part) = match kind {
        LayerKind::MutatingAdmissionPolicy | LayerKind::MutatingAdmissionPolicyBinding => (
            "pods of opted-in namespaces are refused while the webhook is down",
            "policies",
        ),
        LayerKind::ValidatingAdmissionPolicy | LayerKind::ValidatingAdmissionPolicyBinding => (
            "gates of pods can be removed or namespaces opted in by anyone with the usual rights",
            "policies",
        ),
        LayerKind::MutatingWebhookConfiguration => {
            ("pods get no warnings and Kueue's edits no snapshot", "webhooks")
        }
    };
    format!("Without it {meaning}. Install it again: portcullis manifests {part} | kubectl apply -f -")
}
