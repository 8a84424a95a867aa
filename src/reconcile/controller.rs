//! All reconcilers of one process, wired: watches fill the world, turns empty the queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::events::Notes;
use super::execute::Executor;
use super::gang::metrics::GangMetrics;
use super::gang::workers;
use super::pair::metrics::PodMetrics;
use super::pair::turn::Turns;
use super::pair::world::World;
use super::{cluster, kinds, manager, turns};
use crate::cluster::client::Clients;
use crate::cluster::definitions::Definitions;
use crate::cluster::leading::Leading;
use crate::config::Configuration;

/// How the reconcilers run.
pub struct Options {
    /// Our own namespace: kubeconfig Secrets are read there.
    pub namespace: String,
    /// Turns at a time.
    pub concurrency: usize,
    /// What is counted.
    pub metrics: Arc<PodMetrics>,
    /// The manager's CRDs.
    pub definitions: Definitions,
    /// How PodGroups are made on workers.
    pub configuration: Configuration,
    /// What is counted of them.
    pub gang_metrics: Arc<GangMetrics>,
    /// Turns of gangs at a time, on each worker.
    pub gang_concurrency: usize,
}

/// Runs until `stop`; answers when nothing writes any more. `ready` is called when the manager's lists are complete.
pub async fn run(
    clients: Clients,
    world: Arc<World>,
    options: Options,
    leading: Leading,
    ready: impl Fn() + Send + Sync + 'static,
    stop: CancellationToken,
) {
    let (notes, send_notes) = Notes::new(clients.calls.client().clone());
    world.gangs.configure(options.configuration.gang.clone());
    let executor = Executor::new(clients.calls.clone(), &world, options.concurrency, leading);
    let pod_turns = Turns::new(world.clone(), executor, notes.clone(), options.metrics);
    let mut tasks = JoinSet::new();
    tasks.spawn(workers::keep(
        workers::Parts {
            world: world.clone(),
            configuration: options.configuration,
            own_namespace: options.namespace.clone(),
            notes: notes.clone(),
            metrics: options.gang_metrics,
            concurrency: options.gang_concurrency,
        },
        stop.clone(),
    ));
    let listed = lists(world.clone(), ready);
    tasks.spawn(manager::keep(
        clients.watches.clone(),
        world.clone(),
        listed.clone(),
        stop.clone(),
    ));
    tasks.spawn(kinds::keep(
        clients.clone(),
        world.clone(),
        options.definitions,
        stop.clone(),
    ));
    tasks.spawn(cluster::keep(
        clients,
        options.namespace,
        world.clone(),
        notes,
        listed,
        stop.clone(),
    ));
    turns::spawn(&mut tasks, pod_turns, options.concurrency, &stop);
    let notes_task = tokio::spawn(send_notes);
    while tasks.join_next().await.is_some() {}
    notes_task.abort();
}

/// Counts complete lists; with the last one turns begin (rule 0).
fn lists(world: Arc<World>, ready: impl Fn() + Send + Sync + 'static) -> impl Fn() + Clone + Send + 'static {
    let complete = Arc::new(AtomicUsize::new(0));
    let ready = Arc::new(ready);
    move || {
        if complete.fetch_add(1, Ordering::AcqRel) + 1 == manager::LISTS {
            world.ready.store(true, Ordering::Release);
            world.look_at_all();
            ready();
        }
    }
}
