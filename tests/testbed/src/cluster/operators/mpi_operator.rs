//! mpi-operator: `MPIJob` of `kubeflow.org/v2beta1`.

use anyhow::{Context, Result};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams};

use crate::ports::free_port;
use crate::wait::wait_for;

use super::super::bring_up::PATIENCE;
use super::{Cluster, Crds, Operator, Part, gang_programs};

const ACCOUNT: (&str, &str) = ("mpi-operator", "mpi-operator");

impl Cluster {
    /// Installs and starts mpi-operator. More arguments for instance: `-gang-scheduling=coscheduling`.
    ///
    /// # Errors
    /// The build failed, something was refused, or it did not start.
    pub async fn start_mpi_operator(&self, more: &[&str]) -> Result<()> {
        self.install_crds(Crds::MpiOperator).await?;
        self.apply(&gang_programs().await?.installation("mpi-operator")?)
            .await?;
        let health = free_port()?;
        let mut launch = self
            .launch_of(Part::MpiOperator, ACCOUNT, |kubeconfig| {
                let own = [
                    format!("-kubeConfig={kubeconfig}"),
                    format!("-lock-namespace={}", ACCOUNT.0),
                    // The defaults (5 and 10, and 10 for its queue) would be the bottleneck of a benchmark.
                    "-kube-api-qps=500".to_owned(),
                    "-kube-api-burst=1000".to_owned(),
                    "-controller-queue-rate-limit=500".to_owned(),
                    "-controller-queue-burst=1000".to_owned(),
                ];
                let more = more.iter().map(|&arg| arg.to_owned());
                Ok(own.into_iter().chain(more).collect())
            })
            .await?;
        // Ours, see mpi-operator/loopback.sed.
        launch
            .env
            .push(("TESTBED_HEALTH_ADDRESS".to_owned(), health.address().to_string()));
        let operator = Operator {
            launch,
            ports: vec![health],
        };
        self.start_operator(Part::MpiOperator, operator).await
    }

    /// It does not release its lease at its end; the next one would wait for 300 s.
    pub(in super::super) async fn forget_mpi_lease(&self) -> Result<()> {
        let leases = self.mpi_leases().await?;
        match leases.delete(ACCOUNT.1, &DeleteParams::default()).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error).context("forget the lease of mpi-operator"),
        }
    }

    /// It leads, so it works.
    pub(super) async fn await_mpi_lease(&self) -> Result<()> {
        let leases = self.mpi_leases().await?;
        wait_for("mpi-operator to lead", PATIENCE, async || {
            self.still_runs(Part::MpiOperator)?;
            let lease = leases.get_opt(ACCOUNT.1).await?;
            let holder = lease
                .and_then(|lease| lease.spec)
                .and_then(|spec| spec.holder_identity);
            Ok::<_, anyhow::Error>(holder.filter(|holder| !holder.is_empty()))
        })
        .await?;
        Ok(())
    }

    async fn mpi_leases(&self) -> Result<Api<Lease>> {
        Ok(Api::namespaced(self.admin_client().await?, ACCOUNT.0))
    }
}
