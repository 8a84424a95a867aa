//! Counters of the pod pairs.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::local::PairKey;
use crate::reconcile::step::RemoteTarget;

/// What `/metrics` shows of the pod pairs. Labels name steps, results and workers, never objects.
#[derive(Debug)]
pub struct PodMetrics {
    steps: Family<StepLabels, Counter<u64, AtomicU64>>,
    seconds: Family<NameLabels, Histogram, fn() -> Histogram>,
    opened: Counter<u64, AtomicU64>,
    refused: Family<WorkerLabels, Counter<u64, AtomicU64>>,
    orphans: Gauge,
    orphans_of: Mutex<HashMap<PairKey, Vec<RemoteTarget>>>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StepLabels {
    step: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct NameLabels {
    step: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct WorkerLabels {
    worker: String,
}

impl Default for PodMetrics {
    fn default() -> Self {
        Self {
            steps: Family::default(),
            seconds: Family::new_with_constructor(buckets as fn() -> Histogram),
            opened: Counter::default(),
            refused: Family::default(),
            orphans: Gauge::default(),
            orphans_of: Mutex::default(),
        }
    }
}

fn buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 15))
}

impl PodMetrics {
    /// New ones, in the registry.
    pub fn register(registry: &mut Registry) -> Self {
        let new = Self::default();
        registry.register("steps", "API calls of the pod pairs by result", new.steps.clone());
        registry.register("step_seconds", "Duration of those calls", new.seconds.clone());
        registry.register("pods_opened", "Remote pods opened", new.opened.clone());
        registry.register("pods_refused", "Pods that a worker refused", new.refused.clone());
        registry.register(
            "orphans",
            "Open remote pods without a local pod",
            new.orphans.clone(),
        );
        new
    }

    pub(super) fn step(&self, step: &'static str, result: &'static str, took: Duration) {
        self.steps.get_or_create(&StepLabels { step, result }).inc();
        self.seconds
            .get_or_create(&NameLabels { step })
            .observe(took.as_secs_f64());
    }

    pub(super) fn opened(&self) {
        self.opened.inc();
    }

    pub(super) fn refused(&self, worker: &Arc<str>) {
        self.refused
            .get_or_create(&WorkerLabels {
                worker: worker.to_string(),
            })
            .inc();
    }

    pub(super) fn orphans(&self, key: &PairKey, orphans: &[RemoteTarget]) {
        let mut held = self.orphans_of.lock().unwrap_or_else(PoisonError::into_inner);
        if orphans.is_empty() {
            if held.remove(key).is_none() {
                return;
            }
        } else {
            held.insert(key.clone(), orphans.to_vec());
        }
        self.orphans
            .set(i64::try_from(held.values().map(Vec::len).sum::<usize>()).unwrap_or(i64::MAX));
    }
}
