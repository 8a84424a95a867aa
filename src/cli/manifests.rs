//! `portcullis manifests`: prints what is installed on the manager, and the roles for workers.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::crds::crds;
use crate::admission::policies::{self, Layer, LayerKind, Layout, WebhookAddress};
use crate::cluster::rbac::{self, Reach};
use crate::config::Configuration;
use crate::gang::Family;
use crate::names::{NAMESPACE, PORTCULLIS};
use crate::words;
use crate::workload::jobs::JobKinds;

/// What to print, and for which installation.
#[derive(Args, Clone, Debug)]
pub struct ManifestsArgs {
    /// What to print.
    #[arg(value_enum, default_value_t = Part::All)]
    pub part: Part,
    /// The namespace of portcullis.
    #[arg(long, default_value = NAMESPACE)]
    pub namespace: String,
    /// The webhook's server, outside of the cluster, as https://host:port.
    #[arg(long, value_name = "URL", conflicts_with = "webhook_service", value_parser = webhook_url)]
    pub webhook_url: Option<String>,
    /// The webhook's Service, as namespace/name; without it, `portcullis` in the namespace of portcullis.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = webhook_service)]
    pub webhook_service: Option<(String, String)>,
    /// For an API server older than 1.36, which has no MutatingAdmissionPolicy: the webhook then fails closed.
    #[arg(long)]
    pub without_inject: bool,
    /// Namespaces of the worker that take pods, for `rbac-worker-namespaced`.
    #[arg(
        long,
        value_name = "NAMESPACE",
        value_delimiter = ',',
        default_value = "default"
    )]
    pub worker_namespace: Vec<String>,
    /// The PortcullisConfiguration that `serve` gets: kinds of jobs that it names are in what is printed.
    #[arg(long = "config", value_name = "FILE", value_parser = configured)]
    pub kinds: Option<JobKinds>,
    /// The gang scheduler of the worker, for `rbac-worker`: adds what `spec.gang` of its WorkerCluster needs, for native also
    /// the policy that puts pods into their groups.
    #[arg(long, value_name = "coscheduling|volcano|native", value_parser = gang)]
    pub gang: Option<Family>,
}

/// One file under `manifests/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Everything for the manager: CRDs, roles, the three layers.
    All,
    /// The layers inject and guard.
    Policies,
    /// The layer enrich.
    Webhooks,
    /// Namespace, ServiceAccount and roles on the manager.
    RbacManager,
    /// ServiceAccount and cluster-wide role on a worker, for policies that create namespaces there.
    RbacWorker,
    /// ServiceAccount and a role in each namespace of a worker that takes pods.
    RbacWorkerNamespaced,
    /// Deployment and Service that run portcullis in the manager cluster.
    Install,
}

/// Prints the objects as YAML.
///
/// # Errors
/// If they cannot be written, or options contradict the part.
pub fn run(args: &ManifestsArgs) -> anyhow::Result<()> {
    anyhow::ensure!(
        args.part != Part::RbacWorkerNamespaced || args.gang.is_none(),
        "--gang: gangs on a worker need the role for all its namespaces; print rbac-worker, not rbac-worker-namespaced"
    );
    print_yaml(&objects(args))
}

/// The objects of one part.
#[must_use]
pub fn objects(args: &ManifestsArgs) -> Vec<Value> {
    let layers = policies::render(&args.layout());
    let kinds = args.kinds.unwrap_or_default();
    let webhook = |layer: &Layer| layer.kind == LayerKind::MutatingWebhookConfiguration;
    let (webhooks, policies): (Vec<_>, Vec<_>) = layers.into_iter().partition(webhook);
    let objects = |layers: Vec<Layer>| layers.into_iter().map(|layer| layer.object);
    match args.part {
        Part::All => [crds(), rbac_manager(&args.namespace, kinds)]
            .into_iter()
            .flatten()
            .chain(objects(policies))
            .chain(objects(webhooks))
            .collect(),
        Part::Policies => objects(policies).collect(),
        Part::Webhooks => objects(webhooks).collect(),
        Part::RbacManager => rbac_manager(&args.namespace, kinds),
        Part::RbacWorker => rbac_worker(&args.namespace, kinds, args.gang),
        Part::RbacWorkerNamespaced => rbac_worker_namespaced(&args.namespace, &args.worker_namespace, kinds),
        Part::Install => super::install::objects(&args.namespace),
    }
}

impl ManifestsArgs {
    /// How the layers are rendered.
    #[must_use]
    pub fn layout(&self) -> Layout {
        layout(
            &self.namespace,
            self.webhook_url.as_ref(),
            self.webhook_service.as_ref(),
            !self.without_inject,
            self.kinds.unwrap_or_default(),
        )
    }
}

