//! kube-scheduler with the Coscheduling plugin, as a second scheduler named `coscheduling`.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::ports::free_port;

use super::{Cluster, Crds, Operator, Part};

const ACCOUNT: (&str, &str) = ("scheduler-plugins", "scheduler-plugins-scheduler");

impl Cluster {
    /// Installs `PodGroup` of `scheduling.x-k8s.io` and starts the scheduler `coscheduling`. It takes pods with that
    /// `schedulerName` and binds those labelled `scheduling.x-k8s.io/pod-group` as a whole.
    ///
    /// # Errors
    /// The build failed, something was refused, or it did not start.
    pub async fn start_coscheduler(&self) -> Result<()> {
        self.install_crds(Crds::Coscheduling).await?;
        self.apply(include_str!("coscheduler.yaml")).await?;
        let port = free_port()?;
        let launch = self
            .launch_of(Part::Coscheduler, ACCOUNT, |kubeconfig| {
                let config = self.configure(Part::Coscheduler, &configuration(kubeconfig))?;
                Ok(vec![
                    format!("--config={config}"),
                    format!("--secure-port={}", port.number()),
                    "--bind-address=127.0.0.1".to_owned(),
                    // A group that the plugin has rejected may miss that a node was added (the plugin asks for no
                    // events of nodes) and then waits for so long; the default is five minutes. Looked at every 30 s.
                    "--pod-max-in-unschedulable-pods-duration=5s".to_owned(),
                    format!("--cert-dir={}", self.folder.join("certs-coscheduler").display()),
                ])
            })
            .await?;
        let operator = Operator {
            launch,
            ports: vec![port],
        };
        self.start_operator(Part::Coscheduler, operator).await
    }
}

/// The scheduler of 1.34 that the plugin is built with loses a pod for good now and then when many pods of a group are put
/// back at once: it logs "The same pod is tracked in multiple places in the scheduler, and just discard it", and its group
/// waits for ever. An update of the pod brings it back.
#[derive(Debug)]
pub struct Reminder<'a> {
    cluster: &'a Cluster,
    namespace: &'a str,
    selector: &'a str,
    last: Instant,
}

impl<'a> Reminder<'a> {
    /// For the pods of one group.
    #[must_use]
    pub fn new(cluster: &'a Cluster, namespace: &'a str, selector: &'a str) -> Self {
        Self {
            cluster,
            namespace,
            selector,
            last: Instant::now(),
        }
    }

    /// While a test waits for them: annotates them anew, once in a while.
    ///
    /// # Errors
    /// The API server refused it.
    pub async fn look(&mut self) -> Result<()> {
        const PAUSE: Duration = Duration::from_secs(20);
        if self.last.elapsed() < PAUSE {
            return Ok(());
        }
        self.last = Instant::now();
        let mark = format!("testbed/reminded={}", jiff::Timestamp::now());
        let pods = ["annotate", "pods", "-n", self.namespace, "-l", self.selector];
        let args = [&pods[..], &["--overwrite", &mark]].concat();
        self.cluster.kubectl(&args).await.map(drop)
    }
}

/// Waits and back-offs are short: a test does not want to sit out those of production.
fn configuration(kubeconfig: &str) -> String {
    format!(
        "apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: false}}
clientConnection: {{kubeconfig: {kubeconfig}, qps: 500, burst: 1000}}
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 2
profiles:
- schedulerName: coscheduling
  plugins:
    multiPoint: {{enabled: [{{name: Coscheduling}}]}}
    queueSort: {{enabled: [{{name: Coscheduling}}], disabled: [{{name: '*'}}]}}
  pluginConfig:
  - {{name: Coscheduling, args: {{permitWaitingTimeSeconds: 10}}}}
"
    )
}
