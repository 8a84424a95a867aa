//! A worker on which something changes our marks on the copies that are born there.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use portcullis_testbed::ledger::Write;
use portcullis_testbed::{case, wait_for};
use serde_json::{Value, json};

use crate::cases_jobs_bad_input::{ever_rarer, job};
use crate::rig::{Case, Rig};
use crate::sides::{At, PATIENCE, annotation, plain};

pub fn cases() -> Vec<Case> {
    vec![
        // A change of any policy, as other cases make them, has every worker asked anew.
        case!(alone copies_that_lose_their_marks_go_and_are_tried_ever_more_rarely),
        case!(alone a_commit_that_is_not_kept_here_is_told),
        case!(what_loses_its_marks_on_one_cluster_runs_on_the_next),
    ]
}

const KEPT_OUT: &str = "something there (a mutating webhook or policy) changes or removes ";

struct Kind {
    plural: &'static str,
    make: fn(&str) -> Value,
    group: &'static str,
}

const PODS: Kind = Kind {
    plural: "pods",
    make: plain,
    group: "",
};
const JOBS: Kind = Kind {
    plural: "jobs",
    make: job,
    group: "batch",
};

impl Kind {
    /// As an argument of kubectl.
    fn object(&self) -> String {
        format!("{}/one", self.plural.trim_end_matches('s'))
    }
}

impl Rig {
    /// From its answer on, this JSON patch is made of whatever is created of this kind in this namespace of worker-a.
    async fn spoil(&self, ns: &str, kind: &Kind, patch: &str) -> Result<()> {
        self.consenting(At::A, ns).await?;
        let selected = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns}}});
        let mut constraints = selected.clone();
        constraints["resourceRules"] = json!([
            {"apiGroups": [kind.group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [kind.plural]},
        ]);
        let mark = "JSONPatch{op: 'add', path: '/metadata/labels/spoilt', value: 'yes'}";
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": ns},
            "spec": {
                "matchConstraints": constraints, "reinvocationPolicy": "Never", "failurePolicy": "Fail",
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": format!("[{patch}, {mark}]")}}],
            },
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": ns},
            "spec": {"policyName": ns, "matchResources": selected},
        });
        for object in [policy, binding] {
            self.create(At::A, "", object).await?;
        }
        let mut probe = (kind.make)("probe");
        probe["metadata"]["labels"] = json!({"portcullis.dev/origin": "nobody"});
        probe["metadata"]["annotations"] =
            json!({"portcullis.dev/source": "x", "portcullis.dev/uncommitted": "x"});
        probe["metadata"]["namespace"] = ns.into();
        if kind.plural == "pods" {
            probe["spec"]["schedulingGates"] = json!([{"name": "example.com/probe"}]);
        }
        wait_for("the policy to count", PATIENCE, async || {
            let args = ["create", "--dry-run=server", "-n", ns, "-o", "json", "-f", "-"];
            let tried = self
                .cluster(At::A)
                .kubectl_with("admin", &args, &probe.to_string())
                .await?;
            anyhow::Ok(tried.contains("spoilt").then_some(()))
        })
        .await
    }

    /// Nothing of it is left on worker-a.
    async fn nothing_there(&self, ns: &str, kind: &Kind) -> Result<()> {
        self.until_list(At::A, ns, kind.plural, "none", <[Value]>::is_empty)
            .await
            .map(drop)
    }

    fn creates(&self, ns: &str, kind: &Kind) -> Result<usize> {
        let path = format!("/namespaces/{ns}/{}", kind.plural);
        Ok(self.requests(At::A, "create", &path)?.len())
    }
}

fn replace(key: &str) -> String {
    format!("JSONPatch{{op: 'add', path: '/metadata/annotations/portcullis.dev~1{key}', value: 'changed'}}")
}

fn remove(path: &str) -> String {
    format!("JSONPatch{{op: 'remove', path: '/{path}'}}")
}

async fn copies_that_lose_their_marks_go_and_are_tried_ever_more_rarely(rig: Arc<Rig>) -> Result<()> {
    for (ns, kind) in [("marks-pod-uid", &PODS), ("marks-job-uid", &JOBS)] {
        rig.on_a(ns).await?;
        rig.spoil(ns, kind, &replace("local-uid")).await?;
    }
    let both = [("marks-pod-uid", &PODS), ("marks-job-uid", &JOBS)];
    for (ns, kind) in both {
        rig.create(At::Manager, ns, (kind.make)("one")).await?;
    }
    for (ns, kind) in both {
        let words = format!("{KEPT_OUT}metadata.annotations[portcullis.dev/local-uid] of a copy");
        rig.until(At::Manager, ns, &kind.object(), "why it waits", |object| {
            let said = crate::sides::dispatched(object);
            let message = said["message"].as_str().unwrap_or_default();
            said["reason"] == "NoClusterTakesIt" && message.contains(&words)
        })
        .await?;
        rig.until_event(ns, "one", "MarksNotKept", &format!("worker-a: {words}"))
            .await?;
        let path = format!("/namespaces/{ns}/{}", kind.plural);
        let tries = rig.until_requests(At::A, "create", &path, 4).await?;
        ever_rarer(&tries)?;
        rig.nothing_there(ns, kind).await?;
    }
    Ok(())
}

