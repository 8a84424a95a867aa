//! Probes and metrics on the plain port.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use portcullis::telemetry::health::Health;
use portcullis::telemetry::metrics::{Metrics, OPEN_METRICS};
use portcullis::telemetry::probes;
use portcullis::tls::Resolver;
use portcullis::tls::issue::{Issued, Lives, ServerNames};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::server_rig::{Received, Setup, Wire, allowed, eventually, within};

struct Port {
    address: SocketAddr,
    health: Arc<Health>,
    end: CancellationToken,
}

fn port(health: &Arc<Health>, metrics: &Arc<Metrics>) -> Port {
    let listener = portcullis::tls::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let (address, end) = (listener.local_addr().unwrap(), CancellationToken::new());
    probes::spawn(listener, Arc::clone(health), Arc::clone(metrics), end.clone()).unwrap();
    Port {
        address,
        health: Arc::clone(health),
        end,
    }
}

impl Port {
    async fn get(&self, path: &str) -> Received {
        let mut wire = Wire::new(TcpStream::connect(self.address).await.unwrap());
        wire.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"))
            .await
            .unwrap();
        within(wire.receive()).await.unwrap()
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

fn pair(lives: Lives, now: Timestamp) -> Issued {
    Issued::new(&ServerNames::of_url("https://127.0.0.1:1").unwrap(), &lives, now).unwrap()
}

/// C1, C3: without a certificate it runs and is not ready; no condition is a call to anybody.
#[tokio::test]
async fn ready_means_certificate_snapshot_and_not_leaving() {
    portcullis::tls::install_crypto();
    let (health, metrics, resolver) = (Health::new(), Metrics::new(), Resolver::new());
    let port = port(&health, &metrics);
    let asked = Arc::clone(&resolver);
    health.require_fn("certificate", move || asked.ready(Timestamp::now()));
    let serving = health.require("serving");
    serving.met("");
    let snapshot = health.require("snapshot");

    let answer = port.get("/readyz").await;
    assert_eq!(answer.status, 503);
    assert_eq!(
        answer.body,
        b"[-]certificate: no certificate yet\n[+]serving\n[-]snapshot: not yet\nnot ready\n"
    );
    snapshot.met("12 namespaces");
    assert_eq!(port.get("/readyz").await.status, 503);
    resolver.install(
        pair(Lives::default(), Timestamp::now())
            .served(Timestamp::now())
            .unwrap(),
    );
    assert_eq!(port.get("/readyz").await.status, 200);
    serving.unmet("leaving");
    assert_eq!(port.get("/readyz").await.status, 503);
    assert_eq!(port.get("/healthz").await.status, 200, "leaving is not dying");
}

/// C1: expired is not ready, though it is still served.
#[tokio::test]
async fn an_expired_certificate_is_not_ready() {
    portcullis::tls::install_crypto();
    let resolver = Resolver::new();
    let now = Timestamp::now();
    let lives = Lives {
        leaf: Duration::from_secs(3600),
        ..Lives::default()
    };
    resolver.install(pair(lives, now).served(now).unwrap());
    assert!(resolver.ready(now).is_ok());
    let later = now + jiff::SignedDuration::from_hours(1);
    assert!(resolver.ready(later).unwrap_err().starts_with("expired at "));
}

/// C2, S9: probes are answered while the admission thread is stuck in a request.
#[tokio::test]
async fn probes_are_answered_while_admission_is_stuck() {
    let (release, stuck) = mpsc::channel::<()>();
    let stuck = std::sync::Mutex::new(stuck);
    let rig = Setup::new().start(move |_| {
        let _released = stuck.lock().unwrap().recv();
        allowed()
    });
    let port = port(&rig.health, &rig.metrics);
    let mut wire = rig.dial().await;
    let mut call = std::pin::pin!(wire.post("{}"));
    let in_flight = eventually(|| rig.metric("portcullis_admission_in_flight") == 1.0);
    tokio::select! { _ = &mut call => unreachable!("it is stuck"), () = in_flight => {} }
    assert_eq!(port.get("/healthz").await.status, 200);
    assert_eq!(port.get("/readyz").await.status, 200);
    assert_eq!(port.get("/metrics").await.status, 200);
    drop(release);
    assert_eq!(within(call).await.unwrap().status, 200);
}

/// L14: a runtime that stands still for ten seconds of ours ends liveness.
#[tokio::test]
async fn a_runtime_that_stands_still_is_not_live() {
    let (release, stuck) = mpsc::channel::<()>();
    let stuck = std::sync::Mutex::new(stuck);
    let rig = Setup::new().start(move |_| {
        let _released = stuck.lock().unwrap().recv();
        allowed()
    });
    let port = port(&rig.health, &rig.metrics);
    let mut wire = rig.dial().await;
    wire.send(format!(
        "{}{{}}",
        crate::server_rig::request("/mutate?timeout=60s", 2)
    ))
    .await
    .unwrap();
    eventually(|| port.health.liveness().is_err()).await;
    let answer = port.get("/healthz").await;
    assert_eq!(answer.status, 500);
    assert!(String::from_utf8(answer.body).unwrap().contains("admission"));
    drop(release);
    eventually(|| port.health.liveness().is_ok()).await;
}

/// O1: counts and times are those of the requests that were sent.
#[tokio::test]
async fn metrics_count_what_was_answered() {
    let rig = Setup::new().start(|body| {
        let mut answer = allowed();
        if body == b"no" {
            (answer.decision, answer.reason) = ("denied", "node_name");
        }
        answer
    });
    let port = port(&rig.health, &rig.metrics);
    let mut wire = rig.dial().await;
    let begun = Instant::now();
    for turn in 0..50 {
        let body = if turn % 5 == 0 { "no" } else { "yes" };
        assert_eq!(wire.post(body).await.unwrap().status, 200);
    }
    let took = begun.elapsed().as_secs_f64();
    let allowed = r#"{webhook="enrich",operation="CREATE",decision="allowed"}"#;
    let series = |name: &str| rig.metric(&format!("portcullis_admission_{name}"));
    eventually(|| series(&format!("duration_seconds_count{allowed}")) == 40.0).await;
    assert!(series(&format!("duration_seconds_sum{allowed}")) < took);
    let denied = r#"requests_total{resource="pods",operation="CREATE",decision="denied",reason="node_name"}"#;
    assert_eq!(series(denied), 10.0);

    rig.metrics.installed.drifted("guard");
    let answer = port.get("/metrics").await;
    assert_eq!(answer.header("content-type"), Some(OPEN_METRICS));
    let scrape = String::from_utf8(answer.body).unwrap();
    for name in [
        "portcullis_admission_duration_seconds_bucket",
        "portcullis_admission_requests_total",
        "portcullis_admission_in_flight",
        "portcullis_admission_panics_total",
        "portcullis_tls_handshakes_total",
        "portcullis_cert_not_after_timestamp_seconds",
        "portcullis_ca_bundle_in_sync",
        "portcullis_config_drift_total",
        "portcullis_draining",
        "portcullis_build_info",
        "portcullis_process_resident_memory_bytes",
    ] {
        let family = name
            .trim_end_matches("_bucket")
            .trim_end_matches("_total")
            .trim_end_matches("_info");
        assert!(
            scrape.contains(&format!("# TYPE {family} ")),
            "{name} is missing:\n{scrape}"
        );
    }
}

/// O1: no label can grow with the number of objects.
#[tokio::test]
async fn labels_are_few_and_name_no_object() {
    let rig = Setup::new().start(|_| allowed());
    rig.dial().await.post("{}").await.unwrap();
    let scrape = rig.metrics.scrape();
    let names: BTreeSet<&str> = scrape
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('{')?.1.split_once('}'))
        .flat_map(|(labels, _)| labels.split(',').map(|label| label.split_once('=').unwrap().0))
        .collect();
    let allowed: BTreeSet<&str> = [
        "decision",
        "le",
        "listener",
        "operation",
        "reason",
        "resource",
        "result",
        "stage",
        "version",
        "webhook",
    ]
    .into();
    assert!(names.is_subset(&allowed), "{names:?}");
}

/// C8: start to ready with a certificate at hand. A figure to look at, not a timed test.
#[tokio::test]
async fn a_start_becomes_ready() {
    let dir = tempfile::tempdir().unwrap();
    let issued = pair(Lives::default(), Timestamp::now());
    crate::tls_files::write(dir.path(), &issued);
    let begun = Instant::now();
    let rig = Setup::new().start(|_| allowed());
    let (health, resolver, end) = (Arc::clone(&rig.health), Resolver::new(), CancellationToken::new());
    let port = port(&health, &rig.metrics);
    let asked = Arc::clone(&resolver);
    health.require_fn("certificate", move || asked.ready(Timestamp::now()));
    let tls = Arc::clone(&rig.metrics.tls);
    let period = portcullis::tls::files::PERIOD;
    tokio::spawn(portcullis::tls::files::keep(
        dir.path().to_owned(),
        resolver,
        tls,
        period,
        end,
    ));
    while port.get("/readyz").await.status != 200 {
        tokio::task::yield_now().await;
    }
    println!("start to ready: {:?}", begun.elapsed());
}
