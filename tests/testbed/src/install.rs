//! Portcullis on a world, as an administrator installs it: printed manifests -> identities, workers, a policy.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use tokio::process::Command;

use crate::cluster::Cluster;
use crate::kubeconfig::Kubeconfig;
use crate::wait::wait_for;
use crate::world::World;

/// Where portcullis lives on every cluster; its ServiceAccount has its name.
const NAMESPACE: &str = "portcullis-system";
const ACCOUNT: &str = "portcullis";

/// What `portcullis crds` and `portcullis manifests …` print.
#[derive(Clone, Debug, Default)]
pub struct Manifests {
    pub crds: String,
    /// Policies, webhook configurations and RBAC.
    pub manager: String,
    /// RBAC of one of the two worker roles.
    pub worker: String,
}

impl Manifests {
    /// What this binary prints for a webhook at `webhook` and workers whose namespaces we create.
    ///
    /// # Errors
    /// It cannot be run, or fails.
    pub async fn printed_by(binary: &Path, webhook: SocketAddr) -> Result<Self> {
        Self::printed_with(binary, webhook, &[]).await
    }

    /// As [`Self::printed_by`], with more options of `portcullis manifests`.
    ///
    /// # Errors
    /// It cannot be run, or fails.
    pub async fn printed_with(binary: &Path, webhook: SocketAddr, options: &[&str]) -> Result<Self> {
        let url = format!("--webhook-url=https://{webhook}");
        let part = |part: &'static str| {
            let args = ["manifests", part, &url]
                .into_iter()
                .chain(options.iter().copied());
            print(binary, args.map(str::to_owned).collect())
        };
        let mut manager = String::new();
        for name in ["rbac-manager", "policies", "webhooks"] {
            manager += &format!("---\n{}\n", part(name).await?);
        }
        let crds = print(binary, vec!["crds".to_owned()]).await?;
        Ok(Self {
            crds,
            manager,
            worker: part("rbac-worker").await?,
        })
    }
}

async fn print(binary: &Path, args: Vec<String>) -> Result<String> {
    let what = format!("{} {}", binary.display(), args.join(" "));
    let output = Command::new(binary)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .await;
    let output = output.with_context(|| format!("run {what}"))?;
    if !output.status.success() {
        bail!("{what}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// How portcullis reaches the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Through each worker's proxy, so that a test can disturb it. Ends with this process.
    Proxy,
    Direct,
}

/// Applies the manifests, makes the identities and the objects: a Secret and a WorkerCluster for each worker,
/// and the DispatchPolicy `default` over all of them (if there are any), which creates namespaces. Answers the kubeconfig of
/// portcullis, with the identity of its ServiceAccount on the manager.
///
/// # Errors
/// Something was refused, with the server's words.
pub async fn install(world: &World, manifests: &Manifests, route: Route) -> Result<PathBuf> {
    for cluster in world.clusters() {
        cluster.apply(&identity()).await?;
    }
    world.manager.apply(&manifests.crds).await?;
    await_crds(&world.manager).await?;
    world.manager.apply(&manifests.manager).await?;
    let mut names = Vec::new();
    for worker in &world.workers {
        worker.cluster.apply(&manifests.worker).await?;
        let identity = worker
            .cluster
            .service_account_kubeconfig(NAMESPACE, ACCOUNT)
            .await?;
        let identity = match route {
            Route::Proxy => identity.via(worker.proxy.address()),
            Route::Direct => identity,
        };
        let name = worker.cluster.name();
        world.manager.apply(&worker_objects(name, &identity)).await?;
        names.push(name);
    }
    if !names.is_empty() {
        world.manager.apply(&policy(&names)).await?;
    }
    let kubeconfig = world.folder().join("portcullis.kubeconfig");
    world
        .manager
        .service_account_kubeconfig(NAMESPACE, ACCOUNT)
        .await?
        .save(&kubeconfig)?;
    Ok(kubeconfig)
}

fn identity() -> String {
    format!(
        "apiVersion: v1
kind: Namespace
metadata: {{name: {NAMESPACE}}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {{name: {ACCOUNT}, namespace: {NAMESPACE}}}
"
    )
}

fn worker_objects(name: &str, identity: &Kubeconfig) -> String {
    let kubeconfig = BASE64_STANDARD.encode(identity.text());
    format!(
        "apiVersion: v1
kind: Secret
metadata: {{name: {name}, namespace: {NAMESPACE}}}
data: {{kubeconfig: {kubeconfig}}}
---
apiVersion: portcullis.dev/v1alpha1
kind: WorkerCluster
metadata: {{name: {name}}}
spec:
  kubeconfigSecretRef: {{name: {name}, key: kubeconfig}}
"
    )
}

fn policy(workers: &[&str]) -> String {
    format!(
        "apiVersion: portcullis.dev/v1alpha1
kind: DispatchPolicy
metadata: {{name: default}}
spec:
  clusters: [{}]
  namespaces: {{create: true}}
",
        workers.join(", ")
    )
}

/// Waits until the kinds of the CRDs are served.
async fn await_crds(manager: &Cluster) -> Result<()> {
    wait_for(
        "the kinds of portcullis.dev",
        Duration::from_secs(30),
        async || {
            let served = manager
                .kubectl(&["api-resources", "--api-group=portcullis.dev", "-o=name"])
                .await?;
            let both = ["workerclusters", "dispatchpolicies"]
                .iter()
                .all(|kind| served.contains(kind));
            Ok::<_, anyhow::Error>(both.then_some(()))
        },
    )
    .await
}
