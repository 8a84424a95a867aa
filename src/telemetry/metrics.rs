//! The metrics registry: one group per part of the program, each registering its own.
//!
//! Labels are `&'static str` only, so their number is bounded by the source text; no namespace, no object name.
//! A group is a struct of handles with `fn register(&mut Registry) -> Self`; to add one, add a field to [`Metrics`].

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::process::ProcessMetrics;
use crate::reconcile::gang::metrics::GangMetrics;
use crate::reconcile::pair::metrics::PodMetrics;
use crate::tls::handshake::Handshake;
use crate::tls::{CUT_STAGES, Served};

/// A gauge of seconds since 1970, or any other number that is no count.
pub type FloatGauge = Gauge<f64, AtomicU64>;

/// Everything that is measured.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    pub admission: Arc<AdmissionMetrics>,
    pub tls: Arc<TlsMetrics>,
    /// Connections to the webhook.
    pub webhook: Arc<ConnectionMetrics>,
    /// Connections to the probe port.
    pub probes: Arc<ConnectionMetrics>,
    pub installed: InstalledMetrics,
    /// The pod pairs.
    pub pods: Arc<PodMetrics>,
    /// PodGroups and holds.
    pub gangs: Arc<GangMetrics>,
    /// 1 from the signal to leave on.
    pub draining: Gauge,
}

impl Metrics {
    #[must_use]
    pub fn new() -> Arc<Self> {
        let mut registry = Registry::with_prefix("portcullis");
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The version that runs", build);
        let draining = Gauge::default();
        registry.register("draining", "1 while the process is leaving", draining.clone());
        let admission = Arc::new(AdmissionMetrics::register(&mut registry));
        let tls = Arc::new(TlsMetrics::register(&mut registry));
        let [webhook, probes] = ConnectionMetrics::register(&mut registry, ["webhook", "probes"]);
        let installed = InstalledMetrics::register(&mut registry);
        let pods = Arc::new(PodMetrics::register(&mut registry));
        let gangs = Arc::new(GangMetrics::register(&mut registry));
        registry.register_collector(Box::new(ProcessMetrics));
        Arc::new(Self {
            registry,
            admission,
            tls,
            webhook,
            probes,
            installed,
            pods,
            gangs,
            draining,
        })
    }

    /// The OpenMetrics text of a scrape.
    #[must_use]
    pub fn scrape(&self) -> String {
        let mut text = String::with_capacity(16 * 1024);
        encode(&mut text, &self.registry).expect("writing into a String does not fail");
        text
    }
}

/// Content type of [`Metrics::scrape`].
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The webhook's own level of service. The API server's metrics subtract webhook time, so
/// nobody else measures it.
#[derive(Debug)]
pub struct AdmissionMetrics {
    duration: Family<DurationLabels, Histogram, fn() -> Histogram>,
    requests: Family<RequestLabels, Counter>,
    pub in_flight: Gauge,
    pub panics: Counter,
    pub deadline_exceeded: Counter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct DurationLabels {
    pub webhook: &'static str,
    pub operation: &'static str,
    pub decision: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    pub resource: &'static str,
    pub operation: &'static str,
    pub decision: &'static str,
    pub reason: &'static str,
}

impl AdmissionMetrics {
    fn register(registry: &mut Registry) -> Self {
        let new = Self {
            duration: Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS)),
            requests: Family::default(),
            in_flight: Gauge::default(),
            panics: Counter::default(),
            deadline_exceeded: Counter::default(),
        };
        let Self {
            duration,
            requests,
            in_flight,
            panics,
            deadline_exceeded,
        } = &new;
        registry.register(
            "admission_duration_seconds",
            "From the complete request to the written answer",
            duration.clone(),
        );
        registry.register(
            "admission_requests",
            "Requests to the webhook by outcome",
            requests.clone(),
        );
        registry.register(
            "admission_in_flight",
            "Requests being answered",
            in_flight.clone(),
        );
        registry.register(
            "admission_panics",
            "Requests that met a bug of ours",
            panics.clone(),
        );
        registry.register(
            "admission_deadline_exceeded",
            "Requests that were refused because their time was over",
            deadline_exceeded.clone(),
        );
        new
    }

    /// The histogram of an outcome.
    #[must_use]
    pub fn duration(&self, labels: &DurationLabels) -> Histogram {
        self.duration.get_or_create(labels).clone()
    }

    /// Counts an outcome.
    pub fn count(&self, labels: &RequestLabels) {
        self.requests.get_or_create(labels).inc();
    }
}

/// 50 µs to 10 s.
const DURATION_BUCKETS: [f64; 16] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    10.0,
];

