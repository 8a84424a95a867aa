//! The manager's own watches: gated pods, namespaces, ReplicaSets; those of jobs are in [`super::kinds`].

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::faults::blind;
use super::pair::local::{LocalObject, PairKey, Subject};
use super::pair::world::World;
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
    let pods: Api<RawObject> = Api::all_with(client.clone(), &Subject::Pod.api_resource());
    let gated = watcher::Config::default().labels(&format!("{}={}", names::GATED, names::TRUE));
    watches.spawn(follow(
        Watching::on_manager("pods"),
        pods,
        gated,
        stop.clone(),
        objects_sink(Subject::Pod, world.clone(), listed.clone()),
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

pub(super) fn objects_sink(
    subject: Subject,
    world: Arc<World>,
    listed: impl Fn() + Send + 'static,
) -> impl FnMut(Watched<RawObject>) + Send {
    let mut seen: HashSet<PairKey> = HashSet::new();
    let mut first = true;
    move |watched| match watched {
        Watched::Event(Event::Init) => seen.clear(),
        Watched::Event(Event::InitApply(object)) => {
            if let Some(object) = read(subject, &object).filter(LocalObject::concerns_us) {
                seen.insert(object.key.clone());
                world.locals.watched(object);
            }
        }
        Watched::Event(Event::InitDone) => {
            world.locals.listed(subject, &std::mem::take(&mut seen), None);
            if std::mem::take(&mut first) {
                listed();
            }
            world.look_at_all();
        }
        Watched::Event(Event::Apply(_) | Event::Delete(_)) if blind("manager") => {}
        Watched::Event(Event::Apply(object)) => {
            if let Some(object) = read(subject, &object) {
                let key = object.key.clone();
                if !object.concerns_us() {
                    world.locals.removed(&object);
                } else if world.locals.watched(object) {
                    world.queue.add(key);
                }
            }
        }
        Watched::Event(Event::Delete(object)) => {
            if let Some(object) = read(subject, &object) {
                world.locals.removed(&object);
                siblings(&world, &object);
                world.queue.add(object.key);
            }
        }
        Watched::Failed(_) => {}
    }
}

/// Objects that wait where their workload's others are may go elsewhere once the last of them is gone.
fn siblings(world: &World, pod: &LocalObject) {
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

fn read(subject: Subject, object: &RawObject) -> Option<LocalObject> {
    match LocalObject::parse(subject, object.json().clone()) {
        Ok(object) => Some(object),
        Err(error) => {
            let kind = subject.noun();
            tracing::warn!(kind, object = %object.name_any(), %error, "an object cannot be read; it is left alone");
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
