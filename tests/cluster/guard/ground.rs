//! Where a guard test stands: a namespace of its own on the manager, and people who act in it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use portcullis_testbed::{Crds, wait_for};
use serde_json::{Value, json};

pub use super::actor::Actor;
pub use super::objects::{
    container, exempt, gate, has_gate, has_label, job, jobs, managed_by, pod, with, workload,
};
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

    /// Whether something of ours runs beside the API server.
    pub fn portcullis_runs(&self) -> bool {
        self.prefix.is_empty()
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
        let ground = Ground::labelled(&self.rig, &self.name(name), &labels).await?;
        // Portcullis itself hears of the label by its own watch; what it has not heard of allows nothing.
        let admin = ground.admin();
        wait_for("the webhook to know of the label", PATIENCE, async || {
            let pod = admin.dry_run("pods", &exempt("probe")).await?;
            anyhow::Ok((!has_gate(&pod)).then_some(()))
        })
        .await?;
        Ok(ground)
    }

    /// As [`Self::opted_in`], on a manager that serves the jobs of the test bed's operators; alice may make them.
    pub async fn with_jobs(&self, name: &str) -> Result<Ground> {
        self.serve_jobs().await?;
        let ground = self.opted_in(name).await?;
        ground.grant_jobs("alice").await?;
        Ok(ground)
    }

    /// Installs the CRDs of the test bed's operators on the manager, without the operators.
    pub async fn serve_jobs(&self) -> Result<()> {
        for crds in [Crds::JobSet, Crds::MpiOperator, Crds::TrainingOperator] {
            self.rig.world.manager.install_crds(crds).await?;
        }
        Ok(())
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

    /// Lets a user do everything with jobs here, also their status, as operators may.
    pub async fn grant_jobs(&self, user: &str) -> Result<()> {
        self.role(
            "test-jobs",
            json!([{
                "apiGroups": ["batch", "jobset.x-k8s.io", "kubeflow.org", "sparkoperator.k8s.io"],
                "resources": ["*"],
                "verbs": ["*"],
            }]),
        )
        .await?;
        self.grant(user, "test-jobs").await?;
        self.await_right(
            user,
            json!({"namespace": self.namespace, "verb": "patch", "group": "kubeflow.org", "resource": "mpijobs"}),
        )
        .await
    }

    /// A job that is committed to a worker, by our own hand.
    pub async fn committed_job(&self, resource: &str, manifest: &Value) -> Result<Value> {
        let made = self.alice().create(resource, manifest).await?;
        let text = |key: &str| made["metadata"][key].as_str().unwrap_or_default();
        self.ours()
            .patch(resource, text("name"), "", &commit(text("uid")))
            .await
            .map_err(Into::into)
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
        Actor::new(self.client.clone(), &self.namespace, user, groups)
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
        Ok(self.ours().patch("pods", name, "", &commit(uid)).await?)
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

/// What hands an object to a worker.
fn commit(uid: &str) -> Value {
    json!({"metadata": {
        "finalizers": ["portcullis.dev/remote-copy"],
        "annotations": {
            "portcullis.dev/cluster": "worker-x",
            "portcullis.dev/cluster-uid": "2f1c",
            "portcullis.dev/remote-uid": format!("{uid}/77"),
        },
    }})
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
