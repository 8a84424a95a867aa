//! Certificates that we make: names, lives, and when the next one is due.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use portcullis::tls::issue::{Issued, Lives, Renewal, ServerNames, Why, renewal};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

const DAY: i64 = 24;

fn names() -> ServerNames {
    ServerNames::of_service("portcullis-system/portcullis").unwrap()
}

fn now() -> Timestamp {
    "2026-11-30T12:00:00Z".parse().unwrap()
}

fn hours(hours: i64) -> SignedDuration {
    SignedDuration::from_hours(hours)
}

fn issued() -> Issued {
    portcullis::tls::install_crypto();
    Issued::new(&names(), &Lives::default(), now()).unwrap()
}

/// Whether a client of this clock accepts it by this name.
fn accepts(issued: &Issued, name: &str, at: Timestamp) -> Result<(), rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(issued.ca.as_bytes()).unwrap())
        .unwrap();
    let verifier = WebPkiServerVerifier::builder(roots.into()).build().unwrap();
    let leaf = CertificateDer::from_pem_slice(issued.leaf.as_bytes()).unwrap();
    let name = ServerName::try_from(name).unwrap();
    let at = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(at.as_second()).unwrap()));
    verifier.verify_server_cert(&leaf, &[], &name, &[], at).map(drop)
}

/// T4
#[test]
fn a_service_is_named_as_the_api_server_calls_it() {
    let issued = issued();
    for name in [
        "portcullis.portcullis-system.svc",
        "portcullis.portcullis-system.svc.cluster.local",
        "portcullis.portcullis-system",
        "portcullis",
        "localhost",
    ] {
        assert_eq!(accepts(&issued, name, now()), Ok(()), "{name}");
    }
    assert!(accepts(&issued, "other.portcullis-system.svc", now()).is_err());
    assert!(accepts(&issued, "127.0.0.1", now()).is_err());
}

/// T4
#[test]
fn a_url_is_named_by_its_host() {
    portcullis::tls::install_crypto();
    for (url, host) in [
        ("https://127.0.0.1:9443/mutate", "127.0.0.1"),
        ("https://localhost:9443", "localhost"),
        ("https://hooks.example.com/x", "hooks.example.com"),
        ("https://[::1]:9443/", "::1"),
        ("https://10.1.2.3", "10.1.2.3"),
    ] {
        let names = ServerNames::of_url(url).unwrap();
        let issued = Issued::new(&names, &Lives::default(), now()).unwrap();
        for name in [host, "127.0.0.1", "localhost"] {
            assert_eq!(accepts(&issued, name, now()), Ok(()), "{url} as {name}");
        }
    }
}

/// T4: bad input is a sentence.
#[test]
fn text_that_names_no_server_is_refused() {
    for text in [
        "",
        "portcullis",
        "/",
        "a/",
        "/b",
        "a/b/c",
        "a.b/c",
        "a b/c",
        "ä/b",
    ] {
        let error = ServerNames::of_service(text).unwrap_err().to_string();
        assert!(error.ends_with("write NAMESPACE/NAME"), "{error}");
    }
    for text in [
        "",
        "127.0.0.1:9443",
        "http://127.0.0.1:9443",
        "https://",
        "https:///mutate",
    ] {
        let error = ServerNames::of_url(text).unwrap_err().to_string();
        assert!(error.ends_with("write https://HOST[:PORT]"), "{error}");
    }
}

/// T4
#[test]
fn ca_and_leaf_say_what_they_are_for() {
    let issued = issued();
    let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let (ca, leaf) = (der(&issued.ca), der(&issued.leaf));
    let (_, ca) = X509Certificate::from_der(&ca).unwrap();
    let (_, leaf) = X509Certificate::from_der(&leaf).unwrap();
    let constraints = ca.basic_constraints().unwrap().unwrap();
    assert!(constraints.critical && constraints.value.ca);
    assert!(ca.key_usage().unwrap().unwrap().value.key_cert_sign());
    assert!(!leaf.is_ca());
    let usage = leaf.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.server_auth && !usage.client_auth && !usage.any);
    assert_ne!(ca.subject(), leaf.subject());
    assert_eq!(leaf.issuer(), ca.subject());
    let algorithm = leaf.public_key().algorithm.algorithm.to_id_string();
    assert_eq!(algorithm, "1.2.840.10045.2.1", "an elliptic curve");
    assert_eq!(leaf.public_key().parsed().unwrap().key_size(), 256);
}

