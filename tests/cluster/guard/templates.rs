//! Templates: marked when they are new or change anyway, and nothing of ours ever starts a rollout (R74).

use anyhow::{Context, Result, ensure};
use portcullis_testbed::wait_for;
use serde_json::{Value, json};

use super::checks;
use super::ground::{
    Ground, PATIENCE, Site, container, gate, has_gate, has_label, pod, refused_keys, with, workload,
};

checks![
    templates_are_marked_at_creation,
    a_replica_set_of_a_deployment_is_left_alone,
    replacing_an_unchanged_deployment_starts_no_rollout,
    replacing_an_unchanged_stateful_set_starts_no_rollout,
    every_other_way_of_writing_an_unchanged_template_starts_no_rollout,
    marks_come_back_in_their_place,
    a_changed_template_is_marked_again,
    a_deployment_from_before_the_opt_in_rolls_out_once_per_revision,
    a_stateful_set_from_before_the_opt_in_is_not_rolled_out,
    an_old_template_gets_marks_when_it_changes,
    a_user_may_mark_an_old_template,
    rolling_back_across_the_opt_in_makes_one_replica_set_more,
    an_exempt_template_is_unmarked_and_marked_again,
    withdrawing_the_permission_to_exempt_starts_no_rollout,
    duplicate_names_and_huge_numbers_survive,
    a_template_with_a_node_name_fails_with_our_sentence,
    keys_of_the_reconciler_are_refused_in_templates,
    old_keys_in_a_template_do_not_block_other_changes,
    a_name_made_by_the_server_gets_no_root,
];

const KINDS: [(&str, &str); 3] = [
    ("Deployment", "deployments"),
    ("StatefulSet", "statefulsets"),
    ("ReplicaSet", "replicasets"),
];

fn template(object: &Value) -> &Value {
    &object["spec"]["template"]
}

fn root(object: &Value) -> &Value {
    &template(object)["metadata"]["annotations"]["portcullis.dev/root"]
}

#[track_caller]
fn marked(object: &Value) -> Result<()> {
    ensure!(
        has_gate(template(object)) && has_label(template(object)) && root(object).is_string(),
        "unmarked: {object}"
    );
    Ok(())
}

#[track_caller]
fn unmarked(object: &Value) -> Result<()> {
    let any = has_gate(template(object)) || has_label(template(object)) || root(object).is_string();
    ensure!(!any, "marked: {object}");
    Ok(())
}

/// Waits until the controller has seen the last change.
async fn observed(ground: &Ground, resource: &str, name: &str) -> Result<Value> {
    ground
        .await_object("the controller to have seen it", resource, name, |object| {
            object["status"]["observedGeneration"] == object["metadata"]["generation"]
        })
        .await
}

