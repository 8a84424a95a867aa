//! What our identity may do on a worker, asked from its authorizer.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::{Api, Client};

use super::connect::call_problem;
use super::{Connection, Problem, Worker};
use crate::reconcile::pair::local::Subject;

/// Whether pods may be watched everywhere, and which rights of the cluster-wide role are missing.
pub(super) async fn rights(client: &Client) -> Result<(bool, Vec<String>), Problem> {
    let mut missing = Vec::new();
    let mut cluster_wide = true;
    for (resource, verbs) in [("pods", ["list", "watch", "get", "create", "patch", "delete"])] {
        for verb in verbs {
            if !allowed(client, resource, verb).await? {
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

async fn allowed(client: &Client, resource: &str, verb: &str) -> Result<bool, Problem> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
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
        .await
        .map_err(|error| call_problem(&error.into()))?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