/// How the layers are rendered for an installation, as `manifests` prints and `serve` keeps them.
#[must_use]
pub fn layout(
    namespace: &str,
    url: Option<&String>,
    service_name: Option<&(String, String)>,
    inject: bool,
    kinds: JobKinds,
) -> Layout {
    let webhook = match (url, service_name) {
        (Some(url), _) => WebhookAddress::Url(url.clone()),
        (None, Some((namespace, name))) => service(namespace, name),
        (None, None) => service(namespace, PORTCULLIS),
    };
    Layout {
        namespace: namespace.to_owned(),
        webhook,
        inject,
        kinds,
    }
}

fn service(namespace: &str, name: &str) -> WebhookAddress {
    WebhookAddress::Service {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        port: 443,
    }
}

/// Parses `--config` of `manifests`.
///
/// # Errors
/// If the file is no configuration.
pub fn configured(path: &str) -> Result<JobKinds, String> {
    let configuration = Configuration::read(Path::new(path)).map_err(|error| words::chain(&error))?;
    Ok(JobKinds::with(configuration.kinds))
}

/// Parses `--gang`.
///
/// # Errors
/// If it is no gang scheduler that a WorkerCluster can name.
pub fn gang(text: &str) -> Result<Family, String> {
    match text {
        "coscheduling" => Ok(Family::Coscheduling),
        "volcano" => Ok(Family::Volcano),
        "native" => Ok(Family::Native),
        _ => Err("write coscheduling, volcano or native".to_owned()),
    }
}

/// Parses `--webhook-url`.
///
/// # Errors
/// If it is not `https://host[:port]`.
pub fn webhook_url(text: &str) -> Result<String, String> {
    let uri: http::Uri = text
        .parse()
        .map_err(|error| format!("{error}; write https://host:port"))?;
    match (
        uri.scheme_str(),
        uri.host(),
        uri.path_and_query().map(ToString::to_string).as_deref(),
    ) {
        (Some("https"), Some(_), None | Some("/")) => Ok(text.trim_end_matches('/').to_owned()),
        (Some("https"), Some(_), Some(path)) => Err(format!(
            "the path {path} is ours to choose; write https://host:port"
        )),
        _ => Err("the API server calls webhooks by https only; write https://host:port".to_owned()),
    }
}

/// Parses `--webhook-service`.
///
/// # Errors
/// If it is not `namespace/name`.
pub fn webhook_service(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err("write namespace/name, such as portcullis-system/portcullis".to_owned()),
    }
}

/// Namespace, ServiceAccount, ClusterRole and Role on the manager.
#[must_use]
pub fn rbac_manager(namespace: &str, kinds: JobKinds) -> Vec<Value> {
    let mut objects = account(namespace);
    objects.extend(rbac::role(
        PORTCULLIS,
        Reach::Cluster,
        &rbac::manager(kinds),
        namespace,
    ));
    objects.extend(rbac::role(
        PORTCULLIS,
        Reach::Namespace(namespace),
        &rbac::own_namespace(),
        namespace,
    ));
    objects
}

/// ServiceAccount and ClusterRole on a worker, with what gangs of this scheduler there need: rights, and for native ones the
/// policy that puts pods into their groups.
#[must_use]
pub fn rbac_worker(namespace: &str, kinds: JobKinds, gang: Option<Family>) -> Vec<Value> {
    let mut objects = account(namespace);
    objects.extend(rbac::role(
        "portcullis-worker",
        Reach::Cluster,
        &rbac::worker_cluster(kinds, gang),
        namespace,
    ));
    if gang == Some(Family::Native) {
        objects.extend(policies::on_native_worker(namespace).map(|layer| layer.object));
    }
    objects
}

/// ServiceAccount and one Role in each of `worker_namespaces`, and in kube-system.
#[must_use]
pub fn rbac_worker_namespaced(namespace: &str, worker_namespaces: &[String], kinds: JobKinds) -> Vec<Value> {
    let name = "portcullis-worker";
    let mut objects = account(namespace);
    objects.extend(rbac::role(
        name,
        Reach::Namespace("kube-system"),
        &rbac::worker_identity(),
        namespace,
    ));
    for one in worker_namespaces {
        objects.extend(rbac::role(
            name,
            Reach::Namespace(one),
            &rbac::worker_namespace(kinds),
            namespace,
        ));
    }
    objects
}

fn account(namespace: &str) -> Vec<Value> {
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": PORTCULLIS, "namespace": namespace},
        }),
    ]
}

/// Prints objects; a reader that has seen enough, such as `head`, is no error.
///
/// # Errors
/// If they cannot be written.
pub fn print_yaml(objects: &[Value]) -> anyhow::Result<()> {
    match std::io::stdout().write_all(yaml(objects)?.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error).context("write to stdout"),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Several documents.
///
/// # Errors
/// If an object cannot be written as YAML.
pub fn yaml(objects: &[Value]) -> anyhow::Result<String> {
    Ok(serde_saphyr::to_string_multiple(objects)?)
}
