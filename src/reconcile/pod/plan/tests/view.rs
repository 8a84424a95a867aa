//! A line of text -> what is seen of a pair.
//!
//! `L attempt 1 committed a/u1; a: R u1 gated attempt 1; b: -; u1 is gone`
//!
//! * `L`: the local pod, UID `L1` or `of L2`. `-`: there is none. Words: `attempt N`, `committed WORKER/UID` (with
//!   `of UID`: a commit that names another local pod), `no-finalizer`, `terminating`, `ended`, `dispatched` (its
//!   condition is True), `scheduled-before` (it showed a node), `other-gate`, `ungated`.
//! * `a:`, `b:`: the workers, with `R UID` or `-`. Words of R: `gated`/`opened`, `attempt N`, `of UID` or `of nobody`,
//!   `stale` (made from an older spec), `terminating`, `node`, `ended`, `unscheduled 6m`. Words of the worker:
//!   `unsynced`, `unread` (its namespace's consent), `strange` (it does not consent), `lost`, `refuses`, `another-cluster`.
//! * then what is remembered (`u1 is gone`, `L1 is gone`, `took back u1`, `u1 ended`, `opened u1 100ms ago`,
//!   `manager refused`), `siblings scheduled`, `siblings on b`, and the policy, if it is not the usual one (`not opted in`, `no policy`, `keep 2h`, `mirror pod IPs`). `unschedulableAfter` is 5 minutes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::super::local::{LocalPod, PodKey, RemotePod};
use super::super::super::observed::{Memory, Now, Observed, PolicyRules, PolicySeen, RootSeen, WorkerSeen};
use super::super::{Plan, plan};
use crate::api::{Colocate, Strategy};
use crate::names;
use crate::placement::{Candidate, Rejection};
use crate::pod::sanitize::source;

/// What is there, as objects, so that a plan's steps can be applied to it.
#[derive(Clone)]
pub(super) struct View {
    pub(super) local: Option<Value>,
    pub(super) workers: Vec<Worker>,
    pub(super) memory: Memory,
    policy: PolicySeen,
    unscheduled_since: Option<(Arc<str>, Duration)>,
    unready_since: Option<(Arc<str>, Duration)>,
    siblings_scheduled: bool,
    siblings_on: Option<Arc<str>>,
    began: Instant,
}

#[derive(Clone)]
pub(super) struct Worker {
    pub(super) name: Arc<str>,
    pub(super) remote: Option<Value>,
    synced: bool,
    accepts: Option<bool>,
    lost: bool,
    refuses: bool,
    cluster_uid: Arc<str>,
}

impl View {
    #[track_caller]
    pub(super) fn parse(text: &str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let local = local(parts.next().expect("a view begins with L"));
        let mut view = Self {
            local,
            workers: Vec::new(),
            memory: Memory::default(),
            policy: PolicySeen::Policy(rules()),
            unscheduled_since: None,
            unready_since: None,
            siblings_scheduled: false,
            siblings_on: None,
            began: Instant::now(),
        };
        for part in parts {
            match part.split_once(": ") {
                Some((name, words)) => {
                    let worker = view.worker(name, words);
                    view.workers.push(worker);
                }
                None => view.more(part),
            }
        }
        view
    }

    fn worker(&mut self, name: &str, words: &str) -> Worker {
        let has = |word: &str| words.split(' ').any(|found| found == word);
        let remote = words.contains("R ").then(|| self.remote(words));
        if let (Some(time), Some(uid)) = (after(words, "unscheduled"), after(words, "R")) {
            self.unscheduled_since = Some((uid.into(), duration(time)));
        }
        let cluster_uid = if has("another-cluster") {
            "another".into()
        } else {
            format!("{name}-uid").into()
        };
        Worker {
            name: name.into(),
            remote,
            synced: !has("unsynced"),
            accepts: match (has("unread"), has("strange")) {
                (true, _) => None,
                (false, strange) => Some(!strange),
            },
            lost: has("lost"),
            refuses: has("refuses"),
            cluster_uid,
        }
    }

