//! Versions, protocols, keys, and who is told of failures.

use std::sync::Arc;

use portcullis::admission::server;
use portcullis::tls::{Resolver, Served, Shutdown, server_config};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, SigningKey};
use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, SupportedProtocolVersion};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::server_logs::capture;
use crate::server_rig::{Rig, Setup, Wire, allowed, client, eventually, within};

async fn connect(
    rig: &Rig,
    alpn: &[&str],
    versions: &[&'static SupportedProtocolVersion],
) -> std::io::Result<TlsStream<TcpStream>> {
    let tcp = TcpStream::connect(rig.address).await?;
    let name = ServerName::try_from("127.0.0.1").unwrap();
    client(&rig.issued.ca, alpn, versions).connect(name, tcp).await
}

/// T1
#[tokio::test]
async fn tls_1_2_and_1_3_are_served() {
    let rig = Setup::new().start(|_| allowed());
    for version in [&TLS12, &TLS13] {
        let stream = connect(&rig, &["http/1.1"], &[version]).await.unwrap();
        assert_eq!(stream.get_ref().1.protocol_version(), Some(version.version));
        assert_eq!(Wire::new(stream).post("{}").await.unwrap().status, 200);
    }
}

/// T1: a hello of an old version, byte by byte, is answered with an alert.
#[tokio::test]
async fn older_versions_are_refused() {
    let rig = Setup::new().start(|_| allowed());
    for minor in [0_u8, 1, 2] {
        let mut hello = vec![3, minor];
        hello.extend([7; 32]);
        hello.extend([0, 0, 4, 0xc0, 0x13, 0xc0, 0x14, 1, 0, 0, 0]);
        let mut record = vec![
            22,
            3,
            minor.min(1),
            0,
            u8::try_from(hello.len()).unwrap() + 4,
            1,
            0,
            0,
        ];
        record.push(u8::try_from(hello.len()).unwrap());
        record.extend(hello);
        let mut tcp = TcpStream::connect(rig.address).await.unwrap();
        tcp.write_all(&record).await.unwrap();
        let mut answer = Vec::new();
        within(tcp.read_to_end(&mut answer)).await.unwrap();
        let (handshake_failure, protocol_version) = (40, 70);
        assert_eq!(answer[0], 21, "3.{minor}: {answer:?}");
        assert!(
            [handshake_failure, protocol_version].contains(&answer[6]),
            "3.{minor}: {answer:?}"
        );
    }
    eventually(|| rig.metric("portcullis_tls_handshakes_total{result=\"version\"}") == 3.0).await;
}

/// T1
#[test]
fn suites_are_aead_and_nothing_is_taken_early_or_resumed() {
    portcullis::tls::install_crypto();
    let config = server_config(Resolver::new());
    for suite in &config.crypto_provider().cipher_suites {
        let name = format!("{:?}", suite.suite());
        assert!(
            name.contains("GCM") || name.contains("CHACHA20_POLY1305"),
            "{name}"
        );
    }
    assert_eq!((config.max_early_data_size, config.send_tls13_tickets), (0, 0));
    assert!(!config.session_storage.can_cache());
    assert!(!config.ticketer.enabled());
}

/// T3
#[tokio::test]
async fn every_client_that_can_speak_http_1_1_gets_it() {
    let rig = Setup::new().start(|_| allowed());
    let cases: [(&[&str], Option<&[u8]>); 4] = [
        (&["http/1.1"], Some(b"http/1.1")),
        (&["h2", "http/1.1"], Some(b"http/1.1")),
        (&["http/1.1", "h2"], Some(b"http/1.1")),
        (&[], None),
    ];
    for (offered, chosen) in cases {
        let stream = connect(&rig, offered, rustls::ALL_VERSIONS).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), chosen, "{offered:?}");
        assert_eq!(
            Wire::new(stream).post("{}").await.unwrap().status,
            200,
            "{offered:?}"
        );
    }
    let refused = connect(&rig, &["h2"], rustls::ALL_VERSIONS).await.unwrap_err();
    let alert = rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol);
    assert_eq!(refused.get_ref().unwrap().downcast_ref(), Some(&alert));
    eventually(|| rig.metric("portcullis_tls_handshakes_total{result=\"no_alpn\"}") == 1.0).await;
}

/// A certificate of its own key, and the key as PEM of this label and content.
fn served(key: &impl SigningKey, pem: &str) -> (Served, String) {
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(key).unwrap().pem();
    let now = jiff::Timestamp::now();
    (
        Served::from_pem(certificate.as_bytes(), pem.as_bytes(), None, now).unwrap(),
        certificate,
    )
}

async fn answers_with(rig: &Rig, (served, ca): (Served, String), what: &str) {
    rig.resolver.install(served);
    let tcp = TcpStream::connect(rig.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    for version in [&TLS12, &TLS13] {
        let connector = client(&ca, &["http/1.1"], &[version]);
        if what.starts_with("ed25519") && version.version == TLS12.version {
            continue;
        }
        let stream = connector
            .connect(name, tcp)
            .await
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(Wire::new(stream).post("{}").await.unwrap().status, 200, "{what}");
        return;
    }
}

/// The `ECPrivateKey` within a PKCS#8 key is what SEC1 files hold.
fn sec1(key: &KeyPair) -> String {
    let pkcs8 = key.serialize_der();
    let at = pkcs8.windows(3).rposition(|three| three == [2, 1, 1]).unwrap();
    // SEQUENCE, its length in one or two bytes, then INTEGER 1.
    let start = if pkcs8[at - 2] == 0x30 { at - 2 } else { at - 3 };
    let text = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &pkcs8[start..]);
    format!("-----BEGIN EC PRIVATE KEY-----\n{text}\n-----END EC PRIVATE KEY-----\n")
}

