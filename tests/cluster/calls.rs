//! One API call as the administrator of a cluster: an object's short name and JSON in, JSON out.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{LazyLock, Mutex};

use anyhow::{Context, Result, bail, ensure};
use http::{Method, Request};
use kube::Client;
use portcullis::workload::jobs::JOB_KINDS;
use portcullis_testbed::Cluster;
use serde_json::Value;

static CLIENTS: LazyLock<Mutex<HashMap<SocketAddr, Client>>> = LazyLock::new(Mutex::default);

pub async fn find(cluster: &Cluster, namespace: &str, object: &str) -> Result<Option<Value>> {
    match call(cluster, Method::GET, &path(object, namespace), None).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if refused(&error, 404) => Ok(None),
        Err(error) => Err(error),
    }
}

pub async fn call(
    cluster: &Cluster,
    method: Method,
    path: &str,
    body: Option<(&str, Value)>,
) -> Result<Value> {
    let held = CLIENTS
        .lock()
        .expect("no test panics with it")
        .get(&cluster.server())
        .cloned();
    let client = match held {
        Some(client) => client,
        None => {
            let client = cluster.admin_client().await?;
            CLIENTS
                .lock()
                .expect("no test panics with it")
                .insert(cluster.server(), client.clone());
            client
        }
    };
    let what = format!("{method} {path} on {}", cluster.name());
    let request = Request::builder().method(method).uri(path);
    let request = match body {
        Some((media, body)) => request
            .header("Content-Type", media)
            .body(body.to_string().into_bytes())?,
        None => request.body(Vec::new())?,
    };
    client.request::<Value>(request).await.context(what)
}

/// Whether the API server answered with this code.
pub fn refused(error: &anyhow::Error, code: u16) -> bool {
    matches!(error.downcast_ref::<kube::Error>(), Some(kube::Error::Api(status)) if status.code == code)
}

/// The server's own words.
pub fn words(error: &anyhow::Error) -> String {
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => status.message.clone(),
        Some(_) | None => format!("{error:#}"),
    }
}

/// It must have been refused, with these words.
pub fn ensure_refused<T: std::fmt::Debug>(answer: Result<T>, expected: &str) -> Result<()> {
    match answer {
        Ok(done) => bail!("it was accepted: {done:?}"),
        Err(error) => ensure!(
            words(&error).contains(expected),
            "refused, but with other words: {error:#}"
        ),
    }
    Ok(())
}

/// `kind/name[/subresource]` -> path.
pub fn path(object: &str, namespace: &str) -> String {
    let (kind, rest) = object.split_once('/').expect("kind/name");
    format!("{}/{rest}", collection(&plural(kind), namespace))
}

pub fn plural(kind: &str) -> String {
    match kind {
        "dispatchpolicy" => "dispatchpolicies".to_owned(),
        "priorityclass" | "runtimeclass" => format!("{kind}es"),
        "mutatingadmissionpolicy" => "mutatingadmissionpolicies".to_owned(),
        _ => format!("{kind}s"),
    }
}

pub fn collection(plural: &str, namespace: &str) -> String {
    let group = match plural {
        "deployments" | "statefulsets" | "replicasets" | "daemonsets" => "apis/apps/v1",
        "cronjobs" => "apis/batch/v1",
        "jaxjobs" => "apis/kubeflow.org/v1",
        "solvers" | "planners" | "sorters" => "apis/batch.example.com/v1",
        "workerclusters" | "dispatchpolicies" => "apis/portcullis.dev/v1alpha1",
        "priorityclasses" => "apis/scheduling.k8s.io/v1",
        "runtimeclasses" => "apis/node.k8s.io/v1",
        "customresourcedefinitions" => "apis/apiextensions.k8s.io/v1",
        "endpointslices" => "apis/discovery.k8s.io/v1",
        "mutatingadmissionpolicies" | "mutatingadmissionpolicybindings" => {
            "apis/admissionregistration.k8s.io/v1"
        }
        _ => match JOB_KINDS.iter().find(|kind| kind.resource().plural == plural) {
            Some(kind) => &format!("apis/{}", kind.resource().api_version()),
            None => "api/v1",
        },
    };
    match namespace {
        "" => format!("/{group}/{plural}"),
        _ => format!("/{group}/namespaces/{namespace}/{plural}"),
    }
}
