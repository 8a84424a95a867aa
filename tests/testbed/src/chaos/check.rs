//! The judge: audit logs and live objects -> violations of the promises.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use anyhow::{Result, bail};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use super::audit::{self, ACCOUNT, Event, Life, Local, REMOTE_UID, text};
use crate::World;
use crate::ledger::LOCAL_UID;

/// Label of every remote pod.
const ORIGIN: &str = "portcullis.dev/origin";

/// What can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Two remote pods of one local UID were opened, and the first was not taken back unscheduled before.
    OpenedTwice,
    /// Two remote pods of one local UID got a node.
    BoundTwice,
    /// Opened before any local pod recorded it.
    OpenedUncommitted,
    /// Two opened remote pods of one name at the same time.
    TwoAtOnce,
    /// A pod of an opted-in namespace got a node of the manager.
    RanOnManager,
    /// A remote pod with a node was deleted by us though its local pod was neither deleted nor ended.
    KilledHealthy,
    /// A local pod failed though nobody deleted its remote pod.
    FailedWithoutCause,
    /// The local pod says something else than its remote pod.
    StatusUntrue,
    /// The remote pod was made from another spec than the local pod has.
    StaleCopy,
    /// A pod that is not ours was changed or deleted.
    ForeignTouched,
    /// What should run does not.
    NotRunning,
    /// Something of ours remained.
    LeftOver,
    /// We wrote though nothing happened.
    WroteInQuiet,
}

/// One of them.
#[derive(Clone, Debug)]
pub struct Violation {
    pub kind: Kind,
    pub what: String,
    /// `namespace/name` of the pods it is about.
    pub pod: Option<(String, String)>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VIOLATION {:?}: {}", self.kind, self.what)
    }
}

/// A pod on a worker that has nothing to do with us.
#[derive(Clone, Debug)]
pub struct Foreign {
    /// Place of the worker in the world.
    pub worker: usize,
    pub pod: Pod,
}

/// Judges some namespaces of a world.
pub struct Checker<'a> {
    world: &'a World,
    namespaces: BTreeSet<String>,
    foreign: Vec<Foreign>,
}

/// A local pod and the remote pods that name it, as they are.
struct Pair {
    local: Pod,
    remotes: Vec<(String, Pod)>,
}

impl<'a> Checker<'a> {
    #[must_use]
    pub fn new(
        world: &'a World,
        namespaces: impl IntoIterator<Item = String>,
        foreign: Vec<Foreign>,
    ) -> Self {
        Self {
            world,
            namespaces: namespaces.into_iter().collect(),
            foreign,
        }
    }

    /// Everything that can be said now: the history, and what is there.
    ///
    /// # Errors
    /// A cluster or its log could not be read.
    pub async fn judge(&mut self) -> Result<Vec<Violation>> {
        let mut violations = self.judge_history()?;
        violations.extend(self.untrue().await?);
        violations.extend(self.foreign_touched().await?);
        violations.extend(self.not_running().await?);
        Ok(violations)
    }

    /// # Errors
    /// A log could not be read.
    pub fn judge_history(&self) -> Result<Vec<Violation>> {
        let events = self.events()?;
        let manager = self.world.manager.name();
        let (lives, locals) = (audit::lives(&events, manager), audit::locals(&events, manager));
        let mut violations = Vec::new();
        self.repeated(&lives, &mut violations);
        at_once(&lives, &mut violations);
        for life in lives.values() {
            uncommitted(life, locals.get(&life.local_uid), &mut violations);
            killed(life, locals.get(&life.local_uid), &mut violations);
        }
        for (uid, local) in &locals {
            failed(uid, local, &lives, &mut violations);
        }
        for event in events
            .iter()
            .filter(|event| event.cluster == manager && event.resource == "pods/binding")
        {
            if event.took_effect() {
                violations.push(Violation {
                    kind: Kind::RanOnManager,
                    what: format!("{}/{} got a node of the manager", event.namespace, event.name),
                    pod: Some((event.namespace.clone(), event.name.clone())),
                });
            }
        }
        Ok(violations)
    }