async fn what_loses_its_marks_on_one_cluster_runs_on_the_next(rig: Arc<Rig>) -> Result<()> {
    let gone = "metadata/annotations";
    let cases: Vec<(&str, &Kind, String, &str)> = vec![
        (
            "marks-pod-source",
            &PODS,
            replace("source"),
            "[portcullis.dev/source]",
        ),
        (
            "marks-job-source",
            &JOBS,
            replace("source"),
            "[portcullis.dev/source]",
        ),
        ("marks-pod-all", &PODS, remove(gone), "[portcullis.dev/local-uid]"),
        ("marks-job-all", &JOBS, remove(gone), "[portcullis.dev/local-uid]"),
        (
            "marks-pod-label",
            &PODS,
            remove("metadata/labels/portcullis.dev~1origin"),
            "metadata.labels[portcullis.dev/origin]",
        ),
        (
            "marks-pod-gate",
            &PODS,
            remove("spec/schedulingGates"),
            "spec.schedulingGates[portcullis.dev/uncommitted]",
        ),
        (
            "marks-job-gate",
            &JOBS,
            remove("metadata/annotations/portcullis.dev~1uncommitted"),
            "metadata.annotations[portcullis.dev/uncommitted]",
        ),
    ];
    for (ns, kind, patch, _) in &cases {
        rig.opted_in_to(
            ns,
            json!({"clusters": ["worker-a", "worker-b"], "namespaces": {"create": true}}),
        )
        .await?;
        rig.spoil(ns, kind, patch).await?;
        rig.create(At::Manager, ns, (kind.make)("one")).await?;
    }
    for (ns, kind, _, words) in &cases {
        rig.until(At::Manager, ns, &kind.object(), "on the next cluster", |object| {
            annotation(object, "portcullis.dev/cluster") == "worker-b"
        })
        .await?;
        rig.until_event(ns, "one", "MarksNotKept", words).await?;
        rig.nothing_there(ns, kind).await?;
        let creates = rig.creates(ns, kind)?;
        ensure!(creates == 1, "{ns}: {creates} creates");
    }
    // A pod that may have run there is gone before another one is made.
    let ns = "marks-pod-gate";
    let ledger = |at| Ok::<_, anyhow::Error>(rig.cluster(at).ledger()?.of_namespace(ns));
    let of =
        |write: &Write, verb: &str| write.verb == verb && write.resource == "pods" && write.name == "one";
    let there = ledger(At::A)?.writes;
    let gone = there
        .iter()
        .filter(|write| of(write, "delete"))
        .map(|write| write.time);
    let next = ledger(At::B)?.writes;
    let made = next
        .iter()
        .find(|write| of(write, "create"))
        .map(|write| write.time);
    let (gone, made) = (gone.max(), made.context("it was made on worker-b")?);
    ensure!(
        gone.is_some_and(|gone| gone < made),
        "gone at {gone:?}, made at {made}"
    );
    Ok(())
}

/// A policy here removes what the commit writes. Nothing can be done about it but to say so, at a pace.
async fn a_commit_that_is_not_kept_here_is_told(rig: Arc<Rig>) -> Result<()> {
    let cases = [
        (
            "marks-commit-uid",
            remove("metadata/annotations/portcullis.dev~1remote-uid"),
            "'portcullis.dev/remote-uid' in object.metadata.annotations",
            "annotation portcullis.dev/remote-uid",
        ),
        (
            "marks-commit-held",
            remove("metadata/finalizers"),
            "has(object.metadata.finalizers)",
            "finalizer portcullis.dev/remote-copy",
        ),
    ];
    for (ns, patch, when, words) in cases {
        let (kept, _) = words.split_once(' ').context("two words")?;
        rig.on_a(ns).await?;
        let selected = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns}}});
        let mut constraints = selected.clone();
        constraints["resourceRules"] = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["pods"]}]);
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": ns},
            "spec": {
                "matchConstraints": constraints, "reinvocationPolicy": "Never", "failurePolicy": "Fail",
                "matchConditions": [{"name": "there", "expression": format!("has(object.metadata.annotations) && {when}")}],
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": format!("[{patch}]")}}],
            },
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": ns},
            "spec": {"policyName": ns, "matchResources": selected},
        });
        for object in [policy, binding] {
            rig.create(At::Manager, "", object).await?;
        }
        // What nobody else may write is refused until it is removed before anybody sees it.
        let mut probe = plain("probe");
        probe["metadata"]["annotations"] = json!({"example.com/probe": "x"});
        match kept {
            "annotation" => probe["metadata"]["annotations"]["portcullis.dev/remote-uid"] = "a/b".into(),
            _ => probe["metadata"]["finalizers"] = json!(["portcullis.dev/remote-copy"]),
        }
        wait_for("the policy to count", PATIENCE, async || {
            let args = ["create", "--dry-run=server", "-n", ns, "-f", "-"];
            let tried = rig
                .cluster(At::Manager)
                .kubectl_with("admin", &args, &probe.to_string())
                .await;
            anyhow::Ok(tried.is_ok().then_some(()))
        })
        .await?;
        rig.create(At::Manager, ns, plain("one")).await?;
        rig.until_event(ns, "one", "CommitNotKept", words).await?;
    }
    let ns = "marks-commit-uid";
    rig.until_event(ns, "one", "NoProgress", "commit: done and to be done again")
        .await?;
    let path = format!("/namespaces/{ns}/pods/one");
    let tries = rig.until_requests(At::Manager, "patch", &path, 9).await?;
    ever_rarer(&tries[5..])?;
    ensure!(rig.created(At::A, ns)? == ["one"], "one copy");
    Ok(())
}
