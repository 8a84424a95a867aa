//! Whole jobs: many batch Jobs at once on three workers, beside a bare client that makes the same writes.
//!
//! Each worker has a namespace of its own, and the jobs go round. They end as soon as they run: in the end all of their
//! lives is there to be counted. `JOBS` (500) and `JOB_ROUNDS` (2) may be set in the environment.

mod figures;
mod lane;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use http::Method;
use k8s_openapi::api::batch::v1::Job;
use kube::api::{Api, DeleteParams, ListParams};
use kube::{Client, core::ApiResource};
use portcullis::cluster::raw::RawObject;
use portcullis::names;
use portcullis::reconcile::pair::local::{RemoteObject, Subject};
use portcullis::workload::jobs::BatchJob;
use portcullis_testbed::{
    Kubeconfig, Manifests, Portcullis, PortcullisOptions, Route, World, install, wait_for,
};
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use crate::line::{JSON, Line, OBJECT};
use crate::process::{self, Steps};
use crate::sight::Sight;
use crate::{PATIENCE, setting, table};
use figures::{Figures, HEAD};
use lane::Lane;

const BINARY: &str = env!("CARGO_BIN_EXE_portcullis");
const US: &str = "system:serviceaccount:portcullis-system:portcullis";
/// Jobs that users create at a time, and that the bare client dispatches at a time: as many as portcullis by default.
const LANES: usize = 64;
const CREATORS: usize = 16;

struct Scene {
    world: World,
    portcullis: Portcullis,
    manager: Client,
    /// For each worker its client, our identity there, and the UID of its kube-system.
    workers: Vec<(Client, Kubeconfig, String)>,
    identity: Kubeconfig,
    origin: String,
    rounds: usize,
}

pub(crate) async fn run() -> Result<()> {
    let (jobs, rounds) = (setting("JOBS", 500), setting("JOB_ROUNDS", 2));
    let mut scene = Scene::start().await?;
    println!("logs: {}", scene.world.folder().display());
    println!(
        "\n{jobs} batch Jobs at once on 3 workers, load {}\n{HEAD}",
        table::load()
    );
    let mut all = Vec::new();
    for round in 1..=rounds {
        let figures = scene.round(jobs).await?;
        println!("{}", figures.line(&round.to_string()));
        all.push(figures);
    }
    if rounds > 1 {
        println!("{}", Figures::median(&all).line("median"));
    }
    println!("load {}", table::load());
    Ok(())
}

impl Scene {
    async fn start() -> Result<Self> {
        let world = World::start(3).await?;
        let kubeconfig = world.folder().join("portcullis.kubeconfig");
        let mut options = PortcullisOptions::new(Path::new(BINARY), &kubeconfig, world.folder());
        options.args = vec!["--drain-timeout=1s".to_owned()];
        let portcullis = Portcullis::new(options)?;
        let manifests = Manifests::printed_by(Path::new(BINARY), portcullis.webhook()).await?;
        install(&world, &manifests, Route::Direct).await?;
        let manager = world.manager.admin_client().await?;
        let account = (names::NAMESPACE, names::PORTCULLIS);
        let mut workers = Vec::new();
        for worker in &world.workers {
            let client = worker.cluster.admin_client().await?;
            let identity = worker
                .cluster
                .service_account_kubeconfig(account.0, account.1)
                .await?;
            let uid = crate::scene::namespace_uid(&client, "kube-system").await?;
            workers.push((client, identity, uid));
        }
        Ok(Self {
            identity: world
                .manager
                .service_account_kubeconfig(account.0, account.1)
                .await?,
            origin: crate::scene::namespace_uid(&manager, "kube-system").await?,
            world,
            portcullis,
            manager,
            workers,
            rounds: 0,
        })
    }

    /// Portcullis, then the bare client without and with as many writes of the status.
    async fn round(&mut self, jobs: usize) -> Result<Figures> {
        let (mut figures, mirrors) = self.dispatched(jobs).await?;
        (figures.rates[1], figures.load[1]) = self.bare(jobs, 0.0).await?;
        (figures.rates[2], figures.load[2]) = self.bare(jobs, mirrors).await?;
        Ok(figures)
    }

    /// One namespace for each worker, opted in to a policy that names this worker alone.
    async fn spaces(&mut self) -> Result<Vec<String>> {
        self.rounds += 1;
        let mut spaces = Vec::new();
        for worker in &self.world.workers {
            let cluster = worker.cluster.name();
            let name = format!("bench-{}-{cluster}", self.rounds);
            let policy = json!({
                "apiVersion": "portcullis.dev/v1alpha1", "kind": "DispatchPolicy", "metadata": {"name": name},
                "spec": {"clusters": [cluster]},
            });
            self.world.manager.apply(&policy.to_string()).await?;
            worker.cluster.create_namespace(&name, &[]).await?;
            let accepts = format!("{}={}/{name}", names::ACCEPTS, self.origin);
            worker
                .cluster
                .kubectl(&["annotate", "namespace", &name, &accepts])
                .await?;
            self.world
                .manager
                .create_namespace(&name, &[(names::DISPATCH, &name)])
                .await?;
            let mut admin = self.admin().await?;
            let dry = format!("{}?dryRun=All", collection(&name));
            wait_for("jobs to be born with managedBy", PATIENCE, async || {
                let answer = admin
                    .call(Method::POST, &dry, OBJECT, job("probe").to_string())
                    .await?;
                let ours = String::from_utf8_lossy(&answer).contains(names::GATE);
                Ok::<_, anyhow::Error>(ours.then_some(()))
            })
            .await?;
            spaces.push(name);
        }
        Ok(spaces)
    }

