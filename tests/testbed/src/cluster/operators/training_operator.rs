//! training-operator: `TFJob`, `PyTorchJob`, `XGBoostJob`, `PaddleJob` and `JAXJob` of `kubeflow.org/v1`.

use anyhow::Result;

use crate::ports::free_port;

use super::{Cluster, Crds, Operator, Part, gang_programs};

const ACCOUNT: (&str, &str) = ("kubeflow", "training-operator");
pub(super) const SECRET: (&str, &str) = ("kubeflow", "training-operator-webhook-cert");

/// Of the kind whose webhook is set up last.
pub(super) const PROBE: &str = "apiVersion: kubeflow.org/v1
kind: JAXJob
metadata: {name: probe, namespace: default}
spec:
  jaxReplicaSpecs:
    Worker: {replicas: 1, template: {spec: {containers: [{name: jax, image: jax}]}}}
";

impl Cluster {
    /// Installs and starts training-operator for all its kinds but MPIJob (v1), which is mpi-operator's, with its
    /// validating webhooks. More arguments for instance: `--gang-scheduler-name=coscheduling`.
    ///
    /// # Errors
    /// The build failed, something was refused, or it did not start.
    pub async fn start_training_operator(&self, more: &[&str]) -> Result<()> {
        self.install_crds(Crds::TrainingOperator).await?;
        let webhook = free_port()?;
        let installation = gang_programs().await?.installation("training-operator")?;
        self.apply(&super::webhook::at_port(&installation, &webhook))
            .await?;
        let mut launch = self
            .launch_of(Part::TrainingOperator, ACCOUNT, |kubeconfig| {
                let own = [
                    format!("--kubeconfig={kubeconfig}"),
                    "--metrics-bind-address=0".to_owned(),
                    "--health-probe-bind-address=0".to_owned(),
                    format!("--webhook-server-port={}", webhook.number()),
                    // The defaults (20 and 30) would be the bottleneck of a benchmark.
                    "--kube-api-qps=500".to_owned(),
                    "--kube-api-burst=1000".to_owned(),
                    // No such file: its own template.
                    "--pytorch-init-container-template-file=none".to_owned(),
                ];
                let kinds = ["tfjob", "pytorchjob", "xgboostjob", "paddlejob", "jaxjob"];
                let kinds = kinds.iter().map(|kind| format!("--enable-scheme={kind}"));
                let more = more.iter().map(|&arg| arg.to_owned());
                Ok(own.into_iter().chain(kinds).chain(more).collect())
            })
            .await?;
        // Ours, see training-operator/loopback.sed.
        let certs = self.certs_of(Part::TrainingOperator).display().to_string();
        launch.env.push(("TESTBED_CERT_DIR".to_owned(), certs));
        let operator = Operator {
            launch,
            ports: vec![webhook],
        };
        self.start_operator(Part::TrainingOperator, operator).await
    }
}
