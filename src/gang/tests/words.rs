//! The short notation of the tables: `L1{2,1Gi} W2{10,32Gi}` is a launcher that requests 2 CPUs and 1Gi, and two workers.

use serde_json::{Value, json};

use crate::gang::*;
use crate::workload::jobs::{InvalidField, gang_kind_of};

/// A job, and all that is known of its cluster.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) job: Value,
    pub(super) facts: ClusterFacts,
    pub(super) back_end: BackEnd,
    pub(super) moment: Moment,
    pub(super) late_pods_exist: bool,
}

/// A Kubeflow job with an empty schedulingPolicy. Roles are `<letter><replicas>{<cpu>,<memory>}` or a whole role name;
/// `?` in place of replicas leaves them out.
pub(super) fn job(kind: &str, roles: &str) -> Case {
    let (api_version, map) = match kind {
        "MPIJob" => ("kubeflow.org/v2beta1", "mpiReplicaSpecs"),
        "MPIJob v1" => ("kubeflow.org/v1", "mpiReplicaSpecs"),
        "TFJob" => ("kubeflow.org/v1", "tfReplicaSpecs"),
        "PyTorchJob" => ("kubeflow.org/v1", "pytorchReplicaSpecs"),
        "XGBoostJob" => ("kubeflow.org/v1", "xgbReplicaSpecs"),
        "PaddleJob" => ("kubeflow.org/v1", "paddleReplicaSpecs"),
        "JAXJob" => ("kubeflow.org/v1", "jaxReplicaSpecs"),
        _ => panic!("{kind}"),
    };
    let mut replicas = json!({});
    for role in roles.split_whitespace() {
        let (name, spec) = replica(role);
        replicas[name] = spec;
    }
    of(json!({
        "apiVersion": api_version, "kind": kind.split(' ').next(),
        "metadata": {"name": "train", "namespace": "team", "uid": "11111111-2222-3333-4444-555555555555"},
        "spec": {"runPolicy": {"schedulingPolicy": {}}, map: replicas},
    }))
}

/// Any object as a case.
pub(super) fn of(job: Value) -> Case {
    Case {
        job,
        facts: ClusterFacts::default(),
        back_end: BackEnd::Coscheduling,
        moment: Moment::Admission,
        late_pods_exist: false,
    }
}

fn replica(text: &str) -> (String, Value) {
    let (head, resources) = text.split_once('{').unwrap_or((text, "}"));
    let split = head
        .find(|letter: char| letter.is_ascii_digit() || letter == '?')
        .unwrap();
    let (name, count) = head.split_at(split);
    let name = match name {
        "L" => "Launcher",
        "W" => "Worker",
        "M" => "Master",
        "C" => "Chief",
        name => name,
    };
    let mut spec = json!({"template": template(resources.trim_end_matches('}'))});
    if count != "?" {
        spec["replicas"] = json!(count.parse::<u64>().unwrap());
    }
    (name.to_owned(), spec)
}

/// A pod template of one container with `cpu,memory`, or without requests.
pub(super) fn template(resources: &str) -> Value {
    let mut container = json!({"name": "main", "image": "app:1"});
    if let Some((cpu, memory)) = resources.split_once(',') {
        container["resources"] = json!({"requests": {"cpu": cpu, "memory": memory}});
    }
    json!({"spec": {"containers": [container]}})
}

impl Case {
    pub(super) fn min(self, min_available: i64) -> Self {
        self.policy("minAvailable", json!(min_available))
    }

    pub(super) fn policy(mut self, key: &str, value: Value) -> Self {
        self.job["spec"]["runPolicy"]["schedulingPolicy"][key] = value;
        self
    }

    /// Sets the field at this pointer; objects on the way are made. `~1` is a slash in a key.
    pub(super) fn with(mut self, pointer: &str, value: Value) -> Self {
        let mut place = &mut self.job;
        for key in pointer.split('/').skip(1) {
            let key = key.replace("~1", "/");
            place = match key.parse::<usize>() {
                Ok(index) => &mut place[index],
                Err(_) => &mut place[key],
            };
        }
        *place = value;
        self
    }

