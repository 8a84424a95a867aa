//! What becomes of jobs when they are created: they are left to us as whole objects, or to the pod gate.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use portcullis_testbed::wait_for;
use serde_json::{Value, json};

use super::checks;
use super::ground::{Ground, PATIENCE, Site, has_gate, has_label, job, jobs, managed_by, refused_keys, with};
use crate::rig::{Case, Rig};

checks![
    jobs_of_every_kind_are_left_to_us,
    a_job_makes_no_pods_here,
    a_cron_jobs_job_is_left_to_us_and_a_controllers_job_is_not,
    the_name_of_the_local_operator_is_as_good_as_none,
    a_foreign_managed_by_stays,
    an_exempt_job_stays_here_where_the_namespace_allows_it,
    a_kind_without_the_field_keeps_its_pods_gated,
    a_dispatched_job_is_not_decorated_for_its_gang,
    nobody_creates_a_job_that_looks_committed,
];

/// For the one test that takes a policy away.
pub fn alone() -> Vec<Case> {
    vec![Case {
        name: "guard::jobs::pods_are_gated_where_nothing_marks_their_job",
        alone: true,
        limit: Duration::from_secs(180),
        run: |rig| Box::pin(with_nothing_that_marks_jobs(rig)),
    }]
}

const OURS: &str = "portcullis.dev/multikueue";
const KUEUES: &str = "kueue.x-k8s.io/multikueue";

fn dispatched_by(job: &Value) -> &Value {
    &job["metadata"]["annotations"]["portcullis.dev/dispatched-by"]
}

async fn jobs_of_every_kind_are_left_to_us(site: Site) -> Result<()> {
    let ground = site.with_jobs("jobs").await?;
    for (resource, manifest) in jobs("one") {
        let made = ground.alice().create(resource, &manifest).await?;
        let is_kueues = resource == "pytorchjobs";
        let (value, by) = match is_kueues {
            true => (KUEUES, json!(OURS)),
            false => (OURS, Value::Null),
        };
        ensure!(
            managed_by(&made) == value && *dispatched_by(&made) == by,
            "{made}"
        );
        let mut annotated = with(manifest, "/metadata/annotations", json!({"note": "a"}));
        annotated["metadata"]["name"] = json!("two");
        if resource != "jobs" && resource != "jobsets" {
            annotated["spec"]["runPolicy"] = json!({});
        }
        let made = ground.alice().create(resource, &annotated).await?;
        ensure!(
            managed_by(&made) == value && *dispatched_by(&made) == by,
            "{made}"
        );
        ensure!(made["metadata"]["annotations"]["note"] == "a", "{made}");
        // As exported, and made again.
        let mut exported = made;
        exported["metadata"] = json!({"name": "three", "annotations": exported["metadata"]["annotations"]});
        exported["spec"]
            .as_object_mut()
            .context("a spec")?
            .remove("selector");
        if resource == "jobs" {
            exported["spec"]["template"]["metadata"] = json!({});
        }
        let made = ground.alice().create(resource, &exported).await?;
        ensure!(
            managed_by(&made) == value && *dispatched_by(&made) == by,
            "{made}"
        );
    }
    Ok(())
}

/// R55 too: a queue that nobody knows changes nothing.
async fn a_job_makes_no_pods_here(site: Site) -> Result<()> {
    let ground = site.opted_in("job").await?;
    let queued = with(
        job("queued"),
        "/metadata/labels",
        json!({"kueue.x-k8s.io/queue-name": "of-nobody"}),
    );
    for manifest in [job("one"), queued] {
        let made = ground.alice().create("jobs", &manifest).await?;
        ensure!(managed_by(&made) == OURS, "{made}");
    }
    let elsewhere = site.plain("job-elsewhere").await?;
    let made = elsewhere.alice().create("jobs", &job("later")).await?;
    ensure!(managed_by(&made).is_empty(), "{made}");
    wait_for("the pod of a later Job elsewhere", PATIENCE, async || {
        anyhow::Ok((!elsewhere.all("pods").await?.is_empty()).then_some(()))
    })
    .await?;
    ensure!(
        ground.all("pods").await?.is_empty(),
        "the Jobs of this namespace make no pods"
    );
    Ok(())
}

async fn a_cron_jobs_job_is_left_to_us_and_a_controllers_job_is_not(site: Site) -> Result<()> {
    let ground = site.opted_in("cron-job").await?;
    let cron_job = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": job("x")["spec"]}},
    });
    let cron_job = ground.alice().create("cronjobs", &cron_job).await?;
    let owned = |kind: &str, api_version: &str, uid: &Value| {
        let owner = json!([{
            "apiVersion": api_version, "kind": kind, "name": "nightly", "uid": uid, "controller": true,
        }]);
        with(job("nightly-1"), "/metadata/ownerReferences", owner)
    };
    let controller = ground.user("system:serviceaccount:kube-system:cronjob-controller");
    ground
        .grant("system:serviceaccount:kube-system:cronjob-controller", "edit")
        .await?;
    let of_cron_job = owned("CronJob", "batch/v1", &cron_job["metadata"]["uid"]);
    let made = controller.create("jobs", &of_cron_job).await?;
    ensure!(managed_by(&made) == OURS, "{made}");
    let uid = json!("11111111-1111-1111-1111-111111111111");
    let of_mpi_job = owned("MPIJob", "kubeflow.org/v2beta1", &uid);
    let of_mpi_job = with(of_mpi_job, "/metadata/name", json!("launcher"));
    let made = ground.admin().dry_run("jobs", &of_mpi_job).await?;
    ensure!(managed_by(&made).is_empty(), "{made}");
    Ok(())
}

