//! What people and controllers do on either side, by JSON over the API: create, look, wait, patch, delete.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use http::Method;
use portcullis_testbed::ledger::Write;
use portcullis_testbed::{Cluster, wait_for};
use serde_json::{Value, json};

use crate::calls::{call, collection, path, plural};
pub use crate::calls::{ensure_refused, find};
pub use crate::objects::{
    annotation, condition, dispatched, plain, play, pod, running, set, summary, terminating, text, uid,
};
use crate::rig::Rig;

/// A cluster of the rig.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    Manager,
    A,
    B,
    /// Only after [`Rig::third`].
    C,
}

/// Our identity on every cluster.
pub const US: &str = "system:serviceaccount:portcullis-system:portcullis";
/// Long enough for two cores that are shared.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// What the API server says when a policy has not heard of a kind that is served since a moment.
pub const KIND_IS_NEW: &str = "There can be a delay between when CustomResourceDefinitions are created";

impl Rig {
    pub fn cluster(&self, at: At) -> &Cluster {
        match at {
            At::Manager => &self.world.manager,
            At::A => &self.world.workers[0].cluster,
            At::B => &self.world.workers[1].cluster,
            At::C => self.third.cluster(),
        }
    }

    /// GET of `pod/name`, `deployment/name`, `namespace/name` …; `None` if there is none.
    pub async fn find(&self, at: At, namespace: &str, object: &str) -> Result<Option<Value>> {
        find(self.cluster(at), namespace, object).await
    }

    /// The object; it must be there.
    pub async fn seen(&self, at: At, namespace: &str, object: &str) -> Result<Value> {
        self.find(at, namespace, object)
            .await?
            .with_context(|| format!("{namespace}/{object} at {at:?}"))
    }

    /// Waits until the object is there and passes.
    pub async fn until(
        &self,
        at: At,
        namespace: &str,
        object: &str,
        what: &str,
        passes: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let what = format!("{namespace}/{object} at {at:?}: {what}");
        wait_for(&what, PATIENCE, async || {
            let found = self
                .find(at, namespace, object)
                .await?
                .context("it is not there")?;
            if passes(&found) {
                Ok(Some(found))
            } else {
                Err(anyhow!("it is {}", summary(&found)))
            }
        })
        .await
    }

    /// Waits until no object of this name has this UID.
    pub async fn until_gone(&self, at: At, namespace: &str, object: &str, uid: &str) -> Result<()> {
        wait_for(
            &format!("{namespace}/{object} at {at:?} to go"),
            PATIENCE,
            async || match self.find(at, namespace, object).await? {
                Some(found) if text(&found, "/metadata/uid") == uid => {
                    Err(anyhow!("it is {}", summary(&found)))
                }
                Some(_) | None => Ok(Some(())),
            },
        )
        .await
    }