    /// Sets a field of the one role of this name.
    pub(super) fn role(self, role: &str, pointer: &str, value: Value) -> Self {
        let map = self.map();
        self.with(&format!("/spec/{map}/{role}{pointer}"), value)
    }

    /// The PriorityClass of a role.
    pub(super) fn class(self, role: &str, class: &str) -> Self {
        self.role(role, "/template/spec/priorityClassName", json!(class))
    }

    pub(super) fn map(&self) -> String {
        let spec = self.job["spec"].as_object().unwrap();
        spec.keys()
            .find(|key| key.ends_with("ReplicaSpecs"))
            .unwrap()
            .clone()
    }

    pub(super) fn on(mut self, back_end: BackEnd) -> Self {
        self.back_end = back_end;
        self
    }

    pub(super) fn stored(mut self) -> Self {
        self.moment = Moment::Stored;
        self
    }

    pub(super) fn facts(mut self, edit: impl FnOnce(&mut ClusterFacts)) -> Self {
        edit(&mut self.facts);
        self
    }

    pub(super) fn settings(self, edit: impl FnOnce(&mut GangSettings)) -> Self {
        self.facts(|facts| edit(&mut facts.settings))
    }

    pub(super) fn classes(self, classes: &[(&str, i32)]) -> Self {
        self.facts(|facts| {
            let values = classes.iter().map(|(name, value)| ((*name).to_owned(), *value));
            facts.priority_classes.values = values.collect();
        })
    }

    pub(super) fn wait_for_workers(self) -> Self {
        self.with("/spec/launcherCreationPolicy", json!("WaitForWorkersReady"))
    }

    pub(super) fn subject(&self) -> Subject<'_> {
        Subject {
            kind: gang_kind_of(&self.job).unwrap(),
            job: &self.job,
            back_end: self.back_end,
            moment: self.moment,
            seed: "request",
            late_pods_exist: self.late_pods_exist,
        }
    }

    pub(super) fn decide(&self) -> Result<Decision, InvalidField> {
        gang(&self.subject(), &self.facts)
    }

    #[track_caller]
    pub(super) fn gang(&self) -> Gang {
        match self.decide() {
            Ok(Decision::Gang(gang)) => *gang,
            other => panic!("{other:?}"),
        }
    }

    /// The objects of the gang.
    #[track_caller]
    pub(super) fn objects(&self) -> Vec<Value> {
        self.back_end
            .objects(&self.gang().pod_group, 0, None, &self.facts.settings)
    }

    /// `minMember of total | minResources | reasons`, `alone: reason`, or `refused: path`.
    pub(super) fn line(&self) -> String {
        match self.decide() {
            Ok(Decision::Gang(gang)) => {
                let Gang {
                    pod_group, notices, ..
                } = *gang;
                let resources = pod_group.min_resources.plain();
                let resources: Vec<String> = resources
                    .iter()
                    .map(|(key, amount)| format!("{key} {amount}"))
                    .collect();
                let mut line = format!(
                    "{} of {} | {}",
                    pod_group.min_member,
                    pod_group.total,
                    resources.join(", ")
                );
                for notice in notices {
                    line.push_str(&format!(" | {}", notice.reason.name()));
                }
                line.trim_end().to_owned()
            }
            Ok(Decision::Alone(notice)) => format!("alone: {}", notice.reason.name()),
            Err(error) => format!("refused: {}", error.path),
        }
    }
}

/// Every row's line is the expected one; all that are not are shown.
#[track_caller]
pub(super) fn check(rows: Vec<(&str, Case, &str)>) {
    let wrong: Vec<String> = rows
        .iter()
        .filter(|(_, case, expected)| case.line() != *expected)
        .map(|(id, case, expected)| format!("{id}: {}\n  expected {expected}", case.line()))
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