async fn the_name_of_the_local_operator_is_as_good_as_none(site: Site) -> Result<()> {
    let ground = site.with_jobs("local-operator").await?;
    for ((resource, manifest), (field, local)) in jobs("one").into_iter().zip([
        ("/spec/managedBy", "kubernetes.io/job-controller"),
        ("/spec/managedBy", "jobset.sigs.k8s.io/jobset-controller"),
        ("/spec/runPolicy/managedBy", "kubeflow.org/mpi-operator"),
        ("/spec/runPolicy/managedBy", "kubeflow.org/training-operator"),
    ]) {
        let made = ground
            .alice()
            .create(resource, &with(manifest, field, json!(local)))
            .await?;
        ensure!([OURS, KUEUES].contains(&managed_by(&made)), "{made}");
    }
    Ok(())
}

/// R57.
async fn a_foreign_managed_by_stays(site: Site) -> Result<()> {
    let ground = site.with_jobs("foreign-manager").await?;
    for ((resource, manifest), (field, foreign)) in jobs("one").into_iter().zip([
        ("/spec/managedBy", KUEUES),
        ("/spec/managedBy", "example.com/x"),
        // The operator of another kind is not this one's.
        ("/spec/runPolicy/managedBy", "kubeflow.org/training-operator"),
        ("/spec/runPolicy/managedBy", KUEUES),
    ]) {
        let made = ground
            .alice()
            .create(resource, &with(manifest, field, json!(foreign)))
            .await?;
        ensure!(managed_by(&made) == foreign, "{made}");
        ensure!(dispatched_by(&made).is_null(), "{made}");
    }
    Ok(())
}

async fn an_exempt_job_stays_here_where_the_namespace_allows_it(site: Site) -> Result<()> {
    let label = json!({"portcullis.dev/exempt": "true"});
    let on_job = with(job("on-job"), "/metadata/labels", label.clone());
    let on_template = with(job("on-template"), "/spec/template/metadata/labels", label);
    let allowing = site.allowing_exempt("exempt-jobs").await?;
    for manifest in [&on_job, &on_template] {
        let made = allowing.alice().create("jobs", manifest).await?;
        ensure!(managed_by(&made).is_empty(), "{made}");
    }
    wait_for("the pods of both", PATIENCE, async || {
        let pods = allowing.all("pods").await?;
        let gated = |name: &str| {
            let of = |pod: &&Value| pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == name;
            pods.iter().find(of).map(|pod| has_gate(pod) && has_label(pod))
        };
        match (gated("on-job"), gated("on-template")) {
            (Some(on_job), Some(on_template)) => {
                ensure!(on_job, "the job's label is not its pods'");
                ensure!(!on_template, "the template's label is its pods'");
                Ok(Some(()))
            }
            (None, _) | (_, None) => Ok(None),
        }
    })
    .await?;
    let strict = site.opted_in("strict-jobs").await?;
    for manifest in [&on_job, &on_template] {
        let made = strict.alice().create("jobs", manifest).await?;
        ensure!(managed_by(&made) == OURS, "{made}");
    }
    Ok(())
}

