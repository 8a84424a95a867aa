//! Jobs that a worker does not take as they are: the reason stands on the job, the next cluster is tried, and
//! tries become ever rarer. Tries are counted in the audit logs, refused ones too.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use portcullis_testbed::{Crds, case, wait_for};
use serde_json::{Value, json};

use crate::objects::definition_of;
use crate::rig::{Case, Rig};
use crate::sides::{At, PATIENCE, US, annotation, condition, dispatched, text, uid};

pub fn cases() -> Vec<Case> {
    vec![
        // A change of any policy, as other cases make them, has every worker asked anew.
        case!(alone a_template_that_a_worker_refuses_goes_to_the_next_and_is_tried_ever_more_rarely),
        case!(alone a_job_over_the_workers_quota_waits_for_room),
        case!(a_version_that_a_worker_does_not_serve_is_not_tried_there),
        case!(a_copy_that_is_marked_anew_on_its_worker_goes),
        case!(a_queue_that_nobody_knows_holds_nothing_up),
        case!(uncommitted_copies_without_a_job_are_swept_in_every_kind),
    ]
}

pub fn job(name: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "app:1"}]}}},
    })
}

pub fn says(reason: &'static str, words: &'static str) -> impl Fn(&Value) -> bool {
    move |job| {
        let said = dispatched(job);
        said["reason"] == reason && said["message"].as_str().unwrap_or_default().contains(words)
    }
}

impl Rig {
    /// When our requests of this kind came in, refused ones too. `path` is the end of the path, before the query.
    pub fn requests(&self, at: At, verb: &str, path: &str) -> Result<Vec<Timestamp>> {
        let log = std::fs::read_to_string(self.cluster(at).folder().join("audit.log"))?;
        let mut times = Vec::new();
        for line in log
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n') && line.contains(path))
        {
            let event: Value = serde_json::from_str(line).context("an audit event")?;
            let uri = text(&event, "/requestURI").split('?').next().unwrap_or_default();
            if event["verb"] == verb && event["user"]["username"] == US && uri.ends_with(path) {
                times.push(text(&event, "/requestReceivedTimestamp").parse()?);
            }
        }
        times.sort_unstable();
        Ok(times)
    }

    /// Waits until there were so many of them.
    pub async fn until_requests(
        &self,
        at: At,
        verb: &str,
        path: &str,
        count: usize,
    ) -> Result<Vec<Timestamp>> {
        wait_for(&format!("{count} times {verb} {path}"), PATIENCE, async || {
            let times = self.requests(at, verb, path)?;
            anyhow::Ok((times.len() >= count).then_some(times))
        })
        .await
    }

    /// A policy of admission that refuses what this expression does not hold for, once it counts.
    pub async fn refuse(&self, at: At, name: &str, rule: Value, (holds, says): (&str, &str)) -> Result<()> {
        let namespace = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}});
        let mut constraints = namespace.clone();
        constraints["resourceRules"] = json!([rule]);
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {
                "matchConstraints": constraints, "failurePolicy": "Fail",
                "validations": [{"expression": holds, "message": says}],
            },
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"], "matchResources": namespace},
        });
        for object in [policy, binding] {
            let args = ["apply", "-f", "-"];
            self.cluster(at)
                .kubectl_with("admin", &args, &object.to_string())
                .await?;
        }
        Ok(())
    }
}

/// Each pause is longer than the one before, or as long as it gets.
pub fn ever_rarer(times: &[Timestamp]) -> Result<()> {
    let pauses: Vec<f64> = times
        .windows(2)
        .map(|pair| pair[1].duration_since(pair[0]).as_secs_f64())
        .collect();
    let grow = pauses.windows(2).all(|pair| pair[1] > pair[0] * 1.2);
    ensure!(grow, "the pauses are {pauses:?}");
    Ok(())
}

