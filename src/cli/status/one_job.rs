//! `portcullis status KIND/NAME`: the job, where it is, why it waits, and its pods on the worker. Nothing is written.

use std::collections::BTreeSet;

use anyhow::Context;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use super::asked::{self, Named, Names};
use super::jobs::{JobLine, by_pods, told};
use super::remote_pods::{self, RemotePodLine};
use super::report::was_gated;
use super::workers::worker_api;
use super::{StatusArgs, words};
use crate::api::WorkerCluster;
use crate::cluster::api::{CallError, ClusterApi};
use crate::cluster::discovery::api_resource;
use crate::job::owners::{OwnerKind, Owners};
use crate::job::{Claim, claim};
use crate::names;
use crate::reconcile::pair::key::Subject;
use crate::words::chain;
use crate::workload::jobs::{JobKind, JobKinds};

/// What is to be said of one job.
pub(super) struct OneJob {
    /// The job.
    pub(super) line: JobLine,
    /// Its pods.
    pub(super) pods: Vec<RemotePodLine>,
    /// Why pods are not listed.
    pub(super) notes: Vec<String>,
}

/// Reads it.
///
/// # Errors
/// If no kind, or several, are called so, if there is no such job, or the manager cannot be read.
pub(super) async fn read(client: &Client, args: &StatusArgs, named: &Named) -> anyhow::Result<OneJob> {
    let kinds = args.kinds.read()?;
    let served = served(client, kinds).await?;
    let kind = asked::kind(kinds, &served, &named.kind).map_err(anyhow::Error::msg)?;
    let namespace = args.namespace.as_deref().unwrap_or_default();
    let job = match get(&ClusterApi::new(client.clone()), kind, namespace, &named.name).await {
        Ok(job) => job,
        Err(error) if error.code() == Some(404) => {
            anyhow::bail!(
                "{} {:?} not found in namespace {namespace:?}",
                kind.resource().kind,
                named.name
            )
        }
        Err(error) => anyhow::bail!("read {named}: {}", error.words()),
    };
    let mut one = OneJob {
        line: told(kind, &job),
        pods: Vec::new(),
        notes: Vec::new(),
    };
    match claim(kind, &job) {
        Claim::Ours => {}
        Claim::Local => {
            match gated_pods(client, kind, namespace, &job).await {
                Ok(0) => {}
                Ok(pods) => one.line = by_pods(kind, &job, pods),
                Err(error) => one.notes.push(format!("list pods: {}", chain(error.as_ref()))),
            }
            return Ok(one);
        }
        Claim::Foreign(_) => return Ok(one),
    }
    if !kind.dispatch().takes_condition
        && let Some((reason, message)) = last_event(client, namespace, &job).await
    {
        one.line.reason = reason;
        one.line.message = message;
    }
    let (Some(cluster), Some(uid)) = (one.line.cluster.clone(), commit(&job)) else {
        let note = format!(
            "{} has no copy on any worker yet: there are no pods to list.",
            one.line.job
        );
        one.notes.push(note);
        return Ok(one);
    };
    let copy = Copy {
        kind,
        namespace,
        name: &named.name,
        uid,
        cluster: &cluster,
    };
    match copy.pods(client, args).await {
        Ok((pods, notes)) => {
            one.pods = pods;
            one.notes.extend(notes);
        }
        Err(error) => one.notes.push(copy.unreadable(&error)),
    }
    Ok(one)
}

/// How many of its pods here carry, or carried, our gate.
async fn gated_pods(
    client: &Client,
    kind: &'static dyn JobKind,
    namespace: &str,
    job: &Value,
) -> anyhow::Result<usize> {
    let selector = kind.pod_labels().and_then(|labels| labels.selector(job));
    let params = selector.map_or_else(ListParams::default, |selector| {
        ListParams::default().labels(&selector)
    });
    let by_labels = params.label_selector.is_some();
    let uid = job.pointer("/metadata/uid").and_then(Value::as_str);
    let is_owned = |pod: &Pod| {
        let mut owners = pod.owner_references().iter();
        owners.any(|owner| Some(owner.uid.as_str()) == uid)
    };
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    let pods = pods.list(&params).await.map_err(words)?.items;
    let pods = pods.iter().filter(|pod| was_gated(pod));
    Ok(pods.filter(|pod| by_labels || is_owned(pod)).count())
}

/// What the manager calls the kinds that it serves.
async fn served(client: &Client, kinds: JobKinds) -> anyhow::Result<Vec<Names>> {
    let versions: BTreeSet<String> = kinds.iter().map(|kind| kind.resource().api_version()).collect();
    let mut served = Vec::new();
    for version in versions {
        let list = match client.list_api_group_resources(&version).await {
            Ok(list) => list,
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            Err(error) => return Err(words(error).context(format!("read what of {version} is served"))),
        };
        let (group, version) = version.split_once('/').unwrap_or_default();
        served.extend(list.resources.into_iter().map(|resource| {
            Names {
                group: group.to_owned(),
                version: version.to_owned(),
                others: [resource.kind.to_lowercase(), resource.singular_name]
                    .into_iter()
                    .chain(resource.short_names.unwrap_or_default())
                    .collect(),
                plural: resource.name,
            }
        }));
    }
    Ok(served)
}