    fn remote(&self, words: &str) -> Value {
        let has = |word: &str| words.split(' ').any(|found| found == word);
        let mut pod = json!({
            "metadata": {
                "name": "p", "namespace": "n", "resourceVersion": "70",
                "uid": after(words, "R"),
                "labels": {names::ORIGIN: "origin"},
                "annotations": {
                    names::LOCAL_UID: after(words, "of").unwrap_or("L1"),
                    names::LOCAL_ATTEMPT: after(words, "attempt").unwrap_or("0"),
                    names::SOURCE: self.local.as_ref().map(|local| source(local).unwrap()).unwrap_or_default(),
                },
            },
            "spec": {"containers": [{"name": "main", "image": "app:1"}]},
            "status": {"phase": "Pending"},
        });
        if has("nobody") {
            pod["metadata"]["annotations"] = json!({});
        }
        if has("unlabelled") {
            pod["metadata"]["labels"] = json!({});
        }
        if has("stale") {
            pod["metadata"]["annotations"][names::SOURCE] = "older".into();
        }
        if has("gated") {
            pod["spec"]["schedulingGates"] = json!([{"name": names::UNCOMMITTED}]);
        }
        if has("terminating") {
            pod["metadata"]["deletionTimestamp"] = "2026-01-02T03:00:00Z".into();
        }
        if has("node") {
            pod["spec"]["nodeName"] = "node-1".into();
            pod["status"]["phase"] = "Running".into();
        }
        if has("ended") {
            pod["status"] = ended();
        }
        pod
    }

    fn more(&mut self, part: &str) {
        match part.split(' ').collect::<Vec<_>>()[..] {
            [uid, "is", "gone"] if uid.starts_with('L') => {
                self.memory.local_gone.insert(uid.into());
            }
            [uid, "is", "gone"] => {
                self.memory.remote_gone.insert(("a-uid".into(), uid.into()));
            }
            [uid, "is", "gated"] => {
                self.memory.rolled_back.insert(uid.into());
            }
            ["took", "back", uid] => {
                self.memory.taken_back.insert(uid.into());
            }
            [uid, "ended"] => {
                let mut pod = self.remote(&format!("R {uid} opened node ended"));
                pod["metadata"]["uid"] = uid.into();
                self.memory.ended = Some(Arc::new(RemotePod::parse(pod.to_string().into()).unwrap()));
            }
            ["manager", "refused"] => self.memory.write_refused = Some("too long".to_owned()),
            ["opened", uid, time, "ago"] => {
                self.unready_since = Some((uid.into(), duration(time)));
            }
            ["not", "opted", "in"] => self.policy = PolicySeen::NotOptedIn,
            ["no", "policy"] => self.policy = PolicySeen::NotFound("default".to_owned()),
            ["mirror", "pod", "IPs"] => {
                self.policy = PolicySeen::Policy(PolicyRules {
                    mirror_pod_ips: true,
                    ..rules()
                });
            }
            ["siblings", "scheduled"] => self.siblings_scheduled = true,
            ["siblings", "on", cluster] => self.siblings_on = Some(cluster.into()),
            ["keep", time] => {
                self.policy = PolicySeen::Policy(PolicyRules {
                    keep_finished: Some(duration(time)),
                    ..rules()
                });
            }
            _ => panic!("unknown words {part:?}"),
        }
    }

    /// The worker says that it does not take this pod.
    pub(super) fn refuse(&mut self, worker: &str) {
        let found = self.workers.iter_mut().find(|found| &*found.name == worker);
        found.expect("a worker of the view").refuses = true;
    }

    pub(super) fn plan(&self) -> Plan {
        let now = Now {
            monotonic: self.began + Duration::from_secs(3600),
            wall: "2026-01-02T03:04:05Z".to_owned(),
            epoch_seconds: 1_767_323_045,
        };
        plan(&self.observed(now.monotonic), &now)
    }

    pub(super) fn observed(&self, now: Instant) -> Observed {
        let mut policy = self.policy.clone();
        if let PolicySeen::Policy(rules) = &mut policy {
            rules.candidates = self.workers.iter().map(candidate).collect();
        }
        let mut memory = self.memory.clone();
        memory.unscheduled_since = self.unscheduled_since.clone().map(|(uid, ago)| (uid, now - ago));
        memory.unready_since = self.unready_since.clone().map(|(uid, ago)| (uid, now - ago));
        let pod = |value: &Value| -> Arc<str> { value.to_string().into() };
        Observed {
            key: PodKey {
                namespace: "n".into(),
                name: "p".into(),
            },
            origin: "origin".into(),
            local: self
                .local
                .as_ref()
                .map(|local| Arc::new(LocalPod::parse(pod(local)).unwrap())),
            workers: self
                .workers
                .iter()
                .map(|worker| WorkerSeen {
                    name: worker.name.clone(),
                    cluster_uid: worker.cluster_uid.clone(),
                    synced: worker.synced,
                    lost: worker.lost.then(|| "no answer".to_owned()),
                    accepts: worker.accepts,
                    remote: worker
                        .remote
                        .as_ref()
                        .map(|remote| Arc::new(RemotePod::parse(pod(remote)).unwrap())),
                })
                .collect(),
            policy,
            root: RootSeen {
                scheduled: self.siblings_scheduled,
                fixed: self.siblings_on.clone(),
                ..RootSeen::default()
            },
            memory,
        }
    }
}

