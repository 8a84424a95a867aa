//! The installed layers are kept as they were rendered: under our own account, with its rights and no more.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use portcullis::admission::policies::{LayerKind, Layout, WebhookAddress, render};
use portcullis::cli::manifests::configured;
use portcullis::reconcile::webhook_config::{ConfigReport, ConfigState, keep};
use portcullis_testbed::wait_for;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::ground::{Ground, PATIENCE, Site, refused};
use crate::rig::{CONFIGURATION, Case, Rig};

pub fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "guard::keep::drift_is_undone_and_a_deleted_object_is_reported",
            alone: true,
            limit: Duration::from_secs(180),
            run: |rig| Box::pin(with_keeper(rig)),
        },
        Case {
            name: "guard::keep::our_account_may_keep_the_layers_and_not_install_them",
            alone: false,
            limit: Duration::from_secs(60),
            run: |rig| Box::pin(our_rights(rig)),
        },
        Case {
            name: "guard::keep::breaking_the_glass_is_deleting_one_binding",
            alone: true,
            limit: Duration::from_secs(120),
            run: |rig| Box::pin(breaking_the_glass(rig)),
        },
    ]
}

async fn with_keeper(rig: Arc<Rig>) -> Result<()> {
    let mut portcullis = rig.portcullis.lock().await;
    portcullis.sigterm(Duration::from_secs(20)).await?;
    let url = format!("https://{}", portcullis.webhook());
    let result = drift_is_undone_and_a_deleted_object_is_reported(rig.clone(), url).await;
    portcullis.start().await?;
    result
}

/// What was told, in order.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<ConfigReport>>>);

impl Told {
    fn hear(&self, report: ConfigReport) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(report);
    }

    fn count(&self, name: &str, state: &str) -> usize {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.iter()
            .filter(|report| report.name == name && report.state.name() == state)
            .count()
    }

    async fn await_count(&self, name: &str, state: &str, at_least: usize) -> Result<()> {
        wait_for(
            &format!("{name} to be told {state}"),
            Duration::from_secs(20),
            async || {
                if self.count(name, state) >= at_least {
                    Ok(Some(()))
                } else {
                    Err(format!("{:?}", self.0))
                }
            },
        )
        .await
    }
}

async fn drift_is_undone_and_a_deleted_object_is_reported(rig: Arc<Rig>, url: String) -> Result<()> {
    let ground = Site::alone(rig.clone()).plain("keeper").await?;
    let client = rig
        .world
        .manager
        .service_account_kubeconfig("portcullis-system", "portcullis")
        .await?
        .client()
        .await?;
    let layout = Layout {
        webhook: WebhookAddress::Url(url),
        kinds: configured(CONFIGURATION).map_err(anyhow::Error::msg)?, // as installed
        ..Layout::default()
    };
    let layers = render(&layout);
    let (bundle, bundles) = watch::channel(Vec::new());
    let (told, stop) = (Told::default(), CancellationToken::new());
    let listener = told.clone();
    let keeper = tokio::spawn(keep(
        client,
        layers.clone(),
        bundles,
        move |report| listener.hear(report),
        stop.clone(),
    ));

    // What the API server stores of what we render is what we rendered: nothing is repaired at first.
    for layer in &layers {
        told.await_count(&layer.name, "current", 1).await?;
        ensure!(
            told.count(&layer.name, "repaired") == 0,
            "{} was repaired at first",
            layer.name
        );
    }
    bundle_is_written(&ground, &told, &bundle).await?;
    drift_is_undone(&ground, &told).await?;
    missing_is_reported(&ground, &told, &layers.last().context("the webhooks")?.object).await?;
    stop.cancel();
    keeper.await.context("the keeper ends")
}

async fn bundle_is_written(ground: &Ground, told: &Told, bundle: &watch::Sender<Vec<u8>>) -> Result<()> {
    let before = ground
        .admin()
        .get("mutatingwebhookconfigurations", "portcullis")
        .await?;
    let mut longer = match before["webhooks"][0]["clientConfig"]["caBundle"].as_str() {
        Some(in_use) => BASE64_STANDARD.decode(in_use)?,
        None => std::fs::read(ground.manager().folder().join("ca.crt"))?,
    };
    longer.extend_from_slice(b"# one line more\n");
    bundle.send_replace(longer.clone());
    told.await_count("portcullis", "bundle-written", 1).await?;
    let after = ground
        .admin()
        .get("mutatingwebhookconfigurations", "portcullis")
        .await?;
    for webhook in after["webhooks"].as_array().context("webhooks")? {
        ensure!(
            webhook["clientConfig"]["caBundle"] == BASE64_STANDARD.encode(&longer),
            "{webhook}"
        );
    }
    ensure!(told.count("portcullis", "repaired") == 0, "a bundle is no drift");
    Ok(())
}

