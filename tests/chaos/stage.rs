//! Where the scripted interleavings play: one namespace, one pod `p`, two processes of the faulty build, of which one
//! may have dropped something. Steps of each can be held back, its watches blinded.

mod jobs;
mod moves;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Pod;
use portcullis_testbed::chaos::check::Foreign;
use portcullis_testbed::chaos::load::await_gate;
use portcullis_testbed::{Portcullis, wait_for};

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

    /// Runs, is ready, and its workers are connected if they can be.
    pub async fn start(&mut self, who: Who) -> Result<()> {
        let actor = &mut self.actors[usize::from(who == B)];
        actor.portcullis.start().await?;
        // Its links come up after its lists: a step of its own would show it, but there may be none.
        let ways = self
            .rig()
            .world
            .workers
            .iter()
            .filter(|worker| worker.proxy.traffic() == portcullis_testbed::Traffic::Pass)
            .count();
        let log = self.actor(who).portcullis.log();
        let up = || {
            std::fs::read_to_string(&log)
                .unwrap_or_default()
                .matches("\"link changed\"")
                .count()
                >= 2 * ways
        };
        let _seen = wait_for("the links to come up", Duration::from_secs(10), async || {
            Ok::<_, anyhow::Error>(up().then_some(()))
        })
        .await;
        Ok(())
    }

    pub fn kill(&mut self, who: Who) {
        self.actors[usize::from(who == B)].portcullis.kill9();
    }

    /// From now on this step of the pod waits before its call.
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

    /// Whether the step waits, within a limit: what a correct process would never do does not come.
    pub async fn held(&self, who: Who, step: &str) -> bool {
        self.held_of(who, step, POD).await
    }

    async fn held_of(&self, who: Who, step: &str, name: &str) -> bool {
        let file = self.actor(who).folder.join(format!("held.{step}.{name}"));
        let limit = Duration::from_secs(20);
        wait_for("the step", limit, async || {
            Ok::<_, anyhow::Error>(file.exists().then_some(()))
        })
        .await
        .is_ok()
    }

    /// Whether the step waits at this moment.
    pub fn held_now(&self, who: Who, step: &str) -> bool {
        self.actor(who).folder.join(format!("held.{step}.{POD}")).exists()
    }

    /// As [`Self::held`], for a step that only the faulty process comes to.
    pub async fn held_soon(&self, who: Who, step: &str) -> bool {
        tokio::time::timeout(self.patience, self.held(who, step))
            .await
            .unwrap_or(false)
    }

    /// # Errors
    /// The step does not wait.
    pub async fn must_be_held(&self, who: Who, step: &str) -> Result<()> {
        self.must_be_held_of(who, step, POD).await
    }

    /// # Errors
    /// The step of the object of this name does not wait.
    pub async fn must_be_held_of(&self, who: Who, step: &str, name: &str) -> Result<()> {
        if self.held_of(who, step, name).await {
            Ok(())
        } else {
            bail!("{who:?} never came to {step}")
        }
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