fn created(group: &str, resource: &str) -> Value {
    json!({"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]})
}

async fn a_template_that_a_worker_refuses_goes_to_the_next_and_is_tried_ever_more_rarely(
    rig: Arc<Rig>,
) -> Result<()> {
    let ns = "jobs-refused";
    rig.on_a(ns).await?;
    rig.consenting(At::A, ns).await?;
    let holds = "!object.spec.template.spec.containers.exists(c, c.image == 'forbidden:1')";
    rig.refuse(
        At::A,
        ns,
        created("batch", "jobs"),
        (holds, "no such image is allowed here"),
    )
    .await?;
    let mut forbidden = job("probe");
    forbidden["spec"]["template"]["spec"]["containers"][0]["image"] = json!("forbidden:1");
    wait_for("the policy to count", PATIENCE, async || {
        let args = ["create", "--dry-run=server", "-n", ns, "-f", "-"];
        let tried = rig
            .cluster(At::A)
            .kubectl_with("admin", &args, &forbidden.to_string())
            .await;
        anyhow::Ok(tried.is_err().then_some(()))
    })
    .await?;
    forbidden["metadata"]["name"] = json!("one");
    rig.create(At::Manager, ns, forbidden.clone()).await?;
    let waits = says("NoClusterTakesIt", "worker-a: ");
    rig.until(At::Manager, ns, "job/one", "the worker's words", |job| {
        waits(job) && text(dispatched(job), "/message").contains("no such image is allowed here")
    })
    .await?;
    let path = format!("/namespaces/{ns}/jobs");
    let tries = rig.until_requests(At::A, "create", &path, 4).await?;
    ever_rarer(&tries)?;
    // Nothing that happens to the job makes the tries more.
    for number in 0..10 {
        let touch = json!({"metadata": {"annotations": {"example.com/touch": number.to_string()}}});
        rig.patch(At::Manager, ns, "job/one", touch).await?;
    }
    ensure!(rig.requests(At::A, "create", &path)?.len() <= tries.len() + 1);
    let both = "jobs-refused-both";
    rig.opted_in_to(
        both,
        json!({"clusters": ["worker-a", "worker-b"], "namespaces": {"create": true}}),
    )
    .await?;
    rig.consenting(At::A, both).await?;
    rig.refuse(At::A, both, created("batch", "jobs"), ("false", "no jobs here"))
        .await?;
    wait_for("the policy to count", PATIENCE, async || {
        let args = ["create", "--dry-run=server", "-n", both, "-f", "-"];
        let tried = rig
            .cluster(At::A)
            .kubectl_with("admin", &args, &job("probe").to_string())
            .await;
        anyhow::Ok(tried.is_err().then_some(()))
    })
    .await?;
    rig.create(At::Manager, both, job("one")).await?;
    rig.until(At::Manager, both, "job/one", "on the next cluster", |job| {
        annotation(job, "portcullis.dev/cluster") == "worker-b"
    })
    .await?;
    ensure!(
        rig.requests(At::A, "create", &format!("/namespaces/{both}/jobs"))?
            .len()
            == 1
    );
    ensure!(rig.copies(At::B, both)? == ["one"], "one copy");
    Ok(())
}

async fn a_job_over_the_workers_quota_waits_for_room(rig: Arc<Rig>) -> Result<()> {
    let ns = "jobs-quota";
    rig.on_a(ns).await?;
    rig.consenting(At::A, ns).await?;
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"count/jobs.batch": "1"}},
    });
    rig.create(At::A, ns, quota).await?;
    rig.until(At::A, ns, "resourcequota/few", "counted", |quota| {
        quota["status"]["used"]["count/jobs.batch"] == "0"
    })
    .await?;
    let first = rig.create(At::Manager, ns, job("one")).await?;
    rig.running_there(ns, 1).await?;
    rig.create(At::Manager, ns, job("two")).await?;
    rig.until(
        At::Manager,
        ns,
        "job/two",
        "no room",
        says("NoClusterTakesIt", "exceeded quota"),
    )
    .await?;
    let path = format!("/namespaces/{ns}/jobs");
    let tries = rig.until_requests(At::A, "create", &path, 4).await?; // the first is that of `one`
    ever_rarer(&tries[1..])?;
    rig.delete(At::Manager, ns, "job/one").await?;
    rig.until_gone(At::Manager, ns, "job/one", &uid(&first)).await?;
    rig.until(At::Manager, ns, "job/two", "its turn", |job| {
        dispatched(job)["status"] == "True"
    })
    .await?;
    ensure!(rig.copies(At::A, ns)? == ["one", "two"]);
    rig.no_pod_here(ns).await
}

async fn a_version_that_a_worker_does_not_serve_is_not_tried_there(rig: Arc<Rig>) -> Result<()> {
    let (ns, object) = ("jobs-version", "planner/one");
    let name = "customresourcedefinition/planners.batch.example.com";
    let spec = json!({"managedBy": {"type": "string"}, "suspend": {"type": "boolean"}});
    let of = |version: &str| definition_of(["batch.example.com", version, "Planner"], spec.clone());
    rig.opted_in_to(
        ns,
        json!({"clusters": ["worker-a", "worker-b"], "namespaces": {"create": true}}),
    )
    .await?;
    for (at, version) in [(At::A, "v1alpha1"), (At::B, "v1"), (At::Manager, "v1")] {
        rig.create(at, "", of(version)).await?;
        rig.until(at, "", name, "established", |definition| {
            condition(definition, "Established")["status"] == "True"
        })
        .await?;
    }
    let job = json!({"apiVersion": "batch.example.com/v1", "kind": "Planner", "metadata": {"name": "one"}, "spec": {}});
    // Until portcullis knows the kind, nothing writes managedBy but the policy, which does.
    let local = rig.create(At::Manager, ns, job).await?;
    ensure!(
        local["spec"]["managedBy"] == "portcullis.dev/multikueue",
        "{local}"
    );
    rig.until(At::Manager, ns, object, "on the other worker", |job| {
        annotation(job, "portcullis.dev/cluster") == "worker-b"
    })
    .await?;
    let path = format!("/namespaces/{ns}/planners");
    ensure!(
        rig.requests(At::A, "create", &path)?.is_empty(),
        "it was tried all the same"
    );
    rig.delete(At::Manager, ns, object).await?;
    rig.until_gone(At::Manager, ns, object, &uid(&local)).await?;
    for at in [At::Manager, At::A, At::B] {
        rig.delete(at, "", name).await?;
    }
    Ok(())
}

