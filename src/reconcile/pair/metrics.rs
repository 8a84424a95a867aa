//! Counters of the pairs of pods and of whole jobs.

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

use super::key::{PairKey, Subject};
use crate::reconcile::step::RemoteTarget;
use crate::workload::jobs::BatchJob;

/// What `/metrics` shows of the pairs. Labels name resources, steps, results and workers, never objects.
#[derive(Debug)]
pub struct PodMetrics {
    steps: Family<StepLabels, Counter<u64, AtomicU64>>,
    seconds: Family<NameLabels, Histogram, fn() -> Histogram>,
    opened: Family<KindLabels, Counter<u64, AtomicU64>>,
    refused: Family<WorkerLabels, Counter<u64, AtomicU64>>,
    orphans: Family<KindLabels, Gauge>,
    orphans_of: Mutex<HashMap<PairKey, Vec<RemoteTarget>>>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StepLabels {
    resource: String,
    step: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct NameLabels {
    step: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct WorkerLabels {
    resource: String,
    worker: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabels {
    resource: String,
}

/// As kubectl names it: `pods`, `jobs.batch`. There are as many as kinds that are dispatched.
fn resource(subject: Subject) -> String {
    match subject {
        Subject::Pod => subject.resource().plural.to_owned(),
        Subject::Job(_) => subject.argument(),
    }
}

fn labels(subject: Subject) -> KindLabels {
    KindLabels {
        resource: resource(subject),
    }
}

impl Default for PodMetrics {
    fn default() -> Self {
        Self {
            steps: Family::default(),
            seconds: Family::new_with_constructor(buckets as fn() -> Histogram),
            opened: Family::default(),
            refused: Family::default(),
            orphans: Family::default(),
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
        registry.register("steps", "API calls of the pairs by result", new.steps.clone());
        registry.register("step_seconds", "Duration of those calls", new.seconds.clone());
        registry.register("copies_opened", "Remote pods and jobs opened", new.opened.clone());
        registry.register(
            "copies_refused",
            "Pods and jobs that a worker refused",
            new.refused.clone(),
        );
        registry.register(
            "orphans",
            "Open remote pods and jobs without their local one",
            new.orphans.clone(),
        );
        for subject in [Subject::Pod, Subject::Job(&BatchJob)] {
            drop(new.opened.get_or_create(&labels(subject))); // 0 is a number too
            drop(new.orphans.get_or_create(&labels(subject)));
        }
        new
    }

    pub(super) fn step(&self, subject: Subject, step: &'static str, result: &'static str, took: Duration) {
        let resource = resource(subject);
        self.steps
            .get_or_create(&StepLabels {
                resource,
                step,
                result,
            })
            .inc();
        self.seconds
            .get_or_create(&NameLabels { step })
            .observe(took.as_secs_f64());
    }

    pub(super) fn opened(&self, subject: Subject) {
        self.opened.get_or_create(&labels(subject)).inc();
    }

    pub(super) fn refused(&self, subject: Subject, worker: &Arc<str>) {
        self.refused
            .get_or_create(&WorkerLabels {
                resource: resource(subject),
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
        let alike = held.iter().filter(|(other, _)| other.subject == key.subject);
        let count = alike.map(|(_, orphans)| orphans.len()).sum::<usize>();
        self.orphans
            .get_or_create(&labels(key.subject))
            .set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn pods_and_kinds_of_jobs_are_counted_apart() {
        let mut registry = Registry::default();
        let metrics = PodMetrics::register(&mut registry);
        let job = Subject::Job(&BatchJob);
        metrics.opened(Subject::Pod);
        metrics.refused(job, &"worker-a".into());
        metrics.step(job, "open", "ok", Duration::from_millis(1));
        let key = |subject: Subject| PairKey {
            subject,
            namespace: "shop".into(),
            name: "web".into(),
        };
        let orphan = RemoteTarget {
            worker: "worker-a".into(),
            key: key(job),
            uid: "u".into(),
        };
        metrics.orphans(&key(job), std::slice::from_ref(&orphan));
        metrics.orphans(&key(Subject::Pod), std::slice::from_ref(&orphan));
        metrics.orphans(&key(Subject::Pod), &[]);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            r#"copies_opened_total{resource="pods"} 1"#,
            r#"copies_opened_total{resource="jobs.batch"} 0"#,
            r#"copies_refused_total{resource="jobs.batch",worker="worker-a"} 1"#,
            r#"steps_total{resource="jobs.batch",step="open",result="ok"} 1"#,
            r#"orphans{resource="jobs.batch"} 1"#,
            r#"orphans{resource="pods"} 0"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
        }
    }
}
