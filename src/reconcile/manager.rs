//! The manager's own watches: gated pods, namespaces, ReplicaSets.

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::core::{ApiResource, PartialObjectMeta};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::faults::blind;
use super::pod::local::{LocalPod, PodKey};
use super::pod::world::World;
use crate::cluster::raw::RawObject;
use crate::cluster::watch::{Watched, Watching, follow};
use crate::names;

/// How many lists must be complete before a first turn: the three here, and the policies and workers of
/// `reconcile::cluster`.
pub const LISTS: usize = 5;

/// Follows them until `stop`. `listed` is called once for each list that is complete for the first time.
pub async fn keep(
    client: Client,
    world: Arc<World>,
    listed: impl Fn() + Clone + Send + 'static,
    stop: CancellationToken,
) {
    let mut watches = JoinSet::new();
    let pods: Api<RawObject> = Api::all_with(client.clone(), &ApiResource::erase::<Pod>(&()));
    let gated = watcher::Config::default().labels(&format!("{}={}", names::GATED, names::TRUE));
    watches.spawn(follow(
        Watching::on_manager("pods"),
        pods,
        gated,
        stop.clone(),
        pods_sink(world.clone(), listed.clone()),
    ));
    watches.spawn(follow(
        Watching::on_manager("namespaces"),
        Api::<PartialObjectMeta<Namespace>>::all(client.clone()),
        watcher::Config::default(),
        stop.clone(),
        namespaces_sink(world.clone(), listed.clone()),
    ));
    watches.spawn(follow(
        Watching::on_manager("replicasets"),
        Api::<PartialObjectMeta<ReplicaSet>>::all(client),
        watcher::Config::default(),
        stop,
        replica_sets_sink(world, listed),
    ));
    while watches.join_next().await.is_some() {}
}

fn pods_sink(world: Arc<World>, listed: impl Fn() + Send + 'static) -> impl FnMut(Watched<RawObject>) + Send {
    let mut seen: HashSet<PodKey> = HashSet::new();
    let mut first = true;
    move |watched| match watched {
        Watched::Event(Event::Init) => seen.clear(),
        Watched::Event(Event::InitApply(object)) => {
            if let Some(pod) = read(&object) {
                seen.insert(pod.key.clone());
                world.locals.watched(pod);
            }
        }
        Watched::Event(Event::InitDone) => {
            world.locals.listed(&std::mem::take(&mut seen), None);
            if std::mem::take(&mut first) {
                listed();
            }
            world.look_at_all();
        }
        Watched::Event(Event::Apply(_) | Event::Delete(_)) if blind("manager") => {}
        Watched::Event(Event::Apply(object)) => {
            if let Some(pod) = read(&object) {
                let key = pod.key.clone();
                if world.locals.watched(pod) {
                    world.queue.add(key);
                }
            }
        }
        Watched::Event(Event::Delete(object)) => {
            if let Some(pod) = read(&object) {
                world.locals.removed(&pod);
                siblings(&world, &pod);
                world.queue.add(pod.key);
            }
        }
        Watched::Failed(_) => {}
    }
}

/// Pods that wait where their workload's pods are may go elsewhere once the last of them is gone.
fn siblings(world: &World, pod: &LocalPod) {
    let Some(root) = world.root_of(pod).filter(|_| pod.committed().is_some()) else {
        return;
    };
    for member in world.owners.members(&root) {
        for sibling in world.locals.in_group(&member) {
            if sibling.committed().is_none() {
                world.queue.add(sibling.key.clone());
            }
        }
    }
}

fn read(object: &RawObject) -> Option<LocalPod> {
    match LocalPod::parse(object.json().clone()) {
        Ok(pod) => Some(pod),
        Err(error) => {
            tracing::warn!(pod = %object.name_any(), %error, "a pod cannot be read; it is left alone");
            None
        }
    }
}

fn namespaces_sink(
    world: Arc<World>,
    listed: impl Fn() + Send + 'static,
) -> impl FnMut(Watched<PartialObjectMeta<Namespace>>) + Send {
    let mut seen: HashSet<Arc<str>> = HashSet::new();
    let mut first = true;
    move |watched| {
        let changed = match watched {
            Watched::Event(Event::Init) => {
                seen.clear();
                false
            }
            Watched::Event(Event::InitApply(namespace)) => {
                seen.insert(namespace.name_any().into());
                world.namespaces.watched(&namespace)
            }
            Watched::Event(Event::InitDone) => {
                for name in world.namespaces.labelled() {
                    if !seen.contains(&name) {
                        world.namespaces.removed(&name);
                    }
                }
                world.namespaces.all_watched();
                if std::mem::take(&mut first) {
                    listed();
                }
                true
            }
            Watched::Event(Event::Apply(namespace)) => world.namespaces.watched(&namespace),
            Watched::Event(Event::Delete(namespace)) => world.namespaces.removed(&namespace.name_any()),
            Watched::Failed(_) => false,
        };
        if changed {
            world.look_at_all();
        }
    }
}

fn replica_sets_sink(
    world: Arc<World>,
    listed: impl Fn() + Send + 'static,
) -> impl FnMut(Watched<PartialObjectMeta<ReplicaSet>>) + Send {
    let mut first = true;
    move |watched| match watched {
        Watched::Event(Event::Init) => {}
        Watched::Event(Event::InitApply(set) | Event::Apply(set)) => world.owners.watched(&set),
        Watched::Event(Event::Delete(set)) => world.owners.removed(&set),
        Watched::Event(Event::InitDone) => {
            if std::mem::take(&mut first) {
                listed();
            }
        }
        Watched::Failed(_) => {}
    }
}
