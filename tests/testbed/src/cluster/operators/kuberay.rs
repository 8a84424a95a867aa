//! KubeRay: `RayJob`, `RayCluster` and `RayService` of `ray.io/v1`.

use anyhow::Result;

use crate::ports::free_port;

use super::{Cluster, Crds, Operator, Part, kind_programs};

const ACCOUNT: (&str, &str) = ("default", "kuberay-operator");

impl Cluster {
    /// Installs and starts `KubeRay`, without its webhook (which its authors do not install by default either). Nothing
    /// answers as Ray in pods that KWOK plays: a `RayJob` gets its cluster and its submitter, and stays `Running`.
    ///
    /// # Errors
    /// The build failed, something was refused, or it did not start.
    pub async fn start_kuberay(&self) -> Result<()> {
        self.install_crds(Crds::KubeRay).await?;
        self.apply(&kind_programs().await?.installation("kuberay")?)
            .await?;
        let health = free_port()?;
        let launch = self
            .launch_of(Part::KubeRay, ACCOUNT, |kubeconfig| {
                Ok(vec![
                    format!("--kubeconfig={kubeconfig}"),
                    format!("--health-probe-bind-address={}", health.address()),
                    "--metrics-addr=0".to_owned(),
                    "--enable-leader-election=false".to_owned(),
                ])
            })
            .await?;
        let operator = Operator {
            launch,
            ports: vec![health],
        };
        self.start_operator(Part::KubeRay, operator).await
    }
}
