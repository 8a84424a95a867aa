//! WorkerClusters and Secrets as watched -> one link for each, restarted when its kubeconfig changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::Event;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::unreadable;
use crate::api::WorkerCluster;
use crate::cluster::fleet::{GangSetting, Intake};
use crate::cluster::watch::Watched;
use crate::cluster::worker::connect::{self, LinkEvents};
use crate::cluster::worker::{Link, Problem, Worker};
use crate::reconcile::events::Notes;
use crate::reconcile::pair::local::{PairKey, Phase, RemoteObject, Subject};
use crate::reconcile::pair::world::World;
use crate::workload::jobs::JobKinds;

/// What is registered, and the links.
pub(super) struct Registry {
    world: Arc<World>,
    notes: Notes,
    changed: Arc<Notify>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    clusters: BTreeMap<String, WorkerCluster>,
    secrets: BTreeMap<String, Secret>,
    links: BTreeMap<String, RunningLink>,
    /// Initial lists that are complete: before both are, a missing Secret is no fact.
    lists: u8,
    /// Called once, when all that is listed is in the fleet: before, a missing worker is no fact.
    registered: Option<Box<dyn FnOnce() + Send>>,
}

struct RunningLink {
    /// What it was started with; none: nothing usable.
    kubeconfig: Result<Vec<u8>, Problem>,
    stop: CancellationToken,
}

impl Registry {
    /// `registered` is called once, when the workers of the complete lists are in the fleet.
    pub(super) fn new(
        world: Arc<World>,
        notes: Notes,
        changed: Arc<Notify>,
        registered: impl FnOnce() + Send + 'static,
    ) -> Self {
        let state = State {
            registered: Some(Box::new(registered)),
            ..State::default()
        };
        Self {
            world,
            notes,
            changed,
            state: Mutex::new(state),
        }
    }

    pub(super) fn clusters(&self) -> Vec<WorkerCluster> {
        self.lock().clusters.values().cloned().collect()
    }

    /// Starts, restarts and stops links so that they are what is registered. False before the lists are complete.
    pub(super) fn converge(self: &Arc<Self>, stop: &CancellationToken) -> bool {
        let mut state = self.lock();
        if state.lists < 2 {
            return false;
        }
        let names: Vec<String> = state.clusters.keys().cloned().collect();
        for name in &names {
            self.converge_one(&mut state, name, stop);
        }
        let gone: Vec<String> = state
            .links
            .keys()
            .filter(|name| !state.clusters.contains_key(*name))
            .cloned()
            .collect();
        for name in gone {
            if let Some(link) = state.links.remove(&name) {
                link.stop.cancel();
            }
            self.world.fleet.remove(&name);
            self.world.gangs.changed.notify_one();
            self.world.look_at_all();
        }
        let registered = state.registered.take();
        drop(state);
        if let Some(registered) = registered {
            registered();
        }
        true
    }

    fn converge_one(self: &Arc<Self>, state: &mut State, name: &str, stop: &CancellationToken) {
        let Some(cluster) = state.clusters.get(name) else {
            return;
        };
        let intake = Intake::of(cluster);
        let kubeconfig = kubeconfig(cluster, &state.secrets);
        let worker = match self.world.fleet.get(name) {
            Some(member) => member.worker,
            None => Arc::new(Worker::new(name)),
        };
        if self
            .world
            .fleet
            .set(worker.clone(), intake, GangSetting::of(cluster))
        {
            self.world.gangs.changed.notify_one();
            self.world.look_at_all();
        }
        if state
            .links
            .get(name)
            .is_some_and(|link| link.kubeconfig == kubeconfig)
        {
            return;
        }
        let link_stop = stop.child_token();
        let started = RunningLink {
            kubeconfig: kubeconfig.clone(),
            stop: link_stop.clone(),
        };
        if let Some(old) = state.links.insert(name.to_owned(), started) {
            old.stop.cancel();
        }
        let events: Arc<dyn LinkEvents> = Arc::new(Events {
            world: self.world.clone(),
            changed: self.changed.clone(),
        });
        match kubeconfig {
            Ok(bytes) => {
                tokio::spawn(connect::keep(worker, bytes, events, link_stop));
            }
            Err(problem) => connect::down(&worker, problem, true, &events),
        }
    }

    pub(super) fn clusters_sink(
        self: Arc<Self>,
    ) -> impl FnMut(Watched<DeserializeGuard<WorkerCluster>>) + Send {
        self.sink(|state| &mut state.clusters, "WorkerCluster")
    }

    pub(super) fn secrets_sink(self: Arc<Self>) -> impl FnMut(Watched<DeserializeGuard<Secret>>) + Send {
        self.sink(|state| &mut state.secrets, "Secret")
    }

