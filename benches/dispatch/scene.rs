//! Three clusters with portcullis installed, namespaces full of gated pods, and how they are emptied again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use http::Method;
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams};
use portcullis::names;
use portcullis::pod::sanitize::NamespaceOwner;
use portcullis_testbed::{
    Kubeconfig, Manifests, Portcullis, PortcullisOptions, Route, World, install, wait_for,
};
use serde_json::{Value, json};

use crate::bare::Pair;
use crate::line::{JSON, Line, OBJECT};

const BINARY: &str = env!("CARGO_BIN_EXE_portcullis");
const PATIENCE: Duration = Duration::from_secs(120);
/// Lines that fill and empty namespaces.
const LANES: usize = 16;

/// Everything that a measurement stands on.
pub(crate) struct Scene {
    pub(crate) world: World,
    /// One process for each number of pods in flight, none of them running between measurements.
    pub(crate) portcullis: Vec<(usize, Portcullis)>,
    /// The ServiceAccount `portcullis` on the manager and on worker-a.
    pub(crate) identities: [Kubeconfig; 2],
    pub(crate) manager: Client,
    pub(crate) worker: Client,
    pub(crate) origin: String,
    pub(crate) cluster_uid: String,
    namespaces: usize,
}

/// A namespace on both sides, opted in to a policy of the same name.
pub(crate) struct Space {
    pub(crate) name: String,
    /// UID of the worker's namespace.
    uid: String,
}

impl Scene {
    pub(crate) async fn start(in_flight: &[usize]) -> Result<Self> {
        let world = World::start(2).await?;
        let kubeconfig = world.folder().join("portcullis.kubeconfig");
        let portcullis = in_flight
            .iter()
            .map(|&lanes| Ok((lanes, Portcullis::new(options(&world, &kubeconfig, lanes))?)))
            .collect::<Result<Vec<_>>>()?;
        let webhook = portcullis
            .last()
            .context("somebody must be measured")?
            .1
            .webhook();
        let manifests = Manifests::printed_by(Path::new(BINARY), webhook).await?;
        install(&world, &manifests, Route::Direct).await?;
        let first = &world.workers[0].cluster;
        let account = (names::NAMESPACE, names::PORTCULLIS);
        let identities = [
            world
                .manager
                .service_account_kubeconfig(account.0, account.1)
                .await?,
            first.service_account_kubeconfig(account.0, account.1).await?,
        ];
        let (manager, worker) = (world.manager.admin_client().await?, first.admin_client().await?);
        Ok(Self {
            origin: namespace_uid(&manager, "kube-system").await?,
            cluster_uid: namespace_uid(&worker, "kube-system").await?,
            world,
            portcullis,
            identities,
            manager,
            worker,
            namespaces: 0,
        })
    }

