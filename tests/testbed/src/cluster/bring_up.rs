//! From an empty folder to a cluster that runs pods: files, programs in order, waits on states.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{Api, DeleteParams, ListParams};

use crate::programs::Programs;
use crate::wait::wait_for;

use super::nodes::ROOMY;
use super::users::{self, token_file};
use super::{Cluster, ClusterOptions, Part};

/// Far above what is needed (3 s when idle): two cores may be shared with other builds.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

pub(super) fn node_names(options: &ClusterOptions) -> Vec<String> {
    (0..options.nodes)
        .map(|number| format!("{}-{number}", options.name))
        .collect()
}

impl Cluster {
    pub(super) async fn bring_up(&mut self) -> Result<()> {
        self.write_files()?;
        self.spawn(Part::Etcd)?;
        self.await_part(Part::Etcd).await?;
        self.spawn(Part::ApiServer)?;
        self.read_authority().await?;
        for (user, file) in [
            (users::ADMIN, "admin"),
            (users::CONTROLLER_MANAGER, "controller-manager"),
            (users::SCHEDULER, "scheduler"),
            (users::KWOK, "kwok"),
        ] {
            self.kubeconfig_for(user)
                .save(&self.folder.join(format!("{file}.kubeconfig")))?;
        }
        self.await_part(Part::ApiServer).await?;
        self.spawn(Part::ControllerManager)?;
        self.spawn(Part::Scheduler)?;
        let client = self.admin_client().await?;
        self.apply(include_str!("kwok-role.yaml")).await?;
        for name in self.nodes() {
            self.make_node(&name, ROOMY).await?;
        }
        self.spawn(Part::Kwok)?;
        self.await_controllers(&client).await?;
        for name in self.nodes() {
            self.await_node(&name).await?;
        }
        Ok(())
    }

    fn write_files(&self) -> Result<()> {
        let write = |name: &str, text: &str| {
            std::fs::write(self.folder.join(name), text).with_context(|| format!("write {name}"))
        };
        write("tokens.csv", &token_file(&self.tokens))?;
        write("audit-policy.yaml", include_str!("audit-policy.yaml"))?;
        write("stages.yaml", include_str!("stages.yaml"))?;
        let key = self.folder.join("service-account.key");
        let status = std::process::Command::new(&Programs::ready()?.babysit)
            .arg("genkey")
            .arg(&key)
            .status();
        match status.context("make the ServiceAccount key")? {
            status if status.success() => Ok(()),
            status => bail!("make the ServiceAccount key: {status}"),
        }
    }

    /// The API server makes an authority and its own certificate, one after the other in one file. The
    /// authority is then that of all kubeconfigs.
    async fn read_authority(&mut self) -> Result<()> {
        let path = self.folder.join("certs/apiserver.crt");
        let pem = wait_for("the API server's certificate", PATIENCE, async || {
            self.still_runs(Part::ApiServer)?;
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            Ok::<_, anyhow::Error>(last_certificate(&text))
        })
        .await?;
        std::fs::write(self.folder.join("ca.crt"), &pem).context("write ca.crt")?;
        self.authority = pem.into_bytes();
        Ok(())
    }

    /// Waits until the part does its work.
    pub(super) async fn await_part(&self, part: Part) -> Result<()> {
        match part {
            Part::Etcd => {
                let address = self.ports.etcd_address();
                wait_for("etcd", PATIENCE, async || {
                    self.still_runs(part)?;
                    Ok::<_, anyhow::Error>(tokio::net::TcpStream::connect(address).await.ok())
                })
                .await?;
            }
            Part::ApiServer => {
                let client = self.admin_client().await?;
                wait_for("the API server's /readyz", PATIENCE, async || {
                    self.still_runs(part)?;
                    let request = http::Request::get("/readyz").body(Vec::new())?;
                    let answer = client.request_text(request).await?;
                    Ok::<_, anyhow::Error>((answer == "ok").then_some(()))
                })
                .await?;
            }
            Part::ControllerManager | Part::Scheduler | Part::Kwok => self.still_runs(part)?,
            Part::Coscheduler | Part::MpiOperator | Part::TrainingOperator | Part::JobSet | Part::KubeRay => {
                self.await_operator(part).await?;
            }
        }
        Ok(())
    }

    pub(super) fn still_runs(&self, part: Part) -> Result<()> {
        let mut programs = self.running();
        let program = programs
            .get_mut(&part)
            .with_context(|| format!("{} was not started", part.name()))?;
        if program.is_running() {
            Ok(())
        } else {
            bail!("ended:\n{}", program.log_tail(20))
        }
    }

    /// A KWOK is a new holder each time and would wait for the last one's leases to end: 40 s without kubelets.
    pub(super) async fn forget_node_leases(&self) -> Result<()> {
        let leases: Api<Lease> = Api::namespaced(self.admin_client().await?, "kube-node-lease");
        leases
            .delete_collection(&DeleteParams::default(), &ListParams::default())
            .await
            .context("forget node leases")?;
        Ok(())
    }

    /// What the controller-manager makes of a new cluster, and pods and tests need.
    async fn await_controllers(&self, client: &kube::Client) -> Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
        wait_for("the ServiceAccount default", PATIENCE, async || {
            accounts.get_opt("default").await
        })
        .await?;
        let roles: Api<ClusterRole> = Api::all(client.clone());
        wait_for("the rules of ClusterRole edit", PATIENCE, async || {
            let edit = roles.get_opt("edit").await?;
            Ok::<_, kube::Error>(edit.filter(|role| role.rules.iter().flatten().next().is_some()))
        })
        .await?;
        Ok(())
    }
}

/// The last of two certificates; `None` while the file is being written.
fn last_certificate(pem: &str) -> Option<String> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    let complete = pem.matches(BEGIN).count() == 2 && pem.ends_with("-----END CERTIFICATE-----\n");
    complete
        .then(|| pem.rfind(BEGIN).map(|start| pem[start..].to_owned()))
        .flatten()
}
