//! A namespace on a worker: there, ours or consenting (R71), and ready for pods. Read live, at most once a minute.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;

use super::Connection;
use crate::cluster::api::{CallError, ClusterApi, namespace_path};
use crate::names;

/// A namespace that was found usable is read again after this time.
const VALID_FOR: Duration = Duration::from_secs(60);
const SERVICE_ACCOUNT_WAIT: Duration = Duration::from_secs(10);
const SERVICE_ACCOUNT_POLL: Duration = Duration::from_millis(200);

/// What is known of a worker's namespaces.
#[derive(Default)]
pub struct Spaces {
    known: Mutex<HashMap<Arc<str>, Known>>,
    /// Namespaces that exist there and do not take our pods, and when that was read.
    refusing: Mutex<HashMap<Arc<str>, Instant>>,
    /// One caller asks at a time; the others find the answer.
    asking: Mutex<HashMap<Arc<str>, Arc<tokio::sync::Mutex<()>>>>,
}

#[derive(Clone)]
struct Known {
    uid: Arc<str>,
    /// It carries our origin label: we made it.
    created: bool,
    at: Instant,
}

/// Why the namespace cannot take pods.
#[derive(Debug)]
pub enum NotUsable {
    /// A verdict of this worker: another one may take the pod.
    Refused {
        /// In CamelCase.
        reason: &'static str,
        /// What to do.
        message: String,
    },
    /// It will pass; the same worker is asked again.
    NotYet {
        /// In CamelCase.
        reason: &'static str,
        /// What is awaited.
        message: String,
    },
    /// The call failed.
    Call(CallError),
}

impl From<CallError> for NotUsable {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl Spaces {
    /// UID of the namespace, if it was read before.
    pub fn uid(&self, namespace: &str) -> Option<Arc<str>> {
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(namespace)
            .map(|known| known.uid.clone())
    }

    /// Whether the namespace takes our pods, as last read; none: it must be read first.
    pub fn accepts(&self, namespace: &str) -> Option<bool> {
        if self.uid(namespace).is_some() {
            return Some(true);
        }
        let refusing = self.refusing.lock().unwrap_or_else(PoisonError::into_inner);
        let refuses = refusing.get(namespace).is_some_and(|at| at.elapsed() < VALID_FOR);
        refuses.then_some(false)
    }

    /// Namespaces that we created, as far as they were read.
    pub fn created(&self) -> Vec<String> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .iter()
            .filter(|(_, known)| known.created)
            .map(|(name, _)| name.to_string())
            .collect()
    }

    /// What was read counts no more: an answer showed that the namespace changed.
    pub fn forget(&self, namespace: &str) {
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(namespace);
    }

    /// Forgets all.
    pub fn clear(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.refusing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// Makes sure that pods may be created in the namespace; creates it if `create`. Answers its UID.
    ///
    /// # Errors
    /// [`NotUsable`].
    pub async fn ensure(
        &self,
        connection: &Connection,
        origin: &str,
        namespace: &str,
        create: bool,
    ) -> Result<Arc<str>, NotUsable> {
        if let Some(uid) = self.fresh(namespace) {
            return Ok(uid);
        }
        let asking = {
            let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
            asking.entry(namespace.into()).or_default().clone()
        };
        let _one_at_a_time = asking.lock().await;
        if let Some(uid) = self.fresh(namespace) {
            return Ok(uid);
        }
        let answer = read(connection, origin, namespace, create).await;
        {
            let mut refusing = self.refusing.lock().unwrap_or_else(PoisonError::into_inner);
            match &answer {
                Err(NotUsable::Refused { .. }) => refusing.insert(namespace.into(), Instant::now()),
                Ok(_) | Err(NotUsable::NotYet { .. } | NotUsable::Call(_)) => refusing.remove(namespace),
            };
        }
        let (uid, created) = answer?;
        if self.uid(namespace).is_none() {
            await_service_account(connection, namespace).await?;
        }
        let known = Known {
            uid: uid.clone(),
            created,
            at: Instant::now(),
        };
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(namespace.into(), known);
        Ok(uid)
    }

    fn fresh(&self, namespace: &str) -> Option<Arc<str>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .get(namespace)
            .filter(|known| known.at.elapsed() < VALID_FOR)
            .map(|known| known.uid.clone())
    }
}

/// Whether the namespace, as it is now, refuses pods of this origin: then none of its pods is ours, whatever they say.
///
/// # Errors
/// It cannot be read.
pub async fn refuses(api: &ClusterApi, origin: &str, namespace: &str) -> Result<bool, CallError> {
    let object = api.get(&namespace_path(namespace)).await?;
    let NamespaceText { metadata } = serde_json::from_str(object.json()).map_err(CallError::Unreadable)?;
    Ok(matches!(
        judge(&metadata, origin, namespace),
        Err(NotUsable::Refused { .. })
    ))
}

#[derive(Deserialize)]
struct NamespaceText {
    metadata: Meta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    uid: String,
    #[serde(default)]
    labels: HashMap<String, String>,
    #[serde(default)]
    annotations: HashMap<String, String>,
    deletion_timestamp: Option<String>,
}

