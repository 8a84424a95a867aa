//! The world that all tests share: three clusters, portcullis installed and running.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use portcullis_testbed::{Manifests, Portcullis, PortcullisOptions, Route, World, install, wait_for};
use tokio::sync::Mutex;

/// One test.
pub struct Case {
    /// Says what it checks.
    pub name: &'static str,
    /// Whether it must have the world for itself.
    pub alone: bool,
    /// It fails after this time.
    pub limit: Duration,
    /// What it does.
    pub run: fn(Arc<Rig>) -> Running,
}

/// A test that runs.
pub type Running = Pin<Box<dyn Future<Output = Result<()>>>>;

/// `case!(function)`: beside others; `case!(alone function)`: by itself.
#[macro_export]
macro_rules! case {
    (alone $function:ident) => {
        $crate::rig::Case {
            alone: true,
            ..$crate::case!($function)
        }
    };
    ($function:ident) => {
        $crate::rig::Case {
            name: concat!(module_path!(), "::", stringify!($function)),
            alone: false,
            limit: std::time::Duration::from_secs(180),
            run: |rig| Box::pin($function(rig)),
        }
    };
}

/// The world, and the process under test.
pub struct Rig {
    /// The clusters.
    pub world: World,
    /// Portcullis; whoever stops it starts it again.
    pub portcullis: Mutex<Portcullis>,
    /// Kubeconfig of portcullis on the manager: its ServiceAccount.
    pub kubeconfig: PathBuf,
}

/// The program under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_portcullis");

/// Its configuration: kinds that these tests make up.
pub const CONFIGURATION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/kinds.yaml");

impl Rig {
    /// Starts clusters, installs what the program prints, starts the program.
    pub async fn start() -> Result<Self> {
        let world = World::start(2).await?;
        let kubeconfig = world.folder().join("portcullis.kubeconfig");
        let mut portcullis = Portcullis::new(options(&world, &kubeconfig, "portcullis"))?;
        // The ports are fixed before the installation, which names the webhook's.
        let manifests = manifests(&format!("https://{}", portcullis.webhook()))?;
        let written = install(&world, &manifests, Route::Proxy).await?;
        ensure!(
            written == kubeconfig,
            "the kubeconfig was written to {}",
            written.display()
        );
        portcullis.start().await?;
        let rig = Self {
            world,
            portcullis: Mutex::new(portcullis),
            kubeconfig,
        };
        rig.await_workers().await?;
        Ok(rig)
    }

    /// Waits until both workers take pods.
    pub async fn await_workers(&self) -> Result<()> {
        for worker in &self.world.workers {
            let name = format!("workercluster/{}", worker.cluster.name());
            self.world
                .manager
                .kubectl(&["wait", "--for=condition=Ready", &name, "--timeout=60s"])
                .await
                .with_context(|| format!("{name} becomes ready"))?;
        }
        Ok(())
    }

    /// An opted-in namespace of its own for a test.
    pub async fn opted_in(&self, name: &str) -> Result<()> {
        self.world
            .manager
            .create_namespace(name, &[("portcullis.dev/dispatch", "default")])
            .await?;
        self.await_gate(name).await
    }

    /// Opts a namespace in that has objects already.
    pub async fn opt_in(&self, name: &str) -> Result<()> {
        let label = ["label", "namespace", name, "portcullis.dev/dispatch=default"];
        self.world.manager.kubectl(&label).await?;
        self.await_gate(name).await
    }

    /// Policies need a moment until they know of a new namespace label: a dry-run create tells.
    pub async fn await_gate(&self, namespace: &str) -> Result<()> {
        let manifest = pod("probe", "");
        wait_for(
            "a dry-run create to come back gated",
            Duration::from_secs(30),
            async || {
                let answer = self
                    .world
                    .manager
                    .kubectl_with(
                        "admin",
                        &[
                            "create",
                            "-n",
                            namespace,
                            "--dry-run=server",
                            "-o",
                            "yaml",
                            "-f",
                            "-",
                        ],
                        &manifest,
                    )
                    .await?;
                let gated = answer.contains("portcullis.dev/multikueue");
                if gated {
                    Ok(Some(()))
                } else {
                    Err(anyhow::anyhow!("it came back without the gate"))
                }
            },
        )
        .await?;
        Ok(())
    }

    /// `kubectl get … -o jsonpath` on the manager.
    pub async fn get(&self, namespace: &str, object: &str, path: &str) -> Result<String> {
        self.world
            .manager
            .kubectl(&["get", "-n", namespace, object, "-o", &format!("jsonpath={path}")])
            .await
    }

    /// Waits until a field has this value on the manager.
    pub async fn await_field(&self, namespace: &str, object: &str, path: &str, value: &str) -> Result<()> {
        let what = format!("{path} of {namespace}/{object} to be {value:?}");
        wait_for(&what, Duration::from_secs(90), async || {
            let found = self.get(namespace, object, path).await?;
            if found == value {
                Ok(Some(()))
            } else {
                Err(anyhow::anyhow!("it is {found:?}"))
            }
        })
        .await?;
        Ok(())
    }
}

/// How a process under test is started; two at a time need two names.
pub fn options(world: &World, kubeconfig: &Path, name: &str) -> PortcullisOptions {
    PortcullisOptions {
        name: name.to_owned(),
        args: [
            "--log-level",
            "info,portcullis=debug",
            "--drain-timeout",
            "5s",
            "--config",
            CONFIGURATION,
        ]
        .map(str::to_owned)
        .to_vec(),
        ..PortcullisOptions::new(Path::new(BINARY), kubeconfig, world.folder())
    }
}

/// A pod with one container; `more` is added to its spec, as `key: value` lines in flow style.
pub fn pod(name: &str, more: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{containers: [{{name: main, image: app:1}}]{}{more}}}}}",
        if more.is_empty() { "" } else { ", " }
    )
}

/// What the program prints for an installation whose webhook is at this URL.
pub fn manifests(webhook_url: &str) -> Result<Manifests> {
    Ok(Manifests {
        crds: printed(&["crds"])?,
        manager: printed(&[
            "manifests",
            "--webhook-url",
            webhook_url,
            "--config",
            CONFIGURATION,
            "all",
        ])?,
        worker: printed(&["manifests", "--config", CONFIGURATION, "rbac-worker"])?,
    })
}

/// What the program prints.
pub fn printed(args: &[&str]) -> Result<String> {
    let output = Command::new(BINARY).args(args).output()?;
    ensure!(
        output.status.success(),
        "portcullis {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}
