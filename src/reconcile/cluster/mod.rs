//! WorkerClusters, their Secrets and DispatchPolicies: links follow them, their status is kept true.

mod registry;
pub mod status;
mod unreadable;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ObjectReference, Secret};
use kube::api::{Patch, PatchParams};
use kube::core::DeserializeGuard;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use self::registry::Registry;
use self::status::{Facts, LinkSeen, Work};
use super::events::{Note, Notes};
use super::pair::local::{Phase, Subject};
use super::pair::world::World;
use crate::admission::AllowExempt;
use crate::api::{DispatchPolicy, WorkerCluster};
use crate::cluster::client::Clients;
use crate::cluster::fleet::twin_of;
use crate::cluster::watch::{Watched, Watching, follow};
use crate::cluster::worker::{Link, Worker, missing};
use crate::names;
use crate::words::chain;

/// Counts and conditions are written at most once in this time.
const BEAT: Duration = Duration::from_secs(2);

/// Keeps links and statuses until `stop`. `listed` is called once when the policies are listed, and once when the workers are:
/// that is when they are in the fleet.
pub async fn keep(
    clients: Clients,
    namespace: String,
    world: Arc<World>,
    notes: Notes,
    listed: impl Fn() + Clone + Send + 'static,
    stop: CancellationToken,
) {
    let (client, watches) = (clients.calls.client().clone(), clients.watches);
    let changed = Arc::new(Notify::new());
    let registry = Arc::new(Registry::new(
        world.clone(),
        notes.clone(),
        changed.clone(),
        listed.clone(),
    ));
    let tasks = [
        tokio::spawn(follow(
            Watching::on_manager("workerclusters"),
            Api::<DeserializeGuard<WorkerCluster>>::all(watches.clone()),
            watcher::Config::default(),
            stop.clone(),
            registry.clone().clusters_sink(),
        )),
        tokio::spawn(follow(
            Watching::on_manager("secrets"),
            Api::<DeserializeGuard<Secret>>::namespaced(watches.clone(), &namespace),
            watcher::Config::default(),
            stop.clone(),
            registry.clone().secrets_sink(),
        )),
        tokio::spawn(follow(
            Watching::on_manager("dispatchpolicies"),
            Api::<DeserializeGuard<DispatchPolicy>>::all(watches),
            watcher::Config::default(),
            stop.clone(),
            policies_sink(world.clone(), notes.clone(), changed.clone(), listed),
        )),
    ];
    let mut beat = tokio::time::interval(BEAT);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            () = changed.notified() => {
                registry.converge(&stop);
            }
            _ = beat.tick() => if registry.converge(&stop) {
                write_statuses(&client, &registry, &world, &notes).await;
            }
        }
    }
    for task in tasks {
        // The watches end with the same token; a panic in one was reported by the runtime.
        let _ended = task.await;
    }
}

fn policies_sink(
    world: Arc<World>,
    notes: Notes,
    changed: Arc<Notify>,
    listed: impl Fn() + Send + 'static,
) -> impl FnMut(Watched<DeserializeGuard<DispatchPolicy>>) + Send {
    let mut first = true;
    let mut fresh: BTreeMap<String, Arc<DispatchPolicy>> = BTreeMap::new();
    move |watched| {
        let mut policies = world.policies.write().unwrap_or_else(PoisonError::into_inner);
        match watched {
            Watched::Event(Event::Init) => fresh.clear(),
            Watched::Event(Event::InitApply(DeserializeGuard(policy))) => {
                let readable = match policy {
                    Ok(policy) => Some(Arc::new(policy)),
                    Err(broken) => {
                        unreadable::tell(&notes, "DispatchPolicy", &broken);
                        let name = broken.metadata.name.as_deref().unwrap_or_default();
                        policies.get(name).cloned()
                    }
                };
                fresh.extend(readable.map(|policy| (policy.name_any(), policy)));
            }
            Watched::Event(Event::InitDone) => {
                *policies = std::mem::take(&mut fresh);
                if std::mem::take(&mut first) {
                    listed();
                }
            }
            Watched::Event(Event::Apply(DeserializeGuard(Err(broken)))) => {
                unreadable::tell(&notes, "DispatchPolicy", &broken);
                return;
            }
            Watched::Event(Event::Apply(DeserializeGuard(Ok(policy)))) => {
                let held = policies.insert(policy.name_any(), Arc::new(policy.clone()));
                if held.is_some_and(|held| held.spec == policy.spec) {
                    return; // only its status: ours
                }
            }
            Watched::Event(Event::Delete(policy)) => {
                policies.remove(&policy.name_any());
            }
            Watched::Failed(_) => return,
        }
        drop(policies);
        world.memories.forget_verdicts();
        world.look_at_all();
        changed.notify_one();
    }
}

