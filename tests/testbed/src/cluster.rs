//! One real Kubernetes cluster on 127.0.0.1: options -> a running cluster with two Ready nodes.

mod bring_up;
mod nodes;
mod operators;
mod parts;
mod users;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, anyhow};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use tokio::io::AsyncWriteExt;

use crate::kubeconfig::Kubeconfig;
use crate::ledger::Ledger;
use crate::process_id::ProcessId;
use crate::program::{Life, Program};
use crate::programs::{KubeVersion, Programs};
use crate::run_folder::new_run_folder;
use operators::Operator;
use parts::{Layout, Ports};
use users::Token;

pub use operators::{Crds, Reminder};
pub use parts::Part;
pub use users::User;

/// Thirty days: a ServiceAccount's token outlives every run, also of `make clusters`.
const TOKEN_SECONDS: i64 = 30 * 24 * 3600;

/// What to start. `ClusterOptions::named("worker-a")` is enough.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// Also the prefix of its nodes' names: `worker-a-0`, `worker-a-1`.
    pub name: String,
    /// Logs and data go to a folder of the cluster's name in here; `None`: a new folder under `target/testbed/runs`.
    pub folder: Option<PathBuf>,
    pub nodes: usize,
    /// More users beside the standard ones.
    pub users: Vec<User>,
    /// `Gate=true`, for API server, controller-manager and scheduler.
    pub feature_gates: Vec<String>,
    /// Appended to kube-apiserver's command line.
    pub api_server_args: Vec<String>,
    /// Kubernetes' own gangs: their gates on all three, and their version of `scheduling.k8s.io` served.
    pub native_gangs: bool,
    /// Of the control plane and kubectl.
    pub version: KubeVersion,
    /// Goes on after this process; `testbed down` ends it.
    pub detached: bool,
}

impl ClusterOptions {
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            folder: None,
            nodes: 2,
            users: Vec::new(),
            feature_gates: Vec::new(),
            api_server_args: Vec::new(),
            native_gangs: false,
            version: KubeVersion::default(),
            detached: false,
        }
    }
}

/// A running cluster. Ends when dropped, unless detached.
#[derive(Debug)]
pub struct Cluster {
    options: ClusterOptions,
    folder: PathBuf,
    ports: Ports,
    tokens: Vec<Token>,
    /// PEM; the API server makes it at its first start and keeps it.
    authority: Vec<u8>,
    programs: Mutex<BTreeMap<Part, Program>>,
    /// What was started beside the standard parts, to start it again.
    operators: Mutex<BTreeMap<Part, Operator>>,
}

impl Cluster {
    /// Starts a cluster and waits until it would run a pod: API server ready, nodes Ready, default
    /// ServiceAccount and the `edit` role there.
    ///
    /// # Errors
    /// A program ended or did not become ready; the message holds the end of its log.
    pub async fn start(options: ClusterOptions) -> Result<Self> {
        let version = options.version;
        tokio::task::spawn_blocking(move || Programs::ready().and_then(|_| version.kube())).await??;
        let parent = options.folder.clone().map_or_else(new_run_folder, Ok)?;
        let folder = parent.join(&options.name);
        std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        let mut users = users::standard(&bring_up::node_names(&options));
        users.extend(options.users.iter().cloned());
        let tokens = users.into_iter().map(Token::issue).collect::<Result<Vec<_>>>()?;
        let ports = Ports::reserve()?;
        let mut cluster = Self {
            options,
            folder,
            ports,
            tokens,
            authority: Vec::new(),
            programs: Mutex::default(),
            operators: Mutex::default(),
        };
        match cluster.bring_up().await {
            Ok(()) => Ok(cluster),
            Err(error) => Err(error.context(format!("cluster {}\n{}", cluster.name(), cluster.log_tails(8)))),
        }
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.options.name
    }

    /// Where its logs, its audit log and its kubeconfigs lie.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Address of the API server.
    #[must_use]
    pub fn server(&self) -> SocketAddr {
        self.ports.api.address()
    }