/// T5
#[test]
fn clients_whose_clock_is_an_hour_behind_accept_it() {
    let issued = issued();
    let name = "portcullis.portcullis-system.svc";
    assert_eq!(accepts(&issued, name, now() - hours(1)), Ok(()));
    assert!(accepts(&issued, name, now() - hours(2)).is_err());
    assert!(accepts(&issued, name, now() + hours(91 * DAY)).is_err());
}

/// T5: by wall clock alone, whatever it jumps to.
#[test]
fn the_leaf_is_renewed_at_two_thirds_of_its_life() {
    let issued = issued();
    let lives = Lives::default();
    for (jump, expected) in [
        (0, Renewal::Keep),
        (59 * DAY, Renewal::Keep),
        (61 * DAY, Renewal::RenewLeaf(Why::Due)),
        (89 * DAY, Renewal::RenewLeaf(Why::Due)),
        // Past its end: the machine slept.
        (200 * DAY, Renewal::RenewLeaf(Why::Due)),
        // The CA cannot cover a useful leaf any more.
        (3625 * DAY, Renewal::Reissue(Why::CaEnds)),
        (4000 * DAY, Renewal::Reissue(Why::CaEnds)),
        // A clock before the birth of what it judges is wrong.
        (-DAY, Renewal::Keep),
        (-20_000 * DAY, Renewal::Keep),
    ] {
        assert_eq!(
            renewal(&issued, &names(), &lives, now() + hours(jump)),
            expected,
            "{jump} h"
        );
    }
}

/// T5
#[test]
fn a_renewed_leaf_is_of_the_same_ca_and_lives_on() {
    let lives = Lives::default();
    let first = issued();
    let later = now() + hours(61 * DAY);
    let second = first.renew_leaf(&names(), &lives, later).unwrap();
    assert_eq!(second.ca, first.ca);
    assert_ne!(second.leaf, first.leaf);
    assert_ne!(second.leaf_key.expose(), first.leaf_key.expose());
    assert_eq!(renewal(&second, &names(), &lives, later), Renewal::Keep);
    let name = "portcullis.portcullis-system.svc";
    assert_eq!(accepts(&second, name, now() + hours(150 * DAY)), Ok(()));
}

/// T5: a leaf never outlives its CA.
#[test]
fn a_leaf_ends_with_its_ca_at_the_latest() {
    let lives = Lives {
        ca: Duration::from_secs(3600 * 24 * 40),
        ..Lives::default()
    };
    portcullis::tls::install_crypto();
    let issued = Issued::new(&names(), &lives, now()).unwrap();
    let served = issued.served(now()).unwrap();
    assert_eq!(served.life().not_after, now() + hours(40 * DAY));
}

/// T4
#[test]
fn a_leaf_that_does_not_fit_is_renewed() {
    let (lives, good, other) = (Lives::default(), issued(), issued());
    let with = |change: fn(&mut Issued, Issued)| {
        let mut issued = good.clone();
        change(&mut issued, other.clone());
        renewal(&issued, &names(), &lives, now())
    };
    let unusable = Renewal::RenewLeaf(Why::Unusable);
    assert_eq!(with(|issued, _| issued.leaf.clear()), unusable);
    assert_eq!(with(|issued, _| issued.leaf.truncate(200)), unusable);
    assert_eq!(
        with(|issued, other| issued.leaf_key = other.leaf_key),
        unusable,
        "another key"
    );
    assert_eq!(
        with(|issued, other| (issued.leaf, issued.leaf_key) = (other.leaf, other.leaf_key)),
        unusable,
        "of another CA"
    );
    assert_eq!(
        with(|issued, _| issued.ca.clear()),
        Renewal::Reissue(Why::Unusable)
    );
    let moved = ServerNames::of_service("elsewhere/portcullis").unwrap();
    assert_eq!(
        renewal(&good, &moved, &lives, now()),
        Renewal::RenewLeaf(Why::NamesChanged)
    );
}

/// S5
#[test]
fn keys_are_not_printed_and_cores_are_not_dumped() {
    let issued = issued();
    let served = issued.served(now()).unwrap();
    let resolver = portcullis::tls::Resolver::new();
    resolver.install(served.clone());
    let printed = format!("{issued:?}{served:?}{resolver:?}{:?}", issued.leaf_key);
    for key in [&issued.leaf_key, &issued.ca_key] {
        for line in key.expose().lines().filter(|line| line.len() > 40) {
            assert!(!printed.contains(line), "{printed}");
        }
    }
    portcullis::tls::forbid_core_dumps().unwrap();
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let cores = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"))
        .unwrap();
    assert_eq!(cores.split_whitespace().nth(4), Some("0"), "{cores}");
}
