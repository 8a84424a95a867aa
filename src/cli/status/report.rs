//! What was read from the clusters -> what people are told (pure).

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde::Serialize;

use super::gangs::GangLine;
use super::jobs::JobLine;
use super::orphan::OrphanLine;
use super::remote_pods::RemotePodLine;
use crate::names;

/// The whole answer; also the form of `-o yaml` and `-o json`.
#[derive(Debug, Default, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What is to be known beside the lines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Pods of the opted-in namespaces that are dispatched or wait for it.
    pub pods: Vec<PodLine>,
    /// Pods that run here: from before the opt-in, exempt, or asked for by name in a namespace that is not opted in.
    pub ungated: Vec<UngatedLine>,
    /// Whole jobs that are dispatched or wait for it.
    pub jobs: Vec<JobLine>,
    /// Pods of the one job that was asked for, on its worker.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remote_pods: Vec<RemotePodLine>,
    /// Jobs of the namespaces that ask for gangs.
    pub gangs: Vec<GangLine>,
    /// Open remote pods whose local pod is gone, and copies of jobs whose job is gone or not ours.
    pub orphans: Vec<OrphanLine>,
    /// Namespaces on workers that portcullis created; they stay.
    pub created_namespaces: Vec<CreatedNamespace>,
}

/// A pod that is dispatched or waits for it.
#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PodLine {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub pod: String,
    /// The WorkerCluster it is committed to.
    pub cluster: Option<String>,
    /// The worker's node.
    pub node: Option<String>,
    /// As `kubectl get pods` would say it, in one word.
    pub state: String,
    /// Reason of the condition Dispatched.
    pub reason: String,
    /// Its sentence.
    pub message: String,
    /// Reaches the pod where it runs; the context's name is that of the WorkerCluster.
    pub command: Option<String>,
}

/// A pod that runs here.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct UngatedLine {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub pod: String,
    /// Its phase.
    pub phase: String,
    /// Why it is not gated.
    pub why: &'static str,
}

/// A namespace that was created on a worker.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct CreatedNamespace {
    /// The WorkerCluster.
    pub cluster: String,
    /// Its name.
    pub namespace: String,
}

/// The line of a gated pod.
pub fn pod_line(pod: &Pod) -> PodLine {
    let annotation = |key: &str| pod.annotations().get(key).cloned();
    let status = pod.status.clone().unwrap_or_default();
    let condition = status
        .conditions
        .unwrap_or_default()
        .into_iter()
        .find(|condition| condition.type_ == names::DISPATCHED);
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    let cluster = annotation(names::CLUSTER);
    PodLine {
        command: cluster
            .as_ref()
            .map(|cluster| format!("kubectl --context {cluster} --namespace {namespace} logs {name}")),
        node: annotation(names::REMOTE_NODE),
        state: match (pod.metadata.deletion_timestamp.is_some(), status.phase, &cluster) {
            (true, _, _) => "Terminating".to_owned(),
            (false, Some(phase), Some(_)) => phase,
            (false, _, None) => "Waiting".to_owned(),
            (false, None, Some(_)) => "Pending".to_owned(),
        },
        reason: condition
            .as_ref()
            .and_then(|condition| condition.reason.clone())
            .unwrap_or_default(),
        message: condition
            .and_then(|condition| condition.message)
            .unwrap_or_default(),
        namespace,
        pod: name,
        cluster,
    }
}

/// Whether the pod carries our gate.
pub fn is_gated(pod: &Pod) -> bool {
    let gates = pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref());
    gates.is_some_and(|gates| gates.iter().any(|gate| gate.name == names::GATE))
}

/// Whether the pod once carried our gate: the label stays, whoever took the gate off.
pub fn was_gated(pod: &Pod) -> bool {
    pod.labels().contains_key(names::GATED)
}

/// The line of a pod that runs here.
pub fn ungated_line(pod: &Pod, opted_in: bool) -> UngatedLine {
    UngatedLine {
        namespace: pod.namespace().unwrap_or_default(),
        pod: pod.name_any(),
        phase: pod
            .status
            .as_ref()
            .and_then(|status| status.phase.clone())
            .unwrap_or_default(),
        why: match (opted_in, pod.labels().get(names::EXEMPT).map(String::as_str)) {
            _ if was_gated(pod) => "its gate was taken off by force",
            (false, _) => "its namespace is not opted in",
            (true, Some(names::TRUE)) => "exempt",
            (true, Some(_) | None) => "created before the opt-in, or by a DaemonSet or a node",
        },
    }
}

