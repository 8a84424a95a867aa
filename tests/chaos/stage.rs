//! Where the scripted interleavings play: one namespace, one pod `p`, two processes of the faulty build, of which one
//! may have dropped something. Steps of each can be held back, its watches blinded.

mod jobs;
mod moves;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use portcullis_testbed::chaos::check::Foreign;
use portcullis_testbed::chaos::load::await_gate;
use portcullis_testbed::{Portcullis, Traffic, wait_for};

use crate::rig::Rig;

/// The pod of every script.
pub const POD: &str = "p";
/// As placed by the policy's order.
pub const FIRST: usize = 0;
pub const SECOND: usize = 1;

pub const LIMIT: Duration = Duration::from_secs(45);

/// Which process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    A,
    B,
}
pub use Who::{A, B};

struct Actor {
    portcullis: Portcullis,
    folder: PathBuf,
}

pub struct Stage {
    rig: Arc<OnceLock<Rig>>,
    pub namespace: String,
    actors: [Actor; 2],
    pub foreign: Vec<Foreign>,
    /// How long a violation is awaited: with a fault it must come, however slow the machine; without, it must not.
    patience: Duration,
}

impl Stage {
    /// An empty stage; nobody runs yet. `fault` is dropped by `who`.
    pub async fn new(rig: &Arc<OnceLock<Rig>>, name: &str, fault: Option<(&str, Who)>) -> Result<Self> {
        let world = &rig.get().context("a started rig")?.world;
        rig.get()
            .context("a started rig")?
            .portcullis
            .lock()
            .await
            .kill9();
        let actor = |who: Who| -> Result<Actor> {
            let label = format!("{name}-{who:?}").to_lowercase();
            let folder = world.folder().join(&label);
            std::fs::create_dir_all(&folder)?;
            let mut env = vec![("PORTCULLIS_FAULT_DIR".to_owned(), folder.display().to_string())];
            env.extend(
                fault
                    .filter(|(_, faulty)| *faulty == who)
                    .map(|(fault, _)| ("PORTCULLIS_FAULT".to_owned(), fault.to_owned())),
            );
            let portcullis = rig.get().context("a started rig")?.faulty(&label, env)?;
            Ok(Actor { portcullis, folder })
        };
        let actors = [actor(A)?, actor(B)?];
        let names: Vec<&str> = world.workers.iter().map(|worker| worker.cluster.name()).collect();
        let policy = format!(
            "{{apiVersion: portcullis.dev/v1alpha1, kind: DispatchPolicy, metadata: {{name: without}}, \
             spec: {{clusters: [{}], unschedulableAfter: 2s, namespaces: {{create: true}}}}}}",
            names.join(", ")
        );
        world.manager.apply(&policy).await?;
        world
            .manager
            .create_namespace(name, &[("portcullis.dev/dispatch", "without")])
            .await?;
        await_gate(world, name).await?;
        Ok(Self {
            rig: rig.clone(),
            namespace: name.to_owned(),
            actors,
            foreign: Vec::new(),
            patience: fault.map_or(crate::rig::A_WHILE, |_| 5 * crate::rig::A_WHILE),
        })
    }

    pub fn rig(&self) -> &Rig {
        self.rig.get().expect("a stage is made from a started rig")
    }

    fn actor(&self, who: Who) -> &Actor {
        &self.actors[usize::from(who == B)]
    }

    /// Runs, is ready, and the pods of each worker that can be reached are listed.
    ///
    /// # Errors
    /// It did not come so far.
    pub async fn start(&mut self, who: Who) -> Result<()> {
        let actor = &mut self.actors[usize::from(who == B)];
        let log = actor.portcullis.log();
        let text = || std::fs::read_to_string(&log).unwrap_or_default();
        let earlier = text().len();
        actor.portcullis.start().await?;
        let workers = &self.rig().world.workers;
        let open = workers
            .iter()
            .filter(|worker| worker.proxy.traffic() == Traffic::Pass);
        let names: Vec<&str> = open.map(|worker| worker.cluster.name()).collect();
        // Each says so twice: connected, and listed. A step of its own would show it, but there may be none.
        self.until("the links to come up", async || {
            let text = text();
            let told = |name: &&str| {
                let of_it = format!("\"worker\":\"{name}\",\"state\":\"Connected\"");
                text.get(earlier..).unwrap_or_default().matches(&of_it).count() >= 2
            };
            Ok(names.iter().all(told))
        })
        .await
    }

    pub fn kill(&mut self, who: Who) {
        self.actors[usize::from(who == B)].portcullis.kill9();
    }

