//! What may come into being in an opted-in namespace.

use anyhow::{Result, ensure};
use portcullis_testbed::wait_for;
use serde_json::json;

use super::checks;
use super::ground::{PATIENCE, Site, exempt, gate, has_gate, has_label, pod, refused, refused_keys, with};

checks![
    a_users_pod_is_gated_and_labelled,
    a_pod_that_is_gated_already_is_left_as_it_is,
    other_gates_and_labels_stay_in_their_order,
    a_wrong_value_of_the_label_is_refused,
    a_node_name_is_refused_with_the_way_out,
    a_status_at_creation_is_no_way_around_the_gate,
    keys_of_the_reconciler_are_refused_by_name,
    an_exported_gated_pod_can_be_created_again,
    a_dispatched_pod_cannot_be_created_from_its_own_manifest,
    a_pod_without_any_optional_field_is_gated,
];

async fn a_users_pod_is_gated_and_labelled(site: Site) -> Result<()> {
    let ground = site.opted_in("plain-pod").await?;
    for actor in [ground.alice(), ground.admin()] {
        let made = actor
            .create("pods", &with(pod(""), "/metadata", json!({"generateName": "p-"})))
            .await?;
        ensure!(has_gate(&made) && has_label(&made), "{made}");
    }
    Ok(())
}

async fn a_pod_that_is_gated_already_is_left_as_it_is(site: Site) -> Result<()> {
    let ground = site.opted_in("gated-already").await?;
    let manifest = with(
        pod("one"),
        "/spec/schedulingGates",
        json!([gate(), {"name": "example.com/other"}]),
    );
    let manifest = with(
        manifest,
        "/metadata/labels",
        json!({"portcullis.dev/gated": "true"}),
    );
    let made = ground.alice().create("pods", &manifest).await?;
    ensure!(
        made["spec"]["schedulingGates"] == manifest["spec"]["schedulingGates"],
        "{made}"
    );
    ensure!(
        made["metadata"]["labels"] == manifest["metadata"]["labels"],
        "{made}"
    );
    Ok(())
}

async fn other_gates_and_labels_stay_in_their_order(site: Site) -> Result<()> {
    let ground = site.opted_in("other-gates").await?;
    let others = json!([{"name": "example.com/b"}, {"name": "example.com/a"}]);
    let manifest = with(pod("one"), "/spec/schedulingGates", others);
    let manifest = with(manifest, "/metadata/labels", json!({"z/y": "1", "a": "2"}));
    let made = ground.alice().create("pods", &manifest).await?;
    let gates = json!([{"name": "example.com/b"}, {"name": "example.com/a"}, gate()]);
    ensure!(made["spec"]["schedulingGates"] == gates, "{made}");
    ensure!(
        made["metadata"]["labels"] == json!({"z/y": "1", "a": "2", "portcullis.dev/gated": "true"}),
        "{made}"
    );
    Ok(())
}

async fn a_wrong_value_of_the_label_is_refused(site: Site) -> Result<()> {
    let ground = site.opted_in("wrong-label").await?;
    let manifest = with(
        pod("one"),
        "/metadata/labels",
        json!({"portcullis.dev/gated": "no"}),
    );
    refused_keys(
        ground.alice().create("pods", &manifest).await,
        &["portcullis.dev/gated"],
    )
}

async fn a_node_name_is_refused_with_the_way_out(site: Site) -> Result<()> {
    let ground = site.opted_in("node-name").await?;
    let bound = with(pod("one"), "/spec/nodeName", json!("manager-0"));
    let marked = with(
        bound.clone(),
        "/metadata/labels",
        json!({"portcullis.dev/gated": "true"}),
    );
    for actor in [ground.alice(), ground.admin()] {
        for manifest in [&bound, &marked] {
            refused(
                actor.create("pods", manifest).await,
                "run on worker clusters; remove spec.nodeName",
            )?;
        }
    }
    Ok(())
}

