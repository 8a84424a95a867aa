//! Keeps the link to one worker: identify it, keep its watches, notice when it is lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::rights::{rights, rights_changed};
use super::watches::Watches;
use super::{Connection, Link, Problem, Worker};
use crate::cluster::api::{CallError, namespace_path};
use crate::cluster::client::Clients;
use crate::cluster::kubeconfig;
use crate::reconcile::pair::local::{PairKey, RemoteObject, Subject};
use crate::workload::jobs::JobKinds;

const PING_EVERY: Duration = Duration::from_secs(5);
/// A worker that did not answer so many pings in a row is lost: its pods are shown as not ready. Beats of our own
/// are counted, never elapsed time: a process that was frozen for minutes must not blame the worker.
const LOST_AFTER_MISSES: u32 = 3;
/// No answer, or none that helps: the words of one outage vary.
const UNREACHABLE: &str = "Unreachable";
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// What the link tells the rest of the process.
pub trait LinkEvents: Send + Sync {
    /// This pair needs a turn. The object is given if it was just removed there.
    fn changed(&self, worker: &Arc<Worker>, key: PairKey, removed: Option<Arc<RemoteObject>>);
    /// The state of the link or of a list changed: everything that waits for this worker needs a turn.
    fn link_changed(&self, worker: &Arc<Worker>);
    /// Namespaces whose objects are of interest, for workers that allow no cluster-wide watch.
    fn namespaces(&self) -> Vec<Arc<str>>;
    /// What the manager has, so that copies of it may be on workers.
    fn subjects(&self) -> BTreeSet<Subject>;
    /// Every kind of job that is dispatched whole.
    fn kinds(&self) -> JobKinds;
    /// The origin label's value.
    fn origin(&self) -> Arc<str>;
}

