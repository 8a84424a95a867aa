//! API servers on which native groups do not work, each a cluster of its own.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use portcullis_testbed::{Manifests, Portcullis, PortcullisOptions, Route, World, case, install, wait_for};

use crate::rig::{BINARY, Case, Rig, SOON, status};

pub fn cases() -> Vec<Case> {
    vec![
        case!(the_gate_without_the_api_is_told),
        case!(without_gate_and_api_nothing_is_wrong),
    ]
}

/// A scheduler with the gate then schedules no pod at all.
async fn the_gate_without_the_api_is_told(_rig: Arc<Rig>) -> Result<()> {
    let (world, _portcullis) = started(&["GenericWorkload=true"]).await?;
    let event = wait_for("an event PodGroupsNotServed", SOON, async || {
        let args = [
            "get",
            "events",
            "-A",
            "--field-selector=reason=PodGroupsNotServed",
            "-o=jsonpath={.items[*].message}",
        ];
        let found = world.manager.kubectl(&args).await?;
        (!found.is_empty()).then_some(Some(found)).context("none yet")
    })
    .await?;
    ensure!(event.contains("schedules no pod at all"), "{event}");
    let status = status(&world, &[]).await?;
    ensure!(status.contains("schedules no pod at all"), "{status}");
    Ok(())
}

async fn without_gate_and_api_nothing_is_wrong(_rig: Arc<Rig>) -> Result<()> {
    let (world, _portcullis) = started(&[]).await?;
    let status = status(&world, &[]).await?;
    ensure!(!status.contains("GenericWorkload"), "{status}");
    Ok(())
}

/// A cluster with these gates and a namespace that asks for native gangs.
async fn started(gates: &[&str]) -> Result<(World, Portcullis)> {
    let gates: Vec<String> = gates.iter().map(|gate| (*gate).to_owned()).collect();
    let world = World::start_with(0, |options| options.feature_gates.extend(gates.clone())).await?;
    let kubeconfig = world.folder().join("portcullis.kubeconfig");
    let options = PortcullisOptions::new(BINARY.as_ref(), &kubeconfig, world.folder());
    let mut portcullis = Portcullis::new(options)?;
    let manifests = Manifests::printed_by(BINARY.as_ref(), portcullis.webhook()).await?;
    install(&world, &manifests, Route::Direct).await?;
    portcullis.start().await?;
    world
        .manager
        .create_namespace("asks", &[("portcullis.dev/gang", "native")])
        .await?;
    Ok((world, portcullis))
}