    /// From now on this step of the pod waits before its call, and with it all that the process would do next for the pod.
    /// So `mirror`, which is each write of a status, is held only where nothing but the write that is meant can come: a
    /// process that waits for a worker says so first.
    pub fn hold(&self, who: Who, step: &str) -> Result<()> {
        self.hold_of(who, step, POD)
    }

    /// As [`Self::hold`], of an object of this name.
    pub fn hold_of(&self, who: Who, step: &str, name: &str) -> Result<()> {
        Ok(std::fs::write(
            self.actor(who).folder.join(format!("hold.{step}.{name}")),
            "",
        )?)
    }

    /// Whether the step waits at this moment.
    pub fn held_now(&self, who: Who, step: &str) -> bool {
        self.actor(who).folder.join(format!("held.{step}.{POD}")).exists()
    }

    /// For a step that only the faulty process comes to.
    pub async fn held_soon(&self, who: Who, step: &str) -> bool {
        self.perhaps(async || Ok(self.held_now(who, step))).await
    }

    /// # Errors
    /// The step does not wait.
    pub async fn must_be_held(&self, who: Who, step: &str) -> Result<()> {
        self.must_be_held_of(who, step, POD).await
    }

    /// # Errors
    /// The step of the object of this name does not wait.
    pub async fn must_be_held_of(&self, who: Who, step: &str, name: &str) -> Result<()> {
        let file = self.actor(who).folder.join(format!("held.{step}.{name}"));
        let what = format!("{who:?} to come to {step}");
        self.until(&what, async || Ok(file.exists())).await
    }

    pub fn release(&self, who: Who, step: &str) -> Result<()> {
        self.release_of(who, step, POD)
    }

    pub fn release_of(&self, who: Who, step: &str, name: &str) -> Result<()> {
        let folder = &self.actor(who).folder;
        std::fs::remove_file(folder.join(format!("hold.{step}.{name}")))?;
        let _ = std::fs::remove_file(folder.join(format!("held.{step}.{name}")));
        Ok(())
    }

    /// Pod events of this cluster are lost for it.
    pub fn blind(&self, who: Who, cluster: &str) -> Result<()> {
        Ok(std::fs::write(
            self.actor(who).folder.join(format!("blind.{cluster}")),
            "",
        )?)
    }

    pub fn see(&self, who: Who, cluster: &str) -> Result<()> {
        Ok(std::fs::remove_file(
            self.actor(who).folder.join(format!("blind.{cluster}")),
        )?)
    }

    pub fn cut(&self, worker: usize) {
        self.rig().world.workers[worker].proxy.cut();
    }

    pub fn heal(&self, worker: usize) {
        self.rig().world.workers[worker].proxy.pass();
    }

    /// # Errors
    /// It did not come in time.
    pub async fn until(&self, what: &str, mut probe: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
        wait_for(what, LIMIT, async || {
            Ok::<_, anyhow::Error>(probe().await?.then_some(()))
        })
        .await
    }

    /// So long a copy takes to end that must outlive what a faulty process does meanwhile. The judge waits for its end.
    pub fn long(&self) -> String {
        format!("{}s", self.patience.as_secs() * 3 / 2)
    }

    /// For what only a faulty process brings about.
    pub async fn perhaps(&self, mut probe: impl AsyncFnMut() -> Result<bool>) -> bool {
        let probe = async || Ok::<_, anyhow::Error>(probe().await?.then_some(()));
        wait_for("a violation", self.patience, probe).await.is_ok()
    }

    pub async fn until_runs(&self) -> Result<()> {
        self.until("the pod to run", async || {
            Ok(self.local().await?.is_some_and(|pod| phase(&pod) == "Running"))
        })
        .await
    }

    pub async fn until_gone(&self) -> Result<()> {
        self.until("the pod to go", async || Ok(self.local().await?.is_none()))
            .await
    }

    pub async fn copy_runs(&self, worker: usize) -> Result<bool> {
        let remote = self.remote(worker).await?;
        Ok(remote.is_some_and(|pod| phase(&pod) == "Running"))
    }

    /// The remote pod is there and open.
    pub async fn is_open(&self, worker: usize) -> Result<bool> {
        Ok(self.remote(worker).await?.is_some_and(|pod| {
            pod.spec
                .and_then(|spec| spec.scheduling_gates)
                .is_none_or(|gates| gates.is_empty())
        }))
    }
}

pub fn phase(pod: &Pod) -> &str {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default()
}
