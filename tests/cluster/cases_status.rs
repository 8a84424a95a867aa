//! `portcullis status` of whole jobs: one job with its pods on the worker, and copies that lost their job.

use std::process::Output;
use std::sync::Arc;

use anyhow::{Result, ensure};
use portcullis_testbed::case;
use serde_json::{Value, json};

use crate::rig::{BINARY, CONFIGURATION, Case, Rig};
use crate::sides::{At, PATIENCE, dispatched, text, uid};

pub fn cases() -> Vec<Case> {
    vec![
        case!(status_of_a_job_shows_its_pods_on_the_worker),
        case!(status_says_why_there_are_no_pods_to_show),
        case!(a_copy_that_lost_its_job_is_listed_as_an_orphan),
        case!(alone status_of_a_job_whose_worker_is_away_says_so),
    ]
}

/// A Job with three pods.
fn job(name: &str, spec: Value) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {
            "parallelism": 3, "completions": 3, "completionMode": "Indexed",
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "app:1"}]}},
        },
    });
    json_patch::merge(&mut job, &json!({ "spec": spec }));
    job
}

impl Rig {
    async fn asked(&self, args: &[&str]) -> Result<Output> {
        let output = tokio::process::Command::new(BINARY)
            .args(["status", "--kubeconfig"])
            .arg(self.cluster(At::Manager).admin_kubeconfig())
            .args(args)
            .output()
            .await?;
        Ok(output)
    }

    /// What `portcullis status` says with these arguments, as administrator.
    pub async fn status(&self, args: &[&str]) -> Result<String> {
        let output = self.asked(args).await?;
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        );
        ensure!(output.status.success() && err.is_empty(), "{args:?}: {err}");
        Ok(out)
    }

    /// Names of the pods that it lists of a job: they must be those of the worker, and each with its node and how to read it.
    pub async fn listed_pods(&self, ns: &str, object: &str) -> Result<Vec<String>> {
        let report = self.status(&["-n", ns, object, "-o", "json"]).await?;
        let report: Value = serde_json::from_str(&report)?;
        let mut names = Vec::new();
        for line in report["remotePods"].as_array().into_iter().flatten() {
            let name = text(line, "/pod");
            let pod = self.seen(At::A, ns, &format!("pod/{name}")).await?;
            ensure!(
                line["node"] == pod["spec"]["nodeName"] && line["phase"] == pod["status"]["phase"],
                "{line}"
            );
            let logs = format!("kubectl --context worker-a --namespace {ns} logs {name}");
            ensure!(line["command"] == logs && line["restarts"] == 0, "{line}");
            names.push(name.to_owned());
        }
        names.sort();
        Ok(names)
    }

    /// Why it cannot be said.
    async fn not_said(&self, args: &[&str]) -> Result<String> {
        let output = self.asked(args).await?;
        ensure!(
            !output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

async fn status_of_a_job_shows_its_pods_on_the_worker(rig: Arc<Rig>) -> Result<()> {
    let ns = "status-job";
    rig.on_a(ns).await?;
    rig.create(At::Manager, ns, job("one", json!({}))).await?;
    rig.create(
        At::Manager,
        ns,
        job("other", json!({"parallelism": 1, "completions": 1})),
    )
    .await?;
    let pods = rig.running_there(ns, 4).await?;
    let of_one = |pod: &&Value| text(pod, "/metadata/labels/batch.kubernetes.io~1job-name") == "one";
    let mut there: Vec<&str> = pods
        .iter()
        .filter(of_one)
        .map(|pod| text(pod, "/metadata/name"))
        .collect();
    there.sort_unstable();
    ensure!(there.len() == 3);
    rig.until(At::Manager, ns, "job/one", "Running is told", |job| {
        dispatched(job)["reason"] == "Running"
    })
    .await?;
    for object in ["job/one", "Jobs/one", "job.batch/one", "job.v1.batch/one"] {
        ensure!(rig.listed_pods(ns, object).await? == there, "{object}");
    }
    let table = rig.status(&["-n", ns, "job/one"]).await?;
    ensure!(table.contains("Job one   Running   worker-a"), "{table}");
    ensure!(table.contains("\nPods on its worker:\n"), "{table}");
    let yaml = rig.status(&["-n", ns, "job/one", "-o", "yaml"]).await?;
    ensure!(
        yaml.contains("kind: StatusReport") && yaml.contains(there[0]),
        "{yaml}"
    );
    // Nothing was written, here or there.
    let admin = |at: At| -> Result<usize> {
        let writes = rig.writes(at, ns)?.into_iter();
        Ok(writes
            .filter(|write| write.user == "admin" && write.resource == "jobs")
            .count())
    };
    ensure!(
        admin(At::Manager)? == 2 && admin(At::A)? == 0,
        "status is read-only"
    );
    Ok(())
}

async fn status_says_why_there_are_no_pods_to_show(rig: Arc<Rig>) -> Result<()> {
    let ns = "status-none";
    rig.on_a(ns).await?;
    rig.create(At::Manager, ns, job("waits", json!({"suspend": true})))
        .await?;
    rig.until(At::Manager, ns, "job/waits", "Suspended is told", |job| {
        dispatched(job)["reason"] == "Suspended"
    })
    .await?;
    let waits = rig.status(&["-n", ns, "job/waits"]).await?;
    ensure!(waits.contains("has no copy on any worker yet"), "{waits}");
    ensure!(
        waits.contains("is suspended; it is dispatched once it is resumed"),
        "{waits}"
    );
    rig.create(
        At::Manager,
        ns,
        job("theirs", json!({"managedBy": "example.com/x"})),
    )
    .await?;
    let theirs = rig.status(&["-n", ns, "job/theirs"]).await?;
    ensure!(theirs.contains("managedBy is \"example.com/x\""), "{theirs}");
    // One that a controller made is not left to us, but its pods are.
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}});
    let owner = rig.create(At::Manager, ns, owner).await?;
    let mut owned = job("owned", json!({"parallelism": 2, "completions": 2}));
    owned["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid(&owner), "controller": true,
    }]);
    rig.create(At::Manager, ns, owned).await?;
    rig.until_list(At::Manager, ns, "pods", "two", |pods| pods.len() == 2)
        .await?;
    let owned = rig.status(&["-n", ns, "job/owned"]).await?;
    ensure!(
        owned.contains("Job owned   ByPods") && owned.contains("dispatched one by one (2 now)"),
        "{owned}"
    );
    for (args, words) in [
        (
            &["-n", ns, "job/nosuch"][..],
            "Job \"nosuch\" not found in namespace \"status-none\"",
        ),
        (
            &["-n", ns, "--config", CONFIGURATION, "painter/one"],
            "the manager does not serve Painter of batch.example.com/v1",
        ),
        (
            &["-n", ns, "deployment/one"],
            "found kind \"deployment\", allowed is pod or a kind of jobs",
        ),
        (
            &["-n", "nosuch", "job/one"],
            "namespace \"nosuch\" does not exist",
        ),
        (&["job/one"], "--namespace"),
    ] {
        let said = rig.not_said(args).await?;
        ensure!(said.contains(words), "{args:?}: {said}");
    }
    Ok(())
}

