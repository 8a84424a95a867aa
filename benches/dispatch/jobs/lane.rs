//! The bare client: the writes of one job and nothing else.

use anyhow::{Context, Result};
use http::Method;
use portcullis::job::sanitize::{CopyMarks, sanitize};
use portcullis::names;
use portcullis::workload::jobs::BatchJob;
use serde_json::{Value, json};

use super::{Scene, collection};
use crate::line::{JSON, Line, MERGE, OBJECT};

/// The bare client's lines, one set for each job that is under way.
pub(super) struct Lane {
    manager: Line,
    workers: Vec<(Line, String, String)>,
    spaces: Vec<String>,
    origin: String,
}

impl Lane {
    pub(super) async fn open(scene: &Scene, spaces: &[String]) -> Result<Self> {
        let mut workers = Vec::new();
        for (worker, (_, identity, uid)) in scene.world.workers.iter().zip(&scene.workers) {
            let name = worker.cluster.name().to_owned();
            workers.push((Line::open(identity).await?, name, uid.clone()));
        }
        Ok(Self {
            manager: Line::open(&scene.identity).await?,
            workers,
            spaces: spaces.to_vec(),
            origin: scene.origin.clone(),
        })
    }

    /// Prepare, commit, open, and the status so many times.
    pub(super) async fn dispatch(&mut self, place: usize, local: &Value, mirrors: usize) -> Result<()> {
        let metadata = &local["metadata"];
        let (uid, name) = (text(&metadata["uid"])?, text(&metadata["name"])?);
        let all = format!("{}?fieldManager=portcullis", collection(&self.spaces[place]));
        let one = format!(
            "{}/{name}?fieldManager=portcullis",
            collection(&self.spaces[place])
        );
        let (worker, cluster, cluster_uid) = &mut self.workers[place];
        let marks = CopyMarks {
            origin: &self.origin,
            owner: None,
        };
        let copy = sanitize(&BatchJob, local, &marks)?.object.to_string();
        let remote = worker.write(Method::POST, &all, OBJECT, copy).await?;
        let commit = json!({"metadata": {
            "uid": uid,
            "resourceVersion": metadata["resourceVersion"],
            "finalizers": [names::REMOTE_COPY],
            "annotations": {
                names::CLUSTER: &*cluster,
                names::CLUSTER_UID: &*cluster_uid,
                names::REMOTE_UID: format!("{uid}/{}", remote.uid),
            },
        }});
        let mut version = self
            .manager
            .write(Method::PATCH, &one, MERGE, commit.to_string())
            .await?
            .resource_version;
        let mark = format!("/metadata/annotations/{}", names::UNCOMMITTED.replace('/', "~1"));
        let open = json!([
            {"op": "test", "path": "/metadata/uid", "value": remote.uid},
            {"op": "test", "path": &mark, "value": names::TRUE},
            {"op": "remove", "path": &mark},
            {"op": "replace", "path": "/spec/suspend", "value": false},
        ]);
        worker.write(Method::PATCH, &one, JSON, open.to_string()).await?;
        let path = one.replace('?', "/status?");
        for time in 0..mirrors {
            let now = "2026-01-01T00:00:00Z";
            let patch = json!({
                "metadata": {"uid": uid, "resourceVersion": version},
                "status": {
                    "startTime": now, "active": 1, "ready": time % 2, "terminating": 0,
                    "conditions": [{
                        "type": names::DISPATCHED, "status": "True", "reason": format!("Time{time}"),
                        "message": format!("on {cluster}"), "lastTransitionTime": now, "lastProbeTime": now,
                    }],
                },
            });
            version = self
                .manager
                .write(Method::PATCH, &path, MERGE, patch.to_string())
                .await?
                .resource_version;
        }
        Ok(())
    }
}

fn text(value: &Value) -> Result<&str> {
    value.as_str().context("an object has a name and a UID")
}
