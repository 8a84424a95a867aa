//! What users do to jobs, and what is awaited of them.

use anyhow::{Context, Result, bail, ensure};
use portcullis_testbed::ledger::Write;
use portcullis_testbed::wait_for;
use serde_json::{Value, json};

use crate::rig::{Rig, SOON};

/// The name under which portcullis writes.
const PORTCULLIS: &str = "system:serviceaccount:portcullis-system:portcullis";

/// The label of the pods of Kubeflow jobs.
pub fn of(job: &str) -> String {
    format!("training.kubeflow.org/job-name={job}")
}

/// A merge patch of `spec.runPolicy.suspend`.
pub fn suspend(value: bool) -> Value {
    json!({"spec": {"runPolicy": {"suspend": value}}})
}

impl Rig {
    /// A merge patch, as a user makes it.
    pub async fn merge(&self, namespace: &str, object: &str, patch: &Value) -> Result<String> {
        let patch = patch.to_string();
        self.kubectl(&["patch", object, "-n", namespace, "--type=merge", "-p", &patch])
            .await
    }

    /// Creates an object that must be refused; answers why.
    pub async fn refusal(&self, object: &Value) -> Result<String> {
        match self.create(object).await {
            Ok(answer) => bail!("not refused: {answer}"),
            Err(error) => Ok(format!("{error:#}")),
        }
    }

    /// Deletes an object and does not wait.
    pub async fn delete(&self, namespace: &str, object: &str) -> Result<String> {
        self.kubectl(&["delete", object, "-n", namespace, "--wait=false"])
            .await
    }

    /// Tells pods to end.
    pub async fn end_pods(&self, namespace: &str, selector: &str) -> Result<String> {
        let args = [
            "annotate",
            "pods",
            "-n",
            namespace,
            "-l",
            selector,
            "kwok.test/end=complete",
        ];
        self.kubectl(&args).await
    }

    /// Whether the object is there.
    pub async fn exists(&self, namespace: &str, object: &str) -> Result<bool> {
        let args = ["get", object, "-n", namespace, "--ignore-not-found", "-o=name"];
        Ok(!self.kubectl(&args).await?.is_empty())
    }

    /// Waits until the object is not there.
    pub async fn await_gone(&self, namespace: &str, object: &str) -> Result<()> {
        wait_for(&format!("{object} to go"), SOON, async || {
            let is_there = self.exists(namespace, object).await?;
            (!is_there).then_some(Some(())).context("it is there")
        })
        .await
    }

    /// Waits until a condition of the object is True.
    pub async fn await_condition(&self, namespace: &str, object: &str, condition: &str) -> Result<()> {
        let path = format!("{{.status.conditions[?(@.type=='{condition}')].status}}");
        self.await_value(namespace, object, &path, "True").await
    }

    /// Portcullis has had its turns: a job that was made later runs, and is gone again.
    pub async fn others_go_on(&self, namespace: &str) -> Result<()> {
        self.create(&crate::jobs::mpi(namespace, "other", 1, "1")).await?;
        self.await_running(namespace, "other", 2).await?;
        self.delete(namespace, "mpijob/other").await?;
        self.await_pods(namespace, "other", 0).await
    }

    /// `suspend` and our claim of a job: `true true` while it is held by us.
    pub async fn hold(&self, namespace: &str, object: &str) -> Result<String> {
        let path = r"{.spec.runPolicy.suspend} {.metadata.annotations.portcullis\.dev/held}";
        self.get(namespace, object, path).await
    }

    /// We hold the job.
    pub async fn must_be_held(&self, namespace: &str, object: &str) -> Result<()> {
        let hold = self.hold(namespace, object).await?;
        ensure!(hold == "true true", "{object} is not held: {hold:?}");
        Ok(())
    }

    /// What portcullis wrote in a namespace, without Events: verb and resource.
    pub fn our_writes(&self, namespace: &str) -> Result<Vec<String>> {
        let ledger = self.cluster().ledger()?;
        let ours = ledger.writes_by(PORTCULLIS).into_iter();
        let is_meant = |write: &&Write| write.namespace == namespace && write.resource != "events";
        let told =
            |write: &Write| format!("{} {}.{} {}", write.verb, write.resource, write.group, write.name);
        Ok(ours.filter(is_meant).map(told).collect())
    }

    /// What a selection of pods says under a path, one line each.
    pub async fn of_pods(&self, namespace: &str, selector: &str, path: &str) -> Result<Vec<String>> {
        let path = format!(r#"-o=jsonpath={{range .items[*]}}{path}{{"\n"}}{{end}}"#);
        let args = ["get", "pods", "-n", namespace, "-l", selector, &path];
        Ok(self.kubectl(&args).await?.lines().map(str::to_owned).collect())
    }

    /// Waits until exactly so many pods of a selector are there and run.
    pub async fn await_selected(&self, namespace: &str, selector: &str, count: usize) -> Result<()> {
        wait_for(&format!("{count} pods of {selector} to run"), SOON, async || {
            let phases = self.of_pods(namespace, selector, "{.status.phase}").await?;
            let all = phases.len() == count && phases.iter().all(|phase| phase == "Running");
            all.then_some(Some(())).with_context(|| format!("{phases:?}"))
        })
        .await
    }
}
