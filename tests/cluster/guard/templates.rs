//! Templates: marked when they are new or change anyway, and nothing of ours ever starts a rollout (R74).

use anyhow::{Context, Result, ensure};
use portcullis_testbed::wait_for;
use serde_json::{Value, json};

use super::checks;
use super::ground::{
    Ground, PATIENCE, Site, container, gate, has_gate, has_label, refused_keys, with, workload,
};

checks![
    templates_are_marked_at_creation,
    a_replica_set_of_a_deployment_is_left_alone,
    a_changed_template_is_marked_again,
    an_old_template_gets_marks_when_it_changes,
    a_user_may_mark_an_old_template,
    an_exempt_template_is_unmarked_and_marked_again,
    duplicate_names_and_huge_numbers_survive,
    a_template_with_a_node_name_fails_with_our_sentence,
    keys_of_the_reconciler_are_refused_in_templates,
    old_keys_in_a_template_do_not_block_other_changes,
    a_name_made_by_the_server_gets_no_root,
];

pub const KINDS: [(&str, &str); 3] = [
    ("Deployment", "deployments"),
    ("StatefulSet", "statefulsets"),
    ("ReplicaSet", "replicasets"),
];

pub fn template(object: &Value) -> &Value {
    &object["spec"]["template"]
}

pub fn root(object: &Value) -> &Value {
    &template(object)["metadata"]["annotations"]["portcullis.dev/root"]
}

#[track_caller]
pub fn marked(object: &Value) -> Result<()> {
    ensure!(
        has_gate(template(object)) && has_label(template(object)) && root(object).is_string(),
        "unmarked: {object}"
    );
    Ok(())
}

#[track_caller]
pub fn unmarked(object: &Value) -> Result<()> {
    let any = has_gate(template(object)) || has_label(template(object)) || root(object).is_string();
    ensure!(!any, "marked: {object}");
    Ok(())
}

/// Waits until the Deployment's revision is this one, and answers how many ReplicaSets there are.
pub async fn replica_sets(ground: &Ground, name: &str, revision: &str) -> Result<usize> {
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

async fn a_changed_template_is_marked_again(site: Site) -> Result<()> {
    let ground = site.opted_in("changed").await?;
    for (kind, resource) in KINDS {
        let manifest = workload(kind, "web");
        let made = ground.alice().create(resource, &manifest).await?;
        if kind == "Deployment" {
            replica_sets(&ground, "web", "1").await?; // its controller has seen the first template
        }
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
