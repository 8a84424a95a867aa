//! Jobs whose pods must start together: their PodGroup is made before they start, and follows them to their end.
//!
//! It runs against any cluster whose jobs run there: [`cluster::GangCluster`] is what it knows of one.

pub mod cluster;
pub mod execute;
pub mod metrics;
pub mod observed;
pub mod plan;
pub mod probe;
pub mod store;
pub mod turn;
mod watches;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::cluster::GangCluster;
use self::metrics::GangMetrics;
use self::store::JobKey;
use self::turn::Turns;
use super::events::Notes;
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
    let turns = Arc::new(Turns::new(cluster.clone(), notes.clone(), metrics));
    let failures: Arc<Mutex<HashMap<JobKey, u32>>> = Arc::default();
    let mut tasks = JoinSet::new();
    tasks.spawn(watches::keep(cluster.clone(), notes, stop.clone()));
    for _ in 0..concurrency {
        tasks.spawn(take_turns(
            cluster.clone(),
            turns.clone(),
            failures.clone(),
            stop.clone(),
        ));
    }
    while tasks.join_next().await.is_some() {}
}

async fn take_turns(
    cluster: Arc<GangCluster>,
    turns: Arc<Turns>,
    failures: Arc<Mutex<HashMap<JobKey, u32>>>,
    stop: CancellationToken,
) {
    loop {
        let key = tokio::select! {
            () = stop.cancelled() => return,
            key = cluster.queue.next() => key,
        };
        let count = |failures: &Mutex<HashMap<JobKey, u32>>| {
            let failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
            failures.get(&key).copied().unwrap_or(0)
        };
        let failed = count(&failures);
        let (look_again, again) = turns.take(&key, failed).await;
        {
            let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
            match again {
                true => failures.insert(key.clone(), failed.saturating_add(1)),
                false => failures.remove(&key),
            };
        }
        cluster.queue.done(&key);
        if let Some(delay) = look_again {
            cluster.queue.add_in(key, delay.max(Duration::from_millis(1)));
        }
    }
}