async fn drift_is_undone(ground: &Ground, told: &Told) -> Result<()> {
    // Harmless to the tests that come later, should the repair fail.
    let pause = json!({"spec": {"failurePolicy": "Ignore"}});
    let loosened = json!({"spec": {"matchConditions": [{"name": "never", "expression": "false"}]}});
    let unbound = json!({"spec": {"validationActions": ["Warn"]}});
    for (resource, name, drift) in [
        ("mutatingadmissionpolicies", "portcullis-inject-templates", &pause),
        (
            "validatingadmissionpolicies",
            "portcullis-guard-templates",
            &loosened,
        ),
        (
            "validatingadmissionpolicybindings",
            "portcullis-guard-exempt-pods",
            &unbound,
        ),
    ] {
        let before = ground.admin().get(resource, name).await?;
        ground.admin().patch(resource, name, "", drift).await?;
        let began = Instant::now();
        told.await_count(name, "repaired", 1).await?;
        ensure!(
            began.elapsed() < Duration::from_secs(10),
            "within seconds, not {:?}",
            began.elapsed()
        );
        let after = ground.admin().get(resource, name).await?;
        ensure!(after["spec"] == before["spec"], "{after}");
    }
    let opened = json!([{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 30}]);
    ground
        .admin()
        .patch("mutatingwebhookconfigurations", "portcullis", "", &opened)
        .await?;
    told.await_count("portcullis", "repaired", 1).await
}

async fn missing_is_reported(ground: &Ground, told: &Told, webhooks: &Value) -> Result<()> {
    ground
        .admin()
        .delete("mutatingwebhookconfigurations", "portcullis")
        .await?;
    told.await_count("portcullis", "missing", 1).await?;
    let events = ground
        .manager()
        .kubectl(&["get", "events", "-n", "default", "-o", "json"])
        .await?;
    ensure!(
        events.contains("Install it again: portcullis manifests webhooks"),
        "an Event says what to do"
    );
    let answer = ground
        .admin()
        .get("mutatingwebhookconfigurations", "portcullis")
        .await;
    ensure!(answer.is_err(), "it is not made again");
    ground
        .admin()
        .create("mutatingwebhookconfigurations", webhooks)
        .await?;
    told.await_count("portcullis", "bundle-written", 2).await?;
    told.await_count("portcullis", "current", 1).await
}

async fn our_rights(rig: Arc<Rig>) -> Result<()> {
    let ground = Site::beside(rig).plain("our-rights").await?;
    let ours = ground.ours();
    for layer in render(&Layout::default()) {
        let resource = layer.kind.resource();
        ours.get(resource, &layer.name).await?;
        let again = ours.create(resource, &layer.object).await;
        ensure!(
            matches!(&again, Err(kube::Error::Api(status)) if status.code == 403),
            "{again:?}"
        );
        let deleted = ours.delete(resource, &layer.name).await;
        ensure!(
            matches!(&deleted, Err(kube::Error::Api(status)) if status.code == 403),
            "{deleted:?}"
        );
    }
    let read = ours
        .get(LayerKind::ValidatingAdmissionPolicy.resource(), "foreign")
        .await;
    ensure!(
        matches!(&read, Err(kube::Error::Api(status)) if status.code == 403),
        "{read:?}"
    );
    ensure!(
        ConfigState::Current.is_good() && !ConfigState::Missing.is_good(),
        "what readiness is told"
    );
    Ok(())
}

/// A13, the documented line: kubectl delete validatingadmissionpolicybinding portcullis-guard-gated-pods
async fn breaking_the_glass(rig: Arc<Rig>) -> Result<()> {
    let ground = Site::beside(rig).opted_in("glass").await?;
    ground.gated_pod("one").await?;
    let (resource, name) = ("validatingadmissionpolicybindings", "portcullis-guard-gated-pods");
    let binding = ground.admin().get(resource, name).await?;
    let free = json!([{"op": "remove", "path": "/spec/schedulingGates"}]);
    refused(
        ground.alice().patch("pods", "one", "", &free).await,
        "is never changed after its creation",
    )?;
    ground.admin().delete(resource, name).await?;
    let freed = wait_for("the gate to fall", PATIENCE, async || {
        ground.alice().patch("pods", "one", "", &free).await.map(Some)
    })
    .await;
    let again = json!({
        "apiVersion": binding["apiVersion"], "kind": binding["kind"],
        "metadata": {"name": name}, "spec": binding["spec"],
    });
    ground.admin().create(resource, &again).await?;
    freed?;
    ground
        .await_object("the pod to run here", "pods", "one", |pod| {
            pod["status"]["phase"] == "Running"
        })
        .await?;
    ground.gated_pod("two").await?;
    wait_for("the guard to hold again", PATIENCE, async || {
        let answer = ground.alice().dry_run_patch("pods", "two", &free).await;
        Ok::<_, kube::Error>(answer.is_err().then_some(()))
    })
    .await
}
