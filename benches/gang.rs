//! `cargo bench --bench gang`: many MPIJobs at once on a real cluster, until each has its PodGroup and is released.
//!
//! There is no operator and no gang scheduler: what is measured is Portcullis and the API server. `JOBS` (1000) and
//! `IN_FLIGHT` (jobs that users create at a time, 32) may be set in the environment. The rate at which the same jobs are
//! created in a namespace without the label stands beside it.

use std::collections::HashSet;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::StreamExt;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use portcullis::cluster::discovery::api_resource;
use portcullis_testbed::{Crds, Manifests, Portcullis, PortcullisOptions, Route, World, install, wait_for};
use serde_json::json;

const BINARY: &str = env!("CARGO_BIN_EXE_portcullis");
const PATIENCE: Duration = Duration::from_secs(300);
const US: &str = "system:serviceaccount:portcullis-system:portcullis";

fn main() -> Result<()> {
    portcullis::tls::install_crypto();
    tokio::runtime::Runtime::new()?.block_on(run())
}

async fn run() -> Result<()> {
    let (jobs, in_flight) = (setting("JOBS", 1000), setting("IN_FLIGHT", 32));
    let world = World::start_with(0, |_| {}).await?;
    let cluster = &world.manager;
    cluster.install_crds(Crds::Coscheduling).await?;
    cluster.install_crds(Crds::MpiOperator).await?;
    let kubeconfig = world.folder().join("portcullis.kubeconfig");
    let options = PortcullisOptions::new(BINARY.as_ref(), &kubeconfig, world.folder());
    let mut portcullis = Portcullis::new(options)?;
    let manifests = Manifests::printed_by(BINARY.as_ref(), portcullis.webhook()).await?;
    install(&world, &manifests, Route::Direct).await?;
    portcullis.start().await?;
    let client = cluster.admin_client().await?;

    cluster.create_namespace("plain", &[]).await?;
    let began = Instant::now();
    create(&client, "plain", jobs, in_flight).await?;
    let plain = began.elapsed();

    cluster
        .create_namespace("gangs", &[("portcullis.dev/gang", "coscheduling")])
        .await?;
    let probe: Api<DynamicObject> = Api::namespaced_with(client.clone(), "gangs", &mpi_jobs());
    let tried = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    wait_for("a job to come back held and marked", PATIENCE, async || {
        let answer = probe.create(&tried, &job("probe")).await?;
        let text = serde_json::to_string(&answer)?;
        let ready = text.contains("portcullis.dev/held") && text.contains("scheduling.x-k8s.io/pod-group");
        Ok::<_, anyhow::Error>(ready.then_some(()))
    })
    .await?;
    let began = Instant::now();
    let (created, released) = tokio::join!(
        async {
            create(&client, "gangs", jobs, in_flight).await?;
            Ok::<_, anyhow::Error>(began.elapsed())
        },
        async {
            released(&client, jobs).await?;
            Ok::<_, anyhow::Error>(began.elapsed())
        }
    );
    let (created, released) = (created?, released?);
    let ledger = cluster.ledger()?;
    let writes = ledger.writes_by(US);
    let count = |resource: &str| writes.iter().filter(|write| write.resource == resource).count();
    let rate = |took: Duration| jobs as f64 / took.as_secs_f64();
    println!("| what | of {jobs} jobs | jobs/s |");
    println!("|---|---|---|");
    println!("| created without the label | {plain:.1?} | {:.0} |", rate(plain));
    println!("| created with it | {created:.1?} | {:.0} |", rate(created));
    println!(
        "| all have a PodGroup and are released | {released:.1?} | {:.0} |",
        rate(released)
    );
    println!(
        "writes: {} of jobs, {} of PodGroups; load {}",
        count("mpijobs"),
        count("podgroups"),
        std::fs::read_to_string("/proc/loadavg")?.trim()
    );
    Ok(())
}

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

async fn create(client: &Client, namespace: &str, jobs: usize, in_flight: usize) -> Result<()> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &mpi_jobs());
    let calls = futures::stream::iter(0..jobs).map(|number| {
        let api = api.clone();
        async move {
            api.create(&PostParams::default(), &job(&format!("job-{number}")))
                .await
        }
    });
    let mut calls = calls.buffer_unordered(in_flight);
    while let Some(answer) = calls.next().await {
        answer.context("create a job")?;
    }
    Ok(())
}

/// Waits until every job has its group and none is held: by watches, since lists of them all would be work for the API
/// server that is no part of what is measured.
async fn released(client: &Client, jobs: usize) -> Result<()> {
    let (groups, all) = (pod_groups(), mpi_jobs());
    let grouped = seen(client, &groups, jobs, |_| true);
    let freed = seen(client, &all, jobs, |job| {
        !job.annotations().contains_key("portcullis.dev/held")
    });
    tokio::try_join!(grouped, freed)?;
    Ok(())
}

/// Waits until so many objects of the namespace are in this state at once.
async fn seen(
    client: &Client,
    resource: &ApiResource,
    wanted: usize,
    state: fn(&PartialObjectMeta<DynamicObject>) -> bool,
) -> Result<()> {
    let api: Api<PartialObjectMeta<DynamicObject>> = Api::namespaced_with(client.clone(), "gangs", resource);
    let mut events = pin!(watcher(api, watcher::Config::default()).default_backoff());
    let mut there = HashSet::new();
    while there.len() < wanted {
        let event = tokio::time::timeout(PATIENCE, events.next()).await;
        let event = event.with_context(|| format!("{} of {wanted} {}", there.len(), resource.plural))?;
        match event.context("the watch ended")?? {
            watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
                match state(&object) {
                    true => there.insert(object.name_any()),
                    false => there.remove(&object.name_any()),
                };
            }
            watcher::Event::Delete(object) => {
                there.remove(&object.name_any());
            }
            watcher::Event::Init | watcher::Event::InitDone => {}
        }
    }
    Ok(())
}

fn job(name: &str) -> DynamicObject {
    let template = json!({"spec": {"containers": [
        {"name": "main", "image": "main", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
    ]}});
    serde_json::from_value(json!({
        "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": name},
        "spec": {
            "runPolicy": {"schedulingPolicy": {}},
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": template},
                "Worker": {"replicas": 4, "template": template},
            },
        },
    }))
    .expect("an object")
}

fn mpi_jobs() -> ApiResource {
    api_resource("kubeflow.org", "v2beta1", "mpijobs", "MPIJob")
}

fn pod_groups() -> ApiResource {
    api_resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")
}