async fn write_statuses(client: &Client, registry: &Registry, world: &World, notes: &Notes) {
    let counts = count(world);
    let members = world.fleet.all();
    let now = Timestamp::now();
    for cluster in registry.clusters() {
        let name = cluster.name_any();
        let work = counts.get(name.as_str()).copied().unwrap_or_default();
        keep_finalizer(client, &cluster, !work.is_none()).await;
        let Some(member) = world.fleet.get(&name) else {
            continue;
        };
        let facts = Facts {
            generation: cluster.metadata.generation,
            deleting: cluster.metadata.deletion_timestamp.is_some(),
            cordoned: cluster.spec.cordoned,
            link: link_seen(&member.worker),
            work,
            twin: twin_of(&members, &member.worker).map(|twin| twin.to_string()),
            created_namespaces: member.worker.spaces.created(),
        };
        let held = cluster.status.clone().unwrap_or_default();
        let next = status::status(&held, &facts, now);
        if next != held {
            write_status::<WorkerCluster>(client, &name, &json!({ "status": next })).await;
        }
    }
    let policies: Vec<_> = world
        .policies
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .values()
        .cloned()
        .collect();
    for policy in policies {
        let held = policy.status.clone().unwrap_or_default();
        let why_not = |name: &str| why_not(world, name);
        let next = super::policy::status(&held, &policy.spec, policy.metadata.generation, why_not, now);
        if next != held {
            write_status::<DispatchPolicy>(client, &policy.name_any(), &json!({ "status": next })).await;
        }
    }
    tell_of_labels(world, notes);
}

/// What is committed to each cluster: what is not finished, and what finished and keeps a copy there.
fn count(world: &World) -> BTreeMap<String, Work> {
    let mut counts: BTreeMap<String, Work> = BTreeMap::new();
    for local in world.locals.all() {
        let Some(committed) = local.committed() else {
            continue;
        };
        let work = counts.entry(committed.cluster().to_string()).or_default();
        let finished = local.phase == Phase::Terminal && !local.terminating;
        let kept = i64::from(local.finalizer.is_some());
        match (local.key.subject, finished) {
            (Subject::Pod, true) => work.finished += kept,
            (Subject::Pod, false) => {
                work.pods.committed += 1;
                work.pods.running += i64::from(local.phase == Phase::Running);
            }
            (Subject::Job(_), true) => work.finished_jobs += kept,
            (Subject::Job(_), false) => {
                work.jobs.committed += 1;
                work.jobs.running += i64::from(local.phase == Phase::Running);
            }
        }
    }
    counts
}

fn link_seen(worker: &Worker) -> LinkSeen {
    match &*worker.link() {
        Link::Down(problem) => LinkSeen::Down {
            reason: problem.reason,
            message: problem.message.clone(),
            credential: problem.credential,
        },
        Link::Up(connection) => LinkSeen::Up {
            cluster_uid: connection.cluster_uid.to_string(),
            version: connection.version.clone(),
            lost: worker.lost().map(|words| words.to_string()),
            not_permitted: (!connection.missing_rights.is_empty())
                .then(|| missing(&connection.missing_rights)),
        },
    }
}

