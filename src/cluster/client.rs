//! Clients: one for short calls with a deadline, one for watches without.

use std::path::PathBuf;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::api::ClusterApi;
use super::kubeconfig;

/// A short call that has no answer by then counts as unanswered.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The two clients of one cluster. They share nothing with those of another (R44).
#[derive(Clone)]
pub struct Clients {
    /// For calls with a deadline.
    pub calls: ClusterApi,
    /// For watches; the watcher has an idle timeout of its own.
    pub watches: Client,
}

/// The clients cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The file cannot be read.
    #[error("read {path}")]
    File {
        /// The kubeconfig.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The kubeconfig leads nowhere, or would run a program, read a file, or send a secret in clear.
    #[error(transparent)]
    Bad(#[from] kubeconfig::BadKubeconfig),
    /// The kubeconfig does not lead to a cluster.
    #[error("read kubeconfig")]
    Config(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// TLS set-up failed.
    #[error("build client")]
    Build(#[source] Box<kube::Error>),
}

impl Clients {
    /// Clients of a cluster by its (checked) kubeconfig.
    ///
    /// # Errors
    /// If certificates or keys in it cannot be read.
    pub async fn from_kubeconfig(kubeconfig: Kubeconfig) -> Result<Self, ClientError> {
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .map_err(|error| ClientError::Config(error.into()))?;
        Self::from_config(config)
    }

    /// Clients of the cluster that this process serves: a kubeconfig file, or the pod's ServiceAccount.
    ///
    /// # Errors
    /// If neither can be read.
    pub async fn of_manager(kubeconfig: Option<&std::path::Path>) -> Result<Self, ClientError> {
        let config = match kubeconfig {
            Some(path) => {
                let unreadable = |source| ClientError::File {
                    path: path.to_owned(),
                    source,
                };
                let bytes = std::fs::read(path).map_err(unreadable)?;
                return Self::from_kubeconfig(kubeconfig::parse(&bytes)?).await;
            }
            None => Config::incluster().map_err(|error| ClientError::Config(error.into()))?,
        };
        Self::from_config(config)
    }

    fn from_config(mut config: Config) -> Result<Self, ClientError> {
        config.default_retry = false; // retries are ours: a POST must not be repeated unseen
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.read_timeout = None;
        let watches = build(config.clone())?;
        config.read_timeout = Some(CALL_TIMEOUT);
        config.write_timeout = Some(CALL_TIMEOUT);
        config.reset_reader_on_write = true;
        Ok(Self {
            calls: ClusterApi::new(build(config)?),
            watches,
        })
    }
}

fn build(config: Config) -> Result<Client, ClientError> {
    Client::try_from(config).map_err(|error| ClientError::Build(Box::new(error)))
}
