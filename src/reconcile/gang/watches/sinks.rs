//! What becomes of the watches' events: the store is brought up to date, and the jobs they are about get a turn.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::ResourceExt;
use kube::runtime::watcher::Event;

use crate::cluster::raw::RawObject;
use crate::cluster::watch::Watched;
use crate::gang::hold;
use crate::names;
use crate::reconcile::gang::cluster::{GangCluster, GroupApi};
use crate::reconcile::gang::store::{GroupKey, JobKey, PodSeen, Seen, controller};
use crate::workload::Resource;
use crate::workload::jobs::gang_kind;

pub(super) fn jobs_sink(cluster: Arc<GangCluster>, names: Resource) -> impl FnMut(Watched<RawObject>) + Send {
    let mut there: BTreeSet<JobKey> = BTreeSet::new();
    let api_version = names.api_version();
    let kind = gang_kind(&api_version, names.kind);
    move |watched| {
        let seen = |object: &RawObject| read(object, &api_version, names.kind);
        let key = |object: &RawObject| -> Option<JobKey> {
            Some(JobKey {
                resource: names,
                namespace: object.namespace()?.into(),
                name: object.name_any().into(),
            })
        };
        let concerns_us = |key: &JobKey, seen: &Seen| {
            cluster.scope.label(&key.namespace).is_some()
                || kind.is_some_and(|kind| hold::is_left(kind, &seen.object))
        };
        match watched {
            Watched::Event(Event::Init) => there.clear(),
            Watched::Event(Event::InitApply(object)) => {
                if let (Some(key), Some(seen)) = (key(&object), seen(&object)) {
                    if concerns_us(&key, &seen) {
                        there.insert(key.clone());
                        cluster.store.job_watched(key.clone(), seen);
                    } else if !cluster.store.job_removed(&key, &seen) {
                        return;
                    }
                    cluster.queue.add(key);
                }
            }
            Watched::Event(Event::InitDone) => {
                for key in cluster.store.jobs_listed(names, &there) {
                    cluster.queue.add(key);
                }
            }
            Watched::Event(Event::Apply(object)) => {
                if let (Some(key), Some(seen)) = (key(&object), seen(&object)) {
                    let is_news = match concerns_us(&key, &seen) {
                        true => cluster.store.job_watched(key.clone(), seen),
                        false => cluster.store.job_removed(&key, &seen),
                    };
                    if is_news {
                        if cluster.scope.label(&key.namespace).is_none() {
                            cluster.scope.notify(); // its pods may not be followed
                        }
                        cluster.queue.add(key);
                    }
                }
            }
            Watched::Event(Event::Delete(object)) => {
                if let (Some(key), Some(seen)) = (key(&object), seen(&object))
                    && cluster.store.job_removed(&key, &seen)
                {
                    cluster.queue.add(key);
                }
            }
            Watched::Failed(_) => {}
        }
    }
}

pub(super) fn groups_sink(
    cluster: Arc<GangCluster>,
    api: GroupApi,
    version: &str,
) -> impl FnMut(Watched<RawObject>) + Send + use<> {
    let mut there: BTreeSet<GroupKey> = BTreeSet::new();
    let api_version = format!("{}/{version}", api.group);
    move |watched| {
        let seen = |object: &RawObject| -> Option<(GroupKey, Seen)> {
            let key = GroupKey {
                group: api.group,
                plural: api.plural,
                namespace: object.namespace()?.into(),
                name: object.name_any().into(),
            };
            Some((key, read(object, &api_version, api.kind)?))
        };
        match watched {
            Watched::Event(Event::Init) => there.clear(),
            Watched::Event(Event::InitApply(object)) => {
                if let Some((key, seen)) = seen(&object) {
                    there.insert(key.clone());
                    cluster.store.group_watched(key, seen);
                }
            }
            Watched::Event(Event::InitDone) => {
                cluster.store.groups_listed((api.group, api.plural), &there);
                cluster.groups_known(api);
                cluster.look_at_all();
            }
            Watched::Event(Event::Apply(object)) => {
                if let Some((key, seen)) = seen(&object) {
                    let about = seen.clone();
                    if cluster.store.group_watched(key.clone(), seen) {
                        cluster.look_at_jobs_of(&key, &about);
                    }
                }
            }
            Watched::Event(Event::Delete(object)) => {
                if let Some((key, seen)) = seen(&object) {
                    cluster.store.group_removed(&key, &seen);
                    cluster.look_at_jobs_of(&key, &seen);
                }
            }
            Watched::Failed(_) => {}
        }
    }
}