    /// Names of its nodes.
    #[must_use]
    pub fn nodes(&self) -> Vec<String> {
        bring_up::node_names(&self.options)
    }

    /// File of the administrator, for set-up only.
    #[must_use]
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.folder.join("admin.kubeconfig")
    }

    /// Identity of a user of this cluster: `admin`, `alice`, `bob`, `carol`, `system:node:<node>` or one of the options.
    ///
    /// # Panics
    /// There is no such user.
    #[must_use]
    pub fn kubeconfig_for(&self, user: &str) -> Kubeconfig {
        let token = self.tokens.iter().find(|token| token.user.name == user);
        let token = token.unwrap_or_else(|| panic!("cluster {} has no user {user:?}", self.name()));
        self.kubeconfig(token.secret.clone())
    }

    /// Identity of a ServiceAccount that exists.
    ///
    /// # Errors
    /// The API server gave no token.
    pub async fn service_account_kubeconfig(&self, namespace: &str, name: &str) -> Result<Kubeconfig> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin_client().await?, namespace);
        let spec = TokenRequestSpec {
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest {
            spec: Some(spec),
            ..TokenRequest::default()
        };
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .with_context(|| format!("token of ServiceAccount {namespace}/{name}"))?;
        let token = answer
            .status
            .and_then(|status| status.token)
            .context("an answer without a token")?;
        Ok(self.kubeconfig(token))
    }

    fn kubeconfig(&self, token: String) -> Kubeconfig {
        Kubeconfig {
            cluster: self.name().to_owned(),
            server: self.server(),
            certificate_authority: self.authority.clone(),
            token,
        }
    }

    /// # Errors
    /// The cluster's certificate is unreadable.
    pub async fn admin_client(&self) -> Result<kube::Client> {
        self.client_for(users::ADMIN).await
    }

    /// A client of a user, see [`Self::kubeconfig_for`].
    ///
    /// # Errors
    /// The cluster's certificate is unreadable.
    pub async fn client_for(&self, user: &str) -> Result<kube::Client> {
        self.kubeconfig_for(user).client().await
    }

    /// Runs kubectl as the administrator.
    ///
    /// # Errors
    /// It failed; the root cause is its stderr.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.kubectl_with(users::ADMIN, args, "").await
    }

    /// Runs kubectl as `user` with `input` on stdin; answers its stdout.
    ///
    /// # Errors
    /// It failed; the root cause is its stderr.
    pub async fn kubectl_with(&self, user: &str, args: &[&str], input: &str) -> Result<String> {
        Ok(self.kubectl_output(user, args, input).await?.0)
    }

    /// As [`Self::kubectl_with`]; answers its stdout, and its stderr, where warnings are.
    ///
    /// # Errors
    /// It failed; the root cause is its stderr.
    pub async fn kubectl_output(&self, user: &str, args: &[&str], input: &str) -> Result<(String, String)> {
        let file = self.folder.join(format!("{}.kubeconfig", user.replace(':', "-")));
        if !file.exists() {
            self.kubeconfig_for(user).save(&file)?;
        }
        let mut child = tokio::process::Command::new(self.options.version.kube()?)
            .arg("kubectl")
            .arg(format!("--kubeconfig={}", file.display()))
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("start kubectl")?;
        let mut stdin = child.stdin.take().expect("stdin was piped above");
        let (written, output) = tokio::join!(
            async move { stdin.write_all(input.as_bytes()).await },
            child.wait_with_output()
        );
        let output = output.context("wait for kubectl")?;
        let [out, words] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        if !output.status.success() {
            return Err(anyhow!(words.trim().to_owned()).context(format!("kubectl {}", args.join(" "))));
        }
        written.context("write to kubectl")?;
        Ok((out, words))
    }

    /// Applies manifests as the administrator, server-side; the fields are his afterwards.
    ///
    /// # Errors
    /// One was refused; the message is the server's.
    pub async fn apply(&self, yaml: &str) -> Result<String> {
        let args = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
        self.kubectl_with(users::ADMIN, &args, yaml).await
    }

    /// All finished writes so far, from the API server's audit log.
    ///
    /// # Errors
    /// The log is unreadable.
    pub fn ledger(&self) -> Result<Ledger> {
        Ledger::read(&self.folder.join("audit.log"))
    }

    /// Ends one program in order. Its port and its data stay.
    pub async fn stop(&self, part: Part) {
        let program = self.running().remove(&part);
        if let Some(mut program) = program {
            let _ = tokio::task::spawn_blocking(move || program.end()).await;
        }
    }

    /// Starts one program again, as it was, and waits until it serves (API server) or runs (the others).
    ///
    /// # Errors
    /// It ended or did not become ready.
    pub async fn resume(&self, part: Part) -> Result<()> {
        match part {
            Part::Kwok => self.forget_node_leases().await?,
            Part::MpiOperator => self.forget_mpi_lease().await?,
            Part::Etcd
            | Part::ApiServer
            | Part::ControllerManager
            | Part::Scheduler
            | Part::Coscheduler
            | Part::TrainingOperator
            | Part::JobSet
            | Part::KubeRay => {}
        }
        self.spawn(part)?;
        self.await_part(part).await
    }

    /// Ends all programs in order: an outage of the whole cluster.
    pub async fn stop_all(&self) {
        let parts: Vec<Part> = self.running().keys().copied().collect();
        for part in parts.into_iter().rev() {
            self.stop(part).await;
        }
    }

    /// Starts all again, with the data they had.
    ///
    /// # Errors
    /// One ended or did not become ready.
    pub async fn resume_all(&self) -> Result<()> {
        let operators: Vec<Part> = self.operators().keys().copied().collect();
        for part in Part::ALL.into_iter().chain(operators) {
            self.resume(part).await?;
        }
        Ok(())
    }

    /// The process ids of its programs.
    #[must_use]
    pub fn process_ids(&self) -> Vec<ProcessId> {
        self.running().values().map(|program| program.id).collect()
    }

    /// The ends of all its logs.
    #[must_use]
    pub fn log_tails(&self, lines: usize) -> String {
        let tails: Vec<String> = self
            .running()
            .values()
            .map(|program| program.log_tail(lines))
            .collect();
        tails.join("\n")
    }

    /// Begins the end of a cluster that is about to be dropped: all programs at once, but etcd last, as the
    /// API server wants to say good-bye to it.
    pub(crate) fn begin_end(&self) {
        let mut programs = self.running();
        let rest = programs
            .iter_mut()
            .filter(|(part, _)| **part != Part::Etcd && !self.options.detached);
        rest.for_each(|(_, program)| program.begin_end());
    }

    fn spawn(&self, part: Part) -> Result<()> {
        let layout = Layout {
            options: &self.options,
            folder: &self.folder,
            ports: &self.ports,
            life: self.life(),
        };
        let operator = self
            .operators()
            .get(&part)
            .map(|operator| operator.launch.clone());
        let launch = operator.map_or_else(|| layout.launch(part), Ok)?;
        let program = Program::start(&launch)?;
        self.running().insert(part, program);
        Ok(())
    }

    fn life(&self) -> Life {
        if self.options.detached {
            Life::Detached
        } else {
            Life::Ours
        }
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<Part, Program>> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("=== cluster {}: {}", self.name(), self.folder.display());
            eprintln!("{}", self.log_tails(12));
        }
        if self.options.detached {
            return;
        }
        self.begin_end();
        let mut programs = std::mem::take(&mut *self.running());
        while let Some((_, program)) = programs.pop_last() {
            drop(program);
        }
        // The logs stay, the data is of no use without its programs.
        let _ = std::fs::remove_dir_all(self.folder.join("etcd"));
    }
}