async fn get(
    api: &ClusterApi,
    kind: &'static dyn JobKind,
    namespace: &str,
    name: &str,
) -> Result<Value, CallError> {
    let path = format!("{}/{name}", Subject::Job(kind).collection(namespace));
    let object = api.get(&path).await?;
    serde_json::from_str(object.json()).map_err(CallError::Unreadable)
}

/// The UID of the committed copy.
fn commit(job: &Value) -> Option<&str> {
    let commit = job
        .pointer("/metadata/annotations")?
        .get(names::REMOTE_UID)?
        .as_str()?;
    let (local, remote) = commit.split_once('/')?;
    (job.pointer("/metadata/uid")? == local).then_some(remote)
}

/// The last thing that was told of it.
async fn last_event(client: &Client, namespace: &str, job: &Value) -> Option<(String, String)> {
    let uid = job.pointer("/metadata/uid")?.as_str()?;
    let about = format!("regarding.uid={uid},reportingController={}", names::PORTCULLIS);
    let events = Api::<Event>::namespaced(client.clone(), namespace);
    let events = events.list(&ListParams::default().fields(&about)).await.ok()?;
    let time = |event: &Event| {
        let again = event.series.as_ref().map(|series| series.last_observed_time.0);
        again.or(event.event_time.as_ref().map(|time| time.0))
    };
    let last = events.items.into_iter().max_by_key(time)?;
    Some((last.reason.unwrap_or_default(), last.note.unwrap_or_default()))
}

/// A committed copy.
struct Copy<'a> {
    kind: &'static dyn JobKind,
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    cluster: &'a str,
}

impl Copy<'_> {
    /// Its pods, and what could not be read.
    async fn pods(
        &self,
        client: &Client,
        args: &StatusArgs,
    ) -> anyhow::Result<(Vec<RemotePodLine>, Vec<String>)> {
        let cluster = Api::<WorkerCluster>::all(client.clone()).get(self.cluster).await;
        let cluster = cluster.map_err(words).context("read its WorkerCluster")?;
        let api = worker_api(client, args, &cluster).await?;
        match get(&api, self.kind, self.namespace, self.name).await {
            Ok(copy) if copy.pointer("/metadata/uid").is_some_and(|uid| uid == self.uid) => {}
            Ok(_) => anyhow::bail!("its copy is gone; what has its name there is another"),
            Err(error) if error.code() == Some(404) => anyhow::bail!("its copy is not there (any more)"),
            Err(error) => anyhow::bail!("read its copy: {}", error.words()),
        }
        self.below(api.client()).await
    }

    /// The pods that the copy owns, by whatever stands between.
    async fn below(&self, worker: &Client) -> anyhow::Result<(Vec<RemotePodLine>, Vec<String>)> {
        let pods = Api::<Pod>::namespaced(worker.clone(), self.namespace);
        let pods = pods.list(&ListParams::default()).await;
        let pods = pods.map_err(words).context("list pods")?.items;
        let mut owners = Owners::default();
        pods.iter().for_each(|pod| owners.add(&pod.metadata));
        let (mut asked, mut notes) = (BTreeSet::new(), Vec::new());
        loop {
            let unknown = owners.unknown(self.uid);
            let new: Vec<OwnerKind> = unknown.difference(&asked).cloned().collect();
            if new.is_empty() {
                break;
            }
            for kind in new {
                match self.owners(worker, &kind).await {
                    Ok(found) => found.iter().for_each(|object| owners.add(&object.metadata)),
                    Err(error) => notes.push(format!(
                        "{}: {}; pods below a {} are not listed.",
                        self.cluster,
                        chain(error.as_ref()),
                        kind.1
                    )),
                }
                asked.insert(kind);
            }
        }
        let is_ours = |pod: &&Pod| pod.uid().is_some_and(|uid| owners.is_below(&uid, self.uid));
        let lines = pods
            .iter()
            .filter(is_ours)
            .map(|pod| remote_pods::line(self.cluster, pod));
        Ok((lines.collect(), notes))
    }

    async fn owners(
        &self,
        worker: &Client,
        (api_version, kind): &OwnerKind,
    ) -> anyhow::Result<Vec<kube::core::PartialObjectMeta<DynamicObject>>> {
        let resource = resource(worker, api_version, kind).await?;
        let list = Api::<DynamicObject>::namespaced_with(worker.clone(), self.namespace, &resource)
            .list_metadata(&ListParams::default())
            .await;
        let list = list
            .map_err(words)
            .with_context(|| format!("list {} of {api_version}", resource.plural))?;
        Ok(list.items)
    }

    fn unreadable(&self, error: &anyhow::Error) -> String {
        format!(
            "{}: {}; its pods are not listed. On the worker: kubectl --context {} --namespace {} get pods",
            self.cluster,
            chain(error.as_ref()),
            self.cluster,
            self.namespace
        )
    }
}

/// What the worker calls them.
async fn resource(worker: &Client, api_version: &str, kind: &str) -> anyhow::Result<ApiResource> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let list = worker.list_api_group_resources(api_version).await;
    let list = list
        .map_err(words)
        .with_context(|| format!("read what of {api_version} is served"))?;
    let found = list
        .resources
        .into_iter()
        .find(|resource| resource.kind == kind && !resource.name.contains('/'));
    let plural = found
        .with_context(|| format!("{kind} of {api_version} is not served"))?
        .name;
    Ok(api_resource(group, version, &plural, kind))
}
