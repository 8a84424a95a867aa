//! `portcullis serve`: everything wired, started in order, ended in order.

mod layers;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::admission::server::{RequestLimits, Route, Webhook};
use crate::admission::{self, JobFacts, Keeps, NamespaceFacts, NamespaceLabels};
use crate::args::ServeArgs;
use crate::cluster::client::Clients;
use crate::cluster::definitions::{self, Definitions};
use crate::cluster::leading::Leading;
use crate::cluster::namespaces::Namespaces;
use crate::cluster::survey::Survey;
use crate::cluster::worker::connect::identify;
use crate::config::Configuration;
use crate::reconcile::controller;
use crate::reconcile::events::Notes;
use crate::reconcile::gang::metrics::GangMetrics;
use crate::reconcile::gang::scope::Scope;
use crate::reconcile::gang::{self, cluster::GangCluster};
use crate::reconcile::pair::world::World;
use crate::telemetry::health::{Beat, Check, Health};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::{logs, probes};
use crate::tls::issue::ServerNames;
use crate::tls::{self, DrainBudget, Limits, Resolver, Shutdown, files, secret};
use crate::workload::Resource;
use crate::workload::jobs::JobKinds;

const IDENTIFY_PAUSE: Duration = Duration::from_secs(1);

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// If a port, the kubeconfig or a certificate folder cannot be used. Everything that may pass is retried instead.
pub fn serve(args: ServeArgs) -> anyhow::Result<()> {
    tls::install_crypto();
    tls::forbid_core_dumps().context("forbid core dumps")?;
    let _flush = logs::init(args.log_format, &args.log_level)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("reconcile")
        .build()
        .context("start the runtime")?;
    runtime.block_on(run(args))
}

async fn run(args: ServeArgs) -> anyhow::Result<()> {
    let configuration = match &args.config {
        Some(path) => Configuration::read(path).with_context(|| format!("--config {}", path.display()))?,
        None => Configuration::default(),
    };
    let kinds = JobKinds::with(configuration.kinds.clone());
    let shutdown = Shutdown::on_signals().context("listen to signals")?;
    let metrics = Metrics::new();
    let health = Health::new();
    let certificate = Resolver::new();
    let end = CancellationToken::new();
    let webhook_listener = tls::bind(args.webhook_bind)
        .with_context(|| format!("--webhook-bind {}: listen", args.webhook_bind))?;
    let probes_listener = tls::bind(args.metrics_bind)
        .with_context(|| format!("--metrics-bind {}: listen", args.metrics_bind))?;
    let clients = Clients::of_manager(args.kubeconfig.as_deref())
        .await
        .context("reach the manager")?;

    let resolver = certificate.clone();
    health.require_fn("certificate", move || resolver.ready(jiff::Timestamp::now()));
    let leaving = health.require("serving");
    let lists = health.require("lists");
    leaving.met("");
    let probes = probes::spawn(probes_listener, health.clone(), metrics.clone(), end.clone())?;
    let mut tasks = JoinSet::new();
    keep_certificate(&args, &clients, &certificate, &metrics, &end, &mut tasks)?;
    layers::keep(layers::Parts {
        args: &args,
        clients: &clients,
        resolver: &certificate,
        metrics: &metrics,
        health: &health,
        kinds,
        stop: &shutdown.begin,
        tasks: &mut tasks,
    });

    // The webhook needs no answer of the API server, so it does not wait for one.
    let namespaces: Arc<Namespaces> = Arc::default();
    let survey = Arc::new(Survey::new(kinds));
    let definitions = definitions(&clients, kinds, &shutdown.begin, &mut tasks);
    tasks.spawn(look(
        survey.clone(),
        clients.clone(),
        definitions.clone(),
        shutdown.begin.clone(),
    ));
    let gangs = Arc::new(GangCluster::new(
        clients.clone(),
        Scope::Labelled(namespaces.clone()),
        configuration.clone(),
        args.namespace.clone(),
        definitions.clone(),
    ));
    let facts = Arc::new(Facts {
        namespaces: namespaces.clone(),
        own: args.namespace.clone(),
        survey: survey.clone(),
    });
    let webhook = Webhook {
        routes: vec![
            Route::enrich(facts.clone()),
            Route::jobs(facts),
            Route::gangs(gangs.clone()),
        ],
        resolver: certificate.clone(),
        metrics: metrics.clone(),
        limits: Limits::default(),
        requests: RequestLimits::default(),
        drain: drain_budget(args.drain_timeout),
    };
    let mut webhook = pin!(
        admission::server::spawn(
            webhook,
            webhook_listener,
            health.beat("admission"),
            shutdown.clone()
        )?
        .join()
    );
    tasks.spawn(beat(health.beat("reconcile"), end.clone()));
    tasks.spawn(keep_gangs(
        gangs,
        metrics.gangs.clone(),
        args.concurrent_jobs,
        shutdown.begin.clone(),
    ));
    let options = controller::Options {
        namespace: args.namespace.clone(),
        concurrency: args.concurrent_pods,
        metrics: metrics.pods.clone(),
        definitions,
        configuration,
        gang_metrics: metrics.gangs.clone(),
        gang_concurrency: args.concurrent_jobs,
    };
    tasks.spawn(reconcile(
        clients,
        options,
        namespaces,
        survey,
        lists,
        shutdown.begin.clone(),
    ));
    tracing::info!(version = env!("CARGO_PKG_VERSION"), webhook = %args.webhook_bind, "serving");

    let ended_early = tokio::select! {
        () = shutdown.begin.cancelled() => None,
        ended = &mut webhook => Some(ended),
    };
    leave(&leaving, &metrics);
    shutdown.begin.cancel();
    let ended = match ended_early {
        Some(ended) => ended,
        None => webhook.await,
    };
    end.cancel();
    while tasks.join_next().await.is_some() {}
    probes
        .join()
        .await
        .context("end the probes")?
        .context("serve probes")?;
    let drained = ended.context("end the webhook")?.context("serve the webhook")?;
    tracing::info!(?drained, "left");
    Ok(())
}

