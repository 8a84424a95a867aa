//! What people on the workers do.

use anyhow::Result;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::super::check::Foreign;
use super::{Load, NAMESPACES, spec};

impl Load<'_> {
    /// A remote pod, and where it is.
    async fn any_remote(&mut self) -> Result<Option<(Api<Pod>, Pod)>> {
        let client = self.workers[self.dice.roll(self.workers.len())].clone();
        let pods: Api<Pod> = Api::namespaced(client, NAMESPACES[self.dice.roll(NAMESPACES.len())].0);
        let all = pods
            .list(&ListParams::default().labels("portcullis.dev/origin"))
            .await?;
        Ok(self.dice.pick(&all.items).map(|pod| (pods, pod.clone())))
    }

    pub(super) async fn finish_on_worker(&mut self) -> Result<()> {
        let Some((pods, pod)) = self.any_remote().await? else {
            return Ok(());
        };
        if pod.labels().contains_key("app") {
            return Ok(()); // workloads that restart for ever do not end
        }
        self.counts[2] += 1;
        let end = if self.dice.happens(70) { "complete" } else { "fail" };
        let patch = json!({"metadata": {"annotations": {"kwok.test/end": end}}});
        pods.patch(&pod.name_any(), &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    pub(super) async fn delete_on_worker(&mut self) -> Result<()> {
        let Some((pods, pod)) = self.any_remote().await? else {
            return Ok(());
        };
        self.counts[2] += 1;
        let params = if self.dice.happens(30) {
            DeleteParams::default().grace_period(0)
        } else {
            DeleteParams::default()
        };
        pods.delete(&pod.name_any(), &params).await?;
        Ok(())
    }

    /// On one worker, under the name that the next bare pod will have.
    pub(super) async fn foreign_namesake(&mut self) -> Result<()> {
        let worker = self.dice.roll(self.workers.len());
        for (name, (namespace, _)) in
            (1..=2).flat_map(|next| NAMESPACES.map(|place| (self.made + next, place)))
        {
            let name = format!("bare-{name}");
            if self.foreign.iter().any(|foreign| foreign.pod.name_any() == name) {
                continue; // on all workers it would leave the pod no place
            }
            let pods: Api<Pod> = Api::namespaced(self.workers[worker].clone(), namespace);
            let pod = json!({"metadata": {"name": name, "labels": {"whose": "not-ours"}}, "spec": spec("foreign:1")});
            // The worker has the namespace only once a pod of it came there.
            match pods
                .create(&PostParams::default(), &serde_json::from_value(pod)?)
                .await
            {
                Ok(pod) => self.foreign.push(Foreign { worker, pod }),
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The nodes of one worker take no pods, or the worker itself takes none.
    pub(super) async fn cordon(&mut self) -> Result<()> {
        self.counts[3] += 1;
        let worker = self.dice.roll(self.workers.len());
        if self.dice.happens(70) {
            self.set_unschedulable(worker, true).await
        } else {
            self.set_cordoned(worker, true).await
        }
    }

    async fn set_unschedulable(&self, worker: usize, value: bool) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.workers[worker].clone());
        for node in self.world.workers[worker].cluster.nodes() {
            let patch = json!({"spec": {"unschedulable": value}});
            nodes
                .patch(&node, &PatchParams::default(), &Patch::Merge(patch))
                .await?;
        }
        Ok(())
    }

    async fn set_cordoned(&self, worker: usize, value: bool) -> Result<()> {
        let name = self.world.workers[worker].cluster.name();
        let patch = format!(r#"{{"spec":{{"cordoned":{value}}}}}"#);
        self.world
            .manager
            .kubectl(&["patch", "workercluster", name, "--type=merge", "-p", &patch])
            .await?;
        Ok(())
    }

    /// All workers take pods again.
    ///
    /// # Errors
    /// A cluster refused it.
    pub async fn heal(&mut self) -> Result<()> {
        for worker in 0..self.workers.len() {
            self.set_unschedulable(worker, false).await?;
            self.set_cordoned(worker, false).await?;
        }
        Ok(())
    }
}
