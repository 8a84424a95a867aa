//! Namespaces -> their whole jobs: which worker each runs on, or why it waits. Only the jobs are read.

use kube::Client;
use serde::Serialize;
use serde_json::Value;

use super::gangs::list;
use crate::cluster::discovery::{Served, api_resource};
use crate::job::{Claim, claim, is_suspended};
use crate::names;
use crate::workload::jobs::{JobKind, JobKinds, conditions};

/// A job that is dispatched whole, or waits for it.
#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct JobLine {
    /// Namespace.
    pub namespace: String,
    /// Kind and name.
    pub job: String,
    /// In one word.
    pub state: &'static str,
    /// The WorkerCluster it is committed to.
    pub cluster: Option<String>,
    /// Reason of the condition Dispatched.
    pub reason: String,
    /// Its sentence.
    pub message: String,
}

/// Those of these namespaces. What cannot be read is said on the standard error.
pub(super) async fn read(client: &Client, kinds: JobKinds, namespaces: &[String]) -> Vec<JobLine> {
    let groups: Vec<&str> = kinds.iter().map(|kind| kind.resource().group).collect();
    let served = match Served::ask(client, &groups).await {
        Ok(served) => served,
        Err(error) => {
            eprintln!("portcullis: {}; whole jobs are not listed", error.words());
            return Vec::new();
        }
    };
    let mut lines = Vec::new();
    for namespace in namespaces {
        for kind in kinds.iter() {
            let names = kind.resource();
            if !served.has(names.group, names.version, names.plural) {
                continue;
            }
            let resource = api_resource(names.group, names.version, names.plural, names.kind);
            match list(client, namespace, &resource).await {
                Ok(found) => lines.extend(found.iter().filter_map(|job| line(kind, job))),
                Err(error) => eprintln!("portcullis: {error:#}; they are not listed"),
            }
        }
    }
    lines
}

/// The line of a job; none if it is not ours.
fn line(kind: &dyn JobKind, job: &Value) -> Option<JobLine> {
    (claim(kind, job) == Claim::Ours).then(|| told(kind, job))
}

/// What is to be said of a job, whoever runs it.
pub(super) fn told(kind: &dyn JobKind, job: &Value) -> JobLine {
    match claim(kind, job) {
        Claim::Ours => of_ours(kind, job),
        Claim::Local => of_others(
            kind,
            job,
            (
                "RunsHere",
                "its managedBy does not name Portcullis: its operator on this cluster runs it",
            ),
        ),
        Claim::Foreign(other) => of_others(
            kind,
            job,
            (
                "Foreign",
                &format!("its managedBy is {other:?}: that dispatcher runs it"),
            ),
        ),
    }
}

/// The same of a job whose pods were gated here: `pods` of them are there.
pub(super) fn by_pods(kind: &dyn JobKind, job: &Value, pods: usize) -> JobLine {
    let namespace = job.pointer("/metadata/namespace").and_then(Value::as_str);
    let message = format!(
        "its operator on this cluster runs it, and its pods are dispatched one by one ({pods} now); portcullis status -n {} lists them",
        namespace.unwrap_or_default()
    );
    of_others(kind, job, ("ByPods", &message))
}