    async fn admin(&self) -> Result<Line> {
        Line::open(&self.world.manager.kubeconfig_for("admin")).await
    }

    /// When the last copy is open.
    async fn sights(&self, spaces: &[String]) -> Result<Vec<Sight>> {
        let resource = ApiResource::erase::<Job>(&());
        let sights = spaces
            .iter()
            .zip(&self.workers)
            .map(|(space, (client, ..))| Sight::of(client.clone(), space, &resource, is_open));
        try_join_all(sights).await
    }

    /// So many jobs, round the namespaces; each is told to `made` as the API server answered it.
    async fn create(
        &self,
        spaces: &[String],
        jobs: usize,
        made: Option<&mpsc::UnboundedSender<(usize, usize, Value)>>,
    ) -> Result<()> {
        let numbers: Vec<usize> = (0..jobs).collect();
        let admin = self.world.manager.kubeconfig_for("admin");
        try_join_all(numbers.chunks(jobs.div_ceil(CREATORS)).map(async |numbers| {
            let mut line = Line::open(&admin).await?;
            for &number in numbers {
                let place = number % spaces.len();
                let path = collection(&spaces[place]);
                let body = job(&format!("job-{number}")).to_string();
                let answer = line.call(Method::POST, &path, OBJECT, body).await?;
                if let Some(made) = made {
                    made.send((number, place, serde_json::from_slice(&answer)?))?;
                }
            }
            anyhow::Ok(())
        }))
        .await?;
        Ok(())
    }

    async fn dispatched(&mut self, jobs: usize) -> Result<(Figures, f64)> {
        let spaces = self.spaces().await?;
        self.portcullis.start().await?;
        // Every worker has taken one: links are up, and namespaces are known.
        let warm = self.sights(&spaces).await?;
        for space in &spaces {
            let mut admin = self.admin().await?;
            admin
                .call(Method::POST, &collection(space), OBJECT, job("warm").to_string())
                .await?;
        }
        for sight in &warm {
            sight.last_of(1, PATIENCE).await.context("warm up")?;
        }
        self.until_complete(&spaces, spaces.len()).await?;
        drop(warm);
        let sights = self.sights(&spaces).await?;
        let (steps, cpu) = (
            Steps::of(&self.portcullis).await?,
            process::cpu(&self.portcullis)?,
        );
        let all = process::cpu_of_all(&self.world)?;
        let began = Instant::now();
        let wall = jiff::Timestamp::now();
        self.create(&spaces, jobs, None).await?;
        let opened = last_of(&sights, jobs, 1).await? - began;
        let all = process::cpu_of_all(&self.world)? + process::cpu(&self.portcullis)? - all - cpu;
        let mirrors = Steps::of(&self.portcullis).await?.since(&steps).count("mirror");
        self.until_complete(&spaces, jobs + spaces.len()).await?;
        if std::env::var_os("STEPS").is_some() {
            let steps = Steps::of(&self.portcullis).await?.since(&steps);
            println!("  {}", steps.per_pod(jobs as f64));
        }
        let rss = process::rss(&self.portcullis)? / 1024.0;
        self.delete(&spaces).await?;
        self.until_empty(&spaces).await?;
        let cpu = process::cpu(&self.portcullis)? - cpu;
        let figures = Figures {
            rates: [jobs as f64 / opened.as_secs_f64(), 0.0, 0.0],
            load: [per_job(all, jobs), 0.0, 0.0],
            writes: self.writes(&spaces, wall, jobs)?,
            cpu: per_job(cpu, jobs),
            rss,
        };
        self.portcullis.sigterm(Duration::from_secs(20)).await?;
        Ok((figures, mirrors / jobs as f64))
    }

    async fn until_complete(&self, spaces: &[String], jobs: usize) -> Result<()> {
        wait_for("all jobs to be complete", PATIENCE, async || {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let mut complete = 0;
            for space in spaces {
                let all: Api<Job> = Api::namespaced(self.manager.clone(), space);
                let jobs = all.list(&ListParams::default()).await?;
                complete += jobs.iter().filter(|job| is_complete(job)).count();
            }
            ensure!(complete == jobs, "{complete} of {jobs} are");
            Ok(Some(()))
        })
        .await
    }

    async fn delete(&self, spaces: &[String]) -> Result<()> {
        for space in spaces {
            let jobs: Api<Job> = Api::namespaced(self.manager.clone(), space);
            jobs.delete_collection(&DeleteParams::background(), &ListParams::default())
                .await?;
        }
        Ok(())
    }

