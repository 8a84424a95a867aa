//! Namespaces that ask for gangs -> what became of their jobs: held, waiting, running, and why. Only what is stored is read:
//! jobs, PodGroups, pods, PriorityClasses and Events.

mod line;
mod why;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::PartialObjectMeta;
use kube::{Api, Client, ResourceExt};
use serde::Serialize;
use serde_json::Value;

use self::line::{Around, line};
use super::words;
use crate::cluster::discovery::{Served, api_resource};
use crate::gang::{self, PriorityClasses, Wanted};
use crate::names;
use crate::reconcile::gang::cluster::{COSCHEDULING, GROUP_APIS, NATIVE_POD_GROUP, NATIVE_WORKLOAD, VOLCANO};
use crate::workload::jobs::{GANG_KINDS, GangKind};

/// A job whose pods start together.
#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct GangLine {
    /// Namespace.
    pub namespace: String,
    /// Of the job.
    pub api_version: String,
    /// Of the job.
    pub kind: String,
    /// Of the job.
    pub name: String,
    /// The gang scheduler: `coscheduling`, `volcano` or `native`; none if no group is wanted.
    pub scheduler: Option<String>,
    /// The name of the PodGroup that the pods name, if it is there.
    pub pod_group: Option<String>,
    /// In one word or two.
    pub state: &'static str,
    /// Why, in one word; none if nothing is wrong.
    pub reason: Option<String>,
    /// Its sentence, or how many pods are there.
    pub message: Option<String>,
}

/// What is there.
#[derive(Debug, Default)]
pub(super) struct Gangs {
    /// The jobs.
    pub(super) lines: Vec<GangLine>,
    /// Sentences for the reader.
    pub(super) notes: Vec<String>,
    /// Whether any of the namespaces asks for gangs.
    pub(super) are_asked_for: bool,
}

/// A namespace.
struct Space {
    name: String,
    /// Label `gang`; without it, gangs of earlier may be left.
    label: Option<String>,
    is_dispatched: bool,
}

/// The gangs of this namespace, or of all that ask for gangs or have some left. What cannot be read is said on the standard
/// error.
pub(super) async fn read(client: &Client, asked: Option<&str>) -> Gangs {
    let mut gangs = Gangs::default();
    let mut spaces = match spaces(client, asked).await {
        Ok(spaces) => spaces,
        Err(error) => {
            tell(&error);
            return gangs;
        }
    };
    gangs.are_asked_for = spaces.iter().any(|space| space.label.is_some());
    gangs.notes.extend(spaces.iter().filter_map(unknown_label));
    let groups = GANG_KINDS.iter().map(|kind| kind.resource().group);
    let groups: Vec<&str> = groups.chain(GROUP_APIS.iter().map(|api| api.group)).collect();
    let served = match Served::ask(client, &groups).await {
        Ok(served) => served,
        Err(error) => {
            if gangs.are_asked_for {
                tell(&anyhow::anyhow!(error.words()));
            }
            return gangs;
        }
    };
    if asked.is_none() {
        spaces.extend(left(client, &served, &spaces).await);
    }
    let mut classes = None;
    for space in spaces {
        match of_namespace(client, &served, &space, &mut classes).await {
            Ok(found) => gangs.lines.extend(found),
            // Without the label nothing says that there are any.
            Err(_) if space.label.is_none() => {}
            Err(error) => tell(&error),
        }
    }
    gangs
}

/// A label that is none of the four: who may set it is not asked for its value.
fn unknown_label(space: &Space) -> Option<String> {
    let problem = space.label.as_ref()?.parse::<Wanted>().err()?;
    Some(format!(
        "Label {} of namespace {}: {problem}; jobs that ask for gangs are refused there.",
        names::GANG,
        space.name
    ))
}

fn tell(error: &anyhow::Error) {
    eprintln!("portcullis: {error:#}; gangs are not listed there");
}

/// The namespace that is asked for, or all with the label. Whoever may not read a namespace sees no gangs of it.
async fn spaces(client: &Client, asked: Option<&str>) -> anyhow::Result<Vec<Space>> {
    let api = Api::<Namespace>::all(client.clone());
    let found = match asked {
        None => {
            let list = api
                .list_metadata(&ListParams::default().labels(names::GANG))
                .await;
            let mut found = list
                .map_err(|error| words(error).context("list namespaces"))?
                .items;
            found.retain(|namespace| namespace.labels().contains_key(names::GANG));
            found
        }
        Some(name) => match api.get_metadata(name).await {
            Ok(namespace) => vec![namespace],
            Err(kube::Error::Api(status)) if status.code == 403 => Vec::new(),
            Err(error) => return Err(words(error).context(format!("read namespace {name}"))),
        },
    };
    let space = |namespace: &PartialObjectMeta<Namespace>| Space {
        name: namespace.name_any(),
        label: namespace.labels().get(names::GANG).cloned(),
        is_dispatched: namespace.labels().contains_key(names::DISPATCH),
    };
    Ok(found.iter().map(space).collect())
}