/// Waits until the Deployment's revision is this one, and answers how many ReplicaSets there are.
async fn replica_sets(ground: &Ground, name: &str, revision: &str) -> Result<usize> {
    ground
        .await_object("its revision", "deployments", name, |object| {
            object["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == revision
                && object["status"]["observedGeneration"] == object["metadata"]["generation"]
        })
        .await?;
    Ok(ground.all("replicasets").await?.len())
}

async fn templates_are_marked_at_creation(site: Site) -> Result<()> {
    let ground = site.opted_in("marked").await?;
    for (kind, resource) in KINDS {
        let made = ground.alice().create(resource, &workload(kind, "web")).await?;
        marked(&made)?;
        ensure!(*root(&made) == json!(format!("apps/{kind}/web")), "{made}");
        ensure!(
            made["metadata"].get("labels").is_none(),
            "the object itself carries nothing: {made}"
        );
    }
    wait_for("pods born gated", PATIENCE, async || {
        let pods = ground.all("pods").await?;
        ensure!(pods.iter().all(|pod| has_gate(pod) && has_label(pod)), "{pods:?}");
        Ok((pods.len() >= 5).then_some(()))
    })
    .await
}

async fn a_replica_set_of_a_deployment_is_left_alone(site: Site) -> Result<()> {
    let ground = site.plain("controlled").await?;
    ground
        .alice()
        .create("deployments", &workload("Deployment", "web"))
        .await?;
    replica_sets(&ground, "web", "1").await?;
    ground.opt_in().await?;
    let set = ground.all("replicasets").await?.remove(0);
    let name = set["metadata"]["name"].as_str().context("a name")?;
    let change = json!({"spec": {"template": {"metadata": {"annotations": {"note": "x"}}}}});
    unmarked(&ground.alice().patch("replicasets", name, "", &change).await?)?;
    let forged = workload("ReplicaSet", "forged");
    let owner = set["metadata"]["ownerReferences"].clone();
    unmarked(
        &ground
            .alice()
            .create("replicasets", &with(forged, "/metadata/ownerReferences", owner))
            .await?,
    )
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

async fn a_changed_template_is_marked_again(site: Site) -> Result<()> {
    let ground = site.opted_in("changed").await?;
    for (kind, resource) in KINDS {
        let manifest = workload(kind, "web");
        let made = ground.alice().create(resource, &manifest).await?;
        let image = with(container(), "/image", json!("app:2"));
        let changed = with(manifest, "/spec/template/spec/containers", json!([image]));
        let after = ground.alice().replace(resource, "web", "", &changed).await?;
        marked(&after)?;
        ensure!(root(&after) == root(&made), "{after}");
        ensure!(
            template(&after)["spec"]["containers"][0]["image"] == "app:2",
            "{after}"
        );
    }
    ensure!(
        replica_sets(&ground, "web", "2").await? == 3,
        "two of the Deployment and the one that stands alone"
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

async fn an_old_template_gets_marks_when_it_changes(site: Site) -> Result<()> {
    let ground = site.plain("old-changes").await?;
    for (kind, resource) in KINDS {
        ground.alice().create(resource, &workload(kind, "web")).await?;
    }
    ground.opt_in().await?;
    for (kind, resource) in KINDS {
        let change = json!({"spec": {"template": {"metadata": {"annotations": {"note": "x"}}}}});
        let after = ground.alice().patch(resource, "web", "", &change).await?;
        marked(&after)?;
        ensure!(*root(&after) == json!(format!("apps/{kind}/web")), "{after}");
    }
    Ok(())
}

async fn a_user_may_mark_an_old_template(site: Site) -> Result<()> {
    let ground = site.plain("marked-by-user").await?;
    ground
        .alice()
        .create("deployments", &workload("Deployment", "web"))
        .await?;
    ground.opt_in().await?;
    let mark = json!({"spec": {"template": {"spec": {"schedulingGates": [gate()]}}}});
    marked(&ground.alice().patch("deployments", "web", "", &mark).await?)
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

async fn an_exempt_template_is_unmarked_and_marked_again(site: Site) -> Result<()> {
    let ground = site.allowing_exempt("exempt-template").await?;
    let pointer = "/spec/template/metadata/labels/portcullis.dev~1exempt";
    for (kind, resource) in KINDS {
        let plain = workload(kind, "web");
        let exempt = with(plain.clone(), pointer, json!("true"));
        let marks = with(
            exempt.clone(),
            "/spec/template/spec/schedulingGates",
            json!([gate(), {"name": "example.com/a"}]),
        );
        let marks = with(
            marks,
            "/spec/template/metadata/labels/portcullis.dev~1gated",
            json!("true"),
        );
        let marks = with(
            marks,
            "/spec/template/metadata/annotations",
            json!({"portcullis.dev/root": "x", "a": "b"}),
        );
        let made = ground.alice().create(resource, &marks).await?;
        unmarked(&made)?;
        ensure!(
            template(&made)["spec"]["schedulingGates"] == json!([{"name": "example.com/a"}]),
            "{made}"
        );
        ensure!(
            template(&made)["metadata"]["annotations"] == json!({"a": "b"}),
            "{made}"
        );

        marked(&ground.alice().replace(resource, "web", "", &plain).await?)?;
        unmarked(&ground.alice().replace(resource, "web", "", &exempt).await?)?;
        unmarked(&ground.alice().replace(resource, "web", "", &exempt).await?)?;
    }
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

async fn duplicate_names_and_huge_numbers_survive(site: Site) -> Result<()> {
    let ground = site.opted_in("odd").await?;
    let env = json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]);
    let ports = json!([{"containerPort": 53, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}]);
    let odd = with(with(container(), "/env", env), "/ports", ports);
    let manifest = with(
        workload("Deployment", "web"),
        "/spec/template/spec/containers",
        json!([odd]),
    );
    let grace = "/spec/template/spec/terminationGracePeriodSeconds";
    let manifest = with(manifest, grace, json!(9_007_199_254_740_993_i64));
    let made = ground.alice().create("deployments", &manifest).await?;
    marked(&made)?;
    let spec = &template(&made)["spec"];
    ensure!(
        spec["terminationGracePeriodSeconds"] == json!(9_007_199_254_740_993_i64),
        "{made}"
    );
    ensure!(
        spec["containers"][0]["env"].as_array().map(Vec::len) == Some(2),
        "{made}"
    );
    ensure!(
        spec["containers"][0]["ports"].as_array().map(Vec::len) == Some(2),
        "{made}"
    );
    let after = ground
        .alice()
        .replace("deployments", "web", "", &manifest)
        .await?;
    ensure!(template(&after) == template(&made), "{after}");
    Ok(())
}

async fn a_template_with_a_node_name_fails_with_our_sentence(site: Site) -> Result<()> {
    let ground = site.opted_in("bound-template").await?;
    let manifest = with(
        workload("Deployment", "web"),
        "/spec/template/spec/nodeName",
        json!("manager-0"),
    );
    unmarked(&ground.alice().create("deployments", &manifest).await?)?;
    ground
        .await_object("the reason on the Deployment", "deployments", "web", |web| {
            web["status"]["conditions"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|condition| {
                    condition["message"]
                        .as_str()
                        .is_some_and(|message| message.contains("remove spec.nodeName"))
                })
        })
        .await?;
    Ok(())
}

async fn keys_of_the_reconciler_are_refused_in_templates(site: Site) -> Result<()> {
    let ground = site.opted_in("forged-templates").await?;
    let pointer = "/spec/template/metadata/annotations";
    let keys = json!({"portcullis.dev/remote-uid": "a/b", "portcullis.dev/attempt": "1"});
    let finalizer = json!(["portcullis.dev/remote-copy"]);
    for actor in [ground.alice(), ground.admin()] {
        for (kind, resource) in KINDS {
            let forged = with(workload(kind, "one"), pointer, keys.clone());
            refused_keys(
                actor.create(resource, &forged).await,
                &["portcullis.dev/remote-uid", "portcullis.dev/attempt"],
            )?;
            let forged = with(
                workload(kind, "one"),
                "/spec/template/metadata/finalizers",
                finalizer.clone(),
            );
            refused_keys(
                actor.create(resource, &forged).await,
                &["portcullis.dev/remote-copy"],
            )?;
        }
    }
    ground
        .alice()
        .create("deployments", &workload("Deployment", "good"))
        .await?;
    let patch = json!({"spec": {"template": {"metadata": {"annotations": keys}}}});
    refused_keys(
        ground.alice().patch("deployments", "good", "", &patch).await,
        &["portcullis.dev/remote-uid"],
    )
}

async fn old_keys_in_a_template_do_not_block_other_changes(site: Site) -> Result<()> {
    let ground = site.plain("old-keys").await?;
    let pointer = "/spec/template/metadata/annotations";
    let manifest = with(
        workload("Deployment", "web"),
        pointer,
        json!({"portcullis.dev/attempt": "1"}),
    );
    ground.alice().create("deployments", &manifest).await?;
    ground.opt_in().await?;
    ground
        .alice()
        .replace(
            "deployments",
            "web",
            "",
            &with(manifest, "/spec/replicas", json!(1)),
        )
        .await?;
    let remove =
        json!({"spec": {"template": {"metadata": {"annotations": {"portcullis.dev/attempt": null}}}}});
    marked(&ground.alice().patch("deployments", "web", "", &remove).await?)
}

async fn a_name_made_by_the_server_gets_no_root(site: Site) -> Result<()> {
    let ground = site.opted_in("generated").await?;
    let manifest = with(
        workload("Deployment", "web"),
        "/metadata",
        json!({"generateName": "web-"}),
    );
    let made = ground.alice().create("deployments", &manifest).await?;
    ensure!(
        has_gate(template(&made)) && has_label(template(&made)) && root(&made).is_null(),
        "{made}"
    );
    let name = made["metadata"]["name"].as_str().context("a name")?;
    let after = ground
        .alice()
        .replace(
            "deployments",
            name,
            "",
            &with(manifest, "/metadata", json!({"name": name})),
        )
        .await?;
    ensure!(
        root(&after).is_null(),
        "an unchanged template gets no root later: {after}"
    );
    Ok(())
}
