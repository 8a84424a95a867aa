//! One cluster's API for the few calls that carry preconditions: JSON in, JSON out, nothing retried behind our back.

use http::{Method, Request, header};
use kube::Client;
use serde_json::Value;

use super::raw::RawObject;
use crate::{names, words};

/// A call that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The API server answered with a failure.
    #[error("{}", words::answered(*.code, .reason, .message))]
    Answered {
        /// HTTP status.
        code: u16,
        /// Such as `NotFound`.
        reason: String,
        /// The server's own words.
        message: String,
    },
    /// No answer: the call may or may not have taken effect.
    #[error("no answer")]
    Unanswered(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The answer could not be read.
    #[error("unreadable answer")]
    Unreadable(#[source] serde_json::Error),
}

impl CallError {
    /// The HTTP status, if there was an answer.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Answered { code, .. } => Some(*code),
            Self::Unanswered(_) | Self::Unreadable(_) => None,
        }
    }

    /// A fixed name for metrics and reasons.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Answered { .. } => "Answered",
            Self::Unanswered(_) => "Unanswered",
            Self::Unreadable(_) => "Unreadable",
        }
    }

    /// The whole chain in one line, as an object's condition shows it.
    pub fn words(&self) -> String {
        words::chain(self)
    }
}

impl From<kube::Error> for CallError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Answered {
                code: status.code,
                reason: status.reason,
                message: status.message,
            },
            other => Self::Unanswered(Box::new(other)),
        }
    }
}

/// How a patch body is meant.
#[derive(Clone, Copy, Debug)]
pub enum PatchKind {
    /// RFC 7386.
    Merge,
    /// RFC 6902, with `test` operations as preconditions.
    Json,
}

/// What an object must still be for a delete to happen.
#[derive(Clone, Copy, Debug)]
pub struct Preconditions<'a> {
    /// Its UID. There is no delete without one.
    pub uid: &'a str,
    /// Its resourceVersion.
    pub resource_version: Option<&'a str>,
}

/// Calls on the API of one cluster.
#[derive(Clone)]
pub struct ClusterApi {
    client: Client,
}

impl ClusterApi {
    /// Over this client, which must not retry by itself and must have a read timeout.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// The client itself, for typed calls.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Reads one object by path, a quorum read (no resourceVersion).
    ///
    /// # Errors
    /// [`CallError`]; 404 is `Answered`.
    pub async fn get(&self, path: &str) -> Result<RawObject, CallError> {
        self.call(Method::GET, path, "application/json", Vec::new()).await
    }

    /// Who wrote which fields of an object: `metadata.managedFields`, which all other answers are without.
    ///
    /// # Errors
    /// [`CallError`]; 404 is `Answered`.
    pub async fn managed_fields(&self, path: &str) -> Result<Value, CallError> {
        let text = self
            .text(Method::GET, path, "application/json", Vec::new())
            .await?;
        let mut object: Value = serde_json::from_str(&text).map_err(CallError::Unreadable)?;
        Ok(object["metadata"]["managedFields"].take())
    }

    /// Creates one object.
    ///
    /// # Errors
    /// [`CallError`]; 409 if the name is taken.
    pub async fn create(&self, path: &str, object: &Value) -> Result<RawObject, CallError> {
        let path = format!("{path}?fieldManager={}", names::PORTCULLIS);
        self.call(Method::POST, &path, "application/json", body(object))
            .await
    }

    /// What would become of an object that is created: nothing is stored.
    ///
    /// # Errors
    /// [`CallError`]; the reasons of a refusal.
    pub async fn try_create(&self, path: &str, object: &Value) -> Result<RawObject, CallError> {
        let path = format!("{path}?dryRun=All&fieldManager={}", names::PORTCULLIS);
        self.call(Method::POST, &path, "application/json", body(object))
            .await
    }

    /// Patches one object.
    ///
    /// # Errors
    /// [`CallError`]; 409 or 422 if a precondition in the body does not hold.
    pub async fn patch(&self, path: &str, kind: PatchKind, patch: &Value) -> Result<RawObject, CallError> {
        let path = format!("{path}?fieldManager={}", names::PORTCULLIS);
        let media = match kind {
            PatchKind::Merge => "application/merge-patch+json",
            PatchKind::Json => "application/json-patch+json",
        };
        self.call(Method::PATCH, &path, media, body(patch)).await
    }

    /// Server-side apply of one object: its fields become ours, those of others stay.
    ///
    /// # Errors
    /// [`CallError`]; 409 if another manager owns a field of another value.
    pub async fn apply(&self, path: &str, object: &Value) -> Result<RawObject, CallError> {
        let path = format!("{path}?fieldManager={}", names::PORTCULLIS);
        self.call(Method::PATCH, &path, "application/apply-patch+yaml", body(object))
            .await
    }

    /// Deletes one object, with its own grace. The answer is the object as it goes, if it does not go at once.
    ///
    /// # Errors
    /// [`CallError`]; 404 if it is gone, 409 if a precondition does not hold.
    pub async fn delete(&self, path: &str, only: Preconditions<'_>) -> Result<String, CallError> {
        self.delete_with_owned(path, only, None).await
    }

    /// As `delete`; what the object owns goes or stays as `propagation` says.
    ///
    /// # Errors
    /// As `delete`.
    pub async fn delete_with_owned(
        &self,
        path: &str,
        only: Preconditions<'_>,
        propagation: Option<&str>,
    ) -> Result<String, CallError> {
        let mut preconditions = serde_json::json!({"uid": only.uid});
        if let Some(version) = only.resource_version {
            preconditions["resourceVersion"] = version.into();
        }
        let mut options = serde_json::json!({"preconditions": preconditions});
        if let Some(propagation) = propagation {
            options["propagationPolicy"] = propagation.into();
        }
        self.delete_with(path, &options).await
    }

    /// Deletes with these options. Outside of this module only the test-only `faults` feature may call it.
    ///
    /// # Errors
    /// As `delete`.
    pub(crate) async fn delete_with(&self, path: &str, options: &Value) -> Result<String, CallError> {
        let mut options = options.clone();
        options["kind"] = "DeleteOptions".into();
        options["apiVersion"] = "v1".into();
        Ok(self
            .text(Method::DELETE, path, "application/json", body(&options))
            .await?)
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        media: &str,
        body: Vec<u8>,
    ) -> Result<RawObject, CallError> {
        let text = self.text(method, path, media, body).await?;
        RawObject::parse(&text).map_err(CallError::Unreadable)
    }

    async fn text(
        &self,
        method: Method,
        path: &str,
        media: &str,
        body: Vec<u8>,
    ) -> Result<String, kube::Error> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, media)
            .header(header::ACCEPT, "application/json")
            .body(body)
            .map_err(kube::Error::HttpError)?;
        self.client.request_text(request).await
    }
}

/// Path of a namespaced object of a group.
pub fn object_path(api_version: &str, namespace: &str, plural: &str, name: &str) -> String {
    format!("/apis/{api_version}/namespaces/{namespace}/{plural}/{name}")
}

/// Path of a namespace.
pub fn namespace_path(name: &str) -> String {
    format!("/api/v1/namespaces/{name}")
}

fn body(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}
