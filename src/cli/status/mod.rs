//! `portcullis status`: read the clusters with the caller's own rights, and say what is where.

mod asked;
mod gangs;
mod jobs;
mod one_job;
mod orphan;
mod remote_pods;
mod report;
mod scope;
mod workers;

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};

use self::asked::Asked;
use self::one_job::OneJob;
use self::report::{Report, is_gated, pod_line, ungated_line, was_gated};
use self::scope::{Scope, Seen, scope};
use super::documents::{self, Format};
use super::subject::KindArgs;
use crate::cluster::api::{CallError, ClusterApi};
use crate::cluster::discovery::Served;
use crate::names;
use crate::reconcile::gang::probe;

/// Options of `portcullis status`.
#[derive(Args, Debug)]
pub struct StatusArgs {
    /// Only this pod, as `pod/NAME` or `NAME`, or this job with its pods on the worker, as `KIND/NAME`; needs --namespace.
    #[arg(requires = "namespace", value_name = "[KIND/]NAME")]
    asked: Option<Asked>,
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
    /// Which kinds of jobs there are.
    #[command(flatten)]
    kinds: KindArgs,
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
    let Scope {
        namespaces,
        notes,
        nobody,
    } = scope(&client, args.namespace.as_deref(), &args.portcullis_namespace).await?;
    let mut report = Report {
        notes,
        ..Report::default()
    };
    let name = match &args.asked {
        Some(Asked::Job(named)) => {
            let OneJob { line, pods, notes } = one_job::read(&client, args, named).await?;
            report.jobs.push(line);
            report.remote_pods = pods;
            report.notes.extend(notes);
            return Ok(report);
        }
        Some(Asked::Pod(name)) => Some(name.as_str()),
        None => None,
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
        let kinds = args.kinds.read()?;
        report.jobs = jobs::read(&client, kinds, &names).await;
        let gangs = gangs::read(&client, args.namespace.as_deref()).await;
        report.notes.extend(gangs.notes);
        // Whoever has gangs need not dispatch.
        let has_gangs = gangs.are_asked_for || !gangs.lines.is_empty();
        report.notes.splice(0..0, nobody.filter(|_| !has_gangs));
        report.gangs = gangs.lines;
        workers::read(&client, args, kinds, &mut report).await;
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

/// The API server's own words, without the types around them.
fn words(error: kube::Error) -> anyhow::Error {
    anyhow::anyhow!(CallError::from(error).words())
}

#[cfg(test)]
mod tests;
