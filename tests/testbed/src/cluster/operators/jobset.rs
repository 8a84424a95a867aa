//! JobSet: `JobSet` of `jobset.x-k8s.io/v1alpha2`.

use anyhow::Result;

use crate::ports::{Port, free_port};

use super::{Cluster, Crds, Operator, Part, gang_programs};

const ACCOUNT: (&str, &str) = ("jobset-system", "jobset-controller-manager");
pub(super) const SECRET: (&str, &str) = ("jobset-system", "jobset-webhook-server-cert");

pub(super) const PROBE: &str = "apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: probe, namespace: default}
spec:
  replicatedJobs:
  - name: a
    template: {spec: {template: {spec: {containers: [{name: a, image: a}], restartPolicy: Never}}}}
";

impl Cluster {
    /// Installs and starts the controller of JobSets with its webhooks.
    ///
    /// # Errors
    /// The build failed, something was refused, or it did not start.
    pub async fn start_jobset(&self) -> Result<()> {
        self.install_crds(Crds::JobSet).await?;
        let (webhook, health) = (free_port()?, free_port()?);
        let installation = gang_programs().await?.installation("jobset")?;
        self.apply(&super::webhook::at_port(&installation, &webhook))
            .await?;
        let certs = self.certs_of(Part::JobSet).display().to_string();
        let config = self.configure(Part::JobSet, &configuration(&webhook, &health, &certs))?;
        let mut launch = self
            .launch_of(Part::JobSet, ACCOUNT, |kubeconfig| {
                Ok(vec![
                    format!("--config={config}"),
                    format!("--kubeconfig={kubeconfig}"),
                ])
            })
            .await?;
        // Ours, see jobset/loopback.sed.
        launch.env.push(("TESTBED_CERT_DIR".to_owned(), certs));
        let operator = Operator {
            launch,
            ports: vec![webhook, health],
        };
        self.start_operator(Part::JobSet, operator).await
    }
}

fn configuration(webhook: &Port, health: &Port, certs: &str) -> String {
    format!(
        "apiVersion: config.jobset.x-k8s.io/v1alpha1
kind: Configuration
leaderElection: {{leaderElect: false}}
internalCertManagement: {{enable: true}}
webhook: {{host: 127.0.0.1, port: {}, certDir: {certs}}}
metrics: {{bindAddress: '0'}}
health: {{healthProbeBindAddress: '{}'}}
clientConnection: {{qps: 500, burst: 1000}}
",
        webhook.number(),
        health.address()
    )
}
