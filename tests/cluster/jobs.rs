//! What tests of whole jobs look at: both statuses, the pods there, what ever ran, and our rights.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use portcullis_testbed::wait_for;
use serde_json::{Value, json};

use crate::rig::Rig;
use crate::sides::{At, PATIENCE, US, annotation, play, running, text, uid};

/// The status without what is ours, and without the Job controller's bookkeeping. A generation counts on its own cluster:
/// what is left is whether the newest was seen. An empty map says nothing.
fn shown(job: &Value) -> Value {
    let mut status = job["status"].clone();
    if let Some(fields) = status.as_object_mut() {
        fields.remove("uncountedTerminatedPods");
        fields.retain(|_, value| *value != json!({}));
        if let Some(observed) = fields.get_mut("observedGeneration") {
            *observed = (*observed == job["metadata"]["generation"]).into();
        }
    }
    if let Some(conditions) = status["conditions"].as_array_mut() {
        conditions.retain(|condition| condition["type"] != "portcullis.dev/Dispatched");
        if conditions.is_empty() {
            status["conditions"] = Value::Null; // a worker's operator may have written none yet
        }
    }
    status
}

impl Rig {
    /// Waits until both sides show the same.
    pub async fn until_equal(&self, ns: &str, object: &str) -> Result<()> {
        wait_for("both sides to show the same", PATIENCE, async || {
            let here = shown(&self.seen(At::Manager, ns, object).await?);
            let there = shown(&self.seen(At::A, ns, object).await?);
            if here == there {
                Ok(Some(()))
            } else {
                Err(anyhow::anyhow!("here {here}, there {there}"))
            }
        })
        .await
    }

    /// The pods of a job on worker-a, once they run.
    pub async fn running_there(&self, ns: &str, count: usize) -> Result<Vec<Value>> {
        self.until_list(At::A, ns, "pods", &format!("{count} run"), |pods| {
            pods.iter().filter(|pod| running(pod)).count() == count
        })
        .await
    }

    /// KWOK ends them.
    pub async fn end_all(&self, ns: &str, how: &str) -> Result<()> {
        for pod in self.list(At::A, ns, "pods").await? {
            let object = format!("pod/{}", text(&pod, "/metadata/name"));
            self.patch(At::A, ns, &object, play("end", how)).await?;
        }
        Ok(())
    }

    /// Copies of jobs that ever stood there unsuspended: their UIDs by the UID of their local job.
    pub fn ran(&self, ns: &str) -> Result<BTreeMap<String, BTreeSet<String>>> {
        let mut ran: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for at in [At::A, At::B] {
            let log = std::fs::read_to_string(self.cluster(at).folder().join("audit.log"))?;
            for line in log.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
                let event: Value = serde_json::from_str(line).context("an audit event")?;
                let of_jobs =
                    event["objectRef"]["resource"] == "jobs" && event["objectRef"]["namespace"] == ns;
                let answer = &event["responseObject"];
                if of_jobs && answer["kind"] == "Job" && answer["spec"]["suspend"] != true {
                    let local = annotation(answer, "portcullis.dev/local-uid").to_owned();
                    ran.entry(local).or_default().insert(uid(answer));
                }
            }
        }
        Ok(ran)
    }

    /// Copies of jobs that we made there, by name.
    pub fn copies(&self, at: At, ns: &str) -> Result<Vec<String>> {
        let writes = self.writes(at, ns)?.into_iter();
        Ok(writes
            .filter(|write| write.verb == "create" && write.resource == "jobs" && write.user == US)
            .map(|write| write.name)
            .collect())
    }

    pub async fn no_pod_here(&self, ns: &str) -> Result<()> {
        let here = self.created(At::Manager, ns)?;
        ensure!(here.is_empty(), "pods were made here: {here:?}");
        Ok(())
    }
}

/// What we may do with jobs on a cluster.
pub struct Role {
    at: At,
    name: &'static str,
    rules: Value,
}

impl Role {
    pub async fn of(rig: &Rig, at: At) -> Result<Self> {
        let name = match at {
            At::Manager => "portcullis",
            At::A | At::B | At::C => "portcullis-worker",
        };
        let role = rig
            .cluster(at)
            .kubectl(&["get", "clusterrole", name, "-o", "json"])
            .await?;
        let role: Value = serde_json::from_str(&role)?;
        Ok(Self {
            at,
            name,
            rules: role["rules"].clone(),
        })
    }

    pub async fn without_patch(&self, rig: &Rig) -> Result<()> {
        let mut rules = self.rules.clone();
        for rule in rules.as_array_mut().into_iter().flatten() {
            if rule["apiGroups"] == json!(["batch"]) && rule["resources"] == json!(["jobs"]) {
                let verbs = rule["verbs"].as_array_mut().context("verbs")?;
                verbs.retain(|verb| verb != "patch");
            }
        }
        self.write(rig, &rules, "no").await
    }

    pub async fn restore(&self, rig: &Rig) -> Result<()> {
        self.write(rig, &self.rules, "yes").await
    }

    async fn write(&self, rig: &Rig, rules: &Value, may: &str) -> Result<()> {
        let patch = json!({ "rules": rules }).to_string();
        let cluster = rig.cluster(self.at);
        cluster
            .kubectl(&["patch", "clusterrole", self.name, "--type=merge", "-p", &patch])
            .await?;
        wait_for("the role to count", Duration::from_secs(30), async || {
            let who = format!("--as={US}");
            // kubectl ends with 1 for "no".
            let answer = cluster
                .kubectl(&["auth", "can-i", "patch", "jobs.batch", "-A", &who])
                .await;
            let found = match &answer {
                Ok(words) if words.trim() == "yes" => "yes",
                Ok(_) | Err(_) => "no",
            };
            if found == may {
                Ok(Some(()))
            } else {
                Err(anyhow::anyhow!("the answer is {answer:?}"))
            }
        })
        .await
    }
}