    /// A new namespace whose pods are born gated. Its policy does not exist yet.
    pub(crate) async fn space(&mut self) -> Result<Space> {
        self.namespaces += 1;
        let name = format!("bench-{}", self.namespaces);
        let there = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "annotations": {names::ACCEPTS: format!("{}/{name}", self.origin)}},
        });
        let worker = &self.world.workers[0].cluster;
        worker.apply(&there.to_string()).await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(self.worker.clone(), &name);
        wait_for("the worker's ServiceAccount", PATIENCE, async || {
            accounts.get_opt("default").await
        })
        .await?;
        self.world
            .manager
            .create_namespace(&name, &[(names::DISPATCH, name.as_str())])
            .await?;
        let mut admin = Line::open(&self.world.manager.kubeconfig_for("admin")).await?;
        let dry = format!("/api/v1/namespaces/{name}/pods?dryRun=All");
        wait_for("pods to be born gated", PATIENCE, async || {
            let answer = admin
                .call(Method::POST, &dry, OBJECT, pod("probe").to_string())
                .await?;
            let gated = String::from_utf8_lossy(&answer).contains(names::GATE);
            Ok::<_, anyhow::Error>(gated.then_some(()))
        })
        .await?;
        Ok(Space {
            uid: namespace_uid(&self.worker, &name).await?,
            name,
        })
    }

    /// The namespace's policy: all pods to worker-a.
    pub(crate) async fn create_policy(&self, space: &Space) -> Result<()> {
        let policy = json!({
            "apiVersion": "portcullis.dev/v1alpha1", "kind": "DispatchPolicy",
            "metadata": {"name": space.name}, "spec": {"clusters": ["worker-a"]},
        });
        let mut admin = Line::open(&self.world.manager.kubeconfig_for("admin")).await?;
        let path = "/apis/portcullis.dev/v1alpha1/dispatchpolicies";
        admin.call(Method::POST, path, OBJECT, policy.to_string()).await?;
        Ok(())
    }

    /// So many gated pods, each its own workload.
    pub(crate) async fn fill(&self, space: &Space, pods: usize) -> Result<()> {
        let names: Vec<String> = (0..pods).map(|number| format!("pod-{number}")).collect();
        let admin = self.world.manager.kubeconfig_for("admin");
        let path = format!("/api/v1/namespaces/{}/pods", space.name);
        let fill = names.chunks(pods.div_ceil(LANES)).map(async |names| {
            let mut line = Line::open(&admin).await?;
            for name in names {
                line.call(Method::POST, &path, OBJECT, pod(name).to_string())
                    .await?;
            }
            Ok::<_, anyhow::Error>(())
        });
        try_join_all(fill).await?;
        Ok(())
    }

    /// What the bare client needs of each pod of the namespace.
    pub(crate) async fn pairs(&self, space: &Space) -> Result<Vec<Pair>> {
        let path = format!("/api/v1/namespaces/{}/pods", space.name);
        let mut admin = Line::open(&self.world.manager.kubeconfig_for("admin")).await?;
        let list = admin.call(Method::GET, &path, OBJECT, "").await?;
        let list: Value = serde_json::from_slice(&list)?;
        let pods = list["items"].as_array().context("a list has items")?;
        let owner = NamespaceOwner {
            name: &space.name,
            uid: &space.uid,
        };
        pods.iter()
            .map(|local| Pair::of(local, &self.origin, owner))
            .collect()
    }

    /// Removes all pods of the namespace on both sides. Nobody of ours must be running.
    pub(crate) async fn empty(&self, space: &Space) -> Result<()> {
        let remotes: Api<Pod> = Api::namespaced(self.worker.clone(), &space.name);
        let locals: Api<Pod> = Api::namespaced(self.manager.clone(), &space.name);
        let (all, at_once) = (ListParams::default(), DeleteParams::default().grace_period(0));
        remotes.delete_collection(&at_once, &all).await?;
        locals.delete_collection(&at_once, &all).await?;
        let admin = self.world.manager.kubeconfig_for("admin");
        let held: Vec<String> = locals
            .list_metadata(&all)
            .await?
            .items
            .into_iter()
            .filter_map(|pod| pod.metadata.name)
            .collect();
        let release = held.chunks(held.len().div_ceil(LANES).max(1)).map(async |names| {
            let mut line = Line::open(&admin).await?;
            for name in names {
                let path = format!("/api/v1/namespaces/{}/pods/{name}", space.name);
                let patch = json!([{"op": "remove", "path": "/metadata/finalizers"}]).to_string();
                line.call(Method::PATCH, &path, JSON, patch).await?;
            }
            Ok::<_, anyhow::Error>(())
        });
        try_join_all(release).await?;
        wait_for("the namespace to be empty", PATIENCE, async || {
            let left = locals.list_metadata(&all).await?.items.len()
                + remotes.list_metadata(&all).await?.items.len();
            ensure!(left == 0, "{left} pods are left");
            Ok::<_, anyhow::Error>(Some(()))
        })
        .await
    }
}

fn options(world: &World, kubeconfig: &Path, lanes: usize) -> PortcullisOptions {
    let args = [
        format!("--concurrent-pods={lanes}"),
        "--drain-timeout=1s".to_owned(),
    ];
    let mut options = PortcullisOptions {
        name: format!("portcullis-{lanes}"),
        args: args.into(),
        ..PortcullisOptions::new(Path::new(BINARY), kubeconfig, world.folder())
    };
    if let Some(more) = std::env::var_os("PORTCULLIS_LOG") {
        options
            .env
            .push(("PORTCULLIS_LOG".to_owned(), more.to_string_lossy().into_owned()));
    }
    options
}

pub(crate) async fn namespace_uid(client: &Client, name: &str) -> Result<String> {
    let namespace = Api::<Namespace>::all(client.clone()).get(name).await?;
    namespace.metadata.uid.context("a namespace has a UID")
}

/// A small pod of the usual shape.
pub(crate) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "bench", "tier": "batch"}},
        "spec": {
            "containers": [{
                "name": "main", "image": "app:1", "command": ["/app", "--serve"],
                "env": [{"name": "LEVEL", "value": "info"}, {"name": "ZONE", "value": "a"}],
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
            }],
        },
    })
}

/// Folder of logs, for whoever looks for a reason.
pub(crate) fn folder(scene: &Scene) -> PathBuf {
    scene.world.folder().to_owned()
}
