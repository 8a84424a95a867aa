//! PEM of a chain, its key and its CA -> what is served, checked.

use std::sync::Arc;

use base64::Engine;
use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};

use super::crypto;

/// A certificate chain with its key, and the CA that clients should trust.
#[derive(Clone)]
pub struct Served {
    key: Arc<CertifiedKey>,
    life: Life,
    ca_bundle: Option<String>,
}

/// From when until when a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

/// A pair that cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum InvalidPair {
    #[error("{what} is no PEM of the expected kind")]
    Pem {
        what: &'static str,
        #[source]
        source: rustls_pki_types::pem::Error,
    },
    #[error("{what} holds no certificate")]
    Empty { what: &'static str },
    #[error("{what} holds a certificate that cannot be read")]
    Unreadable { what: &'static str },
    #[error("the key does not belong to the certificate, or is of an unsupported kind")]
    KeyMismatch(#[source] rustls::Error),
    #[error("the certificate was not issued by the CA beside it, or not for a server")]
    NotOfThisCa(#[source] rustls::Error),
    #[error("the certificate ran out at {0}")]
    Expired(Timestamp),
}

impl InvalidPair {
    /// A fixed word for metrics and Events.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pem { .. } => "no_pem",
            Self::Empty { .. } => "empty",
            Self::Unreadable { .. } => "unreadable",
            Self::KeyMismatch(_) => "key_mismatch",
            Self::NotOfThisCa(_) => "not_of_this_ca",
            Self::Expired(_) => "expired",
        }
    }
}

impl Served {
    /// Reads a chain (leaf first), its key (PKCS#8, PKCS#1 or SEC1) and, if given, the CA bundle it must verify
    /// under.
    ///
    /// # Errors
    /// If a part cannot be read, the leaf is past its end at `now`, key and leaf do not match, or the CA did not
    /// issue the leaf.
    pub fn from_pem(
        chain: &[u8],
        key: &[u8],
        ca: Option<&[u8]>,
        now: Timestamp,
    ) -> Result<Self, InvalidPair> {
        let chain = certificates(chain, "tls.crt")?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|source| InvalidPair::Pem {
            what: "tls.key",
            source,
        })?;
        let life = Life::of(&chain[0], "tls.crt")?;
        if life.not_after <= now {
            return Err(InvalidPair::Expired(life.not_after));
        }
        let ca_bundle = match ca {
            None => None,
            Some(ca) => {
                let roots = certificates(ca, "ca.crt")?;
                // A leaf that becomes valid in a minute is served: the other side's clock decides, not ours.
                verify_chain(&chain, &roots, now.max(life.not_before)).map_err(InvalidPair::NotOfThisCa)?;
                Some(bundle(&roots))
            }
        };
        let key = CertifiedKey::from_der(chain, key, &crypto()).map_err(InvalidPair::KeyMismatch)?;
        Ok(Self {
            key: Arc::new(key),
            life,
            ca_bundle,
        })
    }

    /// What rustls signs with.
    pub(super) fn certified_key(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.key)
    }

    /// The life of the leaf.
    #[must_use]
    pub fn life(&self) -> Life {
        self.life
    }

    /// The CA certificates as PEM, to be published as `caBundle`; `None` if the source names no CA, so that the
    /// API server's own roots decide.
    #[must_use]
    pub fn ca_bundle(&self) -> Option<&str> {
        self.ca_bundle.as_deref()
    }

    /// The leaf as DER.
    #[must_use]
    pub fn leaf(&self) -> &[u8] {
        self.key.cert.first().map_or(&[], |leaf| leaf)
    }
}

/// The key never reaches a log.
impl std::fmt::Debug for Served {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Served")
            .field("life", &self.life)
            .finish_non_exhaustive()
    }
}

impl Life {
    /// Reads the validity of a certificate; `what` names it in the error.
    ///
    /// # Errors
    /// If it is no X.509 certificate.
    pub(super) fn of(certificate: &CertificateDer<'_>, what: &'static str) -> Result<Self, InvalidPair> {
        let unreadable = || InvalidPair::Unreadable { what };
        let (_, parsed) = x509_parser::parse_x509_certificate(certificate).map_err(|_| unreadable())?;
        let validity = parsed.validity();
        let at = |seconds: i64| Timestamp::from_second(seconds).map_err(|_| unreadable());
        Ok(Self {
            not_before: at(validity.not_before.timestamp())?,
            not_after: at(validity.not_after.timestamp())?,
        })
    }

    /// Whether a client with this clock accepts it.
    #[must_use]
    pub fn covers(&self, now: Timestamp) -> bool {
        self.not_before <= now && now < self.not_after
    }
}

/// All certificates of a PEM text, at least one.
pub(super) fn certificates(
    pem: &[u8],
    what: &'static str,
) -> Result<Vec<CertificateDer<'static>>, InvalidPair> {
    let all = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|source| InvalidPair::Pem { what, source })?;
    if all.is_empty() {
        Err(InvalidPair::Empty { what })
    } else {
        Ok(all)
    }
}

/// Whether a client that trusts `roots` accepts the chain at `now` (names apart).
pub(super) fn verify_chain(
    chain: &[CertificateDer<'static>],
    roots: &[CertificateDer<'static>],
    now: Timestamp,
) -> Result<(), rustls::Error> {
    let mut store = RootCertStore::empty();
    for root in roots {
        store.add(root.clone())?;
    }
    let (leaf, intermediates) = chain
        .split_first()
        .ok_or(rustls::Error::NoCertificatesPresented)?;
    let seconds = u64::try_from(now.as_second()).unwrap_or(0);
    rustls::client::verify_server_cert_signed_by_trust_anchor(
        &ParsedCertificate::try_from(leaf)?,
        &store,
        intermediates,
        UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds)),
        crypto().signature_verification_algorithms.all,
    )
}

/// PEM again, one newline between the blocks: two blocks joined without one make a `caBundle` that the API
/// server cannot use.
fn bundle(certificates: &[CertificateDer<'_>]) -> String {
    let mut pem = String::new();
    for certificate in certificates {
        pem.push_str("-----BEGIN CERTIFICATE-----\n");
        let text = base64::engine::general_purpose::STANDARD.encode(certificate);
        for line in text.as_bytes().chunks(64) {
            pem.extend(line.iter().map(|byte| char::from(*byte)));
            pem.push('\n');
        }
        pem.push_str("-----END CERTIFICATE-----\n");
    }
    pem
}
