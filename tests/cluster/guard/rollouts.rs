//! Nothing of ours ever starts a rollout (R74).

use anyhow::{Result, ensure};
use portcullis_testbed::wait_for;
use serde_json::{Value, json};

use super::checks;
use super::ground::{Ground, PATIENCE, Site, container, gate, has_gate, pod, with, workload};
use super::templates::{marked, replica_sets, template};

checks![
    replacing_an_unchanged_deployment_starts_no_rollout,
    replacing_an_unchanged_stateful_set_starts_no_rollout,
    every_other_way_of_writing_an_unchanged_template_starts_no_rollout,
    marks_come_back_in_their_place,
    a_deployment_from_before_the_opt_in_rolls_out_once_per_revision,
    a_stateful_set_from_before_the_opt_in_is_not_rolled_out,
    rolling_back_across_the_opt_in_makes_one_replica_set_more,
    withdrawing_the_permission_to_exempt_starts_no_rollout,
];

/// Waits until the controller has seen the last change.
async fn observed(ground: &Ground, resource: &str, name: &str) -> Result<Value> {
    ground
        .await_object("the controller to have seen it", resource, name, |object| {
            object["status"]["observedGeneration"] == object["metadata"]["generation"]
        })
        .await
}

async fn replacing_an_unchanged_deployment_starts_no_rollout(site: Site) -> Result<()> {
    let ground = site.opted_in("replace-deployment").await?;
    let manifest = workload("Deployment", "web");
    let made = ground.alice().create("deployments", &manifest).await?;
    replica_sets(&ground, "web", "1").await?;
    for _ in 0..2 {
        let after = ground
            .alice()
            .replace("deployments", "web", "", &manifest)
            .await?;
        ensure!(
            template(&after) == template(&made),
            "{} became {}",
            template(&made),
            template(&after)
        );
        ensure!(replica_sets(&ground, "web", "1").await? == 1, "one ReplicaSet");
    }
    Ok(())
}

async fn replacing_an_unchanged_stateful_set_starts_no_rollout(site: Site) -> Result<()> {
    let ground = site.opted_in("replace-stateful-set").await?;
    let manifest = workload("StatefulSet", "web");
    let made = ground.alice().create("statefulsets", &manifest).await?;
    observed(&ground, "statefulsets", "web").await?;
    let after = ground
        .alice()
        .replace("statefulsets", "web", "", &manifest)
        .await?;
    ensure!(template(&after) == template(&made), "{after}");
    let seen = observed(&ground, "statefulsets", "web").await?;
    ensure!(
        seen["status"]["updateRevision"] == seen["status"]["currentRevision"],
        "{seen}"
    );
    Ok(())
}

async fn every_other_way_of_writing_an_unchanged_template_starts_no_rollout(site: Site) -> Result<()> {
    let ground = site.opted_in("unchanged").await?;
    let manifest = workload("Deployment", "web");
    let made = ground.alice().create("deployments", &manifest).await?;
    let alice = ground.alice();
    let take_off = json!([
        {"op": "remove", "path": "/spec/template/spec/schedulingGates"},
        {"op": "remove", "path": "/spec/template/metadata/labels/portcullis.dev~1gated"},
        {"op": "remove", "path": "/spec/template/metadata/annotations"},
    ]);
    let scaled = with(manifest.clone(), "/spec/replicas", json!(3));
    let with_name = json!({"metadata": {"annotations": {"note": "x"}}});
    let answers = [
        alice.patch("deployments", "web", "", &take_off).await?,
        alice
            .patch(
                "deployments",
                "web",
                "",
                &json!({"spec": {"template": {"spec": {"schedulingGates": null}}}}),
            )
            .await?,
        alice.apply("deployments", "web", &manifest).await?,
        alice.replace("deployments", "web", "", &scaled).await?,
        alice.patch("deployments", "web", "", &with_name).await?,
    ];
    for after in answers {
        ensure!(
            template(&after) == template(&made),
            "{} became {}",
            template(&made),
            template(&after)
        );
    }
    let scale = json!({"spec": {"replicas": 1}});
    alice.patch("deployments", "web", "scale", &scale).await?;
    ensure!(replica_sets(&ground, "web", "1").await? == 1, "one ReplicaSet");
    Ok(())
}

async fn marks_come_back_in_their_place(site: Site) -> Result<()> {
    let ground = site.opted_in("in-place").await?;
    let gates = json!([{"name": "example.com/a"}, gate(), {"name": "example.com/b"}]);
    let manifest = with(
        workload("Deployment", "web"),
        "/spec/template/spec/schedulingGates",
        gates,
    );
    let made = ground.alice().create("deployments", &manifest).await?;
    let without = with(
        manifest,
        "/spec/template/spec/schedulingGates",
        json!([{"name": "example.com/a"}, {"name": "example.com/b"}]),
    );
    let after = ground.alice().replace("deployments", "web", "", &without).await?;
    ensure!(
        template(&after) == template(&made),
        "{} became {}",
        template(&made),
        template(&after)
    );
    Ok(())
}