    /// All objects of a plural.
    pub async fn list(&self, at: At, namespace: &str, plural: &str) -> Result<Vec<Value>> {
        let list = call(
            self.cluster(at),
            Method::GET,
            &collection(plural, namespace),
            None,
        )
        .await?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// Waits until the list passes.
    pub async fn until_list(
        &self,
        at: At,
        namespace: &str,
        plural: &str,
        what: &str,
        passes: impl Fn(&[Value]) -> bool,
    ) -> Result<Vec<Value>> {
        wait_for(
            &format!("{plural} of {namespace} at {at:?}: {what}"),
            PATIENCE,
            async || {
                let found = self.list(at, namespace, plural).await?;
                let seen: Vec<String> = found.iter().map(summary).collect();
                if passes(&found) {
                    Ok(Some(found))
                } else {
                    Err(anyhow!("they are {}", seen.join(", ")))
                }
            },
        )
        .await
    }

    /// Creates an object as the administrator. Policies hear of a new kind a moment after it is served.
    pub async fn create(&self, at: At, namespace: &str, object: Value) -> Result<Value> {
        let kind = text(&object, "/kind").to_lowercase();
        let path = collection(&plural(&kind), namespace);
        wait_for("policies to know the kind", PATIENCE, async || {
            let body = Some(("application/json", object.clone()));
            match call(self.cluster(at), Method::POST, &path, body).await {
                Err(error) if format!("{error:#}").contains(KIND_IS_NEW) => Err(error),
                made => Ok(Some(made)),
            }
        })
        .await?
    }

    /// Merge patch as the administrator; `object` may name a subresource: `pod/name/status`.
    pub async fn patch(&self, at: At, namespace: &str, object: &str, patch: Value) -> Result<Value> {
        let body = Some(("application/merge-patch+json", patch));
        call(self.cluster(at), Method::PATCH, &path(object, namespace), body).await
    }

    pub async fn delete(&self, at: At, namespace: &str, object: &str) -> Result<()> {
        call(self.cluster(at), Method::DELETE, &path(object, namespace), None)
            .await
            .map(drop)
    }

    /// As [`Self::delete`], without grace: the object is gone.
    pub async fn kill(&self, at: At, namespace: &str, object: &str) -> Result<()> {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
        let body = Some(("application/json", options));
        call(self.cluster(at), Method::DELETE, &path(object, namespace), body)
            .await
            .map(drop)
    }

    /// POST to a subresource.
    pub async fn post(&self, at: At, namespace: &str, object: &str, body: Value) -> Result<Value> {
        call(
            self.cluster(at),
            Method::POST,
            &path(object, namespace),
            Some(("application/json", body)),
        )
        .await
    }

    /// A namespace on the manager, opted in to a policy of its own with this spec.
    pub async fn opted_in_to(&self, namespace: &str, spec: Value) -> Result<()> {
        self.policy(namespace, spec).await?;
        self.world
            .manager
            .create_namespace(namespace, &[("portcullis.dev/dispatch", namespace)])
            .await?;
        self.await_gate(namespace).await
    }

    /// As [`Self::opted_in_to`], with worker-a alone: the cases that cut it know where their pods are.
    pub async fn on_a(&self, namespace: &str) -> Result<()> {
        self.opted_in_to(
            namespace,
            json!({"clusters": ["worker-a"], "namespaces": {"create": true}}),
        )
        .await
    }

    pub async fn policy(&self, name: &str, spec: Value) -> Result<()> {
        let policy = json!({"apiVersion": "portcullis.dev/v1alpha1", "kind": "DispatchPolicy", "metadata": {"name": name}, "spec": spec});
        self.create(At::Manager, "", policy).await.map(drop)
    }

    /// UID of the manager's kube-system: what copies say of their origin.
    pub async fn origin(&self) -> Result<String> {
        Ok(text(
            &self.seen(At::Manager, "", "namespace/kube-system").await?,
            "/metadata/uid",
        )
        .to_owned())
    }

    /// A namespace on a worker whose administrator lets our pods in.
    pub async fn consenting(&self, at: At, namespace: &str) -> Result<()> {
        self.cluster(at).create_namespace(namespace, &[]).await?;
        self.consent(at, namespace).await
    }

    pub async fn consent(&self, at: At, namespace: &str) -> Result<()> {
        let accepts = format!("{}/{namespace}", self.origin().await?);
        let patch = json!({"metadata": {"annotations": {"portcullis.dev/accepts": accepts}}});
        self.patch(at, "", &format!("namespace/{namespace}"), patch)
            .await
            .map(drop)
    }

    /// Waits until the local pod says that it is Running and Ready.
    pub async fn until_ready(&self, namespace: &str, pod: &str) -> Result<Value> {
        self.until(
            At::Manager,
            namespace,
            &format!("pod/{pod}"),
            "Running and Ready",
            |pod| text(pod, "/status/phase") == "Running" && condition(pod, "Ready")["status"] == "True",
        )
        .await
    }

    /// Waits until the condition `Dispatched` has this reason and its message contains `words`.
    pub async fn until_dispatched(
        &self,
        namespace: &str,
        pod: &str,
        reason: &str,
        words: &str,
    ) -> Result<Value> {
        let what = format!("Dispatched with {reason}: …{words}…");
        self.until(At::Manager, namespace, &format!("pod/{pod}"), &what, |pod| {
            let dispatched = dispatched(pod);
            dispatched["reason"] == reason
                && dispatched["message"].as_str().unwrap_or_default().contains(words)
        })
        .await
    }

    /// Waits for an Event about this object on the manager.
    pub async fn until_event(&self, namespace: &str, name: &str, reason: &str, words: &str) -> Result<Value> {
        let about = |event: &Value| {
            text(event, "/involvedObject/name") == name
                && text(event, "/reason") == reason
                && text(event, "/message").contains(words)
        };
        let events = self
            .until_list(
                At::Manager,
                namespace,
                "events",
                &format!("{reason} about {name}: …{words}…"),
                |events| events.iter().any(about),
            )
            .await?;
        events.into_iter().find(about).context("it was there")
    }

    /// Makes pods one by one until the Event `Dispatched` of one is told: after a busy time there is no room for the first.
    pub async fn until_one_is_told(&self, namespace: &str, worker: &str) -> Result<()> {
        let words = format!("handed to {worker}");
        let told = |event: &Value| event["reason"] == "Dispatched" && event["message"] == *words;
        for number in 0..60 {
            let name = format!("told-{number}");
            self.create(At::Manager, namespace, plain(&name)).await?;
            self.until_ready(namespace, &name).await?;
            let events = self.list(At::Manager, namespace, "events").await?;
            if events.iter().any(told) {
                return Ok(());
            }
        }
        bail!("of no pod was told that it was dispatched")
    }

    /// Writes of the audit log in one namespace.
    pub fn writes(&self, at: At, namespace: &str) -> Result<Vec<Write>> {
        let mut writes = self.cluster(at).ledger()?.writes;
        writes.retain(|write| write.namespace == namespace);
        Ok(writes)
    }

    /// Pods that were created in a namespace, by name, oldest first.
    pub fn created(&self, at: At, namespace: &str) -> Result<Vec<String>> {
        let writes = self.writes(at, namespace)?.into_iter();
        Ok(writes
            .filter(|write| write.verb == "create" && write.resource == "pods")
            .map(|write| write.name)
            .collect())
    }

    /// Tries of ours to create a pod there, refused ones too.
    pub fn tries(&self, at: At, namespace: &str) -> Result<usize> {
        let log = std::fs::read_to_string(self.cluster(at).folder().join("audit.log"))?;
        let path = format!("\"requestURI\":\"/api/v1/namespaces/{namespace}/pods?fieldManager=portcullis\"");
        Ok(log
            .lines()
            .filter(|line| line.contains(&path) && line.contains("\"verb\":\"create\""))
            .count())
    }

    /// Our process is killed and started again.
    pub async fn restart(&self) -> Result<()> {
        let mut portcullis = self.portcullis.lock().await;
        portcullis.kill9();
        portcullis.start().await?;
        drop(portcullis);
        self.await_workers().await
    }
}
