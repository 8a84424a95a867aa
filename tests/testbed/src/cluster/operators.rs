//! What gangs need beside a cluster: a gang scheduler, operators of jobs, custom resource definitions.
//!
//! Each is installed as its authors say (namespace, ServiceAccount, roles, webhooks; see the files
//! `kustomization.yaml`), but runs as a program beside the cluster with its ServiceAccount's token.

mod coscheduler;
mod jobset;
mod kuberay;
mod mpi_operator;
mod training_operator;
mod webhook;

use std::path::PathBuf;
use std::sync::{MutexGuard, PoisonError};

use anyhow::{Context, Result};

use crate::ports::Port;
use crate::program::Launch;
use crate::programs::{GangPrograms, KindPrograms};
use crate::wait::wait_for;

use super::bring_up::PATIENCE;
use super::{BTreeMap, Cluster, Part, users};

pub use coscheduler::Reminder;

/// A program that was started beside the standard parts.
#[derive(Debug)]
pub(super) struct Operator {
    pub(super) launch: Launch,
    /// Reserved as long as the cluster lives; the first one is where it serves.
    ports: Vec<Port>,
}

/// Custom resource definitions, by whose they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crds {
    /// PodGroup of `scheduling.x-k8s.io/v1alpha1`.
    Coscheduling,
    /// MPIJob of `kubeflow.org/v2beta1`.
    MpiOperator,
    /// `TFJob`, `PyTorchJob`, `XGBoostJob`, `PaddleJob` and `JAXJob` of `kubeflow.org/v1`.
    TrainingOperator,
    /// JobSet of `jobset.x-k8s.io/v1alpha2`.
    JobSet,
    /// PodGroup (without a subresource `status`) and Queue of `scheduling.volcano.sh/v1beta1`. There is no scheduler for them here.
    Volcano,
    /// `RayJob`, `RayCluster` and `RayService` of `ray.io/v1`.
    KubeRay,
    /// `TrainJob` of `trainer.kubeflow.org/v1alpha1`, without the kinds of runtimes.
    Trainer,
    /// `AppWrapper` of `workload.codeflare.dev/v1beta2`.
    AppWrapper,
    /// `SparkApplication` of `sparkoperator.k8s.io/v1beta2`.
    SparkOperator,
}

impl Crds {
    fn yaml(self) -> Result<String> {
        let of = |name| GangPrograms::ready()?.crds(name);
        let of_kind = |name| KindPrograms::ready()?.crds(name);
        match self {
            Self::Coscheduling => of("coscheduling"),
            Self::MpiOperator => of("mpi-operator"),
            Self::TrainingOperator => of("training-operator"),
            Self::JobSet => of("jobset"),
            Self::Volcano => Ok(include_str!("../../volcano-crds/crds.yaml").to_owned()),
            Self::KubeRay => of_kind("kuberay"),
            Self::Trainer => of_kind("trainer"),
            Self::AppWrapper => of_kind("appwrapper"),
            Self::SparkOperator => of_kind("spark-operator"),
        }
    }
}

impl Cluster {
    /// Installs custom resource definitions and waits until their kinds are served. Once more does nothing.
    ///
    /// # Errors
    /// The build failed, or one was refused.
    pub async fn install_crds(&self, crds: Crds) -> Result<()> {
        let yaml = tokio::task::spawn_blocking(move || crds.yaml()).await??;
        self.apply(&yaml).await?;
        // It fails at once on a definition that has no condition yet.
        let args = ["wait", "--for=condition=Established", "--timeout=60s", "-f", "-"];
        wait_for("definitions to be served", PATIENCE, async || {
            self.kubectl_with(users::ADMIN, &args, &yaml).await.map(Some)
        })
        .await?;
        Ok(())
    }

    /// Starts an operator, after one that runs has ended, and waits until it does its work.
    async fn start_operator(&self, part: Part, operator: Operator) -> Result<()> {
        self.stop(part).await;
        self.operators().insert(part, operator);
        self.resume(part)
            .await
            .with_context(|| format!("{} of {}\n{}", part.name(), self.name(), self.log_tails(8)))
    }

    /// Its launch, with a kubeconfig of its ServiceAccount, whose path is passed to `args`.
    async fn launch_of(
        &self,
        part: Part,
        account: (&str, &str),
        args: impl FnOnce(&str) -> Result<Vec<String>>,
    ) -> Result<Launch> {
        let program = program_of(part).await?;
        let kubeconfig = self.folder.join(format!("{}.kubeconfig", part.name()));
        let (namespace, name) = account;
        self.service_account_kubeconfig(namespace, name)
            .await?
            .save(&kubeconfig)?;
        Ok(Launch {
            name: part.name().to_owned(),
            folder: self.folder.clone(),
            program,
            args: args(&kubeconfig.display().to_string())?,
            env: Vec::new(),
            life: self.life(),
        })
    }

    /// Writes the configuration file of an operator; answers its path.
    fn configure(&self, part: Part, yaml: &str) -> Result<String> {
        let path = self.folder.join(format!("{}.yaml", part.name()));
        std::fs::write(&path, yaml).with_context(|| format!("write {}", path.display()))?;
        Ok(path.display().to_string())
    }

    /// Waits until an operator does its work.
    pub(super) async fn await_operator(&self, part: Part) -> Result<()> {
        match part {
            Part::Coscheduler | Part::KubeRay => self.await_port(part).await,
            Part::MpiOperator => self.await_mpi_lease().await,
            Part::TrainingOperator => {
                self.play_mount(part, training_operator::SECRET).await?;
                self.await_webhook(part, training_operator::PROBE).await
            }
            Part::JobSet => {
                self.play_mount(part, jobset::SECRET).await?;
                self.await_webhook(part, jobset::PROBE).await
            }
            Part::Etcd | Part::ApiServer | Part::ControllerManager | Part::Scheduler | Part::Kwok => Ok(()),
        }
    }

    async fn await_port(&self, part: Part) -> Result<()> {
        let address = self
            .operators()
            .get(&part)
            .and_then(|operator| operator.ports.first().map(Port::address))
            .with_context(|| format!("{} has no port", part.name()))?;
        wait_for(part.name(), PATIENCE, async || {
            self.still_runs(part)?;
            Ok::<_, anyhow::Error>(tokio::net::TcpStream::connect(address).await.ok())
        })
        .await?;
        Ok(())
    }

    pub(super) fn operators(&self) -> MutexGuard<'_, BTreeMap<Part, Operator>> {
        self.operators.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn program_of(part: Part) -> Result<PathBuf> {
    Ok(match part {
        Part::Coscheduler => gang_programs().await?.coscheduler.clone(),
        Part::MpiOperator => gang_programs().await?.mpi_operator.clone(),
        Part::TrainingOperator => gang_programs().await?.training_operator.clone(),
        Part::JobSet => gang_programs().await?.jobset.clone(),
        Part::KubeRay => kind_programs().await?.kuberay.clone(),
        Part::Etcd | Part::ApiServer | Part::ControllerManager | Part::Scheduler | Part::Kwok => {
            unreachable!("a standard part is no operator")
        }
    })
}

async fn kind_programs() -> Result<&'static KindPrograms> {
    tokio::task::spawn_blocking(KindPrograms::ready).await?
}

async fn gang_programs() -> Result<&'static GangPrograms> {
    tokio::task::spawn_blocking(GangPrograms::ready).await?
}
