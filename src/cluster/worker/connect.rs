//! Keeps the link to one worker: identify it, list and watch what is ours there, notice when it is lost.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use kube::runtime::watcher::{self, Event};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::rights::{rights, rights_changed};
use super::{Connection, Link, Problem, Worker};
use crate::cluster::api::{CallError, namespace_path};
use crate::cluster::client::Clients;
use crate::cluster::kubeconfig;
use crate::cluster::raw::RawObject;
use crate::cluster::watch::{Watched, Watching, follow};
use crate::names;
use crate::reconcile::faults::blind;
use crate::reconcile::pod::local::{PairKey, RemoteObject, Subject};

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
            format!("{message}; apply `portcullis manifests rbac-worker` there"),
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
    let mut watches = Watches {
        worker,
        connection,
        events,
        stop: stop.child_token(),
        tasks: JoinSet::new(),
        followed: BTreeSet::new(),
    };
    let mut misses = 0;
    let mut ping = tokio::time::interval(PING_EVERY);
    ping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let problem = loop {
        watches.start();
        tokio::select! {
            () = stop.cancelled() => break None,
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

/// The watches of one connection: for each kind one for all namespaces, or one for each of interest.
struct Watches<'a> {
    worker: &'a Arc<Worker>,
    connection: &'a Arc<Connection>,
    events: &'a Arc<dyn LinkEvents>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
    followed: BTreeSet<(Subject, Arc<str>)>,
}

impl Watches<'_> {
    /// Starts those that are missing.
    fn start(&mut self) {
        if self.connection.cluster_wide {
            self.follow(Subject::Pod, "");
        } else {
            for namespace in self.events.namespaces() {
                self.follow(Subject::Pod, &namespace);
            }
        }
    }

    fn follow(&mut self, subject: Subject, namespace: &str) {
        if !self.followed.insert((subject, namespace.into())) {
            return;
        }
        let resource = subject.api_resource();
        let client = self.connection.clients.watches.clone();
        let api: Api<RawObject> = match namespace {
            "" => Api::all_with(client, &resource),
            _ => Api::namespaced_with(client, namespace, &resource),
        };
        let ours = format!("{}={}", names::ORIGIN, self.events.origin());
        let mut sink = Sink {
            worker: self.worker.clone(),
            events: self.events.clone(),
            subject,
            namespace: namespace.into(),
            listed: HashSet::new(),
        };
        let config = watcher::Config::default().labels(&ours);
        let what = Watching {
            cluster: self.worker.name.clone(),
            resource: resource.plural.as_str().into(),
            namespace: namespace.into(),
        };
        self.tasks
            .spawn(follow(what, api, config, self.stop.clone(), move |watched| {
                sink.take(watched);
            }));
    }

    async fn end(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Puts what a watch shows into the store and asks for turns.
struct Sink {
    worker: Arc<Worker>,
    events: Arc<dyn LinkEvents>,
    subject: Subject,
    namespace: Arc<str>,
    listed: HashSet<PairKey>,
}

impl Sink {
    fn take(&mut self, watched: Watched<RawObject>) {
        if matches!(watched, Watched::Event(Event::Apply(_) | Event::Delete(_))) && blind(&self.worker.name) {
            return;
        }
        match watched {
            Watched::Event(Event::Init) => self.listed.clear(),
            Watched::Event(Event::InitApply(object)) => {
                if let Some((key, _)) = self.apply(&object) {
                    self.listed.insert(key);
                }
            }
            Watched::Event(Event::InitDone) => {
                let scope = (!self.namespace.is_empty()).then_some(&*self.namespace);
                let listed = std::mem::take(&mut self.listed);
                for key in self.worker.store.listed(self.subject, &listed, scope) {
                    self.events.changed(&self.worker, key, None);
                }
                self.worker.set_synced(self.subject, &self.namespace);
                self.events.link_changed(&self.worker);
            }
            Watched::Event(Event::Apply(object)) => {
                if let Some((key, true)) = self.apply(&object) {
                    self.events.changed(&self.worker, key, None);
                }
            }
            Watched::Event(Event::Delete(object)) => {
                if let Some(object) = self.read(&object) {
                    self.worker.store.removed(&object);
                    let key = object.key.clone();
                    self.events.changed(&self.worker, key, Some(Arc::new(object)));
                }
            }
            Watched::Failed(
                watcher::Error::InitialListFailed(kube::Error::Api(status))
                | watcher::Error::WatchStartFailed(kube::Error::Api(status)),
            ) if status.code == 403 => {
                if self
                    .worker
                    .set_forbidden(self.subject, &self.namespace, &status.message)
                {
                    self.events.link_changed(&self.worker);
                }
            }
            Watched::Failed(_) => {}
        }
    }

    /// The object's key, and whether this is news.
    fn apply(&self, object: &RawObject) -> Option<(PairKey, bool)> {
        let object = self.read(object)?;
        let key = object.key.clone();
        let news = self.worker.store.watched(object);
        Some((key, news))
    }

    fn read(&self, object: &RawObject) -> Option<RemoteObject> {
        match RemoteObject::parse(self.subject, object.json().clone()) {
            Ok(object) => Some(object),
            Err(error) => {
                let kind = self.subject.noun();
                tracing::warn!(worker = %self.worker.name, kind, %error, "an object there cannot be read; it is left alone");
                None
            }
        }
    }
}
