//! The watches of one cluster: what it serves is asked when its CRDs change; only what is served is watched, and nothing
//! at all while no namespace asks for gangs.

mod sinks;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Api;
use kube::core::ApiResource;
use kube::runtime::watcher;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::cluster::{GROUP_APIS, GangCluster, GroupApi};
use super::pod_policy;
use super::probe::{self, Native};
use super::scope::Scope;
use crate::cluster::api::CallError;
use crate::cluster::discovery::{Served, api_resource};
use crate::cluster::raw::RawObject;
use crate::cluster::watch::follow;
use crate::cluster::worker::rights::lacks;
use crate::names;
use crate::reconcile::events::{Note, Notes};
use crate::workload::Resource;
use crate::workload::jobs::GANG_KINDS;

/// After a change of a CRD the API server needs a moment to serve it, and changes come in flocks.
const SETTLE: Duration = Duration::from_millis(300);
/// What is built in changes only when the API server is started anew; nobody tells.
const ASK_AGAIN: Duration = Duration::from_secs(600);
/// Nobody tells that a CRD was installed on a worker, or a right was given.
const ASK_WORKER_AGAIN: Duration = Duration::from_secs(10);
const ASK_AFTER_FAILURE: Duration = Duration::from_secs(2);

/// Keeps the watches until `stop`.
pub(super) async fn keep(cluster: Arc<GangCluster>, notes: Notes, stop: CancellationToken) {
    let mut definitions = cluster.definitions.clone();
    let mut tasks = JoinSet::new();
    // A held job of a namespace whose label is not known yet would look like one to be released.
    while !cluster.scope.is_known() && !stop.is_cancelled() {
        tokio::select! {
            () = stop.cancelled() => {}
            () = cluster.scope.changed() => {}
        }
    }
    let mut running: BTreeMap<Watch, CancellationToken> = BTreeMap::new();
    let mut ganged: Vec<Arc<str>> = Vec::new();
    loop {
        let now = cluster.scope.ganged();
        if std::mem::replace(&mut ganged, now.clone()) != now {
            // Jobs of other namespaces are not kept, so those of a new one must be listed.
            stop_all(&mut running, |watch| matches!(watch, Watch::Jobs(_)));
        }
        let is_needed = cluster.scope.is_needed();
        let pause = match look(&cluster, &notes, is_needed).await {
            Ok(served) => {
                let wanted = wanted(&cluster.scope, &served, is_needed || cluster.store.has_left());
                stop_all(&mut running, |watch| !wanted.contains(watch));
                for watch in wanted {
                    running.entry(watch).or_insert_with(|| {
                        let token = stop.child_token();
                        tasks.spawn(start(cluster.clone(), watch, token.clone()));
                        token
                    });
                }
                match cluster.scope {
                    Scope::Labelled(_) => ASK_AGAIN,
                    Scope::Copies(_) => ASK_WORKER_AGAIN,
                }
            }
            Err(error) => {
                tracing::warn!(
                    words = error.words(),
                    "the cluster does not say what it serves; it is asked again"
                );
                ASK_AFTER_FAILURE
            }
        };
        tokio::select! {
            () = stop.cancelled() => break,
            Ok(()) = definitions.changed() => tokio::time::sleep(SETTLE).await,
            () = cluster.scope.changed() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
    while tasks.join_next().await.is_some() {}
}

/// Asks what is served, and whether native groups work. While no namespace asks for gangs, nothing is tried.
async fn look(cluster: &GangCluster, notes: &Notes, needed: bool) -> Result<Served, CallError> {
    let served = Served::ask(cluster.clients.calls.client(), &groups()).await?;
    if let Scope::Copies(copies) = &cluster.scope {
        cluster.set_lacks(lacks(cluster.clients.calls.client(), copies.family).await?);
    }
    let native = match needed && cluster.scope.may_be_native() {
        true => probe::native(&cluster.clients.calls, &cluster.own_namespace, &served).await?,
        false => Native::Off,
    };
    if let (Native::ApiOff, Some(sentence)) = (native, native.problem()) {
        tracing::error!("{sentence}");
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Namespace".to_owned()),
            name: Some(cluster.own_namespace.clone()),
            ..ObjectReference::default()
        };
        notes.about(about, Note::warning("PodGroupsNotServed", sentence));
    }
    let version = match native {
        Native::On(version) => Some(version),
        Native::Off | Native::GateOff | Native::ApiOff => None,
    };
    if let Scope::Copies(_) = &cluster.scope {
        cluster.set_pod_policy(pod_policy::of(cluster, version).await?);
    }
    cluster.serve(&served, version, needed);
    Ok(served)
}

/// One list that is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Watch {
    Jobs(Resource),
    Groups(GroupApi, &'static str),
    Pods,
    PriorityClasses,
    RuntimeClasses,
}

/// The API groups of what is followed.
pub fn groups() -> Vec<&'static str> {
    let jobs = GANG_KINDS.iter().map(|kind| kind.resource().group);
    let groups = jobs.chain(GROUP_APIS.iter().map(|api| api.group));
    groups.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Jobs are always looked at, since a hold may be left from before; all else only where gangs are asked for.
fn wanted(scope: &Scope, served: &Served, needed: bool) -> BTreeSet<Watch> {
    let jobs = GANG_KINDS
        .iter()
        .filter(|_| scope.follows_jobs())
        .map(|kind| kind.resource())
        .filter(|names| served.has(names.group, names.version, names.plural))
        .map(Watch::Jobs);
    let groups = scope.apis().into_iter().filter_map(|api| {
        Some(Watch::Groups(
            api,
            served.first(api.group, api.versions, api.plural)?,
        ))
    });
    let always = [Watch::Pods, Watch::PriorityClasses, Watch::RuntimeClasses];
    match needed {
        true => jobs.chain(groups).chain(always).collect(),
        false => jobs.collect(),
    }
}

fn stop_all(running: &mut BTreeMap<Watch, CancellationToken>, which: impl Fn(&Watch) -> bool) {
    running.retain(|watch, token| {
        let stays = !which(watch);
        if !stays {
            token.cancel();
        }
        stays
    });
}

async fn start(cluster: Arc<GangCluster>, watch: Watch, stop: CancellationToken) {
    let client = cluster.clients.watches.clone();
    let all = watcher::Config::default();
    match watch {
        Watch::Jobs(names) => {
            let api: Api<RawObject> = Api::all_with(
                client,
                &api_resource(names.group, names.version, names.plural, names.kind),
            );
            follow(
                cluster.scope.watching(names.plural),
                api,
                all,
                stop,
                sinks::jobs_sink(cluster, names),
            )
            .await;
        }
        Watch::Groups(group, version) => {
            let api: Api<RawObject> = Api::all_with(
                client,
                &api_resource(group.group, version, group.plural, group.kind),
            );
            follow(
                cluster
                    .scope
                    .watching(&format!("{}.{}", group.plural, group.group)),
                api,
                all,
                stop,
                sinks::groups_sink(cluster, group, version),
            )
            .await;
        }
        Watch::Pods => {
            let api: Api<RawObject> = Api::all_with(client, &ApiResource::erase::<Pod>(&()));
            follow(
                cluster.scope.watching("pods"),
                api,
                all.labels(names::POD_GROUP),
                stop,
                sinks::pods_sink(cluster),
            )
            .await;
        }
        Watch::PriorityClasses => {
            let watching = cluster.scope.watching("priorityclasses");
            let sink = sinks::classes_sink(cluster, |cluster, classes| cluster.priority_classes(classes));
            follow(watching, Api::<PriorityClass>::all(client), all, stop, sink).await;
        }
        Watch::RuntimeClasses => {
            let watching = cluster.scope.watching("runtimeclasses");
            let sink = sinks::classes_sink(cluster, |cluster, classes| cluster.runtime_classes(classes));
            follow(watching, Api::<RuntimeClass>::all(client), all, stop, sink).await;
        }
    }
}