async fn read(
    connection: &Connection,
    origin: &str,
    namespace: &str,
    create: bool,
) -> Result<(Arc<str>, bool), NotUsable> {
    let api = &connection.clients.calls;
    let object = match api.get(&namespace_path(namespace)).await {
        Ok(object) => object,
        Err(CallError::Answered { code: 404, .. }) if create => {
            self::create(connection, origin, namespace).await?
        }
        Err(CallError::Answered { code: 404, .. }) => {
            return Err(NotUsable::Refused {
                reason: "NamespaceMissing",
                message: format!(
                    "namespace {namespace} does not exist there; create it and annotate it {}={}, or set spec.namespaces.create in the DispatchPolicy",
                    names::ACCEPTS,
                    consent(origin, namespace)
                ),
            });
        }
        Err(CallError::Answered {
            code: 403, message, ..
        }) => {
            return Err(NotUsable::Refused {
                reason: "NamespaceForbidden",
                message,
            });
        }
        Err(error) => return Err(error.into()),
    };
    let NamespaceText { metadata } = serde_json::from_str(object.json()).map_err(CallError::Unreadable)?;
    let created = metadata
        .labels
        .get(names::ORIGIN)
        .is_some_and(|found| found == origin);
    Ok((judge(&metadata, origin, namespace)?, created))
}

fn judge(metadata: &Meta, origin: &str, namespace: &str) -> Result<Arc<str>, NotUsable> {
    let consents = metadata
        .annotations
        .get(names::ACCEPTS)
        .is_some_and(|found| *found == consent(origin, namespace));
    match (
        metadata.deletion_timestamp.is_some(),
        metadata.labels.contains_key(names::DISPATCH),
        consents,
    ) {
        (true, _, _) => Err(NotUsable::NotYet {
            reason: "NamespaceTerminating",
            message: format!("namespace {namespace} is being deleted there"),
        }),
        (false, true, _) => Err(NotUsable::Refused {
            reason: "NamespaceIsDispatched",
            message: format!(
                "namespace {namespace} is itself opted in to dispatch there; pods would be passed on, so it is not used"
            ),
        }),
        (false, false, false) => Err(NotUsable::Refused {
            reason: "NamespaceNotConsenting",
            message: format!(
                "namespace {namespace} exists there and does not accept pods from here; its administrator may run: kubectl annotate namespace {namespace} {}={}",
                names::ACCEPTS,
                consent(origin, namespace)
            ),
        }),
        (false, false, true) => Ok(metadata.uid.as_str().into()),
    }
}

fn consent(origin: &str, namespace: &str) -> String {
    format!("{origin}/{namespace}")
}

async fn create(
    connection: &Connection,
    origin: &str,
    namespace: &str,
) -> Result<crate::cluster::raw::RawObject, NotUsable> {
    let api = &connection.clients.calls;
    let object = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": namespace,
            "labels": {names::ORIGIN: origin},
            "annotations": {names::ACCEPTS: consent(origin, namespace)},
        },
    });
    match api.create("/api/v1/namespaces", &object).await {
        Ok(created) => Ok(created),
        Err(CallError::Answered { code: 409, .. }) => Ok(api.get(&namespace_path(namespace)).await?),
        Err(CallError::Answered {
            code: 403, message, ..
        }) => Err(NotUsable::Refused {
            reason: "NamespaceCreateForbidden",
            message: format!("{message}; apply the cluster-wide worker role, or create the namespace there"),
        }),
        Err(error) => Err(error.into()),
    }
}

/// Pods of a namespace are refused until its controller made this account.
async fn await_service_account(connection: &Connection, namespace: &str) -> Result<(), NotUsable> {
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
    let deadline = Instant::now() + SERVICE_ACCOUNT_WAIT;
    loop {
        match connection.clients.calls.get(&path).await {
            Ok(_) | Err(CallError::Answered { code: 403, .. }) => return Ok(()),
            Err(CallError::Answered { code: 404, .. }) if Instant::now() < deadline => {
                tokio::time::sleep(SERVICE_ACCOUNT_POLL).await;
            }
            Err(CallError::Answered { code: 404, .. }) => {
                return Err(NotUsable::NotYet {
                    reason: "ServiceAccountMissing",
                    message: format!("namespace {namespace} has no ServiceAccount default there yet"),
                });
            }
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_consenting_namespace_that_is_not_itself_dispatched_is_used() {
        for (metadata, reason) in [
            (
                r#"{"uid":"u","annotations":{"portcullis.dev/accepts":"o/n"}}"#,
                "used",
            ),
            (r#"{"uid":"u"}"#, "NamespaceNotConsenting"),
            (
                r#"{"uid":"u","annotations":{"portcullis.dev/accepts":"other/n"}}"#,
                "NamespaceNotConsenting",
            ),
            (
                r#"{"uid":"u","annotations":{"portcullis.dev/accepts":"o/m"}}"#,
                "NamespaceNotConsenting",
            ),
            (
                r#"{"uid":"u","labels":{"portcullis.dev/origin":"o"}}"#,
                "NamespaceNotConsenting",
            ),
            (
                r#"{"uid":"u","labels":{"portcullis.dev/dispatch":"d"},"annotations":{"portcullis.dev/accepts":"o/n"}}"#,
                "NamespaceIsDispatched",
            ),
            (
                r#"{"uid":"u","deletionTimestamp":"x","annotations":{"portcullis.dev/accepts":"o/n"}}"#,
                "NamespaceTerminating",
            ),
        ] {
            let found = match judge(&serde_json::from_str(metadata).unwrap(), "o", "n") {
                Ok(_) => "used",
                Err(NotUsable::Refused { reason, .. } | NotUsable::NotYet { reason, .. }) => reason,
                Err(NotUsable::Call(_)) => "call",
            };
            assert_eq!(found, reason, "{metadata}");
        }
    }
}
