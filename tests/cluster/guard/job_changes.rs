//! What may become of a job that is ours, that is committed to a worker, or that is exempt (R88).

use anyhow::{Result, ensure};
use portcullis_testbed::wait_for;
use serde_json::{Value, json};

use super::checks;
use super::ground::{Ground, PATIENCE, Site, job, jobs, managed_by, refused, with};

checks![
    the_spec_of_a_committed_job_stays_but_for_what_changes_there_too,
    the_spec_of_an_uncommitted_job_changes,
    our_keys_on_a_job_are_ours_through_its_status_too,
    a_committed_job_stays_guarded_when_its_namespace_is_opted_out,
    who_runs_a_job_never_changes,
    exempt_never_changes_on_a_job,
    a_terminating_job_loses_its_finalizer_to_anyone,
    other_jobs_are_none_of_ours,
];

const FROZEN: &str =
    "handed to the worker cluster worker-x, so of its spec only suspend, the TTL and, in a Job, parallelism";

fn is_mpi_like(resource: &str) -> bool {
    matches!(resource, "mpijobs" | "pytorchjobs")
}

/// A change of the suspend field.
fn suspend(resource: &str, value: bool) -> Value {
    match is_mpi_like(resource) {
        true => json!({"spec": {"runPolicy": {"suspend": value}}}),
        false => json!({"spec": {"suspend": value}}),
    }
}

