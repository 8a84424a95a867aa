//! `--namespace` or none -> the namespaces that are read, and what is to be said of them beside their pods.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Namespace, Pod};
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
    /// What is to be said if no namespace is opted in, and there is nothing else to show.
    pub(super) nobody: Option<String>,
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
        let mut namespaces: Vec<Seen> = found.iter().map(seen).collect();
        let left = no_longer_opted_in(client, &namespaces).await;
        let nobody = namespaces
            .is_empty()
            .then(|| format!("No namespace is opted in. To opt one in: {}", opt_in("NAMESPACE")));
        let held = (!left.is_empty()).then(|| {
            let names: Vec<&str> = left.iter().map(|seen| seen.name.as_str()).collect();
            format!(
                "No longer opted in, but pods are still dispatched from there: {}. They stay where they are until they are deleted.",
                names.join(", ")
            )
        });
        namespaces.extend(left);
        return Ok(Scope {
            namespaces,
            notes: held.into_iter().collect(),
            nobody,
        });
    };
    let (opted_in, notes) = match api.get(name).await {
        Ok(namespace) if namespace.labels().contains_key(names::DISPATCH) => (true, Vec::new()),
        // It asks for gangs, not for dispatch.
        Ok(namespace) if namespace.labels().contains_key(names::GANG) => (false, Vec::new()),
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
        nobody: None,
    })
}

/// Other namespaces with pods that carry our gate. Whoever may not list pods everywhere sees none of them.
async fn no_longer_opted_in(client: &Client, opted_in: &[Seen]) -> Vec<Seen> {
    let gated = ListParams::default().labels(&format!("{}={}", names::GATED, names::TRUE));
    let Ok(pods) = Api::<Pod>::all(client.clone()).list_metadata(&gated).await else {
        return Vec::new();
    };
    let known = |name: &String| opted_in.iter().any(|seen| seen.name == *name);
    let others: BTreeSet<String> = pods.items.iter().filter_map(ResourceExt::namespace).collect();
    others
        .into_iter()
        .filter(|name| !known(name))
        .map(|name| Seen {
            name,
            opted_in: false,
        })
        .collect()
}

fn not_opted_in(name: &str, own: &str) -> String {
    if PROTECTED_NAMESPACES.contains(&name) || name == own {
        return format!("Namespace {name} is never opted in: its pods run on this cluster.");
    }
    format!(
        "Namespace {name} is not opted in: new pods run on this cluster, and those that were dispatched before stay where they are. To opt it in: {}",
        opt_in(name)
    )
}

fn opt_in(name: &str) -> String {
    format!(
        "kubectl label namespace {name} {}=POLICY (`kubectl get dispatchpolicies` lists them)",
        names::DISPATCH
    )
}
