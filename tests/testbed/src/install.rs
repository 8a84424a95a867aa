//! Portcullis on a world, as an administrator installs it: printed manifests -> identities, workers, a policy.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

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

/// What portcullis needs to start.
#[derive(Clone, Debug)]
pub struct Installed {
    /// Identity of its ServiceAccount on the manager.
    pub kubeconfig: PathBuf,
}

/// Applies the manifests, makes the identities and the objects: a Secret and a WorkerCluster for each
/// worker (through its proxy), and the DispatchPolicy `default` over all of them.
///
/// # Errors
/// Something was refused, with the server's words.
pub async fn install(world: &World, manifests: &Manifests) -> Result<Installed> {
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
        let name = worker.cluster.name();
        world
            .manager
            .apply(&worker_objects(name, &identity.via(worker.proxy.address())))
            .await?;
        names.push(name);
    }
    world.manager.apply(&policy(&names)).await?;
    let kubeconfig = world.folder().join("portcullis.kubeconfig");
    world
        .manager
        .service_account_kubeconfig(NAMESPACE, ACCOUNT)
        .await?
        .save(&kubeconfig)?;
    Ok(Installed { kubeconfig })
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