impl Report {
    /// Aligned columns, one part after the other; parts without lines are left out.
    pub fn table(&self) -> String {
        let mut out: String = self.notes.iter().map(|note| format!("{note}\n")).collect();
        let dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let pods = self.pods.iter().map(|line| {
            let why = match (line.message.is_empty(), line.reason.is_empty()) {
                (false, _) => line.message.clone(),
                (true, false) => line.reason.clone(),
                (true, true) => "not looked at yet, or Portcullis does not run".to_owned(),
            };
            [
                line.namespace.clone(),
                line.pod.clone(),
                line.state.clone(),
                dash(&line.cluster),
                dash(&line.node),
                why,
            ]
        });
        part(
            &mut out,
            "",
            ["NAMESPACE", "POD", "STATE", "CLUSTER", "NODE", "WHERE AND WHY"],
            pods,
        );
        if let [only] = &self.pods[..]
            && let Some(command) = &only.command
        {
            out.push_str(&format!("\nOn its worker: {command}\n"));
        }
        let ungated = self.ungated.iter().map(|line| {
            [
                line.namespace.clone(),
                line.pod.clone(),
                line.phase.clone(),
                line.why.to_owned(),
            ]
        });
        part(
            &mut out,
            "Running here, ungated:",
            ["NAMESPACE", "POD", "PHASE", "WHY"],
            ungated,
        );
        let jobs = self.jobs.iter().map(JobLine::cells);
        part(&mut out, "Whole jobs:", JobLine::COLUMNS, jobs);
        let remote = self.remote_pods.iter().map(RemotePodLine::cells);
        part(&mut out, "Pods on its worker:", RemotePodLine::COLUMNS, remote);
        let gangs = self.gangs.iter().map(GangLine::cells);
        part(&mut out, "Gangs:", GangLine::COLUMNS, gangs);
        let orphans = self.orphans.iter().map(|line| {
            [
                line.cluster.clone(),
                line.namespace.clone(),
                format!("{} {}", line.kind, line.name),
                line.remove.clone(),
            ]
        });
        part(
            &mut out,
            "Orphans, on workers without their pod or job here:",
            ["CLUSTER", "NAMESPACE", "OBJECT", "REMOVE WITH"],
            orphans,
        );
        let created = self
            .created_namespaces
            .iter()
            .map(|line| [line.cluster.clone(), line.namespace.clone()]);
        part(
            &mut out,
            "Namespaces that were created on workers:",
            ["CLUSTER", "NAMESPACE"],
            created,
        );
        if out.is_empty() {
            out.push_str("Nothing to show: no pods that are dispatched, no gangs.\n");
        }
        out
    }
}

fn part<const COLUMNS: usize>(
    out: &mut String,
    title: &str,
    names: [&str; COLUMNS],
    rows: impl Iterator<Item = [String; COLUMNS]>,
) {
    let table = crate::cli::table::table(names, &rows.collect::<Vec<_>>());
    if table.is_empty() {
        return;
    }
    if !out.is_empty() {
        out.push('\n');
    }
    if !title.is_empty() {
        out.push_str(title);
        out.push('\n');
    }
    out.push_str(&table);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use expect_test::expect;
    use serde_json::json;

    use super::super::jobs::told;
    use super::super::orphan::orphan_line;
    use super::super::remote_pods;
    use super::*;
    use crate::workload::jobs::BatchJob;

    fn pod(value: serde_json::Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn tells_where_a_pod_is_why_another_waits_and_how_to_reach_it() {
        let running = pod(json!({
            "metadata": {"namespace": "shop", "name": "web-0", "annotations": {
                "portcullis.dev/cluster": "worker-a", "portcullis.dev/remote-node": "node-1"}},
            "status": {"phase": "Running", "conditions": [{"type": "portcullis.dev/Dispatched", "status": "True",
                "reason": "Scheduled", "message": "on worker-a, node node-1"}]}}));
        let waiting = pod(json!({
            "metadata": {"namespace": "shop", "name": "web-1"},
            "status": {"phase": "Pending", "conditions": [{"type": "portcullis.dev/Dispatched", "status": "False",
                "reason": "NoClusterTakesIt", "message": "worker-a: exceeded quota (Forbidden)"}]}}));
        let remote = pod(json!({"metadata": {"namespace": "shop", "name": "old",
            "annotations": {"portcullis.dev/local-uid": "gone"}}}));
        let mut report = Report {
            pods: vec![pod_line(&running)],
            orphans: orphan_line("worker-b", &remote, &BTreeSet::new())
                .into_iter()
                .collect(),
            ..Report::default()
        };
        expect![[r#"
            NAMESPACE   POD     STATE     CLUSTER    NODE     WHERE AND WHY
            shop        web-0   Running   worker-a   node-1   on worker-a, node node-1

            On its worker: kubectl --context worker-a --namespace shop logs web-0

            Orphans, on workers without their pod or job here:
            CLUSTER    NAMESPACE   OBJECT    REMOVE WITH
            worker-b   shop        Pod old   kubectl --context worker-b --namespace shop delete pod old
        "#]]
        .assert_eq(&report.table());
        report.pods.push(pod_line(&waiting));
        assert!(
            report
                .table()
                .contains("web-1   Waiting   -          -        worker-a: exceeded quota (Forbidden)")
        );
    }

    #[test]
    fn one_job_is_shown_with_its_pods_on_the_worker() {
        let pod = pod(json!({
            "metadata": {"namespace": "shop", "name": "train-0"}, "spec": {"containers": [], "nodeName": "node-1"},
            "status": {"phase": "Running"},
        }));
        let job = json!({
            "metadata": {"namespace": "shop", "name": "train", "annotations": {"portcullis.dev/cluster": "worker-a"}},
            "spec": {"managedBy": "portcullis.dev/multikueue"},
        });
        let report = Report {
            jobs: vec![told(&BatchJob, &job)],
            remote_pods: vec![remote_pods::line("worker-a", &pod)],
            ..Report::default()
        };
        expect![[r#"
            Whole jobs:
            NAMESPACE   JOB         STATE        CLUSTER    WHERE AND WHY
            shop        Job train   Dispatched   worker-a   not looked at yet, or Portcullis does not run

            Pods on its worker:
            POD       PHASE     CLUSTER    NODE     RESTARTS   LOGS
            train-0   Running   worker-a   node-1   0          kubectl --context worker-a --namespace shop logs train-0
        "#]].assert_eq(&report.table());
    }
}