fn of_others(kind: &dyn JobKind, job: &Value, (state, message): (&'static str, &str)) -> JobLine {
    JobLine {
        state,
        cluster: None,
        reason: String::new(),
        message: message.to_owned(),
        ..of_ours(kind, job)
    }
}

/// By a condition, as most kinds tell it; others say it in words of their own.
fn has_failed(kind: &dyn JobKind, job: &Value) -> bool {
    let failed = conditions::find(conditions::of(job, kind.conditions()), "Failed");
    failed.is_some_and(|failed| failed["status"] == "True")
}

fn of_ours(kind: &dyn JobKind, job: &Value) -> JobLine {
    let text = |pointer: &str| job.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let annotation = |key: &str| job.pointer("/metadata/annotations")?.get(key)?.as_str();
    let ours = conditions::find(conditions::of(job, kind.conditions()), names::DISPATCHED);
    let said = |key: &str| ours.and_then(|ours| ours[key].as_str()).unwrap_or_default();
    let (cluster, takes_condition) = (annotation(names::CLUSTER), kind.dispatch().takes_condition);
    JobLine {
        namespace: text("/metadata/namespace").to_owned(),
        job: format!("{} {}", kind.resource().kind, text("/metadata/name")),
        state: match cluster {
            _ if !text("/metadata/deletionTimestamp").is_empty() => "Terminating",
            _ if kind.is_finished(job) => match has_failed(kind, job) {
                true => "Failed",
                false => "Finished",
            },
            _ if is_suspended(kind, job) => "Suspended",
            Some(_) => match said("reason") {
                "Running" => "Running",
                "WaitingOnWorker" => "WaitingOnWorker",
                _ => "Dispatched",
            },
            None => "Waiting",
        },
        reason: said("reason").to_owned(),
        message: match takes_condition {
            true => said("message"),
            false => "this kind takes no condition: see its Events",
        }
        .to_owned(),
        cluster: cluster.map(str::to_owned),
    }
}

impl JobLine {
    /// Names of the columns.
    pub(super) const COLUMNS: [&str; 5] = ["NAMESPACE", "JOB", "STATE", "CLUSTER", "WHERE AND WHY"];

    /// Its cells.
    pub(super) fn cells(&self) -> [String; 5] {
        let why = match (self.message.is_empty(), self.reason.is_empty()) {
            (false, _) => &self.message,
            (true, false) => &self.reason,
            (true, true) => "not looked at yet, or Portcullis does not run",
        };
        [
            self.namespace.clone(),
            self.job.clone(),
            self.state.to_owned(),
            self.cluster.clone().unwrap_or_else(|| "-".to_owned()),
            why.to_owned(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::workload::jobs::{BatchJob, RayJob};

    #[test]
    fn a_job_says_where_it_is_or_why_it_waits() {
        let mut job = json!({
            "metadata": {"namespace": "shop", "name": "train"}, "spec": {"managedBy": names::GATE},
        });
        let cells = |job: &Value| line(&BatchJob, job).unwrap().cells().join(" | ");
        assert_eq!(
            cells(&job),
            "shop | Job train | Waiting | - | not looked at yet, or Portcullis does not run"
        );
        let condition =
            json!({"type": names::DISPATCHED, "status": "True", "reason": "Running", "message": "on a"});
        job["status"] = json!({"conditions": [condition]});
        job["metadata"]["annotations"] = json!({names::CLUSTER: "a"});
        assert_eq!(cells(&job), "shop | Job train | Running | a | on a");
        job["status"]["conditions"][0]["reason"] = "WaitingOnWorker".into();
        assert_eq!(cells(&job), "shop | Job train | WaitingOnWorker | a | on a");
        job["status"]["conditions"][0]["reason"] = "WorkerUnreachable".into();
        assert_eq!(cells(&job), "shop | Job train | Dispatched | a | on a");
        job["spec"]["suspend"] = true.into();
        assert_eq!(cells(&job), "shop | Job train | Suspended | a | on a");
        job["status"]["conditions"] = json!([condition, {"type": "Complete", "status": "True"}]);
        assert_eq!(cells(&job), "shop | Job train | Finished | a | on a");
        job["status"]["conditions"] = json!([condition, {"type": "Failed", "status": "True"}]);
        assert_eq!(cells(&job), "shop | Job train | Failed | a | on a");
    }

    #[test]
    fn a_job_of_somebody_else_has_no_line_and_a_kind_without_the_condition_points_to_events() {
        let job = |spec: Value, annotations: Value| json!({"metadata": {"namespace": "n", "name": "j", "annotations": annotations}, "spec": spec});
        assert_eq!(line(&BatchJob, &job(json!({}), json!({}))), None);
        let kueues = json!({"managedBy": names::KUEUES_MANAGER});
        assert_eq!(line(&RayJob, &job(kueues.clone(), json!({}))), None);
        let ours = line(&RayJob, &job(kueues, json!({names::DISPATCHED_BY: names::GATE}))).unwrap();
        assert!(ours.message.contains("see its Events"), "{ours:?}");
    }

    #[test]
    fn whoever_asks_for_a_job_of_somebody_else_is_told_who_runs_it() {
        let cells = |managed_by: &str| {
            let job = json!({"metadata": {"namespace": "n", "name": "j"}, "spec": {"managedBy": managed_by}});
            told(&BatchJob, &job).cells().join(" | ")
        };
        assert_eq!(
            cells("kubernetes.io/job-controller"),
            "n | Job j | RunsHere | - | its managedBy does not name Portcullis: its operator on this cluster runs it"
        );
        let job = json!({"metadata": {"namespace": "n", "name": "j"}, "spec": {}});
        assert_eq!(
            by_pods(&BatchJob, &job, 2).cells().join(" | "),
            "n | Job j | ByPods | - | its operator on this cluster runs it, and its pods are dispatched one by one (2 now); portcullis status -n n lists them"
        );
        assert_eq!(
            cells("example.com/x"),
            "n | Job j | Foreign | - | its managedBy is \"example.com/x\": that dispatcher runs it"
        );
    }
}
