//! A line of text -> what is seen of a pair.
//!
//! `L attempt 1 committed a/u1; a: R u1 gated attempt 1; b: -; u1 is gone`
//!
//! The same line is a pair of pods or of jobs ([`objects`]): `other-gate` means a job that is suspended, `node` one with
//! an active pod.
//!
//! * `L`: the local pod, UID `L1` or `of L2`. `-`: there is none. Words: `attempt N`, `committed WORKER/UID` (with
//!   `of UID`: a commit that names another local pod), `no-finalizer`, `terminating`, `ended`, `dispatched` (its
//!   condition is True), `scheduled-before` (it showed a node), `other-gate`, `ungated`.
//! * `a:`, `b:`: the workers, with `R UID` or `-`. Words of R: `gated`/`opened`, `attempt N`, `of UID` or `of nobody`,
//!   `stale` (made from an older spec), `loose` (a gated job that is not suspended), `suspended`, `terminating`, `node`, `ended`, `unscheduled 6m`. Words of the worker:
//!   `unsynced`, `unread` (its namespace's consent), `strange` (it does not consent), `lost`, `refuses`, `another-cluster`; of gangs: `gangs` (it has coscheduling), `gangs-unknown`, and of the copy's group `awaits`,
//!   `group-refused`, `stands`.
//! * then what is remembered (`u1 is gone`, `L1 is gone`, `took back u1`, `u1 ended`, `opened u1 100ms ago`,
//!   `manager refused`), `siblings scheduled`, `siblings on b`, `asks for a gang`, `runs here` (the manager's schema drops `managedBy`), and the policy, if it is not the usual one (`not opted in`, `no policy`, `keep 2h`, `mirror pod IPs`). `unschedulableAfter` is 5 minutes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::super::local::{LocalObject, PairKey, RemoteObject, Subject};
use super::super::super::observed::{
    GangSeen, GangsThere, Memory, Now, Observed, PolicyRules, PolicySeen, RootSeen, WorkerSeen,
};
use super::super::{Plan, plan};
use super::objects::{self, after};
use crate::api::{Colocate, Forward, Strategy};
use crate::gang::BackEnd;
use crate::gang::birth::Maker;
use crate::placement::{Candidate, Rejection};
use crate::pod::mirror::Dispatched;
use crate::reconcile::step::Step;

/// What is there, as objects, so that a plan's steps can be applied to it.
#[derive(Clone)]
pub(super) struct View {
    pub(super) subject: Subject,
    pub(super) local: Option<Value>,
    pub(super) workers: Vec<Worker>,
    pub(super) memory: Memory,
    policy: PolicySeen,
    unscheduled_since: Option<(Arc<str>, Duration)>,
    unready_since: Option<(Arc<str>, Duration)>,
    siblings_scheduled: bool,
    siblings_on: Option<Arc<str>>,
    runs_here: bool,
    asks_for_gang: bool,
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
    gangs: GangsThere,
    gang: GangSeen,
}

impl View {
    #[track_caller]
    pub(super) fn parse(text: &str) -> Self {
        Self::of(Subject::Pod, text)
    }

    #[track_caller]
    pub(super) fn of(subject: Subject, text: &str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let local = objects::local(subject, parts.next().expect("a view begins with L"));
        let mut view = Self {
            subject,
            local,
            workers: Vec::new(),
            memory: Memory::default(),
            policy: PolicySeen::Policy(rules()),
            unscheduled_since: None,
            unready_since: None,
            siblings_scheduled: false,
            siblings_on: None,
            runs_here: false,
            asks_for_gang: false,
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
        let remote = words
            .contains("R ")
            .then(|| objects::remote(self.subject, words, self.local.as_ref()));
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
            gangs: match (has("gangs"), has("gangs-unknown")) {
                (true, _) => GangsThere::Made(Arc::new(Maker {
                    back_end: BackEnd::Coscheduling,
                    facts: Arc::default(),
                })),
                (false, true) => GangsThere::NotKnown,
                (false, false) => GangsThere::None,
            },
            gang: match (has("awaits"), has("group-refused"), has("stands")) {
                (true, _, _) => GangSeen::Awaited(None),
                (_, true, _) => GangSeen::Awaited(Some("no groups today".to_owned())),
                (_, _, true) => GangSeen::Stands,
                (false, false, false) => GangSeen::NotAsked,
            },
        }
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
                let words = format!("R {uid} opened node ended");
                let ended = objects::remote(self.subject, &words, self.local.as_ref());
                let ended = RemoteObject::parse(self.subject, ended.to_string().into()).unwrap();
                self.memory.ended = Some(Arc::new(ended));
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
            ["runs", "here"] => self.runs_here = true,
            ["asks", "for", "a", "gang"] => self.asks_for_gang = true,
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

    /// When it is looked at.
    pub(super) fn now(&self) -> Instant {
        self.began + Duration::from_secs(3600)
    }

    /// Our condition, as the plan writes it.
    pub(super) fn said(&self) -> Option<Dispatched> {
        let plan = self.plan();
        let patch = plan.steps.iter().find_map(|step| match step {
            Step::Mirror { patch, .. } => Some(patch),
            _ => None,
        })?;
        Dispatched::of(patch)
    }

    pub(super) fn plan(&self) -> Plan {
        let now = Now {
            monotonic: self.now(),
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
        let text = |value: &Value| -> Arc<str> { value.to_string().into() };
        Observed {
            key: PairKey {
                subject: self.subject,
                namespace: "n".into(),
                name: "p".into(),
            },
            origin: "origin".into(),
            local: self
                .local
                .as_ref()
                .map(|local| Arc::new(LocalObject::parse(self.subject, text(local)).unwrap())),
            workers: self
                .workers
                .iter()
                .map(|worker| WorkerSeen {
                    name: worker.name.clone(),
                    cluster_uid: worker.cluster_uid.clone(),
                    synced: worker.synced,
                    lost: worker.lost.then(|| "no answer".to_owned()),
                    accepts: worker.accepts,
                    gangs: worker.gangs.clone(),
                    gang: worker.gang.clone(),
                    remote: worker
                        .remote
                        .as_ref()
                        .map(|remote| Arc::new(RemoteObject::parse(self.subject, text(remote)).unwrap())),
                })
                .collect(),
            policy,
            root: RootSeen {
                scheduled: self.siblings_scheduled,
                fixed: self.siblings_on.clone(),
                ..RootSeen::default()
            },
            runs_here: self.runs_here,
            asks_for_gang: self.asks_for_gang,
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

fn rules() -> PolicyRules {
    PolicyRules {
        strategy: Strategy::Ordered,
        colocate: Colocate::Owner,
        candidates: Vec::new(),
        unschedulable_after: Some(Duration::from_secs(300)),
        keep_finished: None,
        create_namespaces: true,
        mirror_pod_ips: false,
        forward: Forward::default(),
    }
}

fn duration(text: &str) -> Duration {
    crate::clock::parse_duration(text).unwrap()
}