/// R56: a worker that runs a dispatcher too writes managedBy into what is made there.
async fn a_copy_that_is_marked_anew_on_its_worker_goes(rig: Arc<Rig>) -> Result<()> {
    let ns = "jobs-remarked";
    rig.opted_in_to(
        ns,
        json!({"clusters": ["worker-a", "worker-b"], "namespaces": {"create": true}}),
    )
    .await?;
    rig.consenting(At::A, ns).await?;
    let selected = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns}}});
    let mut constraints = selected.clone();
    constraints["resourceRules"] = json!([created("batch", "jobs")]);
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": ns},
        "spec": {
            "matchConstraints": constraints, "reinvocationPolicy": "Never", "failurePolicy": "Fail",
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {
                "expression": "[JSONPatch{op: 'add', path: '/spec/managedBy', value: 'portcullis.dev/multikueue'}]",
            }}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": ns},
        "spec": {"policyName": ns, "matchResources": selected},
    });
    for object in [policy, binding] {
        rig.create(At::A, "", object).await?;
    }
    wait_for("the policy to count", PATIENCE, async || {
        let args = ["create", "--dry-run=server", "-n", ns, "-o", "json", "-f", "-"];
        let tried = rig
            .cluster(At::A)
            .kubectl_with("admin", &args, &job("probe").to_string())
            .await?;
        anyhow::Ok(tried.contains("multikueue").then_some(()))
    })
    .await?;
    rig.create(At::Manager, ns, job("one")).await?;
    rig.until(At::Manager, ns, "job/one", "on the next cluster", |job| {
        annotation(job, "portcullis.dev/cluster") == "worker-b" && job["status"]["active"] == 1
    })
    .await?;
    rig.until_list(At::A, ns, "jobs", "none", <[Value]>::is_empty)
        .await?;
    ensure!(
        rig.copies(At::A, ns)? == ["one"] && rig.copies(At::B, ns)? == ["one"],
        "tried once, made once"
    );
    rig.until_event(
        ns,
        "one",
        "ManagedByWritten",
        "worker-a: something there writes managedBy",
    )
    .await?;
    rig.no_pod_here(ns).await
}

/// R55.
async fn a_queue_that_nobody_knows_holds_nothing_up(rig: Arc<Rig>) -> Result<()> {
    let ns = "jobs-queue";
    rig.on_a(ns).await?;
    let mut queued = job("one");
    queued["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": "of-nobody"});
    rig.create(At::Manager, ns, queued).await?;
    rig.running_there(ns, 1).await?;
    let copy = rig.seen(At::A, ns, "job/one").await?;
    ensure!(
        copy["metadata"]["labels"]["kueue.x-k8s.io/queue-name"].is_null(),
        "{copy}"
    );
    // A queue that is named later changes nothing of who runs it.
    let later = json!({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "later"}}});
    rig.patch(At::Manager, ns, "job/one", later).await?;
    rig.end_all(ns, "complete").await?;
    rig.until(At::Manager, ns, "job/one", "Complete", |job| {
        condition(job, "Complete")["status"] == "True"
    })
    .await?;
    ensure!(rig.copies(At::A, ns)? == ["one"]);
    rig.no_pod_here(ns).await
}

/// R63: as they are left when the manager's objects went while nothing of ours ran, or their namespace did.
async fn uncommitted_copies_without_a_job_are_swept_in_every_kind(rig: Arc<Rig>) -> Result<()> {
    let ns = "jobs-swept";
    rig.on_a(ns).await?;
    for at in [At::Manager, At::A] {
        rig.cluster(at).install_crds(Crds::JobSet).await?;
    }
    // The namespace is used once, so that it is known.
    rig.create(At::Manager, ns, job("first")).await?;
    rig.running_there(ns, 1).await?;
    let origin = rig.origin().await?;
    let left = |mut object: Value| {
        object["metadata"] = json!({
            "name": "left", "labels": {"portcullis.dev/origin": origin},
            "annotations": {
                "portcullis.dev/uncommitted": "true", "portcullis.dev/local-uid": "of-nobody",
                "portcullis.dev/local-name": format!("{ns}/left"), "portcullis.dev/local-attempt": "0",
            },
        });
        object["spec"]["suspend"] = true.into();
        object
    };
    let set = json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "spec": {"replicatedJobs": [{"name": "a", "template": {"spec": job("x")["spec"]}}]},
    });
    for (kind, object) in [("job", job("left")), ("jobset", set)] {
        let made = rig.create(At::A, ns, left(object)).await?;
        rig.until_gone(At::A, ns, &format!("{kind}/left"), &uid(&made))
            .await?;
    }
    ensure!(
        rig.find(At::A, ns, "job/first").await?.is_some(),
        "the living one stays"
    );
    Ok(())
}
