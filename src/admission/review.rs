//! The bytes of an AdmissionReview -> [`Review`]: the envelope, borrowed, with the objects still as text.
//!
//! Tolerant where the protocol may grow (unknown fields, absent or null optional ones), strict where a wrong answer would
//! follow: version, UID, a named field that stands there twice. Options and `dryRun` are not read at all: the answer to a
//! dry run is the same, and nothing has side effects.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::pod::narrow::{ReadError, Text, narrow};
use crate::pod::read::PodView;

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
    EagerEnvelope<'de>: "an AdmissionReview" {
        "apiVersion" => api_version: Text<'de>,
        "kind" => kind: Text<'de>,
        "request" => request: Eager<'de>,
    }
}

narrow! {
    PatientEnvelope<'de>: "an AdmissionReview" {
        "apiVersion" => api_version: Text<'de>,
        "kind" => kind: Text<'de>,
        "request" => request: Patient<'de>,
    }
}

/// The request.
#[derive(Debug, Clone, Default)]
struct Request<'a> {
    uid: Option<Text<'a>>,
    resource: Option<Gvr<'a>>,
    subresource: Option<Text<'a>>,
    namespace: Option<Text<'a>>,
    name: Option<Text<'a>>,
    operation: Option<Text<'a>>,
    user: Option<User<'a>>,
    object: Option<Object<'a>>,
    old_object: Option<&'a RawValue>,
}

/// An object of a review.
#[derive(Debug, Clone)]
enum Object<'a> {
    Unread(&'a RawValue),
    NewPod(Box<PodView<'a>>),
}

/// A request whose object, if it is a new pod, is read in the same pass: almost all reviews are of new pods, API servers
/// write the object behind what tells so, and one pass is half the work of two. A pod that cannot be read spoils it.
#[derive(Debug, Clone)]
struct Eager<'a>(Request<'a>);

/// A request whose object is left as text, whatever it is.
#[derive(Debug, Clone)]
struct Patient<'a>(Request<'a>);

impl<'de> Deserialize<'de> for Eager<'de> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_map(RequestFields { eager: true }).map(Self)
    }
}

impl<'de> Deserialize<'de> for Patient<'de> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_map(RequestFields { eager: false }).map(Self)
    }
}

struct RequestFields {
    eager: bool,
}

impl<'de> Visitor<'de> for RequestFields {
    type Value = Request<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an admission request")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut request = Request::default();
        let mut seen = Vec::with_capacity(8);
        while let Some(key) = map.next_key::<Text<'de>>()? {
            let key = match &*key {
                "uid" => read_field(&mut map, &mut request.uid, "uid")?,
                "resource" => read_field(&mut map, &mut request.resource, "resource")?,
                "subResource" => read_field(&mut map, &mut request.subresource, "subResource")?,
                "namespace" => read_field(&mut map, &mut request.namespace, "namespace")?,
                "name" => read_field(&mut map, &mut request.name, "name")?,
                "operation" => read_field(&mut map, &mut request.operation, "operation")?,
                "userInfo" => read_field(&mut map, &mut request.user, "userInfo")?,
                "oldObject" => read_field(&mut map, &mut request.old_object, "oldObject")?,
                "object" => {
                    request.object = if self.eager && request.is_of_a_new_pod() {
                        map.next_value::<Option<_>>()?.map(Object::NewPod)
                    } else {
                        map.next_value::<Option<_>>()?.map(Object::Unread)
                    };
                    "object"
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if seen.contains(&key) {
                return Err(A::Error::duplicate_field(key));
            }
            seen.push(key);
        }
        Ok(request)
    }
}

fn read_field<'de, A: MapAccess<'de>, T: Deserialize<'de>>(
    map: &mut A,
    field: &mut Option<T>,
    key: &'static str,
) -> Result<&'static str, A::Error> {
    *field = map.next_value()?;
    Ok(key)
}

impl Request<'_> {
    /// As far as has been read by now.
    fn is_of_a_new_pod(&self) -> bool {
        self.resource() == ("", "v1", "pods")
            && or_empty(&self.operation) == "CREATE"
            && or_empty(&self.subresource).is_empty()
    }

    fn resource(&self) -> (&str, &str, &str) {
        let Some(resource) = &self.resource else {
            return ("", "", "");
        };
        (
            or_empty(&resource.group),
            or_empty(&resource.version),
            or_empty(&resource.plural),
        )
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
    /// Reads the envelope. The objects stay text until somebody needs them, but for a new pod: that is read at once.
    ///
    /// # Errors
    /// If the body is no review of the one version that is answered, or has no UID to answer to.
    pub fn parse(body: &'a [u8]) -> Result<Self, UnreadableReview> {
        match serde_json::from_slice::<EagerEnvelope<'a>>(body) {
            Ok(review) => Self::of(
                &review.api_version,
                &review.kind,
                review.request.map(|Eager(request)| request),
            ),
            // The object may be what is wrong: then the review can be answered, and with the field.
            Err(_) => Self::parse_as_text(body),
        }
    }

    /// As [`Self::parse`], but a new pod stays text too.
    ///
    /// # Errors
    /// As there.
    pub fn parse_as_text(body: &'a [u8]) -> Result<Self, UnreadableReview> {
        let review: PatientEnvelope<'a> = serde_json::from_slice(body).map_err(UnreadableReview::Json)?;
        Self::of(
            &review.api_version,
            &review.kind,
            review.request.map(|Patient(request)| request),
        )
    }

    fn of(
        api_version: &Option<Text<'_>>,
        kind: &Option<Text<'_>>,
        request: Option<Request<'a>>,
    ) -> Result<Self, UnreadableReview> {
        let (api_version, kind) = (or_empty(api_version), or_empty(kind));
        if (api_version, kind) != (API_VERSION, KIND) {
            let found = format!("{} of {}", shorten(kind), shorten(api_version));
            return Err(UnreadableReview::Version { found });
        }
        let mut request = request.ok_or(UnreadableReview::NoUid)?;
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
        self.request.resource()
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

    /// The name of the object; empty if the API server is yet to make one.
    #[must_use]
    pub fn name(&self) -> &str {
        or_empty(&self.request.name)
    }

    /// Who asks.
    #[must_use]
    pub fn username(&self) -> &str {
        self.request.user.as_ref().map_or("", |user| or_empty(&user.name))
    }

    /// The object as it would be stored, as text; none if it is a new pod that [`Self::parse`] has read already.
    #[must_use]
    pub fn object(&self) -> Option<&'a RawValue> {
        match self.request.object {
            Some(Object::Unread(text)) => Some(text),
            Some(Object::NewPod(_)) | None => None,
        }
    }

    /// The object, which is a pod.
    ///
    /// # Errors
    /// With the field path, if it is not there or cannot be read.
    pub fn pod(&self) -> Result<Cow<'_, PodView<'a>>, ReadError> {
        match &self.request.object {
            Some(Object::NewPod(pod)) => pod.with_spec().map(Cow::Borrowed),
            Some(Object::Unread(text)) => PodView::read(text.get()).map(Cow::Owned),
            None => Err(ReadError::missing("object")),
        }
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
