//! `cargo bench --bench dispatch`: pods a second and latency on real clusters, beside a bare client that makes the same
//! writes with the same identity and as many at a time; then whole jobs. `-- pods` and `-- jobs` do one of the two.
//!
//! Rounds of the two are interleaved; each starts with the same number of gated pods on the manager. `PODS`, `ROUNDS`,
//! `IN_FLIGHT` (such as `1,16,64`), `ALONE` (pods of the latency run) and `QUIET` (seconds) may be set in the environment.

mod bare;
mod jobs;
mod line;
mod process;
mod scene;
mod sight;
mod table;

use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use http::Method;
use k8s_openapi::api::core::v1::Pod;
use kube::core::ApiResource;
use portcullis_testbed::wait_for;

use bare::{Places, Took};
use line::{Line, OBJECT};
use process::Steps;
use scene::{Scene, Space};
use sight::{Sight, is_open, is_ready};
use table::Figures;

const PATIENCE: Duration = Duration::from_secs(600);

fn main() -> Result<()> {
    portcullis::tls::install_crypto();
    let asked = |what: &str| {
        let mut words = std::env::args()
            .skip(1)
            .filter(|word| !word.starts_with("--"))
            .peekable();
        words.peek().is_none() || words.any(|word| word == what)
    };
    tokio::runtime::Runtime::new()?.block_on(async {
        if asked("pods") {
            pods().await?;
        }
        if asked("jobs") {
            jobs::run().await?;
        }
        Ok(())
    })
}

async fn pods() -> Result<()> {
    let in_flight = std::env::var("IN_FLIGHT").unwrap_or_else(|_| "1,16,64".to_owned());
    let in_flight: Vec<usize> = in_flight.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let (pods, rounds) = (setting("PODS", 500), setting("ROUNDS", 2));
    let mut scene = Scene::start(&in_flight).await?;
    println!("logs: {}", scene::folder(&scene).display());
    println!(
        "machine: {} cores, load {}",
        std::thread::available_parallelism()?,
        table::load()
    );
    let alone = setting("ALONE", 100);
    if alone > 0 {
        latency(&mut scene, alone).await?;
    }
    let mut figures = vec![Vec::new(); in_flight.len()];
    if rounds > 0 {
        println!("\n{pods} pods, load {}\n{}", table::load(), table::HEAD);
    }
    for round in 1..=rounds {
        for (place, &lanes) in in_flight.iter().enumerate() {
            let measured = throughput(&mut scene, place, pods).await?;
            println!("{}", measured.line(lanes, &round.to_string()));
            figures[place].push(measured);
        }
    }
    for (rounds, &lanes) in figures
        .iter()
        .zip(&in_flight)
        .filter(|(rounds, _)| rounds.len() > 1)
    {
        println!("{}", Figures::median(rounds).line(lanes, "median"));
    }
    println!("load {}", table::load());
    Ok(())
}