/// Connects, and stays connected until `stop`. A stop leaves the link as it is: whoever stopped it sets the next one.
pub async fn keep(
    worker: Arc<Worker>,
    kubeconfig: Vec<u8>,
    events: Arc<dyn LinkEvents>,
    stop: CancellationToken,
) {
    let mut pause = FIRST_PAUSE;
    let mut misses = 0;
    while !stop.is_cancelled() {
        match connect(&kubeconfig, &events.origin()).await {
            Ok(connection) => {
                (pause, misses) = (FIRST_PAUSE, 0);
                let connection = Arc::new(connection);
                adopt(&worker, &connection);
                events.link_changed(&worker);
                if let Some(problem) = attend(&worker, &connection, &events, &stop).await {
                    down(&worker, problem, true, &events);
                }
            }
            Err(problem) => {
                misses += 1;
                let lost = problem.credential || misses >= LOST_AFTER_MISSES;
                down(&worker, problem, lost, &events);
            }
        }
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep(pause) => {}
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The worker is not usable; the rest is told if that is news.
pub fn down(worker: &Arc<Worker>, problem: Problem, lost: bool, events: &Arc<dyn LinkEvents>) {
    // The words of one outage differ from try to try; all pods there would be written to each time.
    let problem = match &*worker.link() {
        Link::Down(held) if held.reason == UNREACHABLE && problem.reason == UNREACHABLE => held.clone(),
        Link::Down(_) | Link::Up(_) => problem,
    };
    let same = matches!(&*worker.link(), Link::Down(held) if *held == problem);
    worker.unsync();
    let lost = lost.then(|| problem.message.clone());
    let news = lost.is_some() && worker.set_lost(lost);
    worker.set_link(Link::Down(problem));
    if !same || news {
        events.link_changed(worker);
    }
}

/// A new link. What was seen of the same cluster before still counts, old as it may be: a copy that holds a name is
/// not forgotten while its cluster is away. Behind another cluster nothing of it counts.
fn adopt(worker: &Arc<Worker>, connection: &Arc<Connection>) {
    if worker.is_another(&connection.cluster_uid) {
        worker.store.clear();
        worker.spaces.clear();
    }
    worker.unsync();
    worker.set_lost(None);
    worker.set_suspect(false);
    worker.set_link(Link::Up(connection.clone()));
}

async fn connect(bytes: &[u8], origin: &str) -> Result<Connection, Problem> {
    let kubeconfig =
        kubeconfig::parse(bytes).map_err(|error| problem(error.reason(), error.to_string(), true))?;
    let clients = Clients::from_kubeconfig(kubeconfig).await.map_err(|_| {
        problem(
            kubeconfig::UNUSABLE,
            "a certificate or key in it cannot be read".to_owned(),
            true,
        )
    })?;
    let cluster_uid = identify(&clients).await?;
    if *cluster_uid == *origin {
        let words = "this kubeconfig leads to the manager itself; pods are dispatched to other clusters only";
        return Err(problem("IsTheManager", words.to_owned(), true));
    }
    let version = clients
        .calls
        .client()
        .apiserver_version()
        .await
        .map_err(|error| call_problem(&error.into()))?
        .git_version;
    let (cluster_wide, missing_rights) = rights(clients.calls.client()).await?;
    Ok(Connection {
        clients,
        cluster_uid,
        version,
        cluster_wide,
        missing_rights,
    })
}

/// The cluster's identity: the UID of its kube-system namespace.
///
/// # Errors
/// Why it could not be read.
pub async fn identify(clients: &Clients) -> Result<Arc<str>, Problem> {
    let object = clients
        .calls
        .get(&namespace_path("kube-system"))
        .await
        .map_err(|error| call_problem(&error))?;
    let uid = serde_json::from_str::<Value>(object.json())
        .ok()
        .and_then(|value| value.pointer("/metadata/uid")?.as_str().map(Arc::from));
    uid.ok_or_else(|| {
        problem(
            "Unidentified",
            "its kube-system namespace has no UID".to_owned(),
            false,
        )
    })
}

fn problem(reason: &'static str, message: String, credential: bool) -> Problem {
    Problem {
        reason,
        message,
        credential,
    }
}

pub(super) fn call_problem(error: &CallError) -> Problem {
    match error {
        CallError::Answered { code: 401, .. } => problem(
            "Unauthorized",
            "the API server does not accept the credential of the kubeconfig; put a new one into the Secret"
                .to_owned(),
            true,
        ),
        CallError::Answered {
            code: 403, message, ..
        } => problem(
            "NotPermitted",
            format!(
                "{message}; apply `portcullis manifests rbac-worker` there, with the --gang and --config of before"
            ),
            false,
        ),
        CallError::Answered { .. } | CallError::Unanswered(_) | CallError::Unreadable(_) => {
            problem(UNREACHABLE, error.words(), false)
        }
    }
}

/// Watches and pings until the cluster turns out to be another one, the credential fails, or `stop`.
async fn attend(
    worker: &Arc<Worker>,
    connection: &Arc<Connection>,
    events: &Arc<dyn LinkEvents>,
    stop: &CancellationToken,
) -> Option<Problem> {
    let mut watches = Watches::new(worker, connection, events, stop);
    let mut misses = 0;
    let mut ping = tokio::time::interval(PING_EVERY);
    ping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let problem = loop {
        watches.converge();
        tokio::select! {
            () = stop.cancelled() => break None,
            () = worker.serves_changed.notified() => continue,
            _ = ping.tick() => {}
        }
        match identify(&connection.clients).await {
            Ok(uid) if uid == connection.cluster_uid => {
                misses = 0;
                worker.set_suspect(false);
                if worker.set_lost(None) {
                    events.link_changed(worker);
                }
                if rights_changed(worker, connection).await {
                    break None; // connects anew with what it may do now
                }
            }
            Ok(_) => {
                break Some(problem(
                    "IdentityChanged",
                    "another cluster answers at this address than before".to_owned(),
                    false,
                ));
            }
            Err(found) if found.credential => break Some(found),
            Err(found) => {
                misses += 1;
                worker.set_suspect(true);
                let lost = misses >= LOST_AFTER_MISSES && worker.lost().is_none();
                if lost && worker.set_lost(Some(found.message)) {
                    events.link_changed(worker);
                }
            }
        }
    };
    watches.end().await;
    problem
}