    fn sink<K: ResourceExt + Clone + Send + 'static>(
        self: Arc<Self>,
        map: fn(&mut State) -> &mut BTreeMap<String, K>,
        kind: &'static str,
    ) -> impl FnMut(Watched<DeserializeGuard<K>>) + Send {
        let mut fresh: BTreeMap<String, K> = BTreeMap::new();
        let mut first = true;
        move |watched| {
            let mut state = self.lock();
            match watched {
                Watched::Event(Event::Init) => fresh.clear(),
                Watched::Event(Event::InitApply(DeserializeGuard(object))) => {
                    let readable = match object {
                        Ok(object) => Some(object),
                        Err(broken) => {
                            unreadable::tell(&self.notes, kind, &broken);
                            let name = broken.metadata.name.as_deref().unwrap_or_default();
                            map(&mut state).get(name).cloned()
                        }
                    };
                    fresh.extend(readable.map(|object| (object.name_any(), object)));
                }
                Watched::Event(Event::InitDone) => {
                    *map(&mut state) = std::mem::take(&mut fresh);
                    if std::mem::take(&mut first) {
                        state.lists += 1;
                    }
                }
                Watched::Event(Event::Apply(DeserializeGuard(Ok(object)))) => {
                    map(&mut state).insert(object.name_any(), object);
                }
                Watched::Event(Event::Apply(DeserializeGuard(Err(broken)))) => {
                    unreadable::tell(&self.notes, kind, &broken);
                }
                Watched::Event(Event::Delete(object)) => {
                    map(&mut state).remove(&object.name_any());
                }
                Watched::Failed(_) => {}
            }
            drop(state);
            self.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn kubeconfig(cluster: &WorkerCluster, secrets: &BTreeMap<String, Secret>) -> Result<Vec<u8>, Problem> {
    let reference = &cluster.spec.kubeconfig_secret_ref;
    let problem = |reason, message| Problem {
        reason,
        message,
        credential: true,
    };
    let secret = secrets.get(&reference.name).ok_or_else(|| {
        problem(
            "SecretNotFound",
            format!(
                "Secret {:?} (spec.kubeconfigSecretRef) does not exist in our namespace; create it",
                reference.name
            ),
        )
    })?;
    let data = secret
        .data
        .as_ref()
        .and_then(|data| data.get(&reference.key))
        .ok_or_else(|| {
            problem(
                "SecretKeyNotFound",
                format!(
                    "Secret {:?} has no key {:?}; put the kubeconfig under it",
                    reference.name, reference.key
                ),
            )
        })?;
    Ok(data.0.clone())
}

/// What links tell becomes turns.
struct Events {
    world: Arc<World>,
    changed: Arc<Notify>,
}

impl LinkEvents for Events {
    fn changed(&self, worker: &Arc<Worker>, key: PairKey, removed: Option<Arc<RemoteObject>>) {
        self.world.gangs.changed(worker, &key);
        if let Some(ended) = removed.filter(|object| object.phase == Phase::Terminal) {
            self.world
                .memories
                .change(&key, |memory| memory.ended = Some(ended));
        }
        self.world.queue.add(key);
    }

    fn link_changed(&self, worker: &Arc<Worker>) {
        let lost = worker.lost();
        let link = worker.link();
        let (state, why) = match (&*link, &lost) {
            (Link::Down(problem), _) => (problem.reason, &*problem.message),
            (Link::Up(_), Some(words)) => ("Unreachable", words.as_str()),
            (Link::Up(_), None) => ("Connected", ""),
        };
        tracing::info!(worker = %worker.name, state, why, "link changed");
        self.world.gangs.changed.notify_one();
        self.world.gangs.relist(worker);
        self.world.look_at_all();
        self.changed.notify_one();
    }

    fn namespaces(&self) -> Vec<Arc<str>> {
        let mut namespaces = self.world.namespaces.opted_in();
        namespaces.extend(self.world.locals.keys().into_iter().map(|key| key.namespace));
        namespaces.sort();
        namespaces.dedup();
        namespaces
    }

    fn subjects(&self) -> BTreeSet<Subject> {
        self.world.subjects()
    }

    fn kinds(&self) -> JobKinds {
        self.world.kinds
    }

    fn origin(&self) -> Arc<str> {
        self.world.origin.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicBool, Ordering};

    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    fn list<K>(sink: &mut impl FnMut(Watched<DeserializeGuard<K>>), objects: &[Value])
    where
        DeserializeGuard<K>: serde::de::DeserializeOwned,
    {
        sink(Watched::Event(Event::Init));
        for object in objects {
            let object = serde_json::from_value(object.clone()).unwrap();
            sink(Watched::Event(Event::InitApply(object)));
        }
        sink(Watched::Event(Event::InitDone));
    }

    #[tokio::test]
    async fn turns_begin_once_the_listed_workers_are_in_the_fleet() {
        let answer = async |_: http::Request<Body>| Ok::<_, Infallible>(http::Response::new(Body::empty()));
        let client = kube::Client::new(tower::service_fn(answer), "default");
        let world = Arc::new(World::new("origin".into(), Arc::default(), Arc::default()));
        let registered = Arc::new(AtomicBool::new(false));
        let tell = registered.clone();
        let registry = Arc::new(Registry::new(
            world.clone(),
            Notes::new(client).0,
            Arc::default(),
            move || tell.store(true, Ordering::Release),
        ));
        let (mut clusters, mut secrets) = (registry.clone().clusters_sink(), registry.clone().secrets_sink());
        let stop = CancellationToken::new();
        let begun = || registered.load(Ordering::Acquire);

        list(&mut secrets, &[]);
        assert!(
            !registry.converge(&stop) && !begun(),
            "WorkerClusters are not listed"
        );
        let cluster = json!({
            "apiVersion": "portcullis.dev/v1alpha1", "kind": "WorkerCluster", "metadata": {"name": "a"},
            "spec": {"kubeconfigSecretRef": {"name": "a", "key": "kubeconfig"}},
        });
        list(&mut clusters, &[cluster]);
        assert!(
            !begun(),
            "all is listed, but a pod that is looked at now finds no worker"
        );
        assert!(registry.converge(&stop) && begun());
        assert!(world.fleet.get("a").is_some());
    }
}
