//! What is watched on a worker: pods of ours, and jobs of ours, of every kind that both it and the manager serve.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use kube::runtime::watcher::{self, Event};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::connect::LinkEvents;
use super::{Connection, Worker};
use crate::cluster::discovery::Served;
use crate::cluster::raw::RawObject;
use crate::cluster::watch::{Watched, Watching, follow};
use crate::names;
use crate::reconcile::faults::blind;
use crate::reconcile::kinds::{groups, served_of};
use crate::reconcile::pair::local::{PairKey, RemoteObject, Subject};

/// Nobody tells that a CRD was installed on a worker.
const ASK_AGAIN: Duration = Duration::from_secs(30);
const ASK_AFTER_FAILURE: Duration = Duration::from_secs(2);

/// The watches of one connection: for each kind one for all namespaces, or one for each of interest.
pub(super) struct Watches<'a> {
    worker: &'a Arc<Worker>,
    connection: &'a Arc<Connection>,
    events: &'a Arc<dyn LinkEvents>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
    followed: BTreeMap<(Subject, Arc<str>), CancellationToken>,
}

impl<'a> Watches<'a> {
    /// None yet; what the worker serves is being asked.
    pub(super) fn new(
        worker: &'a Arc<Worker>,
        connection: &'a Arc<Connection>,
        events: &'a Arc<dyn LinkEvents>,
        stop: &CancellationToken,
    ) -> Self {
        let stop = stop.child_token();
        let mut tasks = JoinSet::new();
        tasks.spawn(keep_asking(
            worker.clone(),
            connection.clone(),
            events.clone(),
            stop.clone(),
        ));
        Self {
            worker,
            connection,
            events,
            stop,
            tasks,
            followed: BTreeMap::new(),
        }
    }

    /// Starts those that are missing, and ends those of kinds that are not served any more.
    pub(super) fn converge(&mut self) {
        let wanted: BTreeSet<Subject> = self
            .events
            .subjects()
            .into_iter()
            .filter(|subject| self.worker.serves(*subject) == Some(true))
            .collect();
        self.followed.retain(|(subject, namespace), token| {
            let stays = wanted.contains(subject);
            if !stays {
                token.cancel();
                self.worker.set_unsynced(*subject, namespace);
            }
            stays
        });
        let namespaces = match self.connection.cluster_wide {
            true => vec!["".into()],
            false => self.events.namespaces(),
        };
        for subject in wanted {
            for namespace in &namespaces {
                self.follow(subject, namespace);
            }
        }
    }

    fn follow(&mut self, subject: Subject, namespace: &Arc<str>) {
        if self.followed.contains_key(&(subject, namespace.clone())) {
            return;
        }
        let stop = self.stop.child_token();
        self.followed.insert((subject, namespace.clone()), stop.clone());
        let resource = subject.api_resource();
        let client = self.connection.clients.watches.clone();
        let api: Api<RawObject> = match &**namespace {
            "" => Api::all_with(client, &resource),
            _ => Api::namespaced_with(client, namespace, &resource),
        };
        let ours = format!("{}={}", names::ORIGIN, self.events.origin());
        let mut sink = Sink {
            worker: self.worker.clone(),
            events: self.events.clone(),
            subject,
            namespace: namespace.clone(),
            listed: HashSet::new(),
        };
        let config = watcher::Config::default().labels(&ours);
        let what = Watching {
            cluster: self.worker.name.clone(),
            resource: resource.plural.as_str().into(),
            namespace: namespace.clone(),
        };
        self.tasks
            .spawn(follow(what, api, config, stop, move |watched| sink.take(watched)));
    }

    /// Answers when all of them have ended.
    pub(super) async fn end(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Asks which kinds of jobs the worker serves, now and again.
async fn keep_asking(
    worker: Arc<Worker>,
    connection: Arc<Connection>,
    events: Arc<dyn LinkEvents>,
    stop: CancellationToken,
) {
    let kinds = events.kinds();
    let groups = groups(kinds);
    loop {
        let asked = Served::ask(connection.clients.calls.client(), &groups);
        let answer = tokio::select! {
            () = stop.cancelled() => return,
            answer = asked => answer,
        };
        let pause = match answer {
            Ok(served) => {
                if worker.set_serves(served_of(kinds, &served)) {
                    events.link_changed(&worker);
                }
                ASK_AGAIN
            }
            Err(error) => {
                tracing::debug!(worker = %worker.name, words = error.words(), "it does not say what it serves; it is asked again");
                ASK_AFTER_FAILURE
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = worker.ask_again.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
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
