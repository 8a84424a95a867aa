//! Where a guard test stands: a namespace of its own on the manager, and people who act in it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use http::Request;
use portcullis_testbed::wait_for;
use serde_json::{Value, json};

use crate::rig::Rig;

/// The user name of our ServiceAccount.
pub const OURS: &str = "system:serviceaccount:portcullis-system:portcullis";
/// A policy that does not exist: nothing of such a namespace is ever prepared, so its pods stay uncommitted.
const NOWHERE: &str = "nowhere";
/// Far more than anything here takes.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Where checks take place: the world, with portcullis running or not.
#[derive(Clone)]
pub struct Site {
    rig: Arc<Rig>,
    /// So that the two runs of a check do not meet.
    prefix: &'static str,
}

impl Site {
    /// Portcullis runs.
    pub fn beside(rig: Arc<Rig>) -> Self {
        Self { rig, prefix: "" }
    }

    /// Nothing of ours runs.
    pub fn alone(rig: Arc<Rig>) -> Self {
        Self {
            rig,
            prefix: "alone-",
        }
    }

    /// A name that is not used in the other run.
    pub fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// A new namespace, opted in, where alice may `edit`.
    pub async fn opted_in(&self, name: &str) -> Result<Ground> {
        Ground::labelled(
            &self.rig,
            &self.name(name),
            &[("portcullis.dev/dispatch", NOWHERE)],
        )
        .await
    }

    /// Opted in, and users may exempt their pods.
    pub async fn allowing_exempt(&self, name: &str) -> Result<Ground> {
        let labels = [
            ("portcullis.dev/dispatch", NOWHERE),
            ("portcullis.dev/allow-exempt", "true"),
        ];
        Ground::labelled(&self.rig, &self.name(name), &labels).await
    }

    /// A new namespace that is none of ours, where alice may `edit`.
    pub async fn plain(&self, name: &str) -> Result<Ground> {
        Ground::labelled(&self.rig, &self.name(name), &[]).await
    }
}

/// A namespace on the manager, opted in or not.
pub struct Ground {
    rig: Arc<Rig>,
    client: kube::Client,
    /// Its name.
    pub namespace: String,
}

impl Ground {
    async fn labelled(rig: &Arc<Rig>, name: &str, labels: &[(&str, &str)]) -> Result<Self> {
        let manager = &rig.world.manager;
        manager.create_namespace(name, labels).await?;
        let ground = Self {
            rig: rig.clone(),
            client: manager.admin_client().await?,
            namespace: name.to_owned(),
        };
        ground.grant("alice", "edit").await?;
        if labels.is_empty() {
            Ok(ground)
        } else {
            ground.await_gate().await.map(|()| ground)
        }
    }

    /// Labels the namespace, and waits until the policies know.
    pub async fn opt_in(&self) -> Result<()> {
        self.set_label("portcullis.dev/dispatch", json!(NOWHERE)).await?;
        self.await_gate().await
    }

    /// Removes the label, and waits until the policies know.
    pub async fn opt_out(&self) -> Result<()> {
        self.set_label("portcullis.dev/dispatch", Value::Null).await?;
        self.probe(false).await
    }

    /// Sets or (null) removes a label of the namespace.
    pub async fn set_label(&self, key: &str, value: Value) -> Result<()> {
        let patch = json!({"metadata": {"labels": {key: value}}});
        self.admin()
            .patch("namespaces", &self.namespace, "", &patch)
            .await?;
        Ok(())
    }

    async fn await_gate(&self) -> Result<()> {
        self.probe(true).await
    }

    async fn probe(&self, gated: bool) -> Result<()> {
        let admin = self.admin();
        wait_for("the policies to know of the label", PATIENCE, async || {
            let pod = admin.dry_run("pods", &pod("probe")).await?;
            anyhow::Ok((has_gate(&pod) == gated).then_some(()))
        })
        .await
    }