pub(super) fn pods_sink(cluster: Arc<GangCluster>) -> impl FnMut(Watched<RawObject>) + Send {
    let mut there: BTreeSet<(Arc<str>, Arc<str>)> = BTreeSet::new();
    move |watched| {
        let identity = |object: &RawObject| -> Option<(Arc<str>, Arc<str>)> {
            Some((object.namespace()?.into(), object.name_any().into()))
        };
        let changed = match watched {
            Watched::Event(Event::Init) => {
                there.clear();
                cluster.pods_known(false);
                Vec::new()
            }
            Watched::Event(Event::InitApply(object)) => {
                let Some((namespace, name)) = identity(&object) else {
                    return;
                };
                there.insert((namespace.clone(), name.clone()));
                let group = cluster.store.pod_seen(&namespace, &name, pod(&object));
                group.map(|group| (namespace, group)).into_iter().collect()
            }
            Watched::Event(Event::InitDone) => {
                let gone = cluster
                    .store
                    .pod_names()
                    .into_iter()
                    .filter(|pod| !there.contains(pod));
                let changed = gone.filter_map(|(namespace, name)| {
                    Some((
                        namespace.clone(),
                        cluster.store.pod_seen(&namespace, &name, None)?,
                    ))
                });
                let changed = changed.collect();
                cluster.pods_known(true);
                cluster.look_at_all();
                changed
            }
            Watched::Event(Event::Apply(object)) => {
                let Some((namespace, name)) = identity(&object) else {
                    return;
                };
                let group = cluster.store.pod_seen(&namespace, &name, pod(&object));
                group.map(|group| (namespace, group)).into_iter().collect()
            }
            Watched::Event(Event::Delete(object)) => {
                let Some((namespace, name)) = identity(&object) else {
                    return;
                };
                let group = cluster.store.pod_seen(&namespace, &name, None);
                group.map(|group| (namespace, group)).into_iter().collect()
            }
            Watched::Failed(_) => return,
        };
        for (namespace, group) in changed {
            cluster.look_at_job_of_pods(&namespace, &group);
        }
    }
}

/// What a pod says of its group and of its end.
fn pod(object: &RawObject) -> Option<PodSeen> {
    let pod: serde_json::Value = serde_json::from_str(object.json()).ok()?;
    let group = pod.pointer("/metadata/labels")?.get(names::POD_GROUP)?.as_str()?;
    let phase = pod.pointer("/status/phase").and_then(serde_json::Value::as_str);
    Some(PodSeen {
        group: group.into(),
        controller: controller(&pod).map_or("", |owner| owner.name).into(),
        active: !matches!(phase, Some("Succeeded" | "Failed")),
        bound: pod
            .pointer("/spec/nodeName")
            .is_some_and(serde_json::Value::is_string),
        succeeded: phase == Some("Succeeded"),
    })
}

fn read(object: &RawObject, api_version: &str, kind: &str) -> Option<Seen> {
    Seen::listed(serde_json::from_str(object.json()).ok()?, api_version, kind)
}

/// Few and rarely changed: the whole list is handed over at each change.
pub(super) fn classes_sink<K>(
    cluster: Arc<GangCluster>,
    hand_over: impl Fn(&GangCluster, &BTreeMap<String, K>) + Send + 'static,
) -> impl FnMut(Watched<K>) + Send
where
    K: ResourceExt + Clone + Send + 'static,
{
    let mut classes: BTreeMap<String, K> = BTreeMap::new();
    let mut complete = false;
    move |watched| {
        match watched {
            Watched::Event(Event::Init) => {
                classes.clear();
                complete = false;
            }
            Watched::Event(Event::InitApply(class) | Event::Apply(class)) => {
                classes.insert(class.name_any(), class);
            }
            Watched::Event(Event::Delete(class)) => {
                classes.remove(&class.name_any());
            }
            Watched::Event(Event::InitDone) => complete = true,
            Watched::Failed(_) => return,
        }
        if complete {
            hand_over(&cluster, &classes);
        }
    }
}