/// Handshakes and certificates.
#[derive(Debug)]
pub struct TlsMetrics {
    handshakes: [Counter; Handshake::ALL.len()],
    not_after: FloatGauge,
    pub certificate_reloads: Counter,
    pub certificate_errors: Counter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

impl TlsMetrics {
    fn register(registry: &mut Registry) -> Self {
        let handshakes = Family::<ResultLabel, Counter>::default();
        let new = Self {
            handshakes: Handshake::ALL.map(|outcome| {
                handshakes.get_or_create_owned(&ResultLabel {
                    result: outcome.name(),
                })
            }),
            not_after: FloatGauge::default(),
            certificate_reloads: Counter::default(),
            certificate_errors: Counter::default(),
        };
        registry.register("tls_handshakes", "TLS handshakes by result", handshakes);
        registry.register(
            "cert_not_after_timestamp_seconds",
            "When the served certificate ends",
            new.not_after.clone(),
        );
        registry.register(
            "cert_reloads",
            "How often another certificate was taken into service",
            new.certificate_reloads.clone(),
        );
        registry.register(
            "cert_errors",
            "How often a certificate could not be read, made or stored",
            new.certificate_errors.clone(),
        );
        new
    }

    /// The counter of a handshake's outcome.
    #[must_use]
    pub fn handshake(&self, outcome: Handshake) -> &Counter {
        &self.handshakes[outcome as usize]
    }

    /// A certificate was taken into service.
    pub fn installed(&self, served: &Served) {
        #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are far below 2^53")]
        self.not_after.set(served.life().not_after.as_second() as f64);
        self.certificate_reloads.inc();
    }
}

/// Connections of one listener.
#[derive(Debug)]
pub struct ConnectionMetrics {
    open: Gauge,
    accepted: Counter,
    pub accept_errors: Counter,
    cut: [(&'static str, Counter); CUT_STAGES.len()],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ListenerLabel {
    listener: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CutLabels {
    listener: &'static str,
    stage: &'static str,
}

impl ConnectionMetrics {
    fn register<const N: usize>(registry: &mut Registry, listeners: [&'static str; N]) -> [Arc<Self>; N] {
        let open = Family::<ListenerLabel, Gauge>::default();
        let accepted = Family::<ListenerLabel, Counter>::default();
        let accept_errors = Family::<ListenerLabel, Counter>::default();
        let cut = Family::<CutLabels, Counter>::default();
        let all = listeners.map(|listener| {
            let label = ListenerLabel { listener };
            Arc::new(Self {
                open: open.get_or_create_owned(&label),
                accepted: accepted.get_or_create_owned(&label),
                accept_errors: accept_errors.get_or_create_owned(&label),
                cut: CUT_STAGES.map(|stage| (stage, cut.get_or_create_owned(&CutLabels { listener, stage }))),
            })
        });
        registry.register("connections_open", "Connections that are open", open);
        registry.register("connections_accepted", "Connections that were accepted", accepted);
        registry.register(
            "accept_errors",
            "How often a connection could not be accepted",
            accept_errors,
        );
        registry.register(
            "connections_cut",
            "Connections that took too long in a stage (idle and linger are harmless)",
            cut,
        );
        all
    }

    /// Counts a connection until the guard is dropped.
    #[must_use]
    pub fn opened(&self) -> CountedWhileHeld {
        self.accepted.inc();
        CountedWhileHeld::new(&self.open)
    }

    /// The counter of connections cut in this stage.
    #[must_use]
    pub fn cut(&self, stage: &str) -> &Counter {
        let found = self.cut.iter().find(|(name, _)| *name == stage);
        &found.expect("stages and counters come from one list").1
    }
}

/// Holds a gauge one higher.
#[derive(Debug)]
pub struct CountedWhileHeld(Gauge);

impl CountedWhileHeld {
    #[must_use]
    pub fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for CountedWhileHeld {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The installed layers: policies and webhook configuration.
#[derive(Debug)]
pub struct InstalledMetrics {
    /// 1 if every webhook entry carries the CA of what is served.
    pub ca_bundle_in_sync: Gauge,
    drift: Family<ObjectLabel, Counter>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ObjectLabel {
    object: &'static str,
}

impl InstalledMetrics {
    fn register(registry: &mut Registry) -> Self {
        let new = Self {
            ca_bundle_in_sync: Gauge::default(),
            drift: Family::default(),
        };
        registry.register(
            "ca_bundle_in_sync",
            "1 if the published CA is that of the served certificate",
            new.ca_bundle_in_sync.clone(),
        );
        registry.register(
            "config_drift",
            "How often an installed object had to be put right, or was found deleted",
            new.drift.clone(),
        );
        new
    }

    /// The object (a fixed name of ours) was not as it should be.
    pub fn drifted(&self, object: &'static str) {
        self.drift.get_or_create(&ObjectLabel { object }).inc();
    }
}
