//! The world of these tests, started by the first that needs it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use libtest_mimic::Failed;
use portcullis_testbed::{Manifests, Portcullis, PortcullisOptions, Route, World, install};
use tokio::runtime::Runtime;
use tokio::sync::Mutex;

/// The program under test.
const BINARY: &str = env!("CARGO_BIN_EXE_portcullis");
/// The same with the feature `faults`: `make faulty`.
const FAULTY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/faulty/portcullis");

/// Three clusters and the program.
pub struct Rig {
    pub world: World,
    pub portcullis: Mutex<Portcullis>,
    /// A second one, for the storm.
    pub rival: Mutex<Portcullis>,
    kubeconfig: PathBuf,
    webhook_url: String,
}

/// The one world of this binary.
pub fn shared<'a>(runtime: &Runtime, rig: &'a OnceLock<Rig>) -> Result<&'a Rig, Failed> {
    if let Some(rig) = rig.get() {
        return Ok(rig);
    }
    let started = runtime
        .block_on(Rig::start())
        .map_err(|error| format!("the clusters did not start: {error:#}"))?;
    Ok(rig.get_or_init(|| started))
}

impl Rig {
    async fn start() -> Result<Self> {
        let world = World::start(2).await?;
        // Also on the manager: there it must leave the jobs alone.
        for cluster in world.clusters() {
            cluster.start_mpi_operator(&[]).await?;
        }
        let kubeconfig = world.folder().join("portcullis.kubeconfig");
        let mut portcullis = Portcullis::new(options(Path::new(BINARY), &kubeconfig, world.folder()))?;
        let webhook_url = format!("https://{}", portcullis.webhook());
        let manifests = Manifests::printed_by(Path::new(BINARY), portcullis.webhook()).await?;
        let kubeconfig = install(&world, &manifests, Route::Proxy).await?;
        portcullis.start().await?;
        for worker in &world.workers {
            let name = format!("workercluster/{}", worker.cluster.name());
            world
                .manager
                .kubectl(&["wait", "--for=condition=Ready", &name, "--timeout=60s"])
                .await?;
        }
        let rival = Portcullis::new(PortcullisOptions {
            name: "rival".to_owned(),
            webhook_url: Some(webhook_url.clone()),
            ..options(Path::new(BINARY), &kubeconfig, world.folder())
        })?;
        Ok(Self {
            rival: Mutex::new(rival),
            world,
            portcullis: Mutex::new(portcullis),
            kubeconfig,
            webhook_url,
        })
    }

    /// A process of the faulty build, beside the one that the configurations name. Not started.
    pub fn faulty(&self, name: &str, env: Vec<(String, String)>) -> Result<Portcullis> {
        let binary = faulty()?;
        Portcullis::new(PortcullisOptions {
            binary,
            name: name.to_owned(),
            env,
            webhook_url: Some(self.webhook_url.clone()),
            ..options(Path::new(BINARY), &self.kubeconfig, self.world.folder())
        })
    }
}

fn options(binary: &Path, kubeconfig: &Path, folder: &Path) -> PortcullisOptions {
    PortcullisOptions {
        args: ["--log-level", "info,portcullis=debug", "--drain-timeout", "5s"]
            .map(str::to_owned)
            .to_vec(),
        ..PortcullisOptions::new(binary, kubeconfig, folder)
    }
}

fn faulty() -> Result<PathBuf> {
    let path = std::env::var_os("PORTCULLIS_FAULTY").map_or_else(|| PathBuf::from(FAULTY), PathBuf::from);
    if !path.exists() {
        bail!("{} is missing: `make faulty` builds it", path.display());
    }
    Ok(path)
}

/// The switches exist in the faulty build only.
pub fn no_faults() -> Result<(), Failed> {
    let switch = b"PORTCULLIS_FAULT";
    let has = |path: &Path| -> Result<bool> {
        let bytes = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
        Ok(bytes.windows(switch.len()).any(|window| window == switch))
    };
    let found = (|| Ok::<_, anyhow::Error>((has(Path::new(BINARY))?, has(&faulty()?)?)))();
    match found.map_err(|error| format!("{error:#}"))? {
        (false, true) => Ok(()),
        found => Err(format!(
            "the switches are in the build without the feature, and in that with it: {found:?}"
        )
        .into()),
    }
}

/// A moment that no state announces: a fault that must not show gets this time to show.
pub const A_WHILE: Duration = Duration::from_secs(4);
