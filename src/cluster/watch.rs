//! kube-runtime's watcher, wrapped: it never retries a gone resourceVersion for ever, and errors pace it.

use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::words::chain;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The server ends a watch after this time; the client gives up five seconds later. A dead link is seen by then.
const WATCH_SECONDS: u32 = 60;

/// How a watch is going.
#[derive(Debug)]
pub enum Watched<K> {
    /// An event of the watch.
    Event(Event<K>),
    /// It failed and is tried again.
    Failed(watcher::Error),
}

/// What is watched, for the log: kube's own lines do not say where they come from.
#[derive(Clone, Debug)]
pub struct Watching {
    /// The WorkerCluster, or `manager`.
    pub cluster: Arc<str>,
    /// The plural of the kind, and `/name` for a single object.
    pub resource: Arc<str>,
    /// Empty for all.
    pub namespace: Arc<str>,
}

impl Watching {
    /// Objects of the manager, in all namespaces that concern us.
    pub fn on_manager(resource: &str) -> Self {
        Self {
            cluster: MANAGER.into(),
            resource: resource.into(),
            namespace: "".into(),
        }
    }

    /// One line for each outage, and all of it at `debug`. A version that is too old only means to list again.
    fn tell(&self, error: &watcher::Error, told: &mut bool) {
        let Self {
            cluster,
            resource,
            namespace,
        } = self;
        let error_text = chain(error);
        if std::mem::replace(told, true) || is_gone(error) {
            tracing::debug!(%cluster, %resource, %namespace, error = error_text, "a watch failed; it is tried again");
        } else {
            tracing::warn!(%cluster, %resource, %namespace, error = error_text, "a watch failed; it is tried again");
        }
    }
}

/// Stands for the manager in log lines.
pub const MANAGER: &str = "manager";

/// Follows one list of objects until `stop`, and hands everything to `sink`. Failures are logged here.
pub async fn follow<K>(
    what: Watching,
    api: Api<K>,
    config: watcher::Config,
    stop: CancellationToken,
    mut sink: impl FnMut(Watched<K>),
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let config = config.timeout(WATCH_SECONDS);
    let mut pause = FIRST_PAUSE;
    let mut told = false;
    loop {
        let mut stream = pin!(watcher::watcher(api.clone(), config.clone()));
        loop {
            let next = tokio::select! {
                () = stop.cancelled() => return,
                next = stream.next() => next,
            };
            match next {
                Some(Ok(event)) => {
                    if !matches!(event, Event::Init) {
                        (pause, told) = (FIRST_PAUSE, false); // an Init alone only announces the next try
                    }
                    sink(Watched::Event(event));
                }
                Some(Err(error)) => {
                    // A 410 as the answer to the watch request is retried with the same version for ever by the
                    // watcher (kube-runtime 5.0): only a new watcher lists again.
                    let start_over = is_gone(&error);
                    what.tell(&error, &mut told);
                    sink(Watched::Failed(error));
                    tokio::select! {
                        () = stop.cancelled() => return,
                        () = tokio::time::sleep(pause) => {}
                    }
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    if start_over {
                        break;
                    }
                }
                None => break,
            }
        }
    }
}

fn is_gone(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 410,
        watcher::Error::WatchStartFailed(_)
        | watcher::Error::InitialListFailed(_)
        | watcher::Error::WatchError(_)
        | watcher::Error::WatchFailed(_)
        | watcher::Error::NoResourceVersion => false,
    }
}