fn candidate(worker: &Worker) -> Candidate {
    let rejection = worker.refuses.then(|| Rejection {
        reason: "Full".to_owned(),
        message: "no room".to_owned(),
        retry_in: Some(Duration::from_secs(2)),
        settling: false,
    });
    Candidate {
        name: worker.name.clone(),
        rejection,
    }
}

fn local(words: &str) -> Option<Value> {
    let has = |word: &str| words.split(' ').any(|found| found == word);
    if words == "-" {
        return None;
    }
    let of_the_pod = words.split("committed").next().unwrap_or_default();
    let uid = after(of_the_pod, "of").unwrap_or("L1");
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "p", "namespace": "n", "uid": uid, "resourceVersion": "50",
            "labels": {names::GATED: names::TRUE},
            "annotations": {},
        },
        "spec": {
            "containers": [{"name": "main", "image": "app:1"}],
            "schedulingGates": [{"name": names::GATE}],
        },
        "status": {"phase": "Pending"},
    });
    if let Some(attempt) = after(words, "attempt") {
        pod["metadata"]["annotations"][names::ATTEMPT] = attempt.into();
    }
    if let Some((worker, remote)) = after(words, "committed").and_then(|commit| commit.split_once('/')) {
        let of = words
            .split("committed")
            .nth(1)
            .and_then(|rest| after(rest, "of"))
            .unwrap_or(uid);
        commit(&mut pod, worker, remote, of);
    }
    if has("scheduled-before") {
        pod["metadata"]["annotations"][names::REMOTE_NODE] = "node-1".into();
    }
    if has("no-finalizer") {
        pod["metadata"]["finalizers"] = json!([]);
    }
    if has("other-gate") {
        pod["spec"]["schedulingGates"] = json!([{"name": names::GATE}, {"name": "example.com/other"}]);
    }
    if has("ungated") {
        pod["spec"]["schedulingGates"] = json!([]);
    }
    if has("dispatched") {
        pod["status"]["conditions"] =
            json!([{"type": names::DISPATCHED, "status": "True", "reason": "WaitingOnWorker"}]);
    }
    if has("ended") {
        pod["status"] = ended();
    }
    if has("terminating") {
        pod["metadata"]["deletionTimestamp"] = "2026-01-02T03:00:00Z".into();
    }
    Some(pod)
}

/// Makes a local pod say that it is committed.
pub(super) fn commit(pod: &mut Value, worker: &str, remote: &str, of: &str) {
    let annotations = &mut pod["metadata"]["annotations"];
    annotations[names::CLUSTER] = worker.into();
    annotations[names::CLUSTER_UID] = format!("{worker}-uid").into();
    annotations[names::REMOTE_UID] = format!("{of}/{remote}").into();
    pod["metadata"]["finalizers"] = json!(["example.com/before", names::REMOTE_COPY]);
}

fn ended() -> Value {
    json!({"phase": "Succeeded", "containerStatuses": [
        {"name": "main", "state": {"terminated": {"exitCode": 0, "finishedAt": "2026-01-02T02:04:05Z"}}},
    ]})
}

fn rules() -> PolicyRules {
    PolicyRules {
        strategy: Strategy::Ordered,
        colocate: Colocate::Owner,
        candidates: Vec::new(),
        unschedulable_after: Some(Duration::from_secs(300)),
        keep_finished: None,
        create_namespaces: true,
        mirror_pod_ips: false,
    }
}

/// The word that follows `word`.
fn after<'a>(words: &'a str, word: &str) -> Option<&'a str> {
    let mut words = words.split_whitespace();
    words.find(|found| *found == word)?;
    words.next()
}

fn duration(text: &str) -> Duration {
    crate::clock::parse_duration(text).unwrap()
}