fn setting<T: FromStr>(name: &str, default: T) -> T {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// One pod after another, then nothing for a while.
async fn latency(scene: &mut Scene, pods: usize) -> Result<()> {
    let space = scene.space().await?;
    let last = scene.portcullis.len() - 1;
    scene.portcullis[last].1.start().await?;
    scene.create_policy(&space).await?;
    let resource = ApiResource::erase::<Pod>(&());
    let opened = Sight::of(scene.worker.clone(), &space.name, &resource, is_open).await?;
    let shown = Sight::of(scene.manager.clone(), &space.name, &resource, is_ready).await?;
    let mut admin = Line::open(&scene.world.manager.kubeconfig_for("admin")).await?;
    let path = format!("/api/v1/namespaces/{}/pods", space.name);
    let (mut until_open, mut until_shown) = (Vec::new(), Vec::new());
    let warm_up = 5;
    for number in 0..pods + warm_up {
        let name = format!("alone-{number}");
        admin
            .call(Method::POST, &path, OBJECT, scene::pod(&name).to_string())
            .await?;
        let created = Instant::now();
        let open = opened
            .when(&name, PATIENCE)
            .await?
            .saturating_duration_since(created);
        let ready = shown
            .when(&name, PATIENCE)
            .await?
            .saturating_duration_since(created);
        if number >= warm_up {
            until_open.push(open);
            until_shown.push(ready);
        }
    }
    println!(
        "latency of one pod on an idle system, load {}: created -> open {}",
        table::load(),
        table::percentiles(until_open)
    );
    println!(
        "                                  created -> shown as ready {}",
        table::percentiles(until_shown)
    );
    quiet(scene, last).await?;
    scene.portcullis[last].1.sigterm(Duration::from_secs(20)).await?;
    scene.empty(&space).await?;
    let space = scene.space().await?;
    let took = bare(scene, &space, pods, 1, 0.0).await?;
    println!(
        "bare client, one at a time: prepare + commit + open {}",
        table::percentiles(took.each)
    );
    Ok(())
}

/// Nothing happens: nothing is written, and no step is taken.
async fn quiet(scene: &Scene, place: usize) -> Result<()> {
    let seconds = setting("QUIET", 30);
    let portcullis = &scene.portcullis[place].1;
    let account = "system:serviceaccount:portcullis-system:portcullis";
    let written = || -> Result<usize> {
        let all = scene
            .world
            .clusters()
            .map(|cluster| Ok(cluster.ledger()?.writes_by(account).len()));
        all.sum::<Result<usize>>()
    };
    let mut before = written()?;
    wait_for("the last writes", PATIENCE, async || {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let now = written()?;
        let same = std::mem::replace(&mut before, now) == now;
        Ok::<_, anyhow::Error>(same.then_some(()))
    })
    .await?;
    let (steps, cpu) = (Steps::of(portcullis).await?, process::cpu(portcullis)?);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    println!(
        "quiet for {seconds} s: {} writes on all clusters, {} steps, {} ms of CPU (it pings each worker every 5 s), RSS {:.1} MiB",
        written()? - before,
        Steps::of(portcullis).await?.since(&steps).all(),
        (process::cpu(portcullis)? - cpu).as_millis(),
        process::rss(portcullis)? / 1024.0,
    );
    Ok(())
}

/// Portcullis, then the bare client without and with as many status writes as portcullis made.
async fn throughput(scene: &mut Scene, place: usize, pods: usize) -> Result<Figures> {
    let lanes = scene.portcullis[place].0;
    let ours = dispatch(scene, place, pods).await?;
    let space = scene.space().await?;
    let three = bare(scene, &space, pods, lanes, 0.0).await?;
    let space = scene.space().await?;
    let all = bare(
        scene,
        &space,
        pods,
        lanes,
        ours.steps.count("mirror") / pods as f64,
    )
    .await?;
    let rate = |took: Duration| pods as f64 / took.as_secs_f64();
    if std::env::var_os("STEPS").is_some() {
        println!("  {lanes} in flight: {}", ours.steps.per_pod(pods as f64));
    }
    Ok(Figures {
        opened: [rate(ours.opened), rate(three.all)],
        shown: [rate(ours.shown), rate(all.all)],
        cpu: 1000.0 * ours.cpu.as_secs_f64() / pods as f64,
        writes: ours.steps.all() / pods as f64,
        rss: [ours.rss[1], (ours.rss[1] - ours.rss[0]) / pods as f64],
    })
}

struct Dispatched {
    opened: Duration,
    shown: Duration,
    steps: Steps,
    cpu: Duration,
    rss: [f64; 2],
}

async fn dispatch(scene: &mut Scene, place: usize, pods: usize) -> Result<Dispatched> {
    let space = scene.space().await?;
    scene.portcullis[place].1.start().await?;
    let empty = process::rss(&scene.portcullis[place].1)?;
    scene.fill(&space, pods).await?;
    let portcullis = &scene.portcullis[place].1;
    // Each pod says first that there is no policy.
    wait_for("portcullis to know all pods", PATIENCE, async || {
        let said = Steps::of(portcullis).await?.count("mirror");
        Ok::<_, anyhow::Error>((said >= pods as f64).then_some(()))
    })
    .await?;
    let resource = ApiResource::erase::<Pod>(&());
    let opened = Sight::of(scene.worker.clone(), &space.name, &resource, is_open).await?;
    let shown = Sight::of(scene.manager.clone(), &space.name, &resource, is_ready).await?;
    let (steps, cpu) = (Steps::of(portcullis).await?, process::cpu(portcullis)?);
    let began = Instant::now();
    scene.create_policy(&space).await?;
    let opened = opened.last_of(pods, PATIENCE).await.context("open")? - began;
    let shown = shown.last_of(pods, PATIENCE).await.context("show")? - began;
    let dispatched = Dispatched {
        opened,
        shown,
        steps: Steps::of(portcullis).await?.since(&steps),
        cpu: process::cpu(portcullis)? - cpu,
        rss: [empty, process::rss(portcullis)?],
    };
    scene.portcullis[place].1.sigterm(Duration::from_secs(20)).await?;
    scene.empty(&space).await?;
    Ok(dispatched)
}

async fn bare(scene: &Scene, space: &Space, pods: usize, lanes: usize, mirrors: f64) -> Result<Took> {
    scene.fill(space, pods).await?;
    let pairs = scene.pairs(space).await?;
    let resource = ApiResource::erase::<Pod>(&());
    // The same watches look on as for portcullis.
    let opened = Sight::of(scene.worker.clone(), &space.name, &resource, is_open).await?;
    let _shown = Sight::of(scene.manager.clone(), &space.name, &resource, is_ready).await?;
    let [manager, worker] = &scene.identities;
    let places = Places {
        manager,
        worker,
        namespace: &space.name,
        cluster_uid: &scene.cluster_uid,
    };
    let took = bare::run(pairs, &places, lanes, mirrors).await?;
    opened.last_of(pods, PATIENCE).await?;
    scene.empty(space).await?;
    Ok(took)
}
