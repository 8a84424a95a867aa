//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::cli::manifests::{ManifestsArgs, webhook_service, webhook_url};
use crate::cli::podgroup::PodgroupArgs;
use crate::cli::preview_admission;
use crate::cli::preview_remote::PreviewRemote;
use crate::cli::preview_status::PreviewStatus;
use crate::cli::status::StatusArgs;
use crate::names;
use crate::telemetry::logs::LogFormat;

/// Pods of an opted-in namespace run on worker clusters, and this cluster shows their true status.
#[derive(Debug, Parser)]
#[command(name = "portcullis", version, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Runs the admission webhook and the controllers.
    Serve(ServeArgs),
    /// Prints the CustomResourceDefinitions.
    Crds,
    /// Prints what is installed on the manager, and the roles for workers.
    Manifests(ManifestsArgs),
    /// Shows, without a cluster, what would become of an object.
    #[command(subcommand)]
    Preview(Preview),
    /// Shows, without a cluster, the PodGroups of jobs, the marks of their pods, and what is to be said about them.
    Podgroup(PodgroupArgs),
    /// Shows what is dispatched where, what waits and why, what runs ungated, and orphans.
    Status(StatusArgs),
}

/// What `preview` shows.
#[derive(Debug, Subcommand)]
pub enum Preview {
    /// Objects as admission would leave them; a refusal goes to stderr, exit code 1.
    Admission(preview_admission::Args),
    /// The copy that a worker would get.
    Remote(PreviewRemote),
    /// The status patch that the local pod or job would get.
    Status(PreviewStatus),
}

/// Options of `serve`.
#[derive(Args, Debug, Clone)]
pub struct ServeArgs {
    /// Kubeconfig of the manager; without it, the ServiceAccount of this pod.
    #[arg(long, value_name = "FILE", env = "PORTCULLIS_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,
    /// Our own namespace: kubeconfigs of workers and our certificates are Secrets in it.
    #[arg(long, default_value = names::NAMESPACE)]
    pub namespace: String,
    /// Where the webhook listens.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:9443")]
    pub webhook_bind: SocketAddr,
    /// Where `/healthz`, `/readyz` and `/metrics` listen, in clear.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:8080")]
    pub metrics_bind: SocketAddr,
    /// How the API server reaches a webhook outside of the cluster, as https://host:port.
    #[arg(long, value_name = "URL", conflicts_with = "webhook_service", value_parser = webhook_url)]
    pub webhook_url: Option<String>,
    /// The webhook's Service, as namespace/name; without it, `portcullis` in our own namespace.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = webhook_service)]
    pub webhook_service: Option<(String, String)>,
    /// The API server is older than 1.36 and has no MutatingAdmissionPolicy (as for `manifests`).
    #[arg(long)]
    pub without_inject: bool,
    /// Certificates from this folder (tls.crt, tls.key, and ca.crt if the issuer is private) instead of our own.
    #[arg(long, value_name = "DIR")]
    pub tls_cert_dir: Option<PathBuf>,
    /// Pods that are worked on at a time.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = concurrency)]
    pub concurrent_pods: usize,
    /// Jobs whose PodGroups are worked on at a time.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = concurrency)]
    pub concurrent_jobs: usize,
    /// A file of kind PortcullisConfiguration (docs/gang.md).
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// How long connections may drain after SIGTERM; below 95 s a request may be lost (docs/operations.md).
    #[arg(long, value_name = "DURATION", default_value = "100s", value_parser = duration)]
    pub drain_timeout: std::time::Duration,
    /// Log level, such as `info` or `portcullis=debug,info`.
    #[arg(long, default_value = "info", env = "PORTCULLIS_LOG")]
    pub log_level: String,
    /// Form of the log lines.
    #[arg(long, value_enum, default_value_t = LogFormat::Json)]
    pub log_format: LogFormat,
}

fn concurrency(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..=1024) => Ok(number),
        Ok(_) | Err(_) => Err(format!("found {text:?}, allowed is a number from 1 to 1024")),
    }
}

fn duration(text: &str) -> Result<std::time::Duration, String> {
    crate::clock::parse_duration(text).map_err(|error| error.to_string())
}