    /// Answers when everything that should run runs; errs with what does not.
    ///
    /// # Errors
    /// Something is not at rest.
    pub async fn rest(&mut self, all: bool) -> Result<Option<()>> {
        let mut open = if all {
            self.not_running().await?
        } else {
            Vec::new()
        };
        open.extend(self.untrue().await?);
        match open.first() {
            None => Ok(Some(())),
            Some(first) => bail!("{} open, such as {first}", open.len()),
        }
    }

    async fn not_running(&self) -> Result<Vec<Violation>> {
        let client = self.world.manager.admin_client().await?;
        let mut violations = Vec::new();
        for namespace in &self.namespaces {
            let mut say = |what: String, pod: Option<&Pod>| {
                let pod = pod.map(|pod| (namespace.clone(), pod.name_any()));
                violations.push(Violation {
                    kind: Kind::NotRunning,
                    what,
                    pod,
                });
            };
            for set in list::<Deployment>(&client, namespace).await? {
                let wanted = set.spec.replicas.unwrap_or(1);
                let status = set.status.clone().unwrap_or_default();
                let (ready, updated) = (
                    status.ready_replicas.unwrap_or(0),
                    status.updated_replicas.unwrap_or(0),
                );
                let all = status.replicas.unwrap_or(0);
                if (ready, updated, all) != (wanted, wanted, wanted) {
                    say(
                        format!(
                            "Deployment {namespace}/{}: {ready} ready, {updated} updated, {all} in all of {wanted}",
                            set.name_any()
                        ),
                        None,
                    );
                }
            }
            for set in list::<StatefulSet>(&client, namespace).await? {
                let wanted = set.spec.replicas.unwrap_or(1);
                let status = set.status.clone().unwrap_or_default();
                let ready = status.ready_replicas.unwrap_or(0);
                if (ready, status.replicas) != (wanted, wanted) {
                    say(
                        format!(
                            "StatefulSet {namespace}/{}: {ready} ready, {} in all of {wanted}",
                            set.name_any(),
                            status.replicas
                        ),
                        None,
                    );
                }
            }
            for pod in list::<Pod>(&client, namespace).await? {
                let phase = phase(&pod);
                let ready = condition(&pod, "Ready").is_some_and(|status| status == "True");
                if pod.metadata.deletion_timestamp.is_some()
                    || !(phase == "Succeeded" || phase == "Failed" || phase == "Running" && ready)
                {
                    let said = message(&pod);
                    say(
                        format!(
                            "Pod {namespace}/{} is {phase}, ready {ready}, deleted {:?}: {said}",
                            pod.name_any(),
                            pod.metadata.deletion_timestamp
                        ),
                        Some(&pod),
                    );
                }
            }
        }
        Ok(violations)
    }

    /// Pairs that disagree.
    async fn untrue(&self) -> Result<Vec<Violation>> {
        let (pairs, alone) = self.pairs().await?;
        let mut violations = Vec::new();
        for (worker, remote) in alone {
            violations.push(Violation {
                kind: Kind::LeftOver,
                what: format!(
                    "{}/{} on {worker} has no local pod",
                    remote.namespace().unwrap_or_default(),
                    remote.name_any()
                ),
                pod: Some((remote.namespace().unwrap_or_default(), remote.name_any())),
            });
        }
        for Pair { local, remotes } in pairs {
            let at = (local.namespace().unwrap_or_default(), local.name_any());
            let mut say = |kind, what: String| {
                violations.push(Violation {
                    kind,
                    what: format!("{}/{} {what}", at.0, at.1),
                    pod: Some(at.clone()),
                });
            };
            let committed = local
                .annotations()
                .get(REMOTE_UID)
                .and_then(|commit| commit.split_once('/'))
                .map(|(_, uid)| uid.to_owned());
            for (worker, remote) in remotes {
                if remote.uid() != committed {
                    say(
                        Kind::StatusUntrue,
                        format!(
                            "says commit {committed:?}, and on {worker} stands {:?}",
                            remote.uid()
                        ),
                    );
                    continue;
                }
                if phase(&local) != phase(&remote) && local.metadata.deletion_timestamp.is_none() {
                    say(
                        Kind::StatusUntrue,
                        format!(
                            "is {}, its remote pod on {worker} is {}",
                            phase(&local),
                            phase(&remote)
                        ),
                    );
                }
                if images(&local) != images(&remote) {
                    say(
                        Kind::StaleCopy,
                        format!(
                            "has {:?}, its remote pod on {worker} has {:?}",
                            images(&local),
                            images(&remote)
                        ),
                    );
                }
            }
        }
        Ok(violations)
    }

