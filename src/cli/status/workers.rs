//! The workers -> what only they can tell: orphans, and namespaces that were created there. They are read with the
//! kubeconfigs that portcullis uses.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};

use super::orphan::{OrphanLine, orphan_job_line, orphan_line};
use super::report::{CreatedNamespace, Report};
use super::{StatusArgs, words};
use crate::api::WorkerCluster;
use crate::cluster::api::ClusterApi;
use crate::cluster::client::Clients;
use crate::cluster::discovery::{Served, api_resource};
use crate::cluster::kubeconfig;
use crate::cluster::worker::space;
use crate::job::{Claim, claim};
use crate::names;
use crate::words::chain;
use crate::workload::Resource;
use crate::workload::jobs::{JobKind, JobKinds};

/// What the manager has.
struct Manager<'a> {
    client: &'a Client,
    origin: String,
    /// UIDs of the pods that carry our gate.
    pods: BTreeSet<String>,
    kinds: JobKinds,
    /// UIDs of the jobs that are ours, of the kinds that some worker has copies of.
    jobs: BTreeMap<Resource, BTreeSet<String>>,
}

/// Orphans can only be seen on the workers.
pub(super) async fn read(client: &Client, args: &StatusArgs, kinds: JobKinds, report: &mut Report) {
    let note = |what: &str, error: &dyn std::fmt::Display| {
        eprintln!(
            "portcullis: {what}: {error}; orphans and namespaces that were created are not listed there"
        );
    };
    let mut manager = match Manager::read(client, kinds).await {
        Ok(manager) => manager,
        Err(error) => return note("the manager", &chain(error.as_ref())),
    };
    let clusters = match Api::<WorkerCluster>::all(client.clone())
        .list(&ListParams::default())
        .await
    {
        Ok(clusters) => clusters,
        Err(error) => return note("WorkerClusters", &words(error)),
    };
    for cluster in clusters {
        let name = cluster.name_any();
        let created = cluster.status.clone().unwrap_or_default().created_namespaces;
        report
            .created_namespaces
            .extend(created.into_iter().map(|namespace| CreatedNamespace {
                cluster: name.clone(),
                namespace,
            }));
        match orphans(args, &cluster, &mut manager).await {
            Ok((orphans, foreign)) => {
                report.orphans.extend(orphans);
                report.notes.extend(foreign_note(&name, &foreign));
            }
            Err(error) => note(&name, &chain(error.as_ref())),
        }
    }
}

impl<'a> Manager<'a> {
    async fn read(client: &'a Client, kinds: JobKinds) -> anyhow::Result<Self> {
        let system = Api::<Namespace>::all(client.clone())
            .get("kube-system")
            .await
            .map_err(words)
            .context("read kube-system")?;
        let gated = ListParams::default().labels(&format!("{}={}", names::GATED, names::TRUE));
        let pods = Api::<Pod>::all(client.clone())
            .list_metadata(&gated)
            .await
            .map_err(words)
            .context("list gated pods")?;
        Ok(Self {
            client,
            origin: system.uid().context("kube-system has no UID")?,
            pods: pods.iter().filter_map(|pod| pod.metadata.uid.clone()).collect(),
            kinds,
            jobs: BTreeMap::new(),
        })
    }

    /// The UIDs of our jobs of a kind; none if the manager does not serve it (any more).
    async fn jobs(&mut self, kind: &dyn JobKind) -> anyhow::Result<&BTreeSet<String>> {
        let names = kind.resource();
        if let Entry::Vacant(place) = self.jobs.entry(names) {
            let resource = api_resource(names.group, names.version, names.plural, names.kind);
            let list = Api::<DynamicObject>::all_with(self.client.clone(), &resource);
            let found = match list.list(&ListParams::default()).await {
                Ok(list) => list.items,
                Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
                Err(error) => {
                    return Err(words(error).context(format!("list {} of the manager", names.plural)));
                }
            };
            let is_ours = |job: &DynamicObject| {
                serde_json::to_value(job).is_ok_and(|job| claim(kind, &job) == Claim::Ours)
            };
            let ours = found
                .iter()
                .filter(|job| is_ours(job))
                .filter_map(ResourceExt::uid);
            place.insert(ours.collect());
        }
        Ok(&self.jobs[&names])
    }
}