/// A CRD whose spec has no `managedBy`. With `any` it keeps what it does not know.
fn definition(any: bool) -> Value {
    let mut spec = json!({"type": "object", "properties": {"sparkVersion": {"type": "string"}}});
    if any {
        spec["x-kubernetes-preserve-unknown-fields"] = json!(true);
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "sparkapplications.sparkoperator.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
        },
        "spec": {
            "group": "sparkoperator.k8s.io",
            "names": {"kind": "SparkApplication", "plural": "sparkapplications"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1beta2", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    })
}

/// Its operator would run the job whatever the field said, so it must not be ours.
async fn a_kind_without_the_field_keeps_its_pods_gated(site: Site) -> Result<()> {
    let ground = site.opted_in("no-field").await?;
    let admin = ground.admin();
    let name = "sparkapplications.sparkoperator.k8s.io";
    admin
        .apply("customresourcedefinitions", name, &definition(false))
        .await?;
    let application = json!({
        "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication",
        "metadata": {"name": "pi"}, "spec": {"sparkVersion": "4.0.0"},
    });
    let made = wait_for("the kind to be served", PATIENCE, async || {
        admin.create("sparkapplications", &application).await.map(Some)
    })
    .await?;
    ensure!(made["spec"] == application["spec"], "the field is pruned: {made}");
    let stored = admin.get("sparkapplications", "pi").await?;
    ensure!(managed_by(&stored).is_empty(), "{stored}");
    if !site.portcullis_runs() {
        return Ok(());
    }
    // A schema that keeps everything keeps the field too, but its operator does not know it: the webhook takes it back.
    admin
        .apply("customresourcedefinitions", name, &definition(true))
        .await?;
    let other = with(application, "/spec/other", json!(1));
    let other = with(other, "/metadata/name", json!("other"));
    wait_for("the webhook to know of the schema", PATIENCE, async || {
        let made = admin.dry_run("sparkapplications", &other).await?;
        let is_kept = made["spec"]["other"] == 1;
        anyhow::Ok((is_kept && managed_by(&made).is_empty()).then_some(()))
    })
    .await?;
    admin
        .apply("customresourcedefinitions", name, &definition(false))
        .await?;
    Ok(())
}

/// podgroups.md 2.7: the PodGroup is made where the job runs.
async fn a_dispatched_job_is_not_decorated_for_its_gang(site: Site) -> Result<()> {
    let ground = site.with_jobs("dispatched-gang").await?;
    ground
        .set_label("portcullis.dev/gang", json!("coscheduling"))
        .await?;
    for (resource, mut manifest) in jobs("one") {
        match resource {
            "mpijobs" | "pytorchjobs" => {
                manifest["spec"]["runPolicy"] = json!({"schedulingPolicy": {"minAvailable": 2}});
            }
            _ => {
                manifest["metadata"]["annotations"] = json!({"portcullis.dev/gang-scheduling": "true"});
            }
        }
        let made = ground.alice().create(resource, &manifest).await?;
        ensure!([OURS, KUEUES].contains(&managed_by(&made)), "{made}");
        let text = made.to_string();
        for mark in [
            "portcullis.dev/held",
            "\"suspend\":true",
            "portcullis.dev/pod-group",
            "schedulerName\":\"scheduler-plugins",
        ] {
            ensure!(!text.contains(mark), "{mark}: {made}");
        }
    }
    Ok(())
}

async fn nobody_creates_a_job_that_looks_committed(site: Site) -> Result<()> {
    let ground = site.with_jobs("forged-jobs").await?;
    for (resource, manifest) in jobs("one") {
        let forged = json!({"portcullis.dev/remote-uid": "x/y"});
        let annotated = with(manifest.clone(), "/metadata/annotations", forged);
        for actor in [ground.alice(), ground.admin()] {
            refused_keys(
                actor.create(resource, &annotated).await,
                &["portcullis.dev/remote-uid"],
            )?;
        }
        let held = with(
            manifest,
            "/metadata/finalizers",
            json!(["portcullis.dev/remote-copy"]),
        );
        refused_keys(
            ground.alice().create(resource, &held).await,
            &["portcullis.dev/remote-copy"],
        )?;
    }
    let template = json!({"portcullis.dev/cluster": "a"});
    let in_template = with(job("two"), "/spec/template/metadata/annotations", template);
    refused_keys(
        ground.alice().create("jobs", &in_template).await,
        &["portcullis.dev/cluster"],
    )
}

async fn with_nothing_that_marks_jobs(rig: Arc<Rig>) -> Result<()> {
    let mut portcullis = rig.portcullis.lock().await;
    portcullis.sigterm(Duration::from_secs(20)).await?;
    let ground = Site::alone(rig.clone()).opted_in("unmarked-jobs").await?;
    let (resource, name) = ("mutatingadmissionpolicybindings", "portcullis-inject-jobs");
    let binding = ground.admin().get(resource, name).await?;
    ground.admin().delete(resource, name).await?;
    let result = pods_are_gated_where_nothing_marks_their_job(&ground).await;
    let again = json!({
        "apiVersion": binding["apiVersion"], "kind": binding["kind"],
        "metadata": {"name": name, "labels": binding["metadata"]["labels"]}, "spec": binding["spec"],
    });
    ground.admin().create(resource, &again).await?;
    wait_for("jobs to be marked again", PATIENCE, async || {
        let made = ground.alice().dry_run("jobs", &job("probe")).await?;
        anyhow::Ok((managed_by(&made) == OURS).then_some(()))
    })
    .await?;
    portcullis.start().await?;
    result
}

/// Policy and webhook are both off: the pod gate is the safety net.
async fn pods_are_gated_where_nothing_marks_their_job(ground: &Ground) -> Result<()> {
    wait_for("jobs to be left alone", PATIENCE, async || {
        let made = ground.alice().dry_run("jobs", &job("probe")).await?;
        anyhow::Ok(managed_by(&made).is_empty().then_some(()))
    })
    .await?;
    ground.alice().create("jobs", &job("one")).await?;
    wait_for("its pod", PATIENCE, async || {
        let pods = ground.all("pods").await?;
        ensure!(pods.iter().all(|pod| has_gate(pod) && has_label(pod)), "{pods:?}");
        Ok((!pods.is_empty()).then_some(()))
    })
    .await
}
