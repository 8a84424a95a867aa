//! Server names and a clock -> a CA, a leaf, and whether a new one is due (pure).

use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType,
};
use rustls::server::ParsedCertificate;
use rustls_pki_types::{CertificateDer, DnsName, ServerName};
use zeroize::Zeroizing;

use super::pair::{InvalidPair, Life, certificates, verify_chain};

const CA_SUBJECT: &str = "portcullis webhook CA";
const LEAF_SUBJECT: &str = "portcullis webhook";

/// The names that the API server may call us by; the first is the one it uses. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerNames(Vec<ServerName<'static>>);

/// Text that names no server.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidServerNames {
    #[error("{0:?} names no Service: write NAMESPACE/NAME")]
    Service(String),
    #[error("{0:?} is no webhook URL: write https://HOST[:PORT]")]
    Url(String),
}

impl ServerNames {
    /// Of a Service `NAMESPACE/NAME`. The API server checks `<name>.<namespace>.svc` (not the cluster-domain form).
    ///
    /// # Errors
    /// If the text has another form, or a part is no DNS label.
    pub fn of_service(text: &str) -> Result<Self, InvalidServerNames> {
        let invalid = || InvalidServerNames::Service(text.to_owned());
        let (namespace, name) = text.split_once('/').ok_or_else(invalid)?;
        let names = [
            format!("{name}.{namespace}.svc"),
            format!("{name}.{namespace}.svc.cluster.local"),
            format!("{name}.{namespace}"),
            name.to_owned(),
            "localhost".to_owned(),
        ];
        let is_label = |part: &str| !part.is_empty() && !part.contains('.');
        if !is_label(namespace) || !is_label(name) {
            return Err(invalid());
        }
        let names: Result<_, _> = names
            .into_iter()
            .map(|name| DnsName::try_from(name).map(ServerName::DnsName))
            .collect();
        names.map(Self).map_err(|_| invalid())
    }

    /// Of the host of a webhook URL, for a server outside of the cluster; loopback names are added.
    ///
    /// # Errors
    /// If it is no https URL with a host.
    pub fn of_url(text: &str) -> Result<Self, InvalidServerNames> {
        let invalid = || InvalidServerNames::Url(text.to_owned());
        let url: http::Uri = text.parse().map_err(|_| invalid())?;
        let (Some("https"), Some(host)) = (url.scheme_str(), url.host()) else {
            return Err(invalid());
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let mut names = vec![ServerName::try_from(host).map_err(|_| invalid())?];
        for loopback in ["localhost", "127.0.0.1"] {
            let name = ServerName::try_from(loopback).map_err(|_| invalid())?;
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Ok(Self(names))
    }

    fn sans(&self) -> Result<Vec<SanType>, rcgen::Error> {
        self.0
            .iter()
            .map(|name| match name {
                ServerName::IpAddress(ip) => Ok(SanType::IpAddress(IpAddr::from(*ip))),
                ServerName::DnsName(name) => Ok(SanType::DnsName(name.as_ref().try_into()?)),
                other => Ok(SanType::DnsName(other.to_str().as_ref().try_into()?)),
            })
            .collect()
    }
}

/// How long certificates live.
#[derive(Debug, Clone, Copy)]
pub struct Lives {
    pub ca: Duration,
    pub leaf: Duration,
    /// How far `notBefore` lies in the past, for clients whose clock is behind.
    pub backdate: Duration,
}

impl Default for Lives {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        Self {
            ca: 3650 * DAY,
            leaf: 90 * DAY,
            backdate: Duration::from_secs(3600),
        }
    }
}

/// A private key as PEM: wiped when dropped, and not printed by `Debug`.
#[derive(Clone)]
pub struct KeyPem(Zeroizing<String>);

impl KeyPem {
    /// The PEM text. It belongs into a Secret and nowhere else.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for KeyPem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyPem(..)")
    }
}