    /// Local pods with their remote pods, and remote pods without a local one.
    async fn pairs(&self) -> Result<(Vec<Pair>, Vec<(String, Pod)>)> {
        let manager = self.world.manager.admin_client().await?;
        let mut pairs = BTreeMap::new();
        for namespace in &self.namespaces {
            for local in list::<Pod>(&manager, namespace).await? {
                pairs.insert(
                    local.uid().unwrap_or_default(),
                    Pair {
                        local,
                        remotes: Vec::new(),
                    },
                );
            }
        }
        let mut alone = Vec::new();
        for (worker, remote) in self.remotes().await? {
            let local = remote.annotations().get(LOCAL_UID).cloned().unwrap_or_default();
            match pairs.get_mut(&local) {
                Some(pair) => pair.remotes.push((worker, remote)),
                None => alone.push((worker, remote)),
            }
        }
        Ok((pairs.into_values().collect(), alone))
    }

    async fn remotes(&self) -> Result<Vec<(String, Pod)>> {
        let mut remotes = Vec::new();
        for worker in &self.world.workers {
            let client = worker.cluster.admin_client().await?;
            for namespace in &self.namespaces {
                let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
                let ours = pods.list(&ListParams::default().labels(ORIGIN)).await?;
                remotes.extend(
                    ours.into_iter()
                        .map(|pod| (worker.cluster.name().to_owned(), pod)),
                );
            }
        }
        Ok(remotes)
    }

    async fn foreign_touched(&self) -> Result<Vec<Violation>> {
        let mut violations = Vec::new();
        for Foreign { worker, pod } in &self.foreign {
            let Some(worker) = self.world.workers.get(*worker) else {
                continue;
            };
            let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
            let pods: Api<Pod> = Api::namespaced(worker.cluster.admin_client().await?, &namespace);
            let found = pods.get_opt(&name).await?;
            let same = found.as_ref().is_some_and(|found| {
                found.uid() == pod.uid()
                    && found.metadata.deletion_timestamp.is_none()
                    && without_node(found) == without_node(pod)
                    && found.labels() == pod.labels()
                    && found.annotations() == pod.annotations()
            });
            if !same {
                let what = format!(
                    "{namespace}/{name} on {}: was {:?}, is {:?}",
                    worker.cluster.name(),
                    pod.uid(),
                    found.and_then(|found| found.uid())
                );
                violations.push(Violation {
                    kind: Kind::ForeignTouched,
                    what,
                    pod: Some((namespace, name)),
                });
            }
        }
        Ok(violations)
    }

    /// Watches for writes of the process while nothing happens.
    ///
    /// # Errors
    /// A log could not be read.
    pub async fn quiet(&self, window: Duration) -> Result<Vec<Violation>> {
        let began = jiff::Timestamp::now();
        tokio::time::sleep(window).await;
        let mut violations = Vec::new();
        for cluster in self.world.clusters() {
            for write in cluster.ledger()?.since(began).writes_by(ACCOUNT) {
                violations.push(Violation {
                    kind: Kind::WroteInQuiet,
                    what: format!(
                        "{} {} {}/{} on {}",
                        write.verb,
                        write.resource,
                        write.namespace,
                        write.name,
                        cluster.name()
                    ),
                    pod: Some((write.namespace.clone(), write.name.clone())),
                });
            }
        }
        Ok(violations)
    }

    /// Answers when no pod of ours is left anywhere.
    ///
    /// # Errors
    /// Something is left.
    pub async fn nothing_left(&self) -> Result<Option<()>> {
        match self.left_over().await?.first() {
            None => Ok(Some(())),
            Some(first) => bail!("{first}"),
        }
    }

    /// After everything was deleted.
    ///
    /// # Errors
    /// A cluster could not be read.
    pub async fn left_over(&self) -> Result<Vec<Violation>> {
        let mut left: Vec<(String, Pod)> = self.remotes().await?;
        let manager = self.world.manager.admin_client().await?;
        for namespace in &self.namespaces {
            let locals = list::<Pod>(&manager, namespace).await?;
            left.extend(
                locals
                    .into_iter()
                    .map(|pod| (self.world.manager.name().to_owned(), pod)),
            );
        }
        let violation = |(cluster, pod): (String, Pod)| {
            let at = (pod.namespace().unwrap_or_default(), pod.name_any());
            let what = format!(
                "{}/{} on {cluster}, finalizers {:?}",
                at.0,
                at.1,
                pod.finalizers()
            );
            Violation {
                kind: Kind::LeftOver,
                what,
                pod: Some(at),
            }
        };
        Ok(left.into_iter().map(violation).collect())
    }