    /// Binds a ClusterRole to a user in this namespace.
    pub async fn grant(&self, user: &str, role: &str) -> Result<()> {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"generateName": "test-"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "User", "name": user}],
        });
        self.admin().create("rolebindings", &binding).await?;
        self.await_right(
            user,
            json!({"namespace": self.namespace, "verb": "patch", "resource": "pods"}),
        )
        .await
    }

    /// Waits until the authorizer has heard of a right.
    pub async fn await_right(&self, user: &str, attributes: Value) -> Result<()> {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": attributes},
        });
        wait_for("the authorizer to know of a right", PATIENCE, async || {
            let answer = self.admin().create("subjectaccessreviews", &review).await?;
            anyhow::Ok((answer["status"]["allowed"] == true).then_some(()))
        })
        .await
    }

    /// Makes a ClusterRole; one of this name may be there already.
    pub async fn role(&self, name: &str, rules: Value) -> Result<()> {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": rules,
        });
        match self.admin().create("clusterroles", &role).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            other => other.map(drop).map_err(Into::into),
        }
    }

    /// Lets a user do everything with pods here, through all subresources, as operators may.
    pub async fn grant_pods(&self, user: &str) -> Result<()> {
        let resources = [
            "pods",
            "pods/status",
            "pods/resize",
            "pods/ephemeralcontainers",
            "pods/binding",
        ];
        self.role(
            "test-pods",
            json!([{"apiGroups": [""], "resources": resources, "verbs": ["*"]}]),
        )
        .await?;
        self.grant(user, "test-pods").await
    }

    /// `system:masters`.
    pub fn admin(&self) -> Actor {
        self.actor(None, &[])
    }

    /// A user with `edit` in this namespace.
    pub fn alice(&self) -> Actor {
        self.user("alice")
    }

    /// Our own ServiceAccount.
    pub fn ours(&self) -> Actor {
        self.user(OURS)
    }

    /// Anyone, with the groups that the API server gives to such a name.
    pub fn user(&self, name: &str) -> Actor {
        self.actor(Some(name), &[])
    }

    /// A kubelet.
    pub fn kubelet(&self, node: &str) -> Actor {
        self.actor(Some(&format!("system:node:{node}")), &["system:nodes"])
    }

    fn actor(&self, user: Option<&str>, groups: &[&str]) -> Actor {
        Actor {
            client: self.client.clone(),
            namespace: self.namespace.clone(),
            user: user.map(str::to_owned),
            groups: groups.iter().map(|&group| group.to_owned()).collect(),
        }
    }

    /// The manager.
    pub fn manager(&self) -> &portcullis_testbed::Cluster {
        &self.rig.world.manager
    }

    /// A pod as alice makes it.
    pub async fn gated_pod(&self, name: &str) -> Result<Value> {
        let made = self.alice().create("pods", &pod(name)).await?;
        ensure!(has_gate(&made), "the pod was made without the gate");
        Ok(made)
    }

    /// A pod that is committed to a worker, by our own hand.
    pub async fn committed_pod(&self, name: &str, manifest: &Value) -> Result<Value> {
        let made = self.alice().create("pods", manifest).await?;
        let uid = made["metadata"]["uid"].as_str().context("a UID")?;
        let commit = json!({"metadata": {
            "finalizers": ["portcullis.dev/remote-copy"],
            "annotations": {
                "portcullis.dev/cluster": "worker-x",
                "portcullis.dev/cluster-uid": "2f1c",
                "portcullis.dev/remote-uid": format!("{uid}/77"),
            },
        }});
        Ok(self.ours().patch("pods", name, "", &commit).await?)
    }

    /// Waits until an object satisfies `holds`.
    pub async fn await_object(
        &self,
        what: &str,
        resource: &str,
        name: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let admin = self.admin();
        wait_for(what, PATIENCE, async || {
            let object = admin.get(resource, name).await?;
            if holds(&object) {
                Ok(Some(object))
            } else {
                Err(anyhow::anyhow!("{resource}/{name} is {object}"))
            }
        })
        .await
    }

    /// The objects of a kind in this namespace, as they are.
    pub async fn all(&self, resource: &str) -> Result<Vec<Value>> {
        let list = self.admin().get(resource, "").await?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }
}

/// Somebody who asks the API server for something.
pub struct Actor {
    client: kube::Client,
    namespace: String,
    user: Option<String>,
    groups: Vec<String>,
}

impl Actor {
    /// The administrator of any cluster, in no namespace.
    pub fn admin(client: kube::Client) -> Self {
        Self {
            client,
            namespace: String::new(),
            user: None,
            groups: Vec::new(),
        }
    }

    /// POST.
    pub async fn create(&self, resource: &str, manifest: &Value) -> kube::Result<Value> {
        self.send("POST", &self.path(resource, "", ""), "application/json", manifest)
            .await
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
            "jobs" => ("apis/batch/v1", true),
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

/// Fails unless the guard refused, with this in its sentence.
#[track_caller]
pub fn refused(result: kube::Result<Value>, sentence: &str) -> Result<()> {
    match result {
        Err(kube::Error::Api(status)) => {
            let by_us = status
                .message
                .contains("ValidatingAdmissionPolicy 'portcullis-guard-");
            ensure!(
                status.code == 403 && by_us,
                "refused, but not by the guard: {} {}",
                status.code,
                status.message
            );
            ensure!(
                status.message.contains(sentence),
                "{sentence:?} is not in {:?}",
                status.message
            );
            Ok(())
        }
        Err(error) => Err(error).context("the call failed"),
        Ok(object) => bail!("allowed: {object}"),
    }
}

/// Fails unless it was refused by the guard or, before it, by the webhook, and the keys are named.
#[track_caller]
pub fn refused_keys(result: kube::Result<Value>, keys: &[&str]) -> Result<()> {
    match result {
        Err(kube::Error::Api(status)) => {
            ensure!(
                status.code == 403 && status.message.contains("portcullis"),
                "refused by another: {}",
                status.message
            );
            for key in keys {
                ensure!(
                    status.message.contains(key),
                    "{key} is not in {:?}",
                    status.message
                );
            }
            Ok(())
        }
        Err(error) => Err(error).context("the call failed"),
        Ok(object) => bail!("allowed: {object}"),
    }
}

/// A pod or template carries our gate.
pub fn has_gate(pod: &Value) -> bool {
    pod["spec"]["schedulingGates"]
        .as_array()
        .is_some_and(|gates| gates.contains(&gate()))
}

/// A pod or template carries our label.
pub fn has_label(pod: &Value) -> bool {
    pod["metadata"]["labels"]["portcullis.dev/gated"] == "true"
}

/// Our gate.
pub fn gate() -> Value {
    json!({"name": "portcullis.dev/multikueue"})
}

/// The smallest pod.
pub fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container()]},
    })
}

/// The smallest container.
pub fn container() -> Value {
    json!({"name": "main", "image": "app:1"})
}

/// A Deployment, StatefulSet, ReplicaSet or DaemonSet.
pub fn workload(kind: &str, name: &str) -> Value {
    let labels = json!({"app": name});
    let mut object = json!({
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container()]}},
        },
    });
    if kind != "DaemonSet" {
        object["spec"]["replicas"] = json!(2);
    }
    object
}

/// `value` with another value at a JSON pointer; missing parents are made.
pub fn with(mut value: Value, pointer: &str, new: Value) -> Value {
    let mut at = &mut value;
    for token in pointer.split('/').skip(1) {
        at = &mut at[token.replace("~1", "/").as_str()];
    }
    *at = new;
    value
}
