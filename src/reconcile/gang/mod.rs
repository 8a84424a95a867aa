//! Jobs whose pods must start together: their PodGroup is made before they start, and follows them to their end.
//!
//! It runs against any cluster whose jobs run there: [`cluster::GangCluster`] is what it knows of one.

pub mod answers;
pub mod cluster;
pub mod execute;
pub mod metrics;
pub mod observed;
pub mod plan;
pub mod pod_policy;
pub mod probe;
pub mod scope;
pub mod store;
pub mod turn;
mod watches;
pub mod workers;

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::cluster::GangCluster;
use self::metrics::GangMetrics;
use self::turn::Turns;
use super::events::Notes;
use super::turns;
use crate::cluster::leading::Leading;

pub use self::watches::groups;

/// Runs until `stop`; answers when nothing writes any more.
pub async fn run(
    cluster: Arc<GangCluster>,
    notes: Notes,
    metrics: Arc<GangMetrics>,
    concurrency: usize,
    _leading: Leading,
    stop: CancellationToken,
) {
    let mut tasks = JoinSet::new();
    let job_turns = Turns::new(cluster.clone(), notes.clone(), metrics.clone());
    let name = cluster.scope.name();
    tasks.spawn(watches::keep(cluster, notes, stop.clone()));
    turns::spawn(&mut tasks, job_turns, concurrency, &stop);
    while tasks.join_next().await.is_some() {}
    metrics.held.left(&name);
}