/// Follows the CRDs of jobs and PodGroups on the manager.
fn definitions(
    clients: &Clients,
    kinds: JobKinds,
    stop: &CancellationToken,
    tasks: &mut JoinSet<()>,
) -> Definitions {
    let groups = kinds.iter().map(|kind| kind.resource().group);
    let groups = groups.chain(gang::groups()).collect();
    let (definitions, following) = definitions::definitions(clients.watches.clone(), groups, stop.clone());
    tasks.spawn(following);
    definitions
}

/// Which kinds of jobs keep `managedBy` on the manager.
async fn look(survey: Arc<Survey>, clients: Clients, definitions: Definitions, stop: CancellationToken) {
    survey.keep(clients.calls, definitions, stop).await;
}

/// PodGroups of jobs that run on the manager.
async fn keep_gangs(
    cluster: Arc<GangCluster>,
    metrics: Arc<GangMetrics>,
    concurrency: usize,
    stop: CancellationToken,
) {
    let (notes, send_notes) = Notes::new(cluster.clients.calls.client().clone());
    let sending = tokio::spawn(send_notes);
    gang::run(cluster, notes, metrics, concurrency, Leading::alone(), stop).await;
    sending.abort();
}

/// The controllers, once the manager has said who it is.
async fn reconcile(
    clients: Clients,
    options: controller::Options,
    namespaces: Arc<Namespaces>,
    survey: Arc<Survey>,
    lists: Check,
    stop: CancellationToken,
) {
    let Some(origin) = origin(&clients, &stop).await else {
        return;
    };
    let world = Arc::new(World::new(origin, namespaces, survey));
    let ready = move || lists.met("complete");
    controller::run(clients, world, options, Leading::alone(), ready, stop).await;
}

/// The heart of the reconcilers' runtime: if it stops, the process should be restarted.
async fn beat(heart: Beat, stop: CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = heart.run() => {}
    }
}

fn leave(leaving: &Check, metrics: &Metrics) {
    leaving.unmet("leaving");
    metrics.draining.set(1);
    tracing::info!("leaving");
}

fn keep_certificate(
    args: &ServeArgs,
    clients: &Clients,
    resolver: &Arc<Resolver>,
    metrics: &Arc<Metrics>,
    end: &CancellationToken,
    tasks: &mut JoinSet<()>,
) -> anyhow::Result<()> {
    if let Some(dir) = &args.tls_cert_dir {
        let keep = files::keep(
            dir.clone(),
            resolver.clone(),
            metrics.tls.clone(),
            files::PERIOD,
            end.clone(),
        );
        tasks.spawn(keep);
        return Ok(());
    }
    let names = match (&args.webhook_url, &args.webhook_service) {
        (Some(url), _) => ServerNames::of_url(url).context("--webhook-url")?,
        (None, Some((namespace, name))) => {
            ServerNames::of_service(&format!("{namespace}/{name}")).context("--webhook-service")?
        }
        (None, None) => {
            let service = format!("{}/{}", args.namespace, crate::names::PORTCULLIS);
            ServerNames::of_service(&service).context("--namespace")?
        }
    };
    let client = clients.calls.client().clone();
    let keeper = secret::Keeper::new(
        client,
        &args.namespace,
        names,
        resolver.clone(),
        metrics.tls.clone(),
    );
    tasks.spawn(keeper.run(end.clone()));
    Ok(())
}

/// The manager's identity; asked until it answers.
async fn origin(clients: &Clients, stop: &CancellationToken) -> Option<Arc<str>> {
    loop {
        match identify(clients).await {
            Ok(uid) => return Some(uid),
            Err(problem) => {
                tracing::warn!(
                    reason = problem.reason,
                    "{}; the manager is asked again",
                    problem.message
                );
            }
        }
        tokio::select! {
            () = stop.cancelled() => return None,
            () = tokio::time::sleep(IDENTIFY_PAUSE) => {}
        }
    }
}

/// A short budget shortens its parts too.
fn drain_budget(total: Duration) -> DrainBudget {
    let whole = DrainBudget::default();
    DrainBudget {
        total,
        endpoint_lag: whole.endpoint_lag.min(total / 4),
        refuse: whole.refuse.min(total / 4),
        ..whole
    }
}

struct Facts {
    namespaces: Arc<Namespaces>,
    own: String,
    survey: Arc<Survey>,
}

impl JobFacts for Facts {
    fn keeps_managed_by(&self, kind: Resource) -> Keeps {
        self.survey.keeps(kind)
    }

    fn job_kinds(&self) -> JobKinds {
        self.survey.kinds()
    }
}

impl NamespaceFacts for Facts {
    fn namespace(&self, name: &str) -> Option<NamespaceLabels> {
        self.namespaces
            .allow_exempt(name)
            .map(|allow_exempt| NamespaceLabels { allow_exempt })
    }

    fn own_namespace(&self) -> &str {
        &self.own
    }
}