/// Other namespaces with PodGroups that we made, or with jobs that we hold. Whoever may not list them sees none.
async fn left(client: &Client, served: &Served, known: &[Space]) -> Vec<Space> {
    let ours = ListParams::default().labels(names::JOB_UID);
    let all = ListParams::default();
    let groups = GROUP_APIS.iter().filter_map(|api| {
        let version = served.first(api.group, api.versions, api.plural)?;
        Some((api_resource(api.group, version, api.plural, api.kind), &ours))
    });
    let jobs = GANG_KINDS.iter().filter_map(|kind| {
        let names = kind.resource();
        let is_served = served.has(names.group, names.version, names.plural);
        is_served.then(|| {
            (
                api_resource(names.group, names.version, names.plural, names.kind),
                &all,
            )
        })
    });
    let mut found = BTreeSet::new();
    for (resource, which) in groups.chain(jobs) {
        let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
        let Ok(list) = api.list_metadata(which).await else {
            continue;
        };
        let marked = list.iter().filter(|object| {
            object.labels().contains_key(names::JOB_UID) || object.annotations().contains_key(names::HELD)
        });
        found.extend(marked.filter_map(ResourceExt::namespace));
    }
    let is_new = |name: &String| known.iter().all(|space| space.name != *name);
    let space = |name| Space {
        name,
        label: None,
        is_dispatched: false,
    };
    found.into_iter().filter(is_new).map(space).collect()
}

async fn of_namespace(
    client: &Client,
    served: &Served,
    space: &Space,
    classes: &mut Option<Option<PriorityClasses>>,
) -> anyhow::Result<Vec<GangLine>> {
    let namespace = space.name.as_str();
    let mut jobs = Vec::new();
    for kind in GANG_KINDS {
        let names = kind.resource();
        if served.has(names.group, names.version, names.plural) {
            let resource = api_resource(names.group, names.version, names.plural, names.kind);
            let found = list(client, namespace, &resource).await?;
            jobs.extend(found.into_iter().map(|job| (*kind, job)));
        }
    }
    if jobs.is_empty() {
        return Ok(Vec::new()); // nothing else is asked for
    }
    let mut seen = Around {
        label: space.label.clone(),
        is_dispatched: space.is_dispatched,
        served: gang::Served {
            coscheduling: COSCHEDULING.is_served(served),
            volcano: VOLCANO.is_served(served),
            native: gang::NativeVersion::ALL.into_iter().find(|version| {
                let (group, version) = version.api_version().split_once('/').unwrap_or_default();
                served.has(group, version, NATIVE_WORKLOAD.plural)
            }),
        },
        ..Around::default()
    };
    // With Kubernetes 1.35 the group is the Workload.
    let native = match NATIVE_POD_GROUP.is_served(served) {
        true => NATIVE_POD_GROUP,
        false => NATIVE_WORKLOAD,
    };
    for api in [COSCHEDULING, VOLCANO, native] {
        if let Some(version) = served.first(api.group, api.versions, api.plural) {
            let resource = api_resource(api.group, version, api.plural, api.kind);
            for group in list(client, namespace, &resource).await? {
                let name = group["metadata"]["name"].as_str().unwrap_or_default();
                seen.groups.insert((api.group, name.to_owned()), group);
            }
        }
    }
    let is_listed = |(kind, job): &(&'static dyn GangKind, Value)| line(*kind, job, &seen).is_some();
    if !jobs.iter().any(is_listed) {
        return Ok(Vec::new());
    }
    if classes.is_none() {
        *classes = Some(priority_classes(client).await);
    }
    seen.classes = classes.clone().flatten();
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    let pods = pods.list(&ListParams::default().labels(names::POD_GROUP)).await;
    for pod in pods.map_err(|error| words(error).context(format!("list pods of {namespace}")))? {
        seen.count(&pod);
    }
    let ours = ListParams::default().fields(&format!("reportingController={}", names::PORTCULLIS));
    let events = Api::<Event>::namespaced(client.clone(), namespace)
        .list(&ours)
        .await;
    for event in events.map_err(|error| words(error).context(format!("list events of {namespace}")))? {
        seen.hear(event);
    }
    let line = |(kind, job): &(&'static dyn GangKind, Value)| line(*kind, job, &seen);
    Ok(jobs.iter().filter_map(line).collect())
}

/// None if they may not be listed.
async fn priority_classes(client: &Client) -> Option<PriorityClasses> {
    let list = Api::<PriorityClass>::all(client.clone());
    let list = list.list(&ListParams::default()).await.ok()?;
    Some(list.iter().collect())
}

/// The objects, with the types that a list leaves out.
pub(super) async fn list(
    client: &Client,
    namespace: &str,
    resource: &ApiResource,
) -> anyhow::Result<Vec<Value>> {
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, resource);
    let found = api.list(&ListParams::default()).await;
    let found = found.map_err(|error| {
        words(error).context(format!(
            "list {}.{} of {namespace}",
            resource.plural, resource.group
        ))
    })?;
    let typed = |object: DynamicObject| {
        let mut object = serde_json::to_value(object)?;
        object["apiVersion"] = resource.api_version.as_str().into();
        object["kind"] = resource.kind.as_str().into();
        Ok(object)
    };
    found.items.into_iter().map(typed).collect()
}

impl GangLine {
    /// Names of the columns.
    pub(super) const COLUMNS: [&str; 6] = ["NAMESPACE", "JOB", "SCHEDULER", "PODGROUP", "STATE", "WHY"];

    /// Its cells.
    pub(super) fn cells(&self) -> [String; 6] {
        let dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let why = match (&self.reason, &self.message) {
            (Some(reason), Some(message)) => Some(format!("{reason}: {message}")),
            (reason, message) => reason.clone().or_else(|| message.clone()),
        };
        [
            self.namespace.clone(),
            format!("{} {}", self.kind, self.name),
            dash(self.scheduler.clone()),
            dash(self.pod_group.clone()),
            self.state.to_owned(),
            dash(why),
        ]
    }
}

#[cfg(test)]
mod tests;
