//! `--namespace` or none -> the namespaces that are read, and what is to be said of them beside their pods.

use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use super::words;
use crate::admission::facts::PROTECTED_NAMESPACES;
use crate::names;
use crate::words::chain;

/// What is read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Scope {
    /// The namespaces.
    pub(super) namespaces: Vec<Seen>,
    /// Sentences for the reader.
    pub(super) notes: Vec<String>,
}

/// A namespace.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// Its name.
    pub(super) name: String,
    /// Whether its new pods are dispatched. True if that cannot be read.
    pub(super) opted_in: bool,
}

/// The namespace that is asked for, or all that are opted in. `own` is that of portcullis.
///
/// # Errors
/// If it does not exist, or namespaces cannot be listed.
pub(super) async fn scope(client: &Client, asked: Option<&str>, own: &str) -> anyhow::Result<Scope> {
    let api = Api::<Namespace>::all(client.clone());
    let Some(name) = asked else {
        let opted_in = api.list(&ListParams::default().labels(names::DISPATCH)).await;
        let found = opted_in.map_err(|error| {
            words(error).context("list namespaces; without that right, name one with --namespace")
        })?;
        let seen = |namespace: &Namespace| Seen {
            name: namespace.name_any(),
            opted_in: true,
        };
        let namespaces: Vec<Seen> = found.iter().map(seen).collect();
        let nobody = namespaces
            .is_empty()
            .then(|| format!("No namespace is opted in. To opt one in: {}", opt_in("NAMESPACE")));
        return Ok(Scope {
            namespaces,
            notes: nobody.into_iter().collect(),
        });
    };
    let (opted_in, notes) = match api.get(name).await {
        Ok(namespace) if namespace.labels().contains_key(names::DISPATCH) => (true, Vec::new()),
        Ok(_) => (false, vec![not_opted_in(name, own)]),
        Err(kube::Error::Api(status)) if status.code == 404 => {
            anyhow::bail!(
                "namespace {name:?} does not exist on the manager; `kubectl get namespaces` lists them"
            )
        }
        // Whoever may read the pods of a namespace need not be allowed to read its labels.
        Err(kube::Error::Api(status)) if status.code == 403 => (true, Vec::new()),
        Err(error) => {
            return Err(anyhow::anyhow!("read namespace {name}: {}", chain(&error)));
        }
    };
    let name = name.to_owned();
    Ok(Scope {
        namespaces: vec![Seen { name, opted_in }],
        notes,
    })
}

fn not_opted_in(name: &str, own: &str) -> String {
    if PROTECTED_NAMESPACES.contains(&name) || name == own {
        return format!("Namespace {name} is never opted in: its pods run on this cluster.");
    }
    format!(
        "Namespace {name} is not opted in: its pods run on this cluster. To opt it in: {}",
        opt_in(name)
    )
}

fn opt_in(name: &str) -> String {
    format!(
        "kubectl label namespace {name} {}=POLICY (`kubectl get dispatchpolicies` lists them)",
        names::DISPATCH
    )
}