    async fn until_empty(&self, spaces: &[String]) -> Result<()> {
        wait_for("the namespaces to be empty", PATIENCE, async || {
            for (space, (worker, ..)) in spaces.iter().zip(&self.workers) {
                for client in [&self.manager, worker] {
                    let jobs: Api<Job> = Api::namespaced(client.clone(), space);
                    let left = jobs.list_metadata(&ListParams::default()).await?.items.len();
                    ensure!(left == 0, "{left} jobs are left");
                }
            }
            Ok(Some(()))
        })
        .await
    }

    /// Ours, for one job, since then.
    fn writes(&self, spaces: &[String], since: jiff::Timestamp, jobs: usize) -> Result<[f64; 4]> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for cluster in self.world.clusters() {
            let here = cluster.name() == self.world.manager.name();
            let ledger = cluster.ledger()?.since(since);
            let ours = ledger.writes_by(US).into_iter();
            for write in ours.filter(|write| spaces.contains(&write.namespace)) {
                let kind = match (write.resource.as_str(), here) {
                    ("jobs", true) => "manager",
                    ("jobs/status", true) => "status",
                    ("jobs", false) => "workers",
                    _ => "other",
                };
                *counts.entry(kind).or_default() += 1;
            }
        }
        let of = |kind| counts.get(kind).copied().unwrap_or_default() as f64 / jobs as f64;
        Ok(["manager", "status", "workers", "other"].map(of))
    }

    /// Jobs a second, and CPU of everything for one job.
    async fn bare(&mut self, jobs: usize, mirrors: f64) -> Result<(f64, f64)> {
        let spaces = self.spaces().await?;
        let sights = self.sights(&spaces).await?;
        let (made, next) = mpsc::unbounded_channel();
        let next = Arc::new(Mutex::new(next));
        let lanes = try_join_all((0..LANES).map(|_| Lane::open(self, &spaces))).await?;
        let all = process::cpu_of_all(&self.world)?;
        let began = Instant::now();
        let mut running = JoinSet::new();
        for mut lane in lanes {
            let next = next.clone();
            running.spawn(async move {
                loop {
                    let job = next.lock().await.recv().await;
                    let Some((number, place, local)) = job else {
                        return Ok::<_, anyhow::Error>(());
                    };
                    lane.dispatch(place, &local, crate::bare::share(number, mirrors))
                        .await?;
                }
            });
        }
        self.create(&spaces, jobs, Some(&made)).await?;
        drop(made);
        while let Some(lane) = running.join_next().await {
            lane??;
        }
        let took = last_of(&sights, jobs, 0).await? - began;
        let all = process::cpu_of_all(&self.world)? - all;
        self.delete(&spaces).await?;
        for (space, (worker, ..)) in spaces.iter().zip(&self.workers) {
            let copies: Api<Job> = Api::namespaced(worker.clone(), space);
            copies
                .delete_collection(&DeleteParams::background(), &ListParams::default())
                .await?;
            let locals: Api<Job> = Api::namespaced(self.manager.clone(), space);
            let mut admin = self.admin().await?;
            for job in locals.list_metadata(&ListParams::default()).await?.items {
                let name = job.metadata.name.unwrap_or_default();
                let release = json!([{"op": "remove", "path": "/metadata/finalizers"}]).to_string();
                let path = format!("{}/{name}", collection(space));
                admin.call(Method::PATCH, &path, JSON, release).await?;
            }
        }
        self.until_empty(&spaces).await?;
        Ok((jobs as f64 / took.as_secs_f64(), per_job(all, jobs)))
    }
}

/// In milliseconds.
fn per_job(cpu: Duration, jobs: usize) -> f64 {
    1000.0 * cpu.as_secs_f64() / jobs as f64
}

/// When the last of all jobs was open; `more` in each namespace were there before.
async fn last_of(sights: &[Sight], jobs: usize, more: usize) -> Result<Instant> {
    let mut last = Vec::new();
    for (place, sight) in sights.iter().enumerate() {
        let here = jobs / sights.len() + usize::from(place < jobs % sights.len());
        last.push(sight.last_of(here + more, PATIENCE).await.context("open")?);
    }
    last.into_iter().max().context("no worker")
}

fn collection(space: &str) -> String {
    format!("/apis/batch/v1/namespaces/{space}/jobs")
}

fn is_open(job: &RawObject) -> bool {
    let job = RemoteObject::parse(Subject::Job(&BatchJob), job.json().clone());
    job.is_ok_and(|job| job.gate.is_none() && !job.suspended)
}

fn is_complete(job: &Job) -> bool {
    let conditions = job.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == "Complete" && condition.status == "True")
}

/// A small job of the usual shape, whose pod ends as soon as it runs.
fn job(name: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "labels": {"app": "bench", "tier": "batch"}},
        "spec": {"backoffLimit": 0, "template": {
            "metadata": {"annotations": {"kwok.test/end": "complete"}},
            "spec": {"restartPolicy": "Never", "containers": [{
                "name": "main", "image": "app:1", "command": ["/app", "--once"],
                "env": [{"name": "LEVEL", "value": "info"}, {"name": "ZONE", "value": "a"}],
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
            }]},
        }},
    })
}
