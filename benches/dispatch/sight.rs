//! The bench's own watch: when was each pod or job first seen in a certain state.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kube::core::ApiResource;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use portcullis::cluster::raw::RawObject;
use portcullis::cluster::watch::{Watched, Watching, follow};
use portcullis::reconcile::pair::local::{RemoteObject, Subject};
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A watch of one resource in one namespace. Ends when dropped.
pub(crate) struct Sight {
    shared: Arc<Shared>,
    _watch: DropGuard,
}

#[derive(Default)]
struct Shared {
    first: Mutex<HashMap<String, Instant>>,
    news: Notify,
    listed: Notify,
}

/// A remote pod without the gate `uncommitted`.
pub(crate) fn is_open(pod: &RawObject) -> bool {
    RemoteObject::parse(Subject::Pod, pod.json().clone()).is_ok_and(|pod| pod.gate.is_none())
}

/// A local pod that shows itself as running and ready.
pub(crate) fn is_ready(pod: &RawObject) -> bool {
    let Ok(pod) = serde_json::from_str::<Value>(pod.json()) else {
        return false;
    };
    let conditions = pod["status"]["conditions"].as_array();
    pod["status"]["phase"] == "Running"
        && conditions
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

impl Sight {
    /// Follows the namespace; its list is complete when this returns.
    pub(crate) async fn of(
        client: Client,
        namespace: &str,
        resource: &ApiResource,
        is: fn(&RawObject) -> bool,
    ) -> Result<Self> {
        let objects: Api<RawObject> = Api::namespaced_with(client, namespace, resource);
        let shared = Arc::new(Shared::default());
        let stop = CancellationToken::new();
        let seen = shared.clone();
        let sink = move |watched| match watched {
            Watched::Event(Event::Apply(pod) | Event::InitApply(pod)) => {
                if is(&pod) {
                    seen.first().entry(pod.name_any()).or_insert_with(Instant::now);
                    seen.news.notify_one();
                }
            }
            Watched::Event(Event::InitDone) => seen.listed.notify_one(),
            Watched::Event(Event::Init | Event::Delete(_)) => {}
            Watched::Failed(error) => eprintln!("the bench's watch: {error}"),
        };
        let what = Watching::on_manager("objects of the bench");
        tokio::spawn(follow(
            what,
            objects,
            watcher::Config::default(),
            stop.clone(),
            sink,
        ));
        let sight = Self {
            shared,
            _watch: stop.drop_guard(),
        };
        let listed = sight.shared.listed.notified();
        tokio::time::timeout(Duration::from_secs(30), listed)
            .await
            .with_context(|| format!("list {}", resource.plural))?;
        Ok(sight)
    }

    /// When the last of so many pods was first seen in that state.
    pub(crate) async fn last_of(&self, count: usize, within: Duration) -> Result<Instant> {
        let all = async {
            while self.shared.first().len() < count {
                self.shared.news.notified().await;
            }
        };
        if tokio::time::timeout(within, all).await.is_err() {
            anyhow::bail!(
                "{} of {count} came that far in {within:?}",
                self.shared.first().len()
            );
        }
        let last = self.shared.first().values().max().copied();
        last.context("no pods were awaited")
    }

    /// When this pod was first seen in that state.
    pub(crate) async fn when(&self, name: &str, within: Duration) -> Result<Instant> {
        let seen = async {
            loop {
                if let Some(at) = self.shared.first().get(name).copied() {
                    return at;
                }
                self.shared.news.notified().await;
            }
        };
        tokio::time::timeout(within, seen)
            .await
            .with_context(|| format!("wait for pod {name}"))
    }
}

impl Shared {
    fn first(&self) -> std::sync::MutexGuard<'_, HashMap<String, Instant>> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