/// T2: keys of every usual kind, in every usual form. RSA only where `openssl` is at hand to make one.
#[tokio::test]
async fn user_keys_of_every_usual_kind_are_served() {
    let rig = Setup::new().start(|_| allowed());
    for (what, algorithm) in [
        ("p256", &PKCS_ECDSA_P256_SHA256),
        ("p384", &PKCS_ECDSA_P384_SHA384),
        ("ed25519", &PKCS_ED25519),
    ] {
        let key = KeyPair::generate_for(algorithm).unwrap();
        answers_with(&rig, served(&key, &key.serialize_pem()), what).await;
        if what != "ed25519" {
            answers_with(&rig, served(&key, &sec1(&key)), &format!("{what} sec1")).await;
        }
    }
    for bits in ["2048", "4096"] {
        for form in ["pkcs1", "pkcs8"] {
            let Some(pem) = rsa(bits, form) else {
                println!("no openssl: RSA keys were not tried");
                return;
            };
            let key = KeyPair::from_pem(&rsa_pkcs8(&pem)).unwrap();
            answers_with(&rig, served(&key, &pem), &format!("rsa {bits} {form}")).await;
        }
    }
}

fn openssl(arguments: &[&str], input: &str) -> Option<String> {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let (stdin, stdout) = (Stdio::piped(), Stdio::piped());
    let command = Command::new("openssl")
        .args(arguments)
        .stdin(stdin)
        .stdout(stdout)
        .stderr(Stdio::null())
        .spawn();
    let mut child = command.ok()?;
    child.stdin.take()?.write_all(input.as_bytes()).ok()?;
    let output = child.wait_with_output().ok()?;
    assert!(output.status.success(), "openssl {arguments:?}");
    String::from_utf8(output.stdout).ok()
}

fn rsa(bits: &str, form: &str) -> Option<String> {
    match form {
        "pkcs1" => openssl(&["genrsa", "-traditional", bits], ""),
        _ => openssl(
            &[
                "genpkey",
                "-algorithm",
                "RSA",
                "-pkeyopt",
                &format!("rsa_keygen_bits:{bits}"),
            ],
            "",
        ),
    }
}

fn rsa_pkcs8(pem: &str) -> String {
    openssl(&["pkcs8", "-topk8", "-nocrypt"], pem).unwrap()
}

/// T13: exact counters, one line a minute, and that line says what it means.
#[tokio::test]
async fn clients_that_refuse_us_are_counted_each_and_told_once() {
    let (captured, _guard) = capture("info");
    let (webhook, _issued) = Setup::new().webhook(Box::new(|_| allowed()));
    let metrics = Arc::clone(&webhook.metrics);
    let (_, other) = Setup::new().webhook(Box::new(|_| allowed()));
    let listener = portcullis::tls::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = Shutdown::default();
    let served = tokio::spawn(server::serve(webhook, listener, shutdown.clone()));
    for _ in 0..100 {
        let refused = crate::server_rig::dial(address, &other.ca).await;
        assert!(refused.is_err());
        let mut plain = TcpStream::connect(address).await.unwrap();
        plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        within(plain.read_to_end(&mut Vec::new())).await.unwrap();
        drop(TcpStream::connect(address).await.unwrap());
    }
    let of = |result: &str| {
        let series = format!("portcullis_tls_handshakes_total{{result=\"{result}\"}}");
        crate::server_rig::metric(&metrics, &series)
    };
    eventually(|| of("unknown_ca") + of("bad_certificate") == 100.0 && of("eof") == 100.0).await;
    assert_eq!(of("not_tls"), 100.0);
    shutdown.begin.cancel();
    within(served).await.unwrap().unwrap();
    let text = captured.text();
    assert_eq!(text.matches("refuses our certificate").count(), 1, "{text}");
    assert_eq!(text.lines().count(), 3, "{text}");
}

/// C3, T13: before there is a certificate, handshakes fail and are counted as that.
#[tokio::test]
async fn without_a_certificate_the_handshake_fails_and_the_process_stays() {
    let (mut webhook, issued) = Setup::new().webhook(Box::new(|_| allowed()));
    let resolver = Resolver::new();
    webhook.resolver = Arc::clone(&resolver);
    let metrics = Arc::clone(&webhook.metrics);
    let listener = portcullis::tls::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(server::serve(webhook, listener, Shutdown::default()));
    assert!(crate::server_rig::dial(address, &issued.ca).await.is_err());
    let series = "portcullis_tls_handshakes_total{result=\"no_certificate\"}";
    eventually(|| crate::server_rig::metric(&metrics, series) == 1.0).await;
    resolver.install(issued.served(jiff::Timestamp::now()).unwrap());
    let mut wire = crate::server_rig::dial(address, &issued.ca).await.unwrap();
    assert_eq!(wire.post("{}").await.unwrap().status, 200);
    served.abort();
}
