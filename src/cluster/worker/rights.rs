//! What our identity may do on a worker, asked from its authorizer.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::{Api, Client};

use super::connect::call_problem;
use super::{Connection, Problem, Worker};
use crate::cluster::api::CallError;
use crate::gang::Family;
use crate::reconcile::gang::scope::apis_of;
use crate::reconcile::pair::local::Subject;

/// Whether pods may be watched everywhere, and which rights of the cluster-wide role are missing.
pub(super) async fn rights(client: &Client) -> Result<(bool, Vec<String>), Problem> {
    let mut missing = Vec::new();
    let mut cluster_wide = true;
    for (resource, verbs) in [("pods", ["list", "watch", "get", "create", "patch", "delete"])] {
        for verb in verbs {
            if !allowed(client, "", resource, verb)
                .await
                .map_err(|error| call_problem(&error))?
            {
                missing.push(format!("{verb} {resource}"));
                cluster_wide &= verb != "list" && verb != "watch";
            }
        }
    }
    // Without the cluster-wide role rights are per namespace: each namespace tells by itself.
    Ok(if cluster_wide {
        (true, missing)
    } else {
        (false, Vec::new())
    })
}

/// Asked only while something is missing: then somebody is about to grant it.
pub(super) async fn rights_changed(worker: &Worker, connection: &Connection) -> bool {
    if connection.missing_rights.is_empty() && worker.forbidden(Subject::Pod, "").is_none() {
        return false;
    }
    let held = (connection.cluster_wide, connection.missing_rights.clone());
    rights(connection.clients.calls.client())
        .await
        .is_ok_and(|now| now != held)
}

/// Which rights for gangs of this scheduler are missing: they are for all namespaces.
pub(crate) async fn lacks(client: &Client, family: Family) -> Result<Vec<String>, CallError> {
    let mut missing = Vec::new();
    for api in apis_of(family) {
        for verb in ["get", "list", "watch", "create", "patch", "delete"] {
            if !allowed(client, api.group, api.plural, verb).await? {
                missing.push(format!("{verb} {}.{}", api.plural, api.group));
            }
        }
    }
    for (group, plural) in [
        ("scheduling.k8s.io", "priorityclasses"),
        ("node.k8s.io", "runtimeclasses"),
    ] {
        for verb in ["list", "watch"] {
            if !allowed(client, group, plural, verb).await? {
                missing.push(format!("{verb} {plural}.{group}"));
            }
        }
    }
    Ok(missing)
}

async fn allowed(client: &Client, group: &str, resource: &str, verb: &str) -> Result<bool, CallError> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                group: Some(group.to_owned()),
                resource: Some(resource.to_owned()),
                verb: Some(verb.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let answer = Api::all(client.clone())
        .create(&kube::api::PostParams::default(), &review)
        .await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
