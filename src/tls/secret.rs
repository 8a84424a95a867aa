//! A Secret in our own namespace <-> the resolver: made if absent, adopted if there, renewed when due.
//!
//! Replicas share one CA through it: whoever writes first wins, the others adopt (409 on create and on replace).
//! Nothing here is on the request path; while the API server is away, what is served stays.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use tokio_util::sync::CancellationToken;

use super::issue::{IssueError, Issued, KeyPem, Lives, Renewal, ServerNames, Why, renewal};
use super::{InvalidPair, Resolver};
use crate::names;
use crate::telemetry::metrics::TlsMetrics;
use crate::words;

/// The Secret's name.
pub const SECRET: &str = "portcullis-tls";
/// How often it is read: a renewal by another replica is served this much later at most.
pub const PERIOD: Duration = Duration::from_secs(10);
/// How soon again while there is nothing to serve.
const RETRY: Duration = Duration::from_millis(500);
/// For one call to the API server.
const CALL: Duration = Duration::from_secs(10);

/// Certificates that could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("{act} Secret {SECRET}")]
    Call {
        act: &'static str,
        #[source]
        source: kube::Error,
    },
    #[error("{act} Secret {SECRET}: no answer in {CALL:?}")]
    Silence { act: &'static str },
    #[error("another process wrote Secret {SECRET} at the same time")]
    Raced,
    #[error("issue certificates")]
    Issue(#[from] IssueError),
    #[error("serve what was issued")]
    Serve(#[from] InvalidPair),
}

/// What keeps the Secret and the resolver in step.
pub struct Keeper {
    pub secrets: Api<Secret>,
    pub names: ServerNames,
    pub lives: Lives,
    pub resolver: Arc<Resolver>,
    pub metrics: Arc<TlsMetrics>,
    pub period: Duration,
    /// The wall clock; another one in tests.
    pub now: fn() -> Timestamp,
}

impl Keeper {
    /// For the Secret `portcullis-tls` of `namespace`.
    #[must_use]
    pub fn new(
        client: kube::Client,
        namespace: &str,
        names: ServerNames,
        resolver: Arc<Resolver>,
        metrics: Arc<TlsMetrics>,
    ) -> Self {
        Self {
            secrets: Api::namespaced(client, namespace),
            names,
            lives: Lives::default(),
            resolver,
            metrics,
            period: PERIOD,
            now: Timestamp::now,
        }
    }

    /// Keeps them in step until the token is cancelled.
    pub async fn run(self, end: CancellationToken) {
        let mut told = String::new();
        loop {
            match self.turn().await {
                Ok(()) => told.clear(),
                Err(SecretError::Raced) => continue,
                Err(error) => {
                    self.metrics.certificate_errors.inc();
                    let words = words::chain(&error);
                    if words != told {
                        tracing::warn!(error = words, "certificates cannot be kept; what is served stays");
                        told = words;
                    }
                }
            }
            let wait = if self.resolver.current().is_some() {
                self.period
            } else {
                RETRY.min(self.period)
            };
            tokio::select! { () = end.cancelled() => return, () = tokio::time::sleep(wait) => {} }
        }
    }

    /// Reads the Secret, puts it right, serves it.
    ///
    /// # Errors
    /// [`SecretError::Raced`] if another process was quicker: to be tried again at once.
    pub async fn turn(&self) -> Result<(), SecretError> {
        let now = (self.now)();
        let found = called("get", self.secrets.get_opt(SECRET)).await?;
        let issued = match found {
            None => {
                let issued = self.issue(now)?;
                called(
                    "create",
                    self.secrets.create(&PostParams::default(), &secret(&issued)),
                )
                .await?;
                tracing::info!("made a CA and a certificate");
                issued
            }
            Some(found) => self.put_right(found, now).await?,
        };
        self.serve(&issued, now)
    }

    async fn put_right(&self, mut found: Secret, now: Timestamp) -> Result<Issued, SecretError> {
        let (due, issued) = match held(&mut found) {
            None => (Renewal::Reissue(Why::Unusable), self.issue(now)?),
            Some(held) => match renewal(&held, &self.names, &self.lives, now) {
                Renewal::Keep => return Ok(held),
                due @ Renewal::RenewLeaf(_) => (due, held.renew_leaf(&self.names, &self.lives, now)?),
                due @ Renewal::Reissue(_) => (due, self.issue(now)?),
            },
        };
        // Everything else about the object stays, its resourceVersion too: the write fails if it is not the newest.
        found.data = secret(&issued).data;
        called(
            "replace",
            self.secrets.replace(SECRET, &PostParams::default(), &found),
        )
        .await?;
        tracing::info!(?due, "made certificates anew");
        Ok(issued)
    }

    fn issue(&self, now: Timestamp) -> Result<Issued, IssueError> {
        Issued::new(&self.names, &self.lives, now)
    }

    fn serve(&self, issued: &Issued, now: Timestamp) -> Result<(), SecretError> {
        let served = issued.served(now)?;
        let same = self.resolver.current().is_some_and(|current| {
            current.leaf() == served.leaf() && current.ca_bundle() == served.ca_bundle()
        });
        if !same {
            self.metrics.installed(&served);
            tracing::info!(not_after = %served.life().not_after, "serving the certificate from the Secret");
            self.resolver.install(served);
        }
        Ok(())
    }
}

async fn called<T>(act: &'static str, call: impl Future<Output = kube::Result<T>>) -> Result<T, SecretError> {
    match tokio::time::timeout(CALL, call).await {
        Err(_) => Err(SecretError::Silence { act }),
        Ok(Err(kube::Error::Api(status))) if status.code == 409 => Err(SecretError::Raced),
        Ok(Err(source)) => Err(SecretError::Call { act, source }),
        Ok(Ok(answer)) => Ok(answer),
    }
}

/// The four keys, if there is a usable CA among them. Empty and absent are the same.
fn held(secret: &mut Secret) -> Option<Issued> {
    let mut data = secret.data.take()?;
    let mut text = |key: &str| String::from_utf8(data.remove(key)?.0).ok();
    let (ca, ca_key) = (text("ca.crt")?, text("ca.key")?);
    let (leaf, leaf_key) = (
        text("tls.crt").unwrap_or_default(),
        text("tls.key").unwrap_or_default(),
    );
    Issued::from_pem(&ca, ca_key, &leaf, leaf_key).ok()
}

fn secret(issued: &Issued) -> Secret {
    let Issued {
        ca,
        ca_key,
        leaf,
        leaf_key,
    } = issued;
    let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
    let key = |key: &KeyPem| bytes(key.expose());
    let data = [
        ("ca.crt", bytes(ca)),
        ("ca.key", key(ca_key)),
        ("tls.crt", bytes(leaf)),
        ("tls.key", key(leaf_key)),
    ];
    let mut secret = Secret {
        data: Some(
            data.into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        ),
        type_: Some("kubernetes.io/tls".to_owned()),
        ..Secret::default()
    };
    secret.metadata.name = Some(SECRET.to_owned());
    let label = (
        "app.kubernetes.io/managed-by".to_owned(),
        names::PORTCULLIS.to_owned(),
    );
    secret.metadata.labels = Some([label].into_iter().collect());
    secret
}