fn why_not(world: &World, name: &str) -> Option<(String, String)> {
    match world.fleet.get(name) {
        None => Some((
            "ClusterNotFound".to_owned(),
            format!("there is no WorkerCluster {name}"),
        )),
        Some(member) if twin_of(&world.fleet.all(), &member.worker).is_some() => Some((
            "DuplicateCluster".to_owned(),
            format!("{name} leads to the same cluster as another WorkerCluster"),
        )),
        Some(member) => match (member.intake.why_closed(), &*member.worker.link()) {
            (Some((reason, words)), _) => Some((reason.to_owned(), words.to_owned())),
            (None, Link::Down(problem)) => Some((problem.reason.to_owned(), problem.message.clone())),
            (None, Link::Up(_)) => member
                .worker
                .rejection(Subject::Pod, "")
                .filter(|rejection| rejection.reason != "Syncing")
                .map(|rejection| (rejection.reason, rejection.message)),
        },
    }
}

/// A namespace whose label names no policy, or means nothing, gets an Event; its pods say it in their condition, or when
/// they are created.
fn tell_of_labels(world: &World, notes: &Notes) {
    for namespace in world.namespaces.opted_in() {
        let Some(opt_in) = world.namespaces.get(&namespace) else {
            continue;
        };
        let policies = world.policies.read().unwrap_or_else(PoisonError::into_inner);
        let unknown = opt_in.dispatch.filter(|policy| !policies.contains_key(&**policy));
        drop(policies);
        let about = || ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Namespace".to_owned()),
            name: Some(namespace.to_string()),
            ..ObjectReference::default()
        };
        if let Some(policy) = unknown {
            let sentence = format!(
                "label {}={policy} names a DispatchPolicy that does not exist: no pod of this namespace starts; create the policy or change the label",
                names::DISPATCH
            );
            notes.about(about(), Note::warning("PolicyNotFound", sentence));
        }
        if let AllowExempt::Meaningless(found) = opt_in.allow_exempt {
            let sentence = format!(
                "metadata.labels[{}]: found {found:?}, allowed is \"true\": pods labelled {} run on workers; correct the label or take it off",
                names::ALLOW_EXEMPT,
                names::EXEMPT
            );
            notes.about(about(), Note::warning("InvalidLabel", sentence));
        }
    }
}

/// Ours while committed work is on the cluster.
async fn keep_finalizer(client: &Client, cluster: &WorkerCluster, work: bool) {
    let held = cluster
        .finalizers()
        .iter()
        .any(|name| name == names::WORK_REMAINS);
    let deleting = cluster.metadata.deletion_timestamp.is_some();
    let finalizers: Vec<&str> = match (work, held, deleting) {
        (true, false, false) => cluster
            .finalizers()
            .iter()
            .map(String::as_str)
            .chain([names::WORK_REMAINS])
            .collect(),
        (false, true, _) => cluster
            .finalizers()
            .iter()
            .map(String::as_str)
            .filter(|name| *name != names::WORK_REMAINS)
            .collect(),
        (true, true, _) | (false, false, _) | (true, false, true) => return,
    };
    let patch = json!({"metadata": {
        "uid": cluster.metadata.uid,
        "resourceVersion": cluster.metadata.resource_version,
        "finalizers": finalizers,
    }});
    let api = Api::<WorkerCluster>::all(client.clone());
    if let Err(error) = api
        .patch(&cluster.name_any(), &params(), &Patch::Merge(patch))
        .await
    {
        tracing::info!(worker = %cluster.name_any(), error = chain(&error), "finalizer not written; the next beat tries again");
    }
}

async fn write_status<K>(client: &Client, name: &str, patch: &serde_json::Value)
where
    K: kube::Resource<Scope = kube::core::ClusterResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let api = Api::<K>::all(client.clone());
    if let Err(error) = api.patch_status(name, &params(), &Patch::Merge(patch)).await {
        let kind = K::kind(&());
        tracing::info!(%kind, name, error = chain(&error), "status not written; the next beat tries again");
    }
}

fn params() -> PatchParams {
    PatchParams {
        field_manager: Some(names::PORTCULLIS.to_owned()),
        ..PatchParams::default()
    }
}
