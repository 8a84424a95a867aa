//! A third cluster for the cases that need one of their own: other rights, a restored backup, a registration that goes.

use anyhow::Result;
use portcullis_testbed::{Cluster, ClusterOptions, Proxy};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::rig::{CONFIGURATION, Rig, printed};
use crate::sides::{At, condition};

/// The cluster `worker-c`, once a case has started it.
#[derive(Default)]
pub struct Third(OnceCell<Started>);

struct Started {
    cluster: Cluster,
    proxy: Proxy,
}

impl Third {
    pub fn cluster(&self) -> &Cluster {
        &self.started().cluster
    }

    fn started(&self) -> &Started {
        self.0.get().expect("Rig::third started it")
    }
}

impl Rig {
    /// Starts `worker-c` at the first call, with the cluster-wide role; registers nothing.
    pub async fn third(&self) -> Result<&Cluster> {
        let third = self
            .third
            .0
            .get_or_try_init(async || {
                let folder = Some(self.world.folder().to_owned());
                let cluster = Cluster::start(ClusterOptions {
                    folder,
                    ..ClusterOptions::named("worker-c")
                })
                .await?;
                anyhow::Ok(Started {
                    proxy: Proxy::start(cluster.server())?,
                    cluster,
                })
            })
            .await?;
        third
            .cluster
            .apply(&printed(&[
                "manifests",
                "--config",
                CONFIGURATION,
                "rbac-worker",
            ])?)
            .await?;
        Ok(&third.cluster)
    }

    /// A Secret with worker-c's kubeconfig for this ServiceAccount, and the WorkerCluster `worker-c`.
    pub async fn register_third(&self) -> Result<()> {
        let third = self.third.started();
        let identity = third
            .cluster
            .service_account_kubeconfig("portcullis-system", "portcullis")
            .await?;
        self.register("worker-c", &identity.via(third.proxy.address()).text())
            .await
    }

    /// Registers whatever this kubeconfig leads to.
    pub async fn register(&self, name: &str, kubeconfig: &str) -> Result<()> {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"kubeconfig": kubeconfig},
        });
        self.create_or_patch("portcullis-system", &format!("secret/{name}"), secret)
            .await?;
        let cluster = json!({
            "apiVersion": "portcullis.dev/v1alpha1", "kind": "WorkerCluster", "metadata": {"name": name},
            "spec": {"kubeconfigSecretRef": {"name": name, "key": "kubeconfig"}},
        });
        self.create_or_patch("", &format!("workercluster/{name}"), cluster)
            .await
    }

    /// A case that failed may have left it there.
    async fn create_or_patch(&self, namespace: &str, object: &str, content: Value) -> Result<()> {
        match self.find(At::Manager, namespace, object).await? {
            Some(_) => self
                .patch(At::Manager, namespace, object, content)
                .await
                .map(drop),
            None => self.create(At::Manager, namespace, content).await.map(drop),
        }
    }

    /// Takes a registration back, and waits until it is gone.
    pub async fn unregister(&self, name: &str) -> Result<()> {
        let object = format!("workercluster/{name}");
        if let Some(cluster) = self.find(At::Manager, "", &object).await? {
            self.delete(At::Manager, "", &object).await?;
            self.until_gone(At::Manager, "", &object, &crate::sides::uid(&cluster))
                .await?;
        }
        if self
            .find(At::Manager, "portcullis-system", &format!("secret/{name}"))
            .await?
            .is_some()
        {
            self.delete(At::Manager, "portcullis-system", &format!("secret/{name}"))
                .await?;
        }
        Ok(())
    }

    /// Waits until a WorkerCluster's condition Ready has this reason and these words.
    pub async fn until_cluster(&self, name: &str, reason: &str, words: &str) -> Result<Value> {
        self.until(
            At::Manager,
            "",
            &format!("workercluster/{name}"),
            &format!("{reason}: …{words}…"),
            |cluster| {
                let ready = condition(cluster, "Ready");
                ready["reason"] == reason && ready["message"].as_str().unwrap_or_default().contains(words)
            },
        )
        .await
    }
}
