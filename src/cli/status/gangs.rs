//! Namespaces that ask for gangs -> what became of their jobs: held, waiting, running, and why. Only what is stored is read:
//! jobs, PodGroups, pods and Events.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use serde::Serialize;
use serde_json::Value;

use super::words;
use crate::cluster::discovery::Served;
use crate::gang::{self, Choice, Family, GangSettings, JobRef, Reason, Standing, choose, hold, standing};
use crate::names;
use crate::reconcile::gang::cluster::{
    COSCHEDULING, GROUP_APIS, GroupApi, NATIVE_POD_GROUP, NATIVE_WORKLOAD, VOLCANO,
};
use crate::workload::jobs::{GANG_KINDS, GangKind};

/// A job whose pods start together.
#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct GangLine {
    /// Namespace.
    pub namespace: String,
    /// Kind and name.
    pub job: String,
    /// `coscheduling`, `volcano` or `native`; none if no group is wanted.
    pub back_end: Option<String>,
    /// The name of the PodGroup that the pods carry.
    pub pod_group: Option<String>,
    /// In one word or two.
    pub state: &'static str,
    /// Reason of the newest remark of Portcullis.
    pub reason: String,
    /// Its sentence.
    pub message: String,
}

/// The gangs of this namespace, or of all that ask for gangs. What cannot be read is said on the standard error.
pub(super) async fn read(client: &Client, asked: Option<&str>) -> Vec<GangLine> {
    let mut lines = Vec::new();
    let namespaces = match namespaces(client, asked).await {
        Ok(namespaces) => namespaces,
        Err(error) => {
            tell(&error);
            return lines;
        }
    };
    if namespaces.is_empty() {
        return lines;
    }
    let groups = GANG_KINDS.iter().map(|kind| kind.resource().group);
    let groups: Vec<&str> = groups.chain(GROUP_APIS.iter().map(|api| api.group)).collect();
    let served = match Served::ask(client, &groups).await {
        Ok(served) => served,
        Err(error) => {
            tell(&anyhow::anyhow!(error.words()));
            return lines;
        }
    };
    for (namespace, label) in namespaces {
        match of_namespace(client, &served, &namespace, &label).await {
            Ok(found) => lines.extend(found),
            Err(error) => tell(&error),
        }
    }
    lines
}

fn tell(error: &anyhow::Error) {
    eprintln!("portcullis: {error:#}; gangs are not listed there");
}

/// Names and labels `gang`. Whoever may not read a namespace sees no gangs of it.
async fn namespaces(client: &Client, asked: Option<&str>) -> anyhow::Result<Vec<(String, String)>> {
    let api = Api::<Namespace>::all(client.clone());
    let found = match asked {
        None => {
            let list = api
                .list_metadata(&ListParams::default().labels(names::GANG))
                .await;
            list.map_err(|error| words(error).context("list namespaces"))?
                .items
        }
        Some(name) => match api.get_metadata(name).await {
            Ok(namespace) => vec![namespace],
            Err(kube::Error::Api(status)) if status.code == 403 => Vec::new(),
            Err(error) => return Err(words(error).context(format!("read namespace {name}"))),
        },
    };
    let label = |namespace: &kube::core::PartialObjectMeta<Namespace>| {
        Some((namespace.name_any(), namespace.labels().get(names::GANG)?.clone()))
    };
    Ok(found.iter().filter_map(label).collect())
}

