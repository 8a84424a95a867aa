//! A client that makes the same writes and nothing else: what the API servers of this machine give at most.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::Method;
use portcullis::names;
use portcullis::pod::sanitize::{CopyMarks, NamespaceOwner, sanitize};
use portcullis_testbed::Kubeconfig;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::line::{JSON, Line, MERGE, OBJECT};

/// What the writes of one pod need, all made before the clock starts.
pub(crate) struct Pair {
    name: String,
    uid: String,
    resource_version: String,
    copy: Bytes,
}

/// Where the writes go, and as what they are written.
pub(crate) struct Places<'a> {
    pub(crate) manager: &'a Kubeconfig,
    pub(crate) worker: &'a Kubeconfig,
    pub(crate) namespace: &'a str,
    /// UID of the worker's kube-system namespace.
    pub(crate) cluster_uid: &'a str,
}

/// What a run took.
pub(crate) struct Took {
    pub(crate) all: Duration,
    /// For each pod: prepare, commit and open.
    pub(crate) each: Vec<Duration>,
}

impl Pair {
    /// Of a local pod as the manager's API gives it.
    pub(crate) fn of(local: &Value, origin: &str, owner: NamespaceOwner<'_>) -> Result<Self> {
        let text = |pointer: &str| {
            let found = local.pointer(pointer).and_then(Value::as_str);
            found
                .map(str::to_owned)
                .with_context(|| format!("a pod without {pointer}"))
        };
        let marks = CopyMarks {
            origin,
            owner: Some(owner),
        };
        Ok(Self {
            name: text("/metadata/name")?,
            uid: text("/metadata/uid")?,
            resource_version: text("/metadata/resourceVersion")?,
            copy: sanitize(local, &marks)?.pod.to_string().into(),
        })
    }
}

/// Prepares, commits and opens all, then writes the status of each `mirrors` times on average; `lanes` at a time.
pub(crate) async fn run(pairs: Vec<Pair>, places: &Places<'_>, lanes: usize, mirrors: f64) -> Result<Took> {
    let mut ready = Vec::new();
    for _ in 0..lanes {
        ready.push(Lane {
            manager: Line::open(places.manager).await?,
            worker: Line::open(places.worker).await?,
            pods: format!("/api/v1/namespaces/{}/pods", places.namespace),
            cluster_uid: places.cluster_uid.to_owned(),
        });
    }
    let pairs = Arc::new(pairs);
    let next = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    let mut running = JoinSet::new();
    for mut lane in ready {
        let (pairs, next) = (pairs.clone(), next.clone());
        running.spawn(async move {
            let mut each = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(pair) = pairs.get(number) else {
                    return Ok::<_, anyhow::Error>(each);
                };
                let began = Instant::now();
                let version = lane.dispatch(pair).await?;
                each.push(began.elapsed());
                lane.mirror(pair, version, share(number, mirrors)).await?;
            }
        });
    }
    let mut each = Vec::new();
    while let Some(lane) = running.join_next().await {
        each.extend(lane??);
    }
    Ok(Took {
        all: began.elapsed(),
        each,
    })
}

/// How many of `per_pod` on average fall to this pod or job.
pub(crate) fn share(number: usize, per_pod: f64) -> usize {
    let until = |number: usize| (number as f64 * per_pod).round() as usize;
    until(number + 1) - until(number)
}

struct Lane {
    manager: Line,
    worker: Line,
    pods: String,
    cluster_uid: String,
}

impl Lane {
    /// Answers the local pod's resourceVersion.
    async fn dispatch(&mut self, pair: &Pair) -> Result<String> {
        let Self { pods, .. } = &*self;
        let query = "fieldManager=portcullis";
        let one = format!("{pods}/{}?{query}", pair.name);
        let all = format!("{pods}?{query}");
        let remote = self
            .worker
            .write(Method::POST, &all, OBJECT, pair.copy.clone())
            .await?;
        let commit = json!({"metadata": {
            "uid": pair.uid,
            "resourceVersion": pair.resource_version,
            "finalizers": [names::REMOTE_COPY],
            "annotations": {
                names::CLUSTER: "worker-a",
                names::CLUSTER_UID: self.cluster_uid,
                names::REMOTE_UID: format!("{}/{}", pair.uid, remote.uid),
            },
        }});
        let local = self
            .manager
            .write(Method::PATCH, &one, MERGE, commit.to_string())
            .await?;
        let open = json!([
            {"op": "test", "path": "/metadata/uid", "value": remote.uid},
            {"op": "test", "path": "/spec/schedulingGates/0", "value": {"name": names::UNCOMMITTED}},
            {"op": "remove", "path": "/spec/schedulingGates/0"},
        ]);
        self.worker
            .write(Method::PATCH, &one, JSON, open.to_string())
            .await?;
        Ok(local.resource_version)
    }

    async fn mirror(&mut self, pair: &Pair, mut version: String, times: usize) -> Result<()> {
        let path = format!("{}/{}/status?fieldManager=portcullis", self.pods, pair.name);
        for time in 0..times {
            let patch = status(pair, &version, time).to_string();
            version = self
                .manager
                .write(Method::PATCH, &path, MERGE, patch)
                .await?
                .resource_version;
        }
        Ok(())
    }
}

/// A status of the usual size; another one each time, as a write that changes nothing costs nothing.
fn status(pair: &Pair, version: &str, time: usize) -> Value {
    let now = "2026-01-01T00:00:00Z";
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now, "reason": format!("Time{time}")});
    let kinds = [
        "PodScheduled",
        "Initialized",
        "ContainersReady",
        "Ready",
        names::DISPATCHED,
    ];
    json!({
        "metadata": {
            "uid": pair.uid, "resourceVersion": version,
            "annotations": {names::REMOTE_NODE: "worker-a-0"},
        },
        "status": {
            "phase": "Running",
            "startTime": now,
            "conditions": kinds.map(condition),
            "containerStatuses": [{
                "name": "main", "image": "app:1", "imageID": "", "ready": true, "started": true,
                "restartCount": 0, "state": {"running": {"startedAt": now}},
            }],
        },
    })
}