/// The Deployment was made before the opt-in, or while nothing of ours was there: to us that is the same.
async fn a_deployment_from_before_the_opt_in_rolls_out_once_per_revision(site: Site) -> Result<()> {
    let ground = site.plain("old-deployment").await?;
    let manifest = workload("Deployment", "web");
    let made = ground.alice().create("deployments", &manifest).await?;
    ground
        .await_object("its pods to run", "deployments", "web", |web| {
            web["status"]["readyReplicas"] == 2
        })
        .await?;
    ground.opt_in().await?;

    ground
        .alice()
        .patch("deployments", "web", "scale", &json!({"spec": {"replicas": 4}}))
        .await?;
    wait_for("two pods more, gated", PATIENCE, async || {
        let pods = ground.all("pods").await?;
        anyhow::Ok((pods.iter().filter(|pod| has_gate(pod)).count() == 2).then_some(()))
    })
    .await?;
    let scaled = with(manifest.clone(), "/spec/replicas", json!(3));
    for unchanged in [&manifest, &scaled] {
        let after = ground
            .alice()
            .replace("deployments", "web", "", unchanged)
            .await?;
        ensure!(template(&after) == template(&made), "{after}");
        ensure!(
            replica_sets(&ground, "web", "1").await? == 1,
            "one ReplicaSet for one revision"
        );
    }

    let restart = json!({"spec": {"template": {"metadata": {"annotations": {"restartedAt": "now"}}}}});
    marked(&ground.alice().patch("deployments", "web", "", &restart).await?)?;
    ensure!(
        replica_sets(&ground, "web", "2").await? == 2,
        "one ReplicaSet for each of two revisions"
    );
    let settled = observed(&ground, "deployments", "web").await?;
    ensure!(
        settled["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2",
        "{settled}"
    );
    Ok(())
}

async fn a_stateful_set_from_before_the_opt_in_is_not_rolled_out(site: Site) -> Result<()> {
    let ground = site.plain("old-stateful-set").await?;
    let manifest = workload("StatefulSet", "web");
    let made = ground.alice().create("statefulsets", &manifest).await?;
    ground
        .await_object("its pods to run", "statefulsets", "web", |web| {
            web["status"]["readyReplicas"] == 2
        })
        .await?;
    ground.opt_in().await?;
    ground
        .alice()
        .patch("statefulsets", "web", "scale", &json!({"spec": {"replicas": 3}}))
        .await?;
    let third = ground
        .await_object("its third pod", "pods", "web-2", Value::is_object)
        .await?;
    ensure!(has_gate(&third), "{third}");
    let after = ground
        .alice()
        .replace("statefulsets", "web", "", &manifest)
        .await?;
    ensure!(template(&after) == template(&made), "{after}");
    let seen = observed(&ground, "statefulsets", "web").await?;
    ensure!(
        seen["status"]["updateRevision"] == seen["status"]["currentRevision"],
        "{seen}"
    );
    Ok(())
}

async fn rolling_back_across_the_opt_in_makes_one_replica_set_more(site: Site) -> Result<()> {
    let ground = site.plain("rollback").await?;
    let manifest = workload("Deployment", "web");
    let old = ground.alice().create("deployments", &manifest).await?;
    replica_sets(&ground, "web", "1").await?;
    ground.opt_in().await?;
    let image = with(container(), "/image", json!("app:2"));
    let changed = with(manifest, "/spec/template/spec/containers", json!([image]));
    ground.alice().replace("deployments", "web", "", &changed).await?;
    ensure!(replica_sets(&ground, "web", "2").await? == 2, "two revisions");
    let back = json!([{"op": "replace", "path": "/spec/template", "value": template(&old)}]);
    marked(&ground.alice().patch("deployments", "web", "", &back).await?)?;
    ensure!(
        replica_sets(&ground, "web", "3").await? == 3,
        "the marked one is a third revision"
    );
    Ok(())
}

async fn withdrawing_the_permission_to_exempt_starts_no_rollout(site: Site) -> Result<()> {
    let ground = site.allowing_exempt("withdrawn").await?;
    let pointer = "/spec/template/metadata/labels/portcullis.dev~1exempt";
    let exempt = with(workload("Deployment", "web"), pointer, json!("true"));
    let made = ground.alice().create("deployments", &exempt).await?;
    replica_sets(&ground, "web", "1").await?;
    ground
        .set_label("portcullis.dev/allow-exempt", Value::Null)
        .await?;
    let probe = with(
        pod("probe"),
        "/metadata/labels",
        json!({"portcullis.dev/exempt": "true"}),
    );
    wait_for("the policies to know", PATIENCE, async || {
        anyhow::Ok(has_gate(&ground.alice().dry_run("pods", &probe).await?).then_some(()))
    })
    .await?;
    let after = ground.alice().replace("deployments", "web", "", &exempt).await?;
    ensure!(template(&after) == template(&made), "{after}");
    ensure!(replica_sets(&ground, "web", "1").await? == 1, "one ReplicaSet");
    Ok(())
}
