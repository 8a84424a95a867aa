//! An object of ours that its schema let pass and we cannot read: it is told, the last readable one stays in force.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::core::error_boundary::InvalidObject;

use crate::names;
use crate::reconcile::events::{Note, Notes};

/// One Event and one line of the log. The others go on.
pub(super) fn tell(notes: &Notes, kind: &'static str, broken: &InvalidObject) {
    let name = broken.metadata.name.clone().unwrap_or_default();
    // The parser's words may quote the content, which may be a Secret's.
    let why = if kind == "Secret" {
        "not a Secret"
    } else {
        &broken.error
    };
    tracing::warn!(kind, name, why, "cannot be read");
    let about = ObjectReference {
        api_version: Some(if kind == "Secret" {
            "v1".to_owned()
        } else {
            format!("{}/v1alpha1", names::GROUP)
        }),
        kind: Some(kind.to_owned()),
        namespace: broken.metadata.namespace.clone(),
        uid: broken.metadata.uid.clone(),
        name: Some(name),
        ..ObjectReference::default()
    };
    let sentence = format!("it cannot be read and does not count: {why}; correct it, or delete it");
    notes.about(about, Note::warning("Unreadable", sentence));
}
