//! `portcullis status`: read the clusters with the caller's own rights, and say what is where.

mod gangs;
mod jobs;
mod report;
mod scope;

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};

use self::report::{
    CreatedNamespace, OrphanLine, Report, is_gated, orphan_line, pod_line, ungated_line, was_gated,
};
use self::scope::{Scope, Seen, scope};
use super::documents::{self, Format};
use crate::api::WorkerCluster;
use crate::cluster::api::{CallError, ClusterApi};
use crate::cluster::client::Clients;
use crate::cluster::discovery::Served;
use crate::cluster::kubeconfig;
use crate::cluster::worker::space;
use crate::names;
use crate::reconcile::gang::probe;
use crate::words::chain;

/// Options of `portcullis status`.
#[derive(Args, Debug)]
pub struct StatusArgs {
    /// Only this pod, as `pod/NAME` or `NAME`; needs --namespace.
    #[arg(requires = "namespace", value_parser = pod_name)]
    pod: Option<String>,
    /// Only this namespace; without it, all that are opted in.
    #[arg(short, long, value_parser = clap::builder::NonEmptyStringValueParser::new())]
    namespace: Option<String>,
    /// All namespaces that are opted in, as without --namespace.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Kubeconfig of the manager; without it, as kubectl does.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context in it.
    #[arg(long)]
    context: Option<String>,
    /// The namespace of portcullis, where the kubeconfigs of workers are.
    #[arg(long, default_value = names::NAMESPACE)]
    portcullis_namespace: String,
    /// How it is printed.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// Reads and prints.
///
/// # Errors
/// If the manager cannot be read. What cannot be read of a worker is said on stderr.
pub fn run(args: &StatusArgs) -> anyhow::Result<()> {
    crate::tls::install_crypto();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let report = runtime.block_on(read(args))?;
    let mut object = serde_json::to_value(&report).context("print the report")?;
    object["apiVersion"] = "portcullis.dev/v1alpha1".into();
    object["kind"] = "StatusReport".into();
    print!("{}", documents::print(&[object], args.output, || report.table()));
    Ok(())
}

async fn read(args: &StatusArgs) -> anyhow::Result<Report> {
    report(client(args).await?, args).await
}

async fn report(client: Client, args: &StatusArgs) -> anyhow::Result<Report> {
    let name = args.pod.as_deref();
    let Scope {
        namespaces,
        notes,
        nobody,
    } = scope(&client, args.namespace.as_deref(), &args.portcullis_namespace).await?;
    let mut report = Report {
        notes,
        ..Report::default()
    };
    let names: Vec<String> = namespaces.iter().map(|seen| seen.name.clone()).collect();
    for Seen {
        name: namespace,
        opted_in,
    } in namespaces
    {
        let pods = Api::<Pod>::namespaced(client.clone(), &namespace);
        let pods = pods
            .list(&ListParams::default())
            .await
            .map_err(words)
            .with_context(|| format!("list pods of {namespace}"))?;
        for pod in pods
            .items
            .iter()
            .filter(|pod| name.is_none_or(|name| pod.name_any() == name))
        {
            if is_gated(pod) {
                report.pods.push(pod_line(pod));
            } else if opted_in || name.is_some() || was_gated(pod) {
                report.ungated.push(ungated_line(pod, opted_in));
            }
        }
    }
    if let (Some(name), true) = (name, report.pods.is_empty() && report.ungated.is_empty()) {
        anyhow::bail!(
            "pod {name:?} not found in namespace {:?}",
            args.namespace.as_deref().unwrap_or_default()
        );
    }
    if name.is_none() {
        report
            .notes
            .extend(native_gangs(&client, &args.portcullis_namespace).await);
        report.jobs = jobs::read(&client, &names).await;
        let gangs = gangs::read(&client, args.namespace.as_deref()).await;
        report.notes.extend(gangs.notes);
        // Whoever has gangs need not dispatch.
        let has_gangs = gangs.are_asked_for || !gangs.lines.is_empty();
        report.notes.splice(0..0, nobody.filter(|_| !has_gangs));
        report.gangs = gangs.lines;
        workers(&client, args, &mut report).await;
    }
    Ok(report)
}

/// What is wrong with native gangs, where any namespace asks for gangs. Whoever may not try it learns nothing.
async fn native_gangs(client: &Client, own_namespace: &str) -> Option<String> {
    let labelled = ListParams::default().labels(names::GANG).limit(1);
    let namespaces = Api::<Namespace>::all(client.clone())
        .list_metadata(&labelled)
        .await
        .ok()?;
    if namespaces.items.is_empty() {
        return None;
    }
    let served = Served::ask(client, &["scheduling.k8s.io"]).await.ok()?;
    let native = probe::native(&ClusterApi::new(client.clone()), own_namespace, &served)
        .await
        .ok()?;
    native.problem().map(str::to_owned)
}

async fn client(args: &StatusArgs) -> anyhow::Result<Client> {
    let options = KubeConfigOptions {
        context: args.context.clone(),
        ..KubeConfigOptions::default()
    };
    let config = match &args.kubeconfig {
        Some(path) => {
            let kubeconfig =
                Kubeconfig::read_from(path).with_context(|| format!("--kubeconfig {}", path.display()))?;
            Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .context("use --kubeconfig")?
        }
        None if args.context.is_some() => Config::from_kubeconfig(&options).await.context("use --context")?,
        None => Config::infer()
            .await
            .context("find a kubeconfig; name one with --kubeconfig")?,
    };
    Client::try_from(config).context("reach the manager")
}

/// The name in `NAME` or `pod/NAME`, as kubectl takes it.
fn pod_name(text: &str) -> Result<String, String> {
    let name = match text.split_once('/') {
        Some(("pod" | "pods" | "po", name)) => name,
        Some(_) => "",
        None => text,
    };
    if name.is_empty() || name.contains('/') {
        return Err(format!(
            "found {text:?}, allowed is pod/NAME or NAME; for the pods of a workload leave it out: all of the namespace are shown"
        ));
    }
    Ok(name.to_owned())
}

/// Orphans can only be seen on the workers, with the kubeconfigs that portcullis uses.
async fn workers(client: &Client, args: &StatusArgs, report: &mut Report) {
    let note = |what: &str, error: &dyn std::fmt::Display| {
        eprintln!(
            "portcullis: {what}: {error}; orphans and namespaces that were created are not listed there"
        );
    };
    let (origin, living) = match manager_facts(client).await {
        Ok(facts) => facts,
        Err(error) => return note("the manager", &chain(error.as_ref())),
    };
    let clusters = match Api::<WorkerCluster>::all(client.clone())
        .list(&ListParams::default())
        .await
    {
        Ok(clusters) => clusters,
        Err(error) => return note("WorkerClusters", &words(error)),
    };
    for cluster in clusters {
        let name = cluster.name_any();
        let created = cluster.status.clone().unwrap_or_default().created_namespaces;
        report
            .created_namespaces
            .extend(created.into_iter().map(|namespace| CreatedNamespace {
                cluster: name.clone(),
                namespace,
            }));
        match orphans(client, args, &cluster, (&origin, &living)).await {
            Ok((orphans, foreign)) => {
                report.orphans.extend(orphans);
                report.notes.extend(foreign_note(&name, &foreign));
            }
            Err(error) => note(&name, &chain(error.as_ref())),
        }
    }
}

async fn manager_facts(client: &Client) -> anyhow::Result<(String, BTreeSet<String>)> {
    let system = Api::<Namespace>::all(client.clone())
        .get("kube-system")
        .await
        .map_err(words)
        .context("read kube-system")?;
    let gated = ListParams::default().labels(&format!("{}={}", names::GATED, names::TRUE));
    let pods = Api::<Pod>::all(client.clone())
        .list_metadata(&gated)
        .await
        .map_err(words)
        .context("list gated pods")?;
    let living = pods.iter().filter_map(|pod| pod.metadata.uid.clone()).collect();
    Ok((system.uid().context("kube-system has no UID")?, living))
}

/// The orphans on a worker, and its namespaces that take no pods from here but hold some that look like orphans.
async fn orphans(
    client: &Client,
    args: &StatusArgs,
    cluster: &WorkerCluster,
    (origin, living): (&str, &BTreeSet<String>),
) -> anyhow::Result<(Vec<OrphanLine>, BTreeSet<String>)> {
    let api = worker_api(client, args, cluster).await?;
    let ours = ListParams::default().labels(&format!("{}={origin}", names::ORIGIN));
    let pods = match &args.namespace {
        Some(namespace) => Api::<Pod>::namespaced(api.client().clone(), namespace),
        None => Api::<Pod>::all(api.client().clone()),
    };
    let pods = pods.list(&ours).await.map_err(words).context("list pods")?;
    let found = pods
        .iter()
        .filter_map(|pod| orphan_line(&cluster.name_any(), pod, living));
    without_foreign(&api, origin, found.collect()).await
}

/// Anyone who may create pods in a namespace of the worker can give them our marks. Only one that takes our pods has any.
async fn without_foreign(
    api: &ClusterApi,
    origin: &str,
    mut orphans: Vec<OrphanLine>,
) -> anyhow::Result<(Vec<OrphanLine>, BTreeSet<String>)> {
    let namespaces: BTreeSet<String> = orphans.iter().map(|line| line.namespace.clone()).collect();
    let mut foreign = BTreeSet::new();
    for namespace in namespaces {
        let refuses = space::refuses(api, origin, &namespace).await;
        if refuses.with_context(|| format!("read namespace {namespace}"))? {
            foreign.insert(namespace);
        }
    }
    orphans.retain(|line| !foreign.contains(&line.namespace));
    Ok((orphans, foreign))
}

fn foreign_note(cluster: &str, foreign: &BTreeSet<String>) -> Option<String> {
    let names: Vec<&str> = foreign.iter().map(String::as_str).collect();
    (!names.is_empty()).then(|| {
        format!(
            "On {cluster} pods without a pod here carry the marks of this cluster, but in namespaces that do not accept its pods: {}. They are not listed as orphans.",
            names.join(", ")
        )
    })
}

async fn worker_api(
    client: &Client,
    args: &StatusArgs,
    cluster: &WorkerCluster,
) -> anyhow::Result<ClusterApi> {
    let reference = &cluster.spec.kubeconfig_secret_ref;
    let secrets = Api::<Secret>::namespaced(client.clone(), &args.portcullis_namespace);
    let secret = secrets
        .get(&reference.name)
        .await
        .map_err(words)
        .with_context(|| format!("read Secret {}", reference.name))?;
    let data = secret.data.unwrap_or_default();
    let bytes = data
        .get(&reference.key)
        .with_context(|| format!("Secret {} has no key {}", reference.name, reference.key))?;
    let clients = Clients::from_kubeconfig(kubeconfig::parse(&bytes.0)?).await?;
    Ok(clients.calls)
}

/// The API server's own words, without the types around them.
fn words(error: kube::Error) -> anyhow::Error {
    anyhow::anyhow!(CallError::from(error).words())
}

#[cfg(test)]
mod tests;
