//! What users of the manager and people on the workers do.

use anyhow::Result;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use portcullis_testbed::chaos::check::Foreign;
use serde_json::{Value, json};

use super::{POD, Stage};

impl Stage {
    pub async fn pods(&self, worker: Option<usize>) -> Result<Api<Pod>> {
        let world = &self.rig().world;
        let cluster = worker.map_or(&world.manager, |worker| &world.workers[worker].cluster);
        Ok(Api::namespaced(cluster.admin_client().await?, &self.namespace))
    }

    pub async fn local(&self) -> Result<Option<Pod>> {
        Ok(self.pods(None).await?.get_opt(POD).await?)
    }

    pub async fn remote(&self, worker: usize) -> Result<Option<Pod>> {
        Ok(self.pods(Some(worker)).await?.get_opt(POD).await?)
    }

    /// The user makes the pod; annotations direct the kubelet of the worker.
    pub async fn create(&self, annotations: Value) -> Result<()> {
        let pod = json!({"metadata": {"name": POD, "annotations": annotations}, "spec": spec("app:1")});
        self.pods(None)
            .await?
            .create(&PostParams::default(), &serde_json::from_value(pod)?)
            .await?;
        Ok(())
    }

    /// A pod with a gate of somebody else; whoever may write its status has seen it once it says that it waits.
    pub async fn create_waiting(&self) -> Result<()> {
        let mut spec = spec("app:1");
        spec["schedulingGates"] = json!([{"name": "example.com/wait"}]);
        let pod = json!({"metadata": {"name": POD}, "spec": spec});
        self.pods(None)
            .await?
            .create(&PostParams::default(), &serde_json::from_value(pod)?)
            .await?;
        self.until("the pod to wait", async || {
            let status = self.local().await?.and_then(|pod| pod.status);
            let conditions = status.and_then(|status| status.conditions).unwrap_or_default();
            Ok(conditions
                .iter()
                .any(|condition| condition.reason.as_deref() == Some("WaitingForGates")))
        })
        .await
    }

    /// All but the gate of Portcullis.
    pub async fn remove_other_gates(&self) -> Result<()> {
        let patch = json!({"spec": {"schedulingGates": [
            {"name": "example.com/wait", "$patch": "delete"},
        ]}});
        self.pods(None)
            .await?
            .patch(POD, &PatchParams::default(), &Patch::Strategic(patch))
            .await?;
        Ok(())
    }

    pub async fn patch_local(&self, patch: Value) -> Result<()> {
        self.pods(None)
            .await?
            .patch(POD, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    /// Allowed until the pod is committed.
    pub async fn patch_image(&self, image: &str) -> Result<()> {
        let patch = json!({"spec": {"containers": [{"name": "main", "image": image}]}});
        self.pods(None)
            .await?
            .patch(POD, &PatchParams::default(), &Patch::Strategic(patch))
            .await?;
        Ok(())
    }

    /// As the process itself would have done it: a write whose answer it never got.
    pub async fn patch_local_as_portcullis(&self, patch: &Value) -> Result<()> {
        let user = "--as=system:serviceaccount:portcullis-system:portcullis";
        let args = [
            "patch",
            "pod",
            POD,
            "-n",
            &self.namespace,
            user,
            "--type=merge",
            "-p",
            &patch.to_string(),
        ];
        self.rig().world.manager.kubectl(&args).await?;
        Ok(())
    }

    pub async fn delete_local(&self) -> Result<()> {
        self.pods(None)
            .await?
            .delete(POD, &DeleteParams::default())
            .await?;
        Ok(())
    }

    pub async fn patch_remote(&self, worker: usize, patch: Value) -> Result<()> {
        self.pods(Some(worker))
            .await?
            .patch(POD, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    /// Somebody on the worker removes the pod at once.
    pub async fn delete_remote(&self, worker: usize) -> Result<()> {
        self.pods(Some(worker))
            .await?
            .delete(POD, &DeleteParams::default().grace_period(0))
            .await?;
        self.until("the remote pod to go", async || {
            Ok(self.remote(worker).await?.is_none())
        })
        .await
    }

    /// Somebody on the worker makes a pod of this name that has nothing to do with us.
    pub async fn foreign(&mut self, worker: usize) -> Result<()> {
        let pod = json!({"metadata": {"name": POD}, "spec": spec("foreign:1")});
        let pod = self
            .pods(Some(worker))
            .await?
            .create(&PostParams::default(), &serde_json::from_value(pod)?)
            .await?;
        self.foreign.push(Foreign { worker, pod });
        Ok(())
    }

    /// The scheduler of the worker finds no node.
    pub async fn cordon_nodes(&self, worker: usize, value: bool) -> Result<()> {
        let cluster = &self.rig().world.workers[worker].cluster;
        let nodes: Api<Node> = Api::all(cluster.admin_client().await?);
        for node in cluster.nodes() {
            let patch = json!({"spec": {"unschedulable": value}});
            nodes
                .patch(&node, &PatchParams::default(), &Patch::Merge(patch))
                .await?;
        }
        Ok(())
    }

    /// The administrator places nothing new on the worker.
    pub async fn cordon_cluster(&self, worker: usize, value: bool) -> Result<()> {
        let world = &self.rig().world;
        let patch = format!(r#"{{"spec":{{"cordoned":{value}}}}}"#);
        let name = world.workers[worker].cluster.name();
        world
            .manager
            .kubectl(&["patch", "workercluster", name, "--type=merge", "-p", &patch])
            .await?;
        Ok(())
    }
}

fn spec(image: &str) -> Value {
    json!({"containers": [{"name": "main", "image": image, "resources": {"requests": {"cpu": "10m"}}}]})
}