async fn of_namespace(
    client: &Client,
    served: &Served,
    namespace: &str,
    label: &str,
) -> anyhow::Result<Vec<GangLine>> {
    let mut jobs = Vec::new();
    for kind in GANG_KINDS {
        let names = kind.resource();
        if served.has(names.group, names.version, names.plural) {
            let resource = resource(names.group, names.version, names.plural, names.kind);
            let found = list(client, namespace, &resource).await?;
            jobs.extend(found.into_iter().map(|job| (*kind, job)));
        }
    }
    let mut seen = Around {
        served: gang::Served {
            coscheduling: is_served(served, COSCHEDULING),
            volcano: is_served(served, VOLCANO),
            native: gang::NativeVersion::ALL.into_iter().find(|version| {
                let (group, version) = version.api_version().split_once('/').unwrap_or_default();
                served.has(group, version, NATIVE_WORKLOAD.plural)
            }),
        },
        ..Around::default()
    };
    let wanted = jobs
        .iter()
        .any(|(kind, job)| back_end(*kind, job, label, &seen).is_some());
    if !wanted {
        return Ok(Vec::new()); // nothing else is asked for
    }
    for api in [COSCHEDULING, VOLCANO, NATIVE_POD_GROUP] {
        if let Some(version) = served.first(api.group, api.versions, api.plural) {
            let resource = resource(api.group, version, api.plural, api.kind);
            for group in list(client, namespace, &resource).await? {
                let name = group["metadata"]["name"].as_str().unwrap_or_default();
                seen.groups.insert((api.group, name.to_owned()), group);
            }
        }
    }
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    let pods = pods.list(&ListParams::default().labels(names::POD_GROUP)).await;
    for pod in pods.map_err(|error| words(error).context(format!("list pods of {namespace}")))? {
        let group = pod.labels().get(names::POD_GROUP).cloned().unwrap_or_default();
        let has_node = pod.spec.is_some_and(|spec| spec.node_name.is_some());
        *seen.bound.entry(group).or_default() |= has_node;
    }
    let ours = ListParams::default().fields(&format!("reportingController={}", names::PORTCULLIS));
    let events = Api::<Event>::namespaced(client.clone(), namespace)
        .list(&ours)
        .await;
    for event in events.map_err(|error| words(error).context(format!("list events of {namespace}")))? {
        seen.hear(event);
    }
    let line = |(kind, job): &(&'static dyn GangKind, Value)| line(*kind, job, label, &seen);
    Ok(jobs.iter().filter_map(line).collect())
}

fn is_served(served: &Served, api: GroupApi) -> bool {
    served.first(api.group, api.versions, api.plural).is_some()
}

pub(super) fn resource(group: &str, version: &str, plural: &str, kind: &str) -> ApiResource {
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: format!("{group}/{version}"),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
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

/// What is beside the jobs of a namespace.
#[derive(Debug, Default)]
struct Around {
    served: gang::Served,
    /// PodGroups by API group and name.
    groups: BTreeMap<(&'static str, String), Value>,
    /// Names of groups with pods: whether any has a node.
    bound: BTreeMap<String, bool>,
    /// The newest remark by the UID of what it is about: time, reason, sentence.
    remarks: BTreeMap<String, (String, String, String)>,
}

impl Around {
    /// What was done is no remark; what is the case, is.
    fn hear(&mut self, event: Event) {
        let reason = event.reason.unwrap_or_default();
        let is_remark = reason == "PodGroupRefused" || Reason::ALL.iter().any(|known| known.name() == reason);
        let Some(uid) = event.regarding.and_then(|about| about.uid).filter(|_| is_remark) else {
            return;
        };
        let time = event
            .event_time
            .map(|time| time.0.to_string())
            .unwrap_or_default();
        let remark = (time, reason, event.note.unwrap_or_default());
        let newest = self.remarks.entry(uid).or_default();
        if remark.0 >= newest.0 {
            *newest = remark;
        }
    }
}

/// Whose group the job has or should have; none if it is no gang.
fn back_end(kind: &dyn GangKind, job: &Value, label: &str, seen: &Around) -> Option<Option<Family>> {
    if kind.is_finished(job) {
        return None;
    }
    if let Some((Some(family), _)) = gang::marked(kind, job) {
        return Some(Some(family));
    }
    match choose(kind, job, label, seen.served, &GangSettings::default()) {
        Ok(Choice::Use(back_end)) => Some(Some(back_end.family())),
        Ok(Choice::NotServed(family)) => Some(Some(family)),
        Ok(Choice::Alone(notice)) => (notice.reason == Reason::OperatorManagesPodGroup).then_some(None),
        Err(_) => Some(None),
    }
}

/// The line of a job; none if it is no gang, or has ended.
fn line(kind: &dyn GangKind, job: &Value, label: &str, seen: &Around) -> Option<GangLine> {
    let back_end = back_end(kind, job, label, seen)?;
    let text = |pointer: &str| job.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let annotation = |key: &str| job.pointer("/metadata/annotations")?.get(key)?.as_str();
    let names = kind.resource();
    let reference = JobRef {
        api_version: names.api_version(),
        kind: names.kind.to_owned(),
        namespace: text("/metadata/namespace").to_owned(),
        name: text("/metadata/name").to_owned(),
        uid: text("/metadata/uid").to_owned(),
    };
    let pod_group = gang::marked(kind, job).map(|(_, name)| name.to_owned());
    let api_group = back_end.map(|family| match family {
        Family::Coscheduling => COSCHEDULING.group,
        Family::Volcano => VOLCANO.group,
        Family::Native => NATIVE_POD_GROUP.group,
    });
    let group = api_group
        .zip(pod_group.clone())
        .and_then(|key| seen.groups.get(&key));
    let is_adopted = annotation(names::ADOPT_PODGROUP).is_some();
    let is_taken = group.is_some_and(|group| !is_adopted && standing(group, &reference) == Standing::Foreign);
    let has_node = pod_group.as_ref().and_then(|name| seen.bound.get(name)).copied();
    let state = match (hold::is_suspended(kind, job), hold::is_claimed(job)) {
        _ if annotation(names::STAND_DOWN).is_some() => "StoodDown",
        _ if is_taken => "Conflict",
        (true, true) => "Held",
        (true, false) => "Suspended",
        (false, _) if pod_group.is_none() => "NoGang",
        (false, _) if has_node == Some(true) => "Running",
        (false, _) => "Waiting",
    };
    let (_, reason, message) = seen.remarks.get(&reference.uid).cloned().unwrap_or_default();
    let is_over = state == "Running" && (reason.starts_with("WaitingFor") || reason == "PodGroupConflict");
    let (reason, message) = match (state, is_over) {
        ("StoodDown", _) => (
            Reason::OperatorManagesPodGroup.name().to_owned(),
            annotation(names::STAND_DOWN).unwrap_or_default().to_owned(),
        ),
        (_, true) => (String::new(), String::new()),
        (_, false) => (reason, message),
    };
    Some(GangLine {
        namespace: reference.namespace,
        job: format!("{} {}", reference.kind, reference.name),
        back_end: back_end.map(|family| family.to_string()),
        pod_group,
        state,
        reason,
        message,
    })
}

impl GangLine {
    /// Names of the columns.
    pub(super) const COLUMNS: [&str; 6] = ["NAMESPACE", "JOB", "SCHEDULER", "PODGROUP", "STATE", "WHY"];

    /// Its cells.
    pub(super) fn cells(&self) -> [String; 6] {
        let dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let why = match (self.reason.is_empty(), self.message.is_empty()) {
            (true, _) => "-".to_owned(),
            (false, true) => self.reason.clone(),
            (false, false) => format!("{}: {}", self.reason, self.message),
        };
        [
            self.namespace.clone(),
            self.job.clone(),
            dash(&self.back_end),
            dash(&self.pod_group),
            self.state.to_owned(),
            why,
        ]
    }
}

#[cfg(test)]
mod tests;
