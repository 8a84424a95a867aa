//! The world that all tests share: three clusters, portcullis installed and running.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use portcullis_testbed::{Manifests, Portcullis, PortcullisOptions, Route, World, install, suite, wait_for};
use serde_json::json;
use tokio::sync::{Mutex, OnceCell};

use crate::sides::{At, plain, uid};
use crate::third::Third;

/// A test on these clusters.
pub type Case = suite::Case<Rig>;

/// The world, and the process under test.
pub struct Rig {
    /// The clusters.
    pub world: World,
    /// Portcullis; whoever stops it starts it again.
    pub portcullis: Mutex<Portcullis>,
    /// Kubeconfig of portcullis on the manager: its ServiceAccount.
    pub kubeconfig: PathBuf,
    /// A worker more, for the cases that need one.
    pub third: Third,
    /// Set when the operators of jobs run on the manager and on worker-a.
    pub operators: OnceCell<()>,
}

/// The program under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_portcullis");

/// Its configuration: kinds that these tests make up.
pub const CONFIGURATION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/kinds.yaml");

impl suite::Rig for Rig {
    async fn start() -> Result<Self> {
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
            third: Third::default(),
            operators: OnceCell::new(),
        };
        rig.await_workers().await?;
        Ok(rig)
    }

    /// Links are whole, our process runs, and both workers take pods.
    async fn recover(&self) -> Result<()> {
        self.world.heal();
        let mut portcullis = self.portcullis.lock().await;
        portcullis.sigcont();
        if !portcullis.is_running() {
            portcullis.start().await?;
        }
        drop(portcullis);
        for (at, worker) in [(At::A, "worker-a"), (At::B, "worker-b")] {
            self.patch(
                At::Manager,
                "",
                &format!("workercluster/{worker}"),
                json!({"spec": {"cordoned": false}}),
            )
            .await?;
            let probe = format!("probe-{worker}");
            if self
                .find(At::Manager, "", &format!("namespace/{probe}"))
                .await?
                .is_none()
            {
                self.opted_in_to(
                    &probe,
                    json!({"clusters": [worker], "namespaces": {"create": true}}),
                )
                .await?;
            }
            self.create(At::Manager, &probe, plain("probe")).await?;
            let local = self.until_ready(&probe, "probe").await?;
            self.delete(At::Manager, &probe, "pod/probe").await?;
            self.until_gone(At::Manager, &probe, "pod/probe", &uid(&local))
                .await?;
            ensure!(
                self.find(at, &probe, "pod/probe").await?.is_none(),
                "its copy is left over"
            );
        }
        self.await_workers().await
    }

    fn folder(&self) -> &Path {
        self.world.folder()
    }
}

impl Rig {
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
