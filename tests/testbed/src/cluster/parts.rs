//! The programs of a cluster and their command lines.

use std::path::{Path, PathBuf};

use anyhow::bail;

use crate::ports::{Port, free_port};
use crate::program::{Launch, Life};
use crate::programs::Programs;

use super::ClusterOptions;

/// One program of a cluster. The order is the order of starting; ending goes backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Etcd,
    ApiServer,
    ControllerManager,
    Scheduler,
    /// Plays the kubelets.
    Kwok,
    /// A second scheduler, see [`super::Cluster::start_coscheduler`].
    Coscheduler,
    /// See [`super::Cluster::start_mpi_operator`].
    MpiOperator,
    /// See [`super::Cluster::start_training_operator`].
    TrainingOperator,
    /// See [`super::Cluster::start_jobset`].
    JobSet,
    /// See [`super::Cluster::start_kuberay`].
    KubeRay,
}

impl Part {
    /// What every cluster has.
    pub const ALL: [Self; 5] = [
        Self::Etcd,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Kwok,
    ];

    /// As in the names of its log file and process id file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kwok => "kwok",
            Self::Coscheduler => "coscheduler",
            Self::MpiOperator => "mpi-operator",
            Self::TrainingOperator => "training-operator",
            Self::JobSet => "jobset",
            Self::KubeRay => "kuberay",
        }
    }
}

/// The ports of one cluster, reserved as long as it lives.
#[derive(Debug)]
pub(super) struct Ports {
    etcd: Port,
    etcd_peer: Port,
    pub(super) api: Port,
    controller_manager: Port,
    scheduler: Port,
}

impl Ports {
    pub(super) fn reserve() -> anyhow::Result<Self> {
        Ok(Self {
            etcd: free_port()?,
            etcd_peer: free_port()?,
            api: free_port()?,
            controller_manager: free_port()?,
            scheduler: free_port()?,
        })
    }

    pub(super) fn etcd_address(&self) -> std::net::SocketAddr {
        self.etcd.address()
    }

    pub(super) fn etcd_url(&self) -> String {
        format!("http://{}", self.etcd.address())
    }
}

/// Everything that a command line needs.
pub(super) struct Layout<'a> {
    pub(super) options: &'a ClusterOptions,
    pub(super) folder: &'a Path,
    pub(super) ports: &'a Ports,
    pub(super) life: Life,
}

impl Layout<'_> {
    pub(super) fn launch(&self, part: Part) -> anyhow::Result<Launch> {
        let kube = self.options.version.kube()?;
        let (program, mut args) = match part {
            Part::Etcd => (kube, self.etcd()),
            Part::ApiServer => (kube, self.api_server()),
            Part::ControllerManager => (kube, self.controller_manager()),
            Part::Scheduler => (kube, self.scheduler()),
            Part::Kwok => (Programs::ready()?.kwok.as_path(), self.kwok()),
            Part::Coscheduler | Part::MpiOperator | Part::TrainingOperator | Part::JobSet | Part::KubeRay => {
                bail!("{} was not started here", part.name())
            }
        };
        if part != Part::Kwok {
            args.insert(0, part.name().to_owned());
        }
        Ok(Launch {
            name: part.name().to_owned(),
            folder: self.folder.to_owned(),
            program: program.to_owned(),
            args,
            env: Vec::new(),
            life: self.life,
        })
    }

    fn etcd(&self) -> Vec<String> {
        let client = self.ports.etcd_url();
        let peer = format!("http://{}", self.ports.etcd_peer.address());
        vec![
            format!("--data-dir={}", self.path("etcd").display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
        ]
    }

    fn api_server(&self) -> Vec<String> {
        let key = self.path("service-account.key");
        let mut args = vec![
            format!("--etcd-servers={}", self.ports.etcd_url()),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.ports.api.number()),
            format!("--cert-dir={}", self.path("certs").display()),
            format!("--token-auth-file={}", self.path("tokens.csv").display()),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", key.display()),
            format!("--service-account-signing-key-file={}", key.display()),
            "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            format!("--audit-policy-file={}", self.path("audit-policy.yaml").display()),
            format!("--audit-log-path={}", self.path("audit.log").display()),
            // Blocking: no line is lost. One file: in megabytes, and 0 would mean 100.
            "--audit-log-mode=blocking".to_owned(),
            "--audit-log-maxsize=1000000".to_owned(),
        ];
        args.extend(self.options.api_server_args.iter().cloned());
        if self.options.native_gangs {
            args.push(format!(
                "--runtime-config=scheduling.k8s.io/{}=true",
                self.options.version.native_api()
            ));
        }
        args.extend(self.feature_gates());
        args
    }

    fn controller_manager(&self) -> Vec<String> {
        let mut args = vec![
            format!(
                "--service-account-private-key-file={}",
                self.path("service-account.key").display()
            ),
            format!("--root-ca-file={}", self.path("ca.crt").display()),
            "--use-service-account-credentials=true".to_owned(),
        ];
        args.extend(self.client_of_api_server(self.ports.controller_manager.number(), "controller-manager"));
        args.extend(self.feature_gates());
        args
    }

    fn scheduler(&self) -> Vec<String> {
        let mut args = self.client_of_api_server(self.ports.scheduler.number(), "scheduler");
        args.extend(self.feature_gates());
        args
    }

    fn client_of_api_server(&self, port: u16, certs: &str) -> Vec<String> {
        vec![
            format!(
                "--kubeconfig={}",
                self.path(&format!("{certs}.kubeconfig")).display()
            ),
            format!("--secure-port={port}"),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--cert-dir={}", self.path(&format!("certs-{certs}")).display()),
            "--leader-elect=false".to_owned(),
            // The defaults (20 and 50) would be the bottleneck of a benchmark.
            "--kube-api-qps=500".to_owned(),
            "--kube-api-burst=1000".to_owned(),
        ]
    }

    fn kwok(&self) -> Vec<String> {
        vec![
            format!("--kubeconfig={}", self.path("kwok.kubeconfig").display()),
            format!("--config={}", self.path("stages.yaml").display()),
            "--manage-all-nodes".to_owned(),
            "--node-lease-duration-seconds=40".to_owned(),
            "--node-ip=127.0.0.1".to_owned(),
            "--cidr=10.64.0.0/10".to_owned(),
            // No logs, no exec: it would listen on all interfaces.
            "--node-port=0".to_owned(),
        ]
    }

    fn feature_gates(&self) -> Option<String> {
        let mut gates = self.options.feature_gates.clone();
        if self.options.native_gangs {
            gates.extend(
                self.options
                    .version
                    .native_gates()
                    .iter()
                    .map(ToString::to_string),
            );
        }
        (!gates.is_empty()).then(|| format!("--feature-gates={}", gates.join(",")))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}
