//! The bytes of an AdmissionReview -> [`Review`]: the envelope, borrowed, with the objects still as text.
//!
//! Tolerant where the protocol may grow (unknown fields, absent or null optional ones), strict where a wrong answer would
//! follow: version, UID, a named field that stands there twice. Options and `dryRun` are not read at all: the answer to a
//! dry run is the same, and nothing has side effects.

use serde_json::value::RawValue;

use crate::pod::narrow::{Text, narrow};

/// The only version spoken.
pub const API_VERSION: &str = "admission.k8s.io/v1";
/// The kind of question and answer.
pub const KIND: &str = "AdmissionReview";

/// What the API server asks: may this object be stored, and how should it look?
#[derive(Debug)]
pub struct Review<'a> {
    uid: Text<'a>,
    request: Request<'a>,
    operation: Operation,
}

/// What is done to the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A new object.
    Create,
    /// A change of a stored one, by PUT, PATCH or apply.
    Update,
    /// Its deletion; there may be no object.
    Delete,
    /// exec, attach, port-forward, proxy: the object is the options.
    Connect,
    /// One that this version of the protocol does not have.
    Unknown,
}

impl Operation {
    /// The name in reviews and in metric labels.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
            Self::Unknown => "unknown",
        }
    }
}

/// Why a body is no review that can be answered by UID.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableReview {
    /// No JSON, or a field of the envelope has another type.
    #[error("the body is no AdmissionReview")]
    Json(#[source] serde_json::Error),
    /// Another version of the protocol, or another kind.
    #[error("{found:?} is not answered, only {KIND} of {API_VERSION}")]
    Version {
        /// What the body says it is.
        found: String,
    },
    /// There is nothing to answer to.
    #[error("the review has no request with a uid")]
    NoUid,
}

impl UnreadableReview {
    /// The name for metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Json(_) => "unreadable-review",
            Self::Version { .. } => "unknown-version",
            Self::NoUid => "no-uid",
        }
    }
}

narrow! {
    Envelope<'de>: "an AdmissionReview" {
        "apiVersion" => api_version: Text<'de>,
        "kind" => kind: Text<'de>,
        "request" => request: Request<'de>,
    }
}

narrow! {
    Request<'de>: "an admission request" {
        "uid" => uid: Text<'de>,
        "resource" => resource: Gvr<'de>,
        "subResource" => subresource: Text<'de>,
        "namespace" => namespace: Text<'de>,
        "operation" => operation: Text<'de>,
        "userInfo" => user: User<'de>,
        "object" => object: &'de RawValue,
        "oldObject" => old_object: &'de RawValue,
    }
}

narrow! {
    Gvr<'de>: "a resource" {
        "group" => group: Text<'de>,
        "version" => version: Text<'de>,
        "resource" => plural: Text<'de>,
    }
}

narrow! {
    User<'de>: "a user" {
        "username" => name: Text<'de>,
    }
}

impl<'a> Review<'a> {
    /// Reads the envelope. The objects stay text until somebody needs them.
    ///
    /// # Errors
    /// If the body is no review of the one version that is answered, or has no UID to answer to.
    pub fn parse(body: &'a [u8]) -> Result<Self, UnreadableReview> {
        let envelope: Envelope<'a> = serde_json::from_slice(body).map_err(UnreadableReview::Json)?;
        let (api_version, kind) = (or_empty(&envelope.api_version), or_empty(&envelope.kind));
        if (api_version, kind) != (API_VERSION, KIND) {
            let found = format!("{} of {}", shorten(kind), shorten(api_version));
            return Err(UnreadableReview::Version { found });
        }
        let mut request = envelope.request.ok_or(UnreadableReview::NoUid)?;
        let uid = request.uid.take().filter(|uid| !uid.is_empty());
        let operation = match or_empty(&request.operation) {
            "CREATE" => Operation::Create,
            "UPDATE" => Operation::Update,
            "DELETE" => Operation::Delete,
            "CONNECT" => Operation::Connect,
            _ => Operation::Unknown,
        };
        Ok(Self {
            uid: uid.ok_or(UnreadableReview::NoUid)?,
            request,
            operation,
        })
    }

    /// The UID of the request, echoed in the answer.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// What is done to the object.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// Group, version and plural of the object as it is sent, which may differ from what the user asked for.
    #[must_use]
    pub fn resource(&self) -> (&str, &str, &str) {
        match &self.request.resource {
            Some(Gvr {
                group,
                version,
                plural,
                ..
            }) => (or_empty(group), or_empty(version), or_empty(plural)),
            None => ("", "", ""),
        }
    }

    /// The subresource, or nothing.
    #[must_use]
    pub fn subresource(&self) -> &str {
        or_empty(&self.request.subresource)
    }

    /// The namespace of the request; the object's own may be absent.
    #[must_use]
    pub fn namespace(&self) -> &str {
        or_empty(&self.request.namespace)
    }

    /// Who asks.
    #[must_use]
    pub fn username(&self) -> &str {
        self.request.user.as_ref().map_or("", |user| or_empty(&user.name))
    }

    /// The object as it would be stored.
    #[must_use]
    pub fn object(&self) -> Option<&'a RawValue> {
        self.request.object
    }

    /// The object as it is stored.
    #[must_use]
    pub fn old_object(&self) -> Option<&'a RawValue> {
        self.request.old_object
    }
}

fn or_empty<'t>(text: &'t Option<Text<'_>>) -> &'t str {
    text.as_deref().unwrap_or_default()
}

/// A caller's word in our sentence: not longer than a name.
fn shorten(text: &str) -> String {
    text.chars()
        .filter(|letter| !letter.is_control())
        .take(80)
        .collect()
}