/// The orphans on a worker, and its namespaces that take nothing from here but hold some that look like orphans.
async fn orphans(
    args: &StatusArgs,
    cluster: &WorkerCluster,
    manager: &mut Manager<'_>,
) -> anyhow::Result<(Vec<OrphanLine>, BTreeSet<String>)> {
    let api = worker_api(manager.client, args, cluster).await?;
    let (worker, name) = (api.client(), cluster.name_any());
    let ours = ListParams::default().labels(&format!("{}={}", names::ORIGIN, manager.origin));
    let pods = match &args.namespace {
        Some(namespace) => Api::<Pod>::namespaced(worker.clone(), namespace),
        None => Api::<Pod>::all(worker.clone()),
    };
    let pods = pods.list(&ours).await.map_err(words).context("list pods")?;
    let of_pod = |pod: &Pod| orphan_line(&name, pod, &manager.pods);
    let mut found: Vec<OrphanLine> = pods.iter().filter_map(of_pod).collect();
    // Whoever may not read jobs there sees the pods all the same.
    match orphan_jobs(args, worker, &name, manager).await {
        Ok(jobs) => found.extend(jobs),
        Err(error) => eprintln!(
            "portcullis: {name}: {}; jobs are not listed among the orphans there",
            chain(error.as_ref())
        ),
    }
    without_foreign(&api, &manager.origin, found).await
}

/// Copies of jobs that are open and whose job is gone or not ours.
async fn orphan_jobs(
    args: &StatusArgs,
    worker: &Client,
    name: &str,
    manager: &mut Manager<'_>,
) -> anyhow::Result<Vec<OrphanLine>> {
    let ours = ListParams::default().labels(&format!("{}={}", names::ORIGIN, manager.origin));
    let groups: Vec<&str> = manager.kinds.iter().map(|kind| kind.resource().group).collect();
    let served = Served::ask(worker, &groups).await;
    let served = served.map_err(|error| anyhow::anyhow!(error.words()).context("read what is served"))?;
    let mut found = Vec::new();
    for kind in manager.kinds.iter() {
        let names = kind.resource();
        if !served.has(names.group, names.version, names.plural) {
            continue;
        }
        let resource = api_resource(names.group, names.version, names.plural, names.kind);
        let copies: Api<DynamicObject> = match &args.namespace {
            Some(namespace) => Api::namespaced_with(worker.clone(), namespace, &resource),
            None => Api::all_with(worker.clone(), &resource),
        };
        let copies = copies.list_metadata(&ours).await.map_err(words);
        let copies = copies.with_context(|| format!("list {}.{}", names.plural, names.group))?;
        if !copies.items.is_empty() {
            let living = manager.jobs(kind).await?;
            let orphans = copies
                .iter()
                .filter_map(|copy| orphan_job_line(name, kind, copy, living));
            found.extend(orphans);
        }
    }
    Ok(found)
}

/// Anyone who may create pods in a namespace of the worker can give them our marks. Only one that takes our pods has any.
pub(super) async fn without_foreign(
    api: &ClusterApi,
    origin: &str,
    mut orphans: Vec<OrphanLine>,
) -> anyhow::Result<(Vec<OrphanLine>, BTreeSet<String>)> {
    let namespaces: BTreeSet<String> = orphans.iter().map(|line| line.namespace.clone()).collect();
    let mut foreign = BTreeSet::new();
    for namespace in namespaces {
        let refuses = space::refuses(api, origin, &namespace).await;
        if refuses.with_context(|| format!("read namespace {namespace}"))? {
            foreign.insert(namespace);
        }
    }
    orphans.retain(|line| !foreign.contains(&line.namespace));
    Ok((orphans, foreign))
}

pub(super) fn foreign_note(cluster: &str, foreign: &BTreeSet<String>) -> Option<String> {
    let names: Vec<&str> = foreign.iter().map(String::as_str).collect();
    (!names.is_empty()).then(|| {
        format!(
            "On {cluster} pods or jobs without their own here carry the marks of this cluster, but in namespaces that do not accept its pods: {}. They are not listed as orphans.",
            names.join(", ")
        )
    })
}

pub(super) async fn worker_api(
    client: &Client,
    args: &StatusArgs,
    cluster: &WorkerCluster,
) -> anyhow::Result<ClusterApi> {
    let reference = &cluster.spec.kubeconfig_secret_ref;
    let secrets = Api::<Secret>::namespaced(client.clone(), &args.portcullis_namespace);
    let secret = secrets
        .get(&reference.name)
        .await
        .map_err(words)
        .with_context(|| format!("read Secret {}", reference.name))?;
    let data = secret.data.unwrap_or_default();
    let bytes = data
        .get(&reference.key)
        .with_context(|| format!("Secret {} has no key {}", reference.name, reference.key))?;
    let clients = Clients::from_kubeconfig(kubeconfig::parse(&bytes.0)?).await?;
    Ok(clients.calls)
}