/// A CA and the leaf it issued, as kept in the Secret.
#[derive(Debug, Clone)]
pub struct Issued {
    pub ca: String,
    pub ca_key: KeyPem,
    pub leaf: String,
    pub leaf_key: KeyPem,
}

/// A certificate that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    #[error("make a {what}")]
    Make {
        what: &'static str,
        #[source]
        source: rcgen::Error,
    },
    #[error("the moment is outside of what a certificate can say")]
    Clock,
}

impl Issued {
    /// A new CA (ECDSA P-256) and a leaf for `names`.
    ///
    /// # Errors
    /// If the random source fails, or `now` cannot be written into a certificate.
    pub fn new(names: &ServerNames, lives: &Lives, now: Timestamp) -> Result<Self, IssueError> {
        let make = |source| IssueError::Make { what: "CA", source };
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(make)?;
        let mut params = CertificateParams::default();
        // Two CAs of ours are told apart by their birth.
        let subject = format!("{CA_SUBJECT} {}", now.strftime("%Y-%m-%dT%H:%M:%SZ"));
        params.distinguished_name.push(DnType::CommonName, subject);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        set_life(&mut params, now, seconds(lives.backdate), seconds(lives.ca))?;
        let ca = params.self_signed(&key).map_err(make)?.pem();
        let ca_key = KeyPem(Zeroizing::new(key.serialize_pem()));
        Self::with_new_leaf(ca, ca_key, names, lives, now)
    }

    /// The same CA, a new leaf with a new key.
    ///
    /// # Errors
    /// If the CA cannot be read, the random source fails, or `now` cannot be written into a certificate.
    pub fn renew_leaf(&self, names: &ServerNames, lives: &Lives, now: Timestamp) -> Result<Self, IssueError> {
        Self::with_new_leaf(self.ca.clone(), self.ca_key.clone(), names, lives, now)
    }

    /// Takes over what a Secret holds. The leaf may be anything; [`renewal`] judges it.
    ///
    /// # Errors
    /// If there is no usable CA with its key: then nothing is worth keeping.
    pub fn from_pem(ca: &str, ca_key: String, leaf: &str, leaf_key: String) -> Result<Self, InvalidPair> {
        let ca_key = KeyPem(Zeroizing::new(ca_key));
        let leaf_key = KeyPem(Zeroizing::new(leaf_key));
        // Reads the CA and compares its key, as for a served pair.
        super::Served::from_pem(ca.as_bytes(), ca_key.expose().as_bytes(), None, Timestamp::MIN)?;
        Ok(Self {
            ca: ca.to_owned(),
            ca_key,
            leaf: leaf.to_owned(),
            leaf_key,
        })
    }

    /// What to serve.
    ///
    /// # Errors
    /// As [`super::Served::from_pem`].
    pub fn served(&self, now: Timestamp) -> Result<super::Served, InvalidPair> {
        let Self {
            ca,
            ca_key: _,
            leaf,
            leaf_key,
        } = self;
        super::Served::from_pem(
            leaf.as_bytes(),
            leaf_key.expose().as_bytes(),
            Some(ca.as_bytes()),
            now,
        )
    }

    fn with_new_leaf(
        ca: String,
        ca_key: KeyPem,
        names: &ServerNames,
        lives: &Lives,
        now: Timestamp,
    ) -> Result<Self, IssueError> {
        let make = |source| IssueError::Make { what: "leaf", source };
        let issuer_key = KeyPair::from_pem(ca_key.expose()).map_err(make)?;
        let issuer = Issuer::from_ca_cert_pem(&ca, issuer_key).map_err(make)?;
        let ca_end = certificates(ca.as_bytes(), "ca.crt")
            .and_then(|all| Life::of(&all[0], "ca.crt"))
            .map_or(Timestamp::MAX, |life| life.not_after);
        let end = ca_end.as_second() - now.as_second();
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(make)?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, LEAF_SUBJECT);
        params.subject_alt_names = names.sans().map_err(make)?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        set_life(
            &mut params,
            now,
            seconds(lives.backdate),
            seconds(lives.leaf).min(end),
        )?;
        let leaf = params.signed_by(&key, &issuer).map_err(make)?.pem();
        Ok(Self {
            ca,
            ca_key,
            leaf,
            leaf_key: KeyPem(Zeroizing::new(key.serialize_pem())),
        })
    }
}

