//! A manager and its workers, each behind a proxy.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::cluster::{Cluster, ClusterOptions};
use crate::proxy::Proxy;
use crate::run_folder::new_run_folder;
use crate::wait::wait_for;

/// Clusters for one test, or for the tests of one binary. Ends all when dropped.
#[derive(Debug)]
pub struct World {
    pub manager: Cluster,
    /// `worker-a`, `worker-b`, …
    pub workers: Vec<Worker>,
    folder: PathBuf,
}

/// A worker cluster and the way to it.
#[derive(Debug)]
pub struct Worker {
    pub cluster: Cluster,
    /// Portcullis reaches the API server through here, the tests go straight to it.
    pub proxy: Proxy,
}

impl World {
    /// Starts a manager and `workers` workers side by side.
    ///
    /// # Errors
    /// A cluster did not start.
    pub async fn start(workers: usize) -> Result<Self> {
        Self::start_with(workers, |_| {}).await
    }

    /// As [`Self::start`]; `adjust` may change the options of each cluster.
    ///
    /// # Errors
    /// A cluster did not start.
    pub async fn start_with(workers: usize, adjust: impl Fn(&mut ClusterOptions)) -> Result<Self> {
        Self::start_in(new_run_folder()?, workers, adjust).await
    }

    /// As [`Self::start_with`], with logs and data in `folder`.
    ///
    /// # Errors
    /// A cluster did not start.
    pub async fn start_in(
        folder: PathBuf,
        workers: usize,
        adjust: impl Fn(&mut ClusterOptions),
    ) -> Result<Self> {
        let names = (b'a'..=b'z')
            .take(workers)
            .map(|letter| format!("worker-{}", char::from(letter)));
        let clusters = std::iter::once("manager".to_owned()).chain(names).map(|name| {
            let mut options = ClusterOptions {
                folder: Some(folder.clone()),
                ..ClusterOptions::named(&name)
            };
            adjust(&mut options);
            Cluster::start(options)
        });
        let mut clusters = try_join_all(clusters).await?.into_iter();
        let manager = clusters.next().context("a world has a manager")?;
        let with_proxy = |cluster: Cluster| {
            Ok(Worker {
                proxy: Proxy::start(cluster.server())?,
                cluster,
            })
        };
        let workers = clusters.map(with_proxy).collect::<Result<_>>()?;
        Ok(Self {
            manager,
            workers,
            folder,
        })
    }

    /// Where all logs of this world lie.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The manager and all workers.
    pub fn clusters(&self) -> impl Iterator<Item = &Cluster> {
        std::iter::once(&self.manager).chain(self.workers.iter().map(|worker| &worker.cluster))
    }

    /// Heals the ways to all workers.
    pub fn heal(&self) {
        self.workers.iter().for_each(|worker| worker.proxy.pass());
    }
}

impl Drop for World {
    /// All clusters at once; each then waits for its own programs.
    fn drop(&mut self) {
        self.clusters().for_each(Cluster::begin_end);
    }
}

impl Cluster {
    /// Makes a namespace with these labels and waits for its ServiceAccount `default`, without which a pod is refused.
    ///
    /// # Errors
    /// It was refused, or the ServiceAccount did not come.
    pub async fn create_namespace(&self, name: &str, labels: &[(&str, &str)]) -> Result<()> {
        let client = self.admin_client().await?;
        let labels: serde_json::Map<_, _> = labels
            .iter()
            .map(|&(key, value)| (key.to_owned(), json!(value)))
            .collect();
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}}))?;
        Api::all(client.clone())
            .create(&PostParams::default(), &namespace)
            .await
            .context("create namespace")?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client, name);
        let what = format!("ServiceAccount default of {name}");
        wait_for(&what, Duration::from_secs(60), async || {
            accounts.get_opt("default").await
        })
        .await?;
        Ok(())
    }

    /// Lets a user edit a namespace: the ClusterRole `edit`, as people have it in production.
    ///
    /// # Errors
    /// The binding was refused.
    pub async fn grant_edit(&self, user: &str, namespace: &str) -> Result<()> {
        let binding: RoleBinding = serde_json::from_value(json!({
            "metadata": {"name": format!("edit-{}", user.replace(':', "-"))},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        }))?;
        let bindings: Api<RoleBinding> = Api::namespaced(self.admin_client().await?, namespace);
        bindings
            .create(&PostParams::default(), &binding)
            .await
            .context("bind the role edit")?;
        Ok(())
    }

    /// Waits until a pod has this phase.
    ///
    /// # Errors
    /// It did not within `timeout`.
    pub async fn await_phase(
        &self,
        namespace: &str,
        pod: &str,
        phase: &str,
        timeout: Duration,
    ) -> Result<Pod> {
        let pods: Api<Pod> = Api::namespaced(self.admin_client().await?, namespace);
        let what = format!("pod {namespace}/{pod} on {} to be {phase}", self.name());
        wait_for(&what, timeout, async || {
            let found = pods.get(pod).await?;
            let now = found
                .status
                .as_ref()
                .and_then(|status| status.phase.clone())
                .unwrap_or_default();
            if now == phase {
                Ok(Some(found))
            } else {
                Err(anyhow::anyhow!("it is {now}"))
            }
        })
        .await
    }
}
