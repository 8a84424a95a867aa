//! Somebody who asks the API server, as himself or impersonated by the administrator.

use std::time::{Duration, Instant};

use http::Request;
use serde_json::Value;

use super::ground::PATIENCE;
use crate::sides::KIND_IS_NEW;

/// Somebody who asks the API server for something.
pub struct Actor {
    client: kube::Client,
    namespace: String,
    user: Option<String>,
    groups: Vec<String>,
}

impl Actor {
    /// A user by name; nobody in particular is the administrator that the client is.
    pub fn new(client: kube::Client, namespace: &str, user: Option<&str>, groups: &[&str]) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
            user: user.map(str::to_owned),
            groups: groups.iter().map(|&group| group.to_owned()).collect(),
        }
    }

    /// The administrator of any cluster, in no namespace.
    pub fn admin(client: kube::Client) -> Self {
        Self::new(client, "", None, &[])
    }

    /// POST, again as long as a kind is too new for the policies.
    pub async fn create(&self, resource: &str, manifest: &Value) -> kube::Result<Value> {
        let (path, began) = (self.path(resource, "", ""), Instant::now());
        loop {
            let made = self.send("POST", &path, "application/json", manifest).await;
            let is_new =
                matches!(&made, Err(kube::Error::Api(status)) if status.message.contains(KIND_IS_NEW));
            if !is_new || began.elapsed() > PATIENCE {
                return made;
            }
            tokio::time::sleep(Duration::from_millis(100)).await; // its policies hear of it a moment later
        }
    }

    /// POST with `dryRun=All`.
    pub async fn dry_run(&self, resource: &str, manifest: &Value) -> kube::Result<Value> {
        let path = format!("{}?dryRun=All", self.path(resource, "", ""));
        self.send("POST", &path, "application/json", manifest).await
    }

    /// GET; a list if `name` is empty.
    pub async fn get(&self, resource: &str, name: &str) -> kube::Result<Value> {
        self.send(
            "GET",
            &self.path(resource, name, ""),
            "application/json",
            &Value::Null,
        )
        .await
    }

    /// PUT, what `kubectl replace` does.
    pub async fn replace(
        &self,
        resource: &str,
        name: &str,
        subresource: &str,
        object: &Value,
    ) -> kube::Result<Value> {
        self.send(
            "PUT",
            &self.path(resource, name, subresource),
            "application/json",
            object,
        )
        .await
    }

    /// A merge patch, or a JSON patch if it is a list.
    pub async fn patch(
        &self,
        resource: &str,
        name: &str,
        subresource: &str,
        patch: &Value,
    ) -> kube::Result<Value> {
        let kind = if patch.is_array() {
            "application/json-patch+json"
        } else {
            "application/merge-patch+json"
        };
        self.send("PATCH", &self.path(resource, name, subresource), kind, patch)
            .await
    }

    /// A JSON patch with `dryRun=All`.
    pub async fn dry_run_patch(&self, resource: &str, name: &str, patch: &Value) -> kube::Result<Value> {
        let path = format!("{}?dryRun=All", self.path(resource, name, ""));
        self.send("PATCH", &path, "application/json-patch+json", patch)
            .await
    }

    /// A server-side apply under the manager `tester`.
    pub async fn apply(&self, resource: &str, name: &str, object: &Value) -> kube::Result<Value> {
        let path = format!("{}?fieldManager=tester&force=true", self.path(resource, name, ""));
        self.send("PATCH", &path, "application/apply-patch+yaml", object)
            .await
    }

    /// DELETE.
    pub async fn delete(&self, resource: &str, name: &str) -> kube::Result<Value> {
        self.send(
            "DELETE",
            &self.path(resource, name, ""),
            "application/json",
            &Value::Null,
        )
        .await
    }

    async fn send(&self, method: &str, path: &str, kind: &str, body: &Value) -> kube::Result<Value> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("Content-Type", kind);
        if let Some(user) = &self.user {
            request = request.header("Impersonate-User", user);
        }
        for group in &self.groups {
            request = request.header("Impersonate-Group", group);
        }
        let body = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let request = request.body(body).expect("the path and the headers are plain");
        self.client.request::<Value>(request).await
    }

    fn path(&self, resource: &str, name: &str, subresource: &str) -> String {
        let (group, namespaced) = match resource.split('/').next().unwrap_or_default() {
            "pods" | "events" | "services" => ("api/v1", true),
            "namespaces" => ("api/v1", false),
            "deployments" | "statefulsets" | "replicasets" | "daemonsets" => ("apis/apps/v1", true),
            "jobs" | "cronjobs" => ("apis/batch/v1", true),
            "jobsets" => ("apis/jobset.x-k8s.io/v1alpha2", true),
            "mpijobs" => ("apis/kubeflow.org/v2beta1", true),
            "pytorchjobs" => ("apis/kubeflow.org/v1", true),
            "sparkapplications" => ("apis/sparkoperator.k8s.io/v1beta2", true),
            "customresourcedefinitions" => ("apis/apiextensions.k8s.io/v1", false),
            "rolebindings" => ("apis/rbac.authorization.k8s.io/v1", true),
            "clusterroles" | "clusterrolebindings" => ("apis/rbac.authorization.k8s.io/v1", false),
            "subjectaccessreviews" => ("apis/authorization.k8s.io/v1", false),
            "nodes" => ("api/v1", false),
            "workerclusters" | "dispatchpolicies" => ("apis/portcullis.dev/v1alpha1", false),
            _ => ("apis/admissionregistration.k8s.io/v1", false),
        };
        let namespace = if namespaced {
            format!("/namespaces/{}", self.namespace)
        } else {
            String::new()
        };
        let slash = |part: &str| {
            if part.is_empty() {
                String::new()
            } else {
                format!("/{part}")
            }
        };
        format!(
            "/{group}{namespace}/{resource}{}{}",
            slash(name),
            slash(subresource)
        )
    }
}
