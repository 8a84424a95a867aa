//! The installed layers, kept as this process would render them, with the CA of what it serves.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::admission::policies::{self, LayerKind};
use crate::args::ServeArgs;
use crate::cli::manifests::layout;
use crate::cluster::client::Clients;
use crate::reconcile::webhook_config::{self, ConfigReport, ConfigState};
use crate::telemetry::health::{Check, Health};
use crate::telemetry::metrics::Metrics;
use crate::tls::Resolver;
use crate::workload::jobs::JobKinds;

/// What keeping them needs.
pub(super) struct Parts<'a> {
    pub(super) args: &'a ServeArgs,
    pub(super) clients: &'a Clients,
    pub(super) resolver: &'a Arc<Resolver>,
    pub(super) metrics: &'a Arc<Metrics>,
    pub(super) health: &'a Arc<Health>,
    pub(super) kinds: JobKinds,
    pub(super) stop: &'a CancellationToken,
    pub(super) tasks: &'a mut JoinSet<()>,
}

/// Starts keeping them until `stop`.
pub(super) fn keep(parts: Parts<'_>) {
    let Parts {
        args,
        clients,
        resolver,
        metrics,
        health,
        kinds,
        stop,
        tasks,
    } = parts;
    let (publish, ca_bundle) = watch::channel(Vec::new());
    tasks.spawn(follow_ca(resolver.clone(), publish, stop.clone()));
    let told = Told {
        metrics: metrics.clone(),
        line: health.note("layers"),
        states: Mutex::default(),
    };
    let desired = policies::render(&layout(
        &args.namespace,
        args.webhook_url.as_ref(),
        args.webhook_service.as_ref(),
        !args.without_inject,
        kinds,
    ));
    let client = clients.watches.clone(); // it follows objects for hours, so no read timeout
    let report = move |report: ConfigReport| told.tell(report);
    tasks.spawn(webhook_config::keep(
        client,
        desired,
        ca_bundle,
        report,
        stop.clone(),
    ));
}

async fn follow_ca(resolver: Arc<Resolver>, publish: watch::Sender<Vec<u8>>, stop: CancellationToken) {
    let mut served = resolver.follow();
    loop {
        let bundle = resolver
            .current()
            .and_then(|served| served.ca_bundle().map(|pem| pem.as_bytes().to_vec()));
        publish.send_if_modified(|held| {
            let next = bundle.unwrap_or_default();
            let changed = *held != next;
            *held = next;
            changed
        });
        tokio::select! {
            () = stop.cancelled() => return,
            changed = served.changed() => if changed.is_err() { return },
        }
    }
}

struct Told {
    metrics: Arc<Metrics>,
    line: Check,
    states: Mutex<BTreeMap<String, ConfigState>>,
}

impl Told {
    fn tell(&self, report: ConfigReport) {
        let ConfigReport { kind, name, state } = report;
        match &state {
            ConfigState::Repaired | ConfigState::Missing => {
                self.metrics.installed.drifted(kind.kind());
                tracing::warn!(
                    kind = kind.kind(),
                    name,
                    state = state.name(),
                    "an installed layer was changed"
                );
            }
            ConfigState::Failed(words) => {
                tracing::warn!(kind = kind.kind(), name, words, "a layer cannot be kept");
            }
            ConfigState::Current | ConfigState::BundleWritten | ConfigState::KeptOtherwise => {}
        }
        if kind == LayerKind::MutatingWebhookConfiguration {
            self.metrics
                .installed
                .ca_bundle_in_sync
                .set(i64::from(state.is_good()));
        }
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.insert(format!("{} {name}", kind.kind()), state);
        let bad: Vec<String> = states
            .iter()
            .filter(|(_, state)| !state.is_good())
            .map(|(object, state)| format!("{object} is {}", state.name()))
            .collect();
        if bad.is_empty() {
            self.line.met("as rendered");
        } else {
            self.line.unmet(bad.join("; "));
        }
    }
}