    fn repeated(&self, lives: &BTreeMap<String, Life>, violations: &mut Vec<Violation>) {
        let mut by_local: BTreeMap<&str, Vec<&Life>> = BTreeMap::new();
        for life in lives.values().filter(|life| life.opened.is_some()) {
            by_local.entry(&life.local_uid).or_default().push(life);
        }
        for (local, mut opened) in by_local {
            opened.sort_by_key(|life| life.opened);
            let bound: Vec<&&Life> = opened.iter().filter(|life| life.bound.is_some()).collect();
            let at = opened
                .first()
                .map(|life| (life.namespace.clone(), life.name.clone()));
            let whole = |lives: &[&Life]| {
                lives
                    .iter()
                    .map(|life| format!("{} on {}", life.uid, life.cluster))
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            if bound.len() > 1 {
                let what = format!("{at:?} {local}: {}", whole(&opened));
                violations.push(Violation {
                    kind: Kind::BoundTwice,
                    what,
                    pod: at.clone(),
                });
            }
            let taken_back = |life: &Life, next: &Life| {
                life.bound.is_none() && life.last_delete.is_some_and(|end| Some(end) <= next.opened)
            };
            if opened.windows(2).any(|pair| !taken_back(pair[0], pair[1])) {
                violations.push(Violation {
                    kind: Kind::OpenedTwice,
                    what: format!("{at:?} {local}: {}", whole(&opened)),
                    pod: at,
                });
            }
        }
    }

    fn events(&self) -> Result<Vec<Event>> {
        let mut events = audit::read(self.world)?;
        events.retain(|event| self.namespaces.contains(&event.namespace));
        Ok(events)
    }

    /// What happened to the pods of a violation, from all audit logs.
    ///
    /// # Errors
    /// A log could not be read.
    pub fn history(&self, violation: &Violation) -> Result<String> {
        let Some((namespace, name)) = &violation.pod else {
            return Ok(String::new());
        };
        let events = self.events()?;
        let lines: Vec<String> = events
            .iter()
            .filter(|event| event.namespace == *namespace && event.name == *name)
            .map(Event::line)
            .collect();
        Ok(lines.join("\n"))
    }

    /// How much was judged.
    ///
    /// # Errors
    /// A log could not be read.
    pub fn summary(&self) -> Result<String> {
        let events = self.events()?;
        let manager = self.world.manager.name();
        let (lives, locals) = (audit::lives(&events, manager), audit::locals(&events, manager));
        let opened = lives.values().filter(|life| life.opened.is_some()).count();
        let bound = lives.values().filter(|life| life.bound.is_some()).count();
        let taken_back = locals.values().filter(|local| local.commits.len() > 1).count();
        Ok(format!(
            "{} local pods, {} remote pods, {opened} opened, {bound} bound, {taken_back} placed again, {} foreign",
            locals.len(),
            lives.len(),
            self.foreign.len()
        ))
    }
}

fn at_once(lives: &BTreeMap<String, Life>, violations: &mut Vec<Violation>) {
    let mut by_name: BTreeMap<(&str, &str), Vec<&Life>> = BTreeMap::new();
    for life in lives.values().filter(|life| life.opened.is_some()) {
        by_name
            .entry((&life.namespace, &life.name))
            .or_default()
            .push(life);
    }
    for ((namespace, name), mut opened) in by_name {
        opened.sort_by_key(|life| life.opened);
        for pair in opened.windows(2) {
            if pair[0].last_delete.is_none_or(|end| Some(end) > pair[1].opened) {
                violations.push(Violation {
                    kind: Kind::TwoAtOnce,
                    what: format!(
                        "{namespace}/{name}: {} on {} and {} on {}",
                        pair[0].uid, pair[0].cluster, pair[1].uid, pair[1].cluster
                    ),
                    pod: Some((namespace.to_owned(), name.to_owned())),
                });
            }
        }
    }
}

fn uncommitted(life: &Life, local: Option<&Local>, violations: &mut Vec<Violation>) {
    let committed = local.and_then(|local| local.commits.get(&life.uid));
    if life
        .opened
        .is_some_and(|opened| committed.is_none_or(|committed| *committed > opened))
    {
        violations.push(Violation {
            kind: Kind::OpenedUncommitted,
            what: format!(
                "{}/{} {} on {}",
                life.namespace, life.name, life.uid, life.cluster
            ),
            pod: Some((life.namespace.clone(), life.name.clone())),
        });
    }
}

fn killed(life: &Life, local: Option<&Local>, violations: &mut Vec<Violation>) {
    let Some(bound) = life.bound else { return };
    let ours = life
        .deletes
        .iter()
        .find(|(time, user)| user == ACCOUNT && *time > bound);
    let (Some((time, _)), Some(local)) = (ours, local) else {
        return;
    };
    // Somebody else may have asked for it before.
    let asked = life.deletes.first().is_some_and(|(first, _)| first < time);
    let deleted = local.deleted.is_some_and(|deleted| deleted < *time);
    let ended = local.ended.as_ref().is_some_and(|(ended, _, _)| ended < time);
    if !asked && !deleted && !ended {
        violations.push(Violation {
            kind: Kind::KilledHealthy,
            what: format!(
                "{}/{} {} on {}",
                life.namespace, life.name, life.uid, life.cluster
            ),
            pod: Some((life.namespace.clone(), life.name.clone())),
        });
    }
}

/// `RemotePodDeleted` is true if somebody else deleted the remote pod, or if it was taken back by a process that
/// died before it could clear the commit.
fn failed(uid: &str, local: &Local, lives: &BTreeMap<String, Life>, violations: &mut Vec<Violation>) {
    let Some((time, user, reason)) = &local.ended else {
        return;
    };
    if user != ACCOUNT
        || !reason.starts_with("Remote")
        || local.deleted.is_some_and(|deleted| deleted < *time)
    {
        return;
    }
    let committed = local
        .commits
        .iter()
        .max_by_key(|(_, time)| **time)
        .and_then(|(uid, _)| lives.get(uid));
    let cause = committed.is_some_and(|life| {
        let by_others = life
            .deletes
            .first()
            .is_some_and(|(when, who)| who != ACCOUNT && when < time);
        let taken_back = life.opened.is_some()
            && life.bound.is_none()
            && life.deletes.first().is_some_and(|(when, _)| when < time);
        by_others || taken_back
    });
    if !cause {
        violations.push(Violation {
            kind: Kind::FailedWithoutCause,
            what: format!("{}/{} {uid}: {reason}", local.namespace, local.name),
            pod: Some((local.namespace.clone(), local.name.clone())),
        });
    }
}

async fn list<K>(client: &Client, namespace: &str) -> Result<Vec<K>>
where
    K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + fmt::Debug
        + serde::de::DeserializeOwned,
{
    Ok(Api::<K>::namespaced(client.clone(), namespace)
        .list(&ListParams::default())
        .await?
        .items)
}

fn phase(pod: &Pod) -> String {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.clone())
        .unwrap_or_default()
}

fn condition(pod: &Pod, kind: &str) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    Some(
        conditions
            .iter()
            .find(|condition| condition.type_ == kind)?
            .status
            .clone(),
    )
}

fn message(pod: &Pod) -> String {
    let conditions = pod
        .status
        .iter()
        .filter_map(|status| status.conditions.as_ref())
        .flatten();
    let ours = conditions.filter(|condition| condition.type_ == "portcullis.dev/Dispatched");
    ours.map(|condition| {
        format!(
            "{}={} {}",
            condition.reason.as_deref().unwrap_or_default(),
            condition.status,
            condition.message.as_deref().unwrap_or_default()
        )
    })
    .collect()
}

fn images(pod: &Pod) -> Vec<String> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers
        .filter_map(|container| container.image.clone())
        .collect()
}

fn without_node(pod: &Pod) -> Value {
    let mut spec = serde_json::to_value(&pod.spec).unwrap_or_default();
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("nodeName");
    }
    debug_assert!(text(&spec, "/nodeName").is_empty());
    spec
}