/// Changes that each operator would take, and that would not reach the worker.
fn edits(resource: &str) -> Vec<Value> {
    match resource {
        "jobs" => vec![
            json!({"spec": {"activeDeadlineSeconds": 5}}),
            json!({"spec": {"backoffLimit": 1}}),
        ],
        "jobsets" => vec![json!({"spec": {"failurePolicy": {"maxRestarts": 3}}})],
        "mpijobs" => vec![
            json!({"spec": {"slotsPerWorker": 7}}),
            json!({"spec": {"runPolicy": {"activeDeadlineSeconds": 5}}}),
            json!({"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 5}}}}),
        ],
        _ => vec![
            json!({"spec": {"runPolicy": {"backoffLimit": 5}}}),
            json!({"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 5}}}}),
        ],
    }
}

fn ttl(resource: &str) -> Value {
    match is_mpi_like(resource) {
        true => json!({"spec": {"runPolicy": {"ttlSecondsAfterFinished": 60}}}),
        false => json!({"spec": {"ttlSecondsAfterFinished": 60}}),
    }
}

async fn the_spec_of_a_committed_job_stays_but_for_what_changes_there_too(site: Site) -> Result<()> {
    let ground = site.with_jobs("committed-jobs").await?;
    for (resource, manifest) in jobs("one") {
        ground.committed_job(resource, &manifest).await?;
        for edit in edits(resource) {
            for actor in [ground.alice(), ground.admin()] {
                refused(actor.patch(resource, "one", "", &edit).await, FROZEN)?;
            }
        }
        for value in [true, false] {
            let after = ground
                .alice()
                .patch(resource, "one", "", &suspend(resource, value))
                .await?;
            ensure!(after["metadata"]["annotations"].is_object(), "{after}");
        }
        ground.alice().patch(resource, "one", "", &ttl(resource)).await?;
        let free = json!({"metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}}});
        ground.alice().patch(resource, "one", "", &free).await?;
    }
    let wider = json!({"spec": {"parallelism": 7}});
    let after = ground.alice().patch("jobs", "one", "", &wider).await?;
    ensure!(after["spec"]["parallelism"] == 7, "{after}");
    Ok(())
}

async fn the_spec_of_an_uncommitted_job_changes(site: Site) -> Result<()> {
    let ground = site.with_jobs("uncommitted-jobs").await?;
    for (resource, manifest) in jobs("one") {
        ground.alice().create(resource, &manifest).await?;
        for edit in edits(resource) {
            ground.alice().patch(resource, "one", "", &edit).await?;
        }
    }
    Ok(())
}

async fn our_keys_on_a_job_are_ours_through_its_status_too(site: Site) -> Result<()> {
    let ground = site.with_jobs("job-keys").await?;
    for (resource, manifest) in jobs("one") {
        ground.committed_job(resource, &manifest).await?;
        let uncommitted = with(manifest, "/metadata/name", json!("two"));
        ground.alice().create(resource, &uncommitted).await?;
        for (name, value) in [("one", Value::Null), ("one", json!("b")), ("two", json!("b"))] {
            let patch = json!({"metadata": {"annotations": {"portcullis.dev/cluster": value}}});
            for actor in [ground.alice(), ground.admin()] {
                refused(
                    actor.patch(resource, name, "", &patch).await,
                    "only portcullis itself changes portcullis.dev/cluster",
                )?;
            }
            if resource == "jobs" {
                refused(
                    ground.alice().patch(resource, name, "status", &patch).await,
                    "to end the remote copy, delete this job",
                )?;
            }
        }
        for (name, finalizers) in [
            ("one", Value::Null),
            ("two", json!(["portcullis.dev/remote-copy"])),
        ] {
            let patch = json!({"metadata": {"finalizers": finalizers}});
            refused(
                ground.alice().patch(resource, name, "", &patch).await,
                "delete the job, then anyone may remove it",
            )?;
        }
        let others = json!({"metadata": {"finalizers": ["portcullis.dev/remote-copy", "example.com/x"]}});
        ground.alice().patch(resource, "one", "", &others).await?;
    }
    let status = json!({"status": {"active": 1}});
    ground.alice().patch("jobs", "one", "status", &status).await?;
    Ok(())
}

async fn a_committed_job_stays_guarded_when_its_namespace_is_opted_out(site: Site) -> Result<()> {
    let ground = site.with_jobs("opted-out-jobs").await?;
    for (resource, manifest) in jobs("one") {
        ground.committed_job(resource, &manifest).await?;
    }
    ground.opt_out().await?;
    for (resource, _) in jobs("one") {
        for edit in edits(resource) {
            refused(ground.alice().patch(resource, "one", "", &edit).await, FROZEN)?;
        }
        let stolen = json!({"metadata": {"annotations": {"portcullis.dev/remote-uid": null}}});
        refused(
            ground.alice().patch(resource, "one", "", &stolen).await,
            "only portcullis itself changes portcullis.dev/remote-uid",
        )?;
    }
    Ok(())
}

/// Where the kind lets it, a change would have two clusters run the job, or none.
async fn who_runs_a_job_never_changes(site: Site) -> Result<()> {
    let ground = site.with_jobs("managers").await?;
    let set = |value: Value| json!({"spec": {"runPolicy": {"managedBy": value}}});
    let never = "managedBy of a job is never changed from or to portcullis after its creation";
    for (resource, manifest) in jobs("one")
        .into_iter()
        .filter(|(resource, _)| is_mpi_like(resource))
    {
        let made = ground.alice().create(resource, &manifest).await?;
        let ours = managed_by(&made).to_owned();
        for value in [
            json!("example.com/x"),
            json!("kubeflow.org/mpi-operator"),
            Value::Null,
        ] {
            for actor in [ground.alice(), ground.admin()] {
                refused(actor.patch(resource, "one", "", &set(value.clone())).await, never)?;
            }
        }
        let foreign = with(manifest, "/spec/runPolicy/managedBy", json!("example.com/x"));
        let foreign = with(foreign, "/metadata/name", json!("two"));
        ground.alice().create(resource, &foreign).await?;
        let other = set(json!("example.com/y"));
        ground.alice().patch(resource, "two", "", &other).await?;
        refused(
            ground
                .alice()
                .patch(resource, "two", "", &set(json!("portcullis.dev/multikueue")))
                .await,
            never,
        )?;
        let mark =
            |value: Value| json!({"metadata": {"annotations": {"portcullis.dev/dispatched-by": value}}});
        for name in ["one", "two"] {
            let value = match (name, ours.as_str()) {
                ("one", "kueue.x-k8s.io/multikueue") => Value::Null,
                _ => json!("portcullis.dev/multikueue"),
            };
            refused(
                ground.alice().patch(resource, name, "", &mark(value)).await,
                "the annotation portcullis.dev/dispatched-by of a job is never changed",
            )?;
        }
    }
    Ok(())
}

async fn exempt_never_changes_on_a_job(site: Site) -> Result<()> {
    let ground = site.allowing_exempt("exempt-job-changes").await?;
    site.serve_jobs().await?;
    ground.grant_jobs("alice").await?;
    let label = |value: Value| json!({"metadata": {"labels": {"portcullis.dev/exempt": value}}});
    for (resource, manifest) in jobs("one") {
        let exempt = with(
            manifest.clone(),
            "/metadata/labels",
            json!({"portcullis.dev/exempt": "true"}),
        );
        let made = ground.alice().create(resource, &exempt).await?;
        ensure!(managed_by(&made).is_empty(), "{made}");
        let plain = with(manifest, "/metadata/name", json!("two"));
        ground.alice().create(resource, &plain).await?;
        for (name, value) in [
            ("one", Value::Null),
            ("one", json!("false")),
            ("two", json!("true")),
        ] {
            refused(
                ground.alice().patch(resource, name, "", &label(value)).await,
                "the label portcullis.dev/exempt of a job is never changed after its creation",
            )?;
        }
    }
    Ok(())
}

async fn a_terminating_job_loses_its_finalizer_to_anyone(site: Site) -> Result<()> {
    let ground = site.with_jobs("terminating-jobs").await?;
    for (resource, manifest) in jobs("one") {
        ground.committed_job(resource, &manifest).await?;
        ground.alice().delete(resource, "one").await?;
        let released = json!({"metadata": {"finalizers": null}});
        ground.alice().patch(resource, "one", "", &released).await?;
        gone(&ground, resource).await?;
    }
    Ok(())
}

async fn gone(ground: &Ground, resource: &str) -> Result<()> {
    wait_for("the job to be gone", PATIENCE, async || {
        match ground.admin().get(resource, "one").await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Some(())),
            Ok(_) => Ok(None),
            Err(error) => Err(error),
        }
    })
    .await
}

async fn other_jobs_are_none_of_ours(site: Site) -> Result<()> {
    let ground = site.plain("other-jobs").await?;
    ground
        .alice()
        .create("jobs", &with(job("one"), "/spec/suspend", json!(true)))
        .await?;
    for patch in [
        json!({"spec": {"parallelism": 3, "backoffLimit": 2}}),
        json!({"metadata": {"labels": {"a": "b"}, "finalizers": ["example.com/x"]}}),
        json!({"metadata": {"finalizers": null}}),
    ] {
        ground.alice().patch("jobs", "one", "", &patch).await?;
    }
    Ok(())
}