/// The finalizer is taken off by force while the job goes: its copy stays, and is shown with what removes it.
async fn a_copy_that_lost_its_job_is_listed_as_an_orphan(rig: Arc<Rig>) -> Result<()> {
    let ns = "status-orphan";
    rig.on_a(ns).await?;
    let local = rig.create(At::Manager, ns, job("one", json!({}))).await?;
    rig.running_there(ns, 3).await?;
    let orphans = async || -> Result<Value> {
        let report = rig.status(&["-n", ns, "-o", "json"]).await?;
        Ok(serde_json::from_str::<Value>(&report)?["orphans"].take())
    };
    ensure!(orphans().await? == json!([]));
    // The same copy without its mark of whose it is: as after a restore of the manager that lost the job.
    let foreign = json!({"metadata": {"annotations": {"portcullis.dev/local-uid": "gone"}}});
    let mut copy = job("two", json!({}));
    copy["metadata"]["labels"] = json!({"portcullis.dev/origin": rig.origin().await?});
    json_patch::merge(&mut copy, &foreign);
    rig.create(At::A, ns, copy).await?;
    let found = orphans().await?;
    ensure!(
        found[0]["name"] == "two" && found[0]["kind"] == "Job" && found[1].is_null(),
        "{found}"
    );
    let remove = format!("kubectl --context worker-a --namespace {ns} delete jobs.batch two");
    ensure!(found[0]["remove"] == remove, "{found}");
    rig.delete(At::Manager, ns, "job/one").await?;
    rig.until_gone(At::Manager, ns, "job/one", &uid(&local)).await?;
    Ok(())
}

async fn status_of_a_job_whose_worker_is_away_says_so(rig: Arc<Rig>) -> Result<()> {
    let ns = "status-away";
    rig.on_a(ns).await?;
    rig.create(At::Manager, ns, job("one", json!({}))).await?;
    rig.running_there(ns, 3).await?;
    rig.world.workers[0].proxy.cut();
    let said = tokio::time::timeout(PATIENCE, rig.status(&["-n", ns, "job/one"])).await;
    rig.world.heal();
    let said = said??;
    let is_there =
        ["Dispatched", "Running"].map(|state| said.contains(&format!("Job one   {state}   worker-a")));
    ensure!(is_there.contains(&true), "{said}");
    ensure!(
        said.contains("worker-a: ")
            && said.contains("its pods are not listed. On the worker: kubectl --context worker-a"),
        "{said}"
    );
    Ok(())
}