/// What is to be done about the certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    Keep,
    RenewLeaf(Why),
    /// The CA cannot issue any more: all is made anew, and the new CA published.
    Reissue(Why),
}

/// Why something is made anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// There is no readable certificate with a key of its own from this CA.
    Unusable,
    /// It does not name us.
    NamesChanged,
    /// Two thirds of its life are over.
    Due,
    /// The CA ends before a leaf could live its life.
    CaEnds,
}

/// Judges by wall clock alone, so a machine that slept or jumped decides right at the next turn.
///
/// A clock before the certificates' birth is not believed: it keeps what a better clock made.
#[must_use]
pub fn renewal(issued: &Issued, names: &ServerNames, lives: &Lives, now: Timestamp) -> Renewal {
    let Ok(roots) = certificates(issued.ca.as_bytes(), "ca.crt") else {
        return Renewal::Reissue(Why::Unusable);
    };
    let Ok(ca) = Life::of(&roots[0], "ca.crt") else {
        return Renewal::Reissue(Why::Unusable);
    };
    if now < ca.not_before {
        return Renewal::Keep;
    }
    if ca.not_after.as_second() - now.as_second() < seconds(lives.leaf) / 3 {
        return Renewal::Reissue(Why::CaEnds);
    }
    match judge_leaf(issued, &roots, names) {
        Err(why) => Renewal::RenewLeaf(why),
        Ok(leaf) if now >= two_thirds(leaf) => Renewal::RenewLeaf(Why::Due),
        Ok(_) => Renewal::Keep,
    }
}

fn judge_leaf(issued: &Issued, roots: &[CertificateDer<'static>], names: &ServerNames) -> Result<Life, Why> {
    let chain = certificates(issued.leaf.as_bytes(), "tls.crt").map_err(|_| Why::Unusable)?;
    let life = Life::of(&chain[0], "tls.crt").map_err(|_| Why::Unusable)?;
    verify_chain(&chain, roots, life.not_before).map_err(|_| Why::Unusable)?;
    issued.served(life.not_before).map_err(|_| Why::Unusable)?;
    let leaf = ParsedCertificate::try_from(&chain[0]).map_err(|_| Why::Unusable)?;
    let named = |name| rustls::client::verify_server_name(&leaf, name).is_ok();
    if names.0.iter().all(named) {
        Ok(life)
    } else {
        Err(Why::NamesChanged)
    }
}

fn two_thirds(life: Life) -> Timestamp {
    let (from, to) = (life.not_before.as_second(), life.not_after.as_second());
    Timestamp::from_second(from + (to - from) / 3 * 2).unwrap_or(life.not_after)
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

/// Sets `notBefore` and `notAfter`, as seconds around `now`.
fn set_life(
    params: &mut CertificateParams,
    now: Timestamp,
    before: i64,
    after: i64,
) -> Result<(), IssueError> {
    // The type of these fields is of a crate that we do not name: reached from 1970 by a duration.
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let since_epoch = |offset: i64| {
        let unix = now
            .as_second()
            .checked_add(offset)
            .and_then(|unix| u64::try_from(unix).ok());
        unix.map(Duration::from_secs).ok_or(IssueError::Clock)
    };
    let (from, to) = (since_epoch(-before)?, since_epoch(after)?);
    let at = |d: Duration| {
        epoch
            .checked_add(d.try_into().map_err(|_| IssueError::Clock)?)
            .ok_or(IssueError::Clock)
    };
    params.not_before = at(from)?;
    params.not_after = at(to)?;
    Ok(())
}