async fn a_status_at_creation_is_no_way_around_the_gate(site: Site) -> Result<()> {
    let ground = site.opted_in("status-at-creation").await?;
    for phase in ["Succeeded", "Failed", "Running"] {
        let name = phase.to_lowercase();
        let made = ground
            .alice()
            .create("pods", &with(pod(&name), "/status", json!({"phase": phase})))
            .await?;
        ensure!(has_gate(&made) && made["status"]["phase"] == "Pending", "{made}");
    }
    Ok(())
}

async fn keys_of_the_reconciler_are_refused_by_name(site: Site) -> Result<()> {
    let ground = site.allowing_exempt("forged-keys").await?;
    for actor in [ground.alice(), ground.admin(), ground.ours()] {
        for key in ["cluster", "cluster-uid", "remote-uid", "remote-node", "attempt"] {
            let key = format!("portcullis.dev/{key}");
            let manifest = with(pod("one"), "/metadata/annotations", json!({&key: "x"}));
            match actor.create("pods", &manifest).await {
                // Our own account may not create pods at all.
                Err(kube::Error::Api(status)) if status.message.contains("cannot create resource") => {}
                answer => refused_keys(answer, &[&key])?,
            }
        }
    }
    let two = json!({"portcullis.dev/cluster": "a", "portcullis.dev/attempt": "3"});
    let manifest = with(exempt("two"), "/metadata/annotations", two);
    refused_keys(
        ground.alice().create("pods", &manifest).await,
        &["portcullis.dev/cluster", "portcullis.dev/attempt"],
    )?;
    let manifest = with(
        pod("three"),
        "/metadata/finalizers",
        json!(["portcullis.dev/remote-copy"]),
    );
    refused_keys(
        ground.alice().create("pods", &manifest).await,
        &["portcullis.dev/remote-copy"],
    )
}

async fn an_exported_gated_pod_can_be_created_again(site: Site) -> Result<()> {
    let ground = site.opted_in("exported").await?;
    let made = ground.gated_pod("one").await?;
    ground.alice().delete("pods", "one").await?;
    let mut exported = made.clone();
    exported["metadata"]
        .as_object_mut()
        .expect("an object")
        .retain(|key, _| key != "resourceVersion" && key != "uid");
    wait_for("the pod to be gone", PATIENCE, async || {
        anyhow::Ok(ground.all("pods").await?.is_empty().then_some(()))
    })
    .await?;
    let again = ground.alice().create("pods", &exported).await?;
    ensure!(
        again["spec"]["schedulingGates"] == made["spec"]["schedulingGates"],
        "{again}"
    );
    Ok(())
}

async fn a_dispatched_pod_cannot_be_created_from_its_own_manifest(site: Site) -> Result<()> {
    let ground = site.opted_in("exported-dispatched").await?;
    let mut exported = ground.committed_pod("one", &pod("one")).await?;
    exported["metadata"]
        .as_object_mut()
        .expect("an object")
        .retain(|key, _| key != "resourceVersion" && key != "uid");
    exported["metadata"]["name"] = json!("two");
    let keys = [
        "portcullis.dev/cluster",
        "portcullis.dev/remote-uid",
        "portcullis.dev/remote-copy",
    ];
    refused_keys(ground.alice().create("pods", &exported).await, &keys)
}

async fn a_pod_without_any_optional_field_is_gated(site: Site) -> Result<()> {
    let ground = site.opted_in("bare").await?;
    let manifest = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "b-"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": false},
    });
    let made = ground.alice().create("pods", &manifest).await?;
    ensure!(has_gate(&made) && has_label(&made), "{made}");
    let empty = with(
        manifest,
        "/metadata",
        json!({
            "generateName": "e-", "labels": null, "annotations": {}, "ownerReferences": [], "finalizers": null,
        }),
    );
    let made = ground
        .alice()
        .create("pods", &with(empty, "/spec/schedulingGates", json!([])))
        .await?;
    ensure!(has_gate(&made) && has_label(&made), "{made}");
    Ok(())
}
