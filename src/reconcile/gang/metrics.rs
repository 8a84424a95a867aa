//! Counters of the gangs.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::store::JobKey;

/// What `/metrics` shows of the gangs. Labels name steps and results, never objects.
#[derive(Debug)]
pub struct GangMetrics {
    steps: Family<StepLabels, Counter<u64, AtomicU64>>,
    /// Jobs that wait for their PodGroup.
    pub held: Held,
}

/// Jobs that are held now, and how long holds lasted.
#[derive(Debug)]
pub struct Held {
    now: Gauge,
    seconds: Histogram,
    /// By cluster and job, with the UID of the job.
    since: Mutex<HashMap<HeldKey, (Arc<str>, Instant)>>,
}

/// A job of one of the clusters; the manager's name is empty.
pub(super) type HeldKey = (Arc<str>, JobKey);

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StepLabels {
    step: &'static str,
    result: &'static str,
}

impl GangMetrics {
    /// New ones, in the registry.
    pub fn register(registry: &mut Registry) -> Self {
        let new = Self {
            steps: Family::default(),
            held: Held {
                now: Gauge::default(),
                seconds: Histogram::new(exponential_buckets(0.005, 2.0, 15)),
                since: Mutex::default(),
            },
        };
        registry.register(
            "gang_steps",
            "API calls for PodGroups and holds by result",
            new.steps.clone(),
        );
        registry.register(
            "jobs_held",
            "Jobs that wait for their PodGroup",
            new.held.now.clone(),
        );
        registry.register(
            "job_held_seconds",
            "How long jobs were held while seen",
            new.held.seconds.clone(),
        );
        new
    }

    pub(super) fn step(&self, step: &'static str, result: &'static str) {
        self.steps.get_or_create(&StepLabels { step, result }).inc();
    }
}

impl Held {
    pub(super) fn is(&self, key: &HeldKey, uid: &Arc<str>, held: bool, now: Instant) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        if held {
            if since.get(key).is_none_or(|(of, _)| of != uid) {
                since.insert(key.clone(), (uid.clone(), now));
            }
        } else if let Some((of, at)) = since.remove(key) {
            if of == *uid {
                self.seconds
                    .observe(now.saturating_duration_since(at).as_secs_f64());
            }
        } else {
            return;
        }
        self.now.set(i64::try_from(since.len()).unwrap_or(i64::MAX));
    }

    pub(super) fn gone(&self, key: &HeldKey) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        since.remove(key);
        self.now.set(i64::try_from(since.len()).unwrap_or(i64::MAX));
    }

    /// A cluster is followed no longer.
    pub(super) fn left(&self, cluster: &str) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        since.retain(|(of, _), _| **of != *cluster);
        self.now.set(i64::try_from(since.len()).unwrap_or(i64::MAX));
    }
}
