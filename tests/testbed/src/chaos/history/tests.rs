use serde_json::{Value, json};

use super::super::audit::{lives, locals};
use super::*;
use crate::ledger::LOCAL_UID;

const MANAGER: &str = "manager";
const JOB: &str = "jobs";

/// Made-up audit logs: one request each second.
#[derive(Default)]
struct Log(Vec<Event>);

impl Log {
    fn add(mut self, cluster: &str, user: &str, verb: &str, resource: &str, answer: Value) -> Self {
        let second = self.0.len();
        let time = |part: &str| format!("2026-01-01T00:00:{second:02}.{part}Z").parse().unwrap();
        self.0.push(Event {
            cluster: cluster.to_owned(),
            received: time("1"),
            answered: time("2"),
            user: user.to_owned(),
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            namespace: "ns".to_owned(),
            name: "j".to_owned(),
            code: 200,
            request: Value::Null,
            answer,
        });
        self
    }

    fn commit(self, remote: &str) -> Self {
        let commit = json!({"portcullis.dev/remote-uid": format!("local/{remote}")});
        let answer = json!({"metadata": {"uid": "local", "annotations": commit}});
        self.add(MANAGER, ACCOUNT, "patch", JOB, answer)
    }

    fn copy(self, worker: &str, verb: &str, uid: &str, suspend: bool) -> Self {
        self.add(worker, ACCOUNT, verb, JOB, copy(uid, json!({"suspend": suspend})))
    }

    /// Prepared, committed, opened.
    fn dispatched(self, worker: &str, uid: &str) -> Self {
        self.copy(worker, "create", uid, true)
            .commit(uid)
            .copy(worker, "patch", uid, false)
    }

    fn delete(self, cluster: &str, user: &str, uid: &str) -> Self {
        self.add(cluster, user, "delete", JOB, json!({"details": {"uid": uid}}))
    }

    fn ended(self, user: &str, kind: &str, reason: &str) -> Self {
        let conditions = json!([{"type": kind, "status": "True", "reason": reason}]);
        let answer = json!({"metadata": {"uid": "local"}, "status": {"conditions": conditions}});
        self.add(MANAGER, user, "patch", "jobs/status", answer)
    }

    #[track_caller]
    fn shows(self, expected: &[Kind]) {
        let events = self.0;
        let (lives, locals) = (lives(&events, MANAGER), locals(&events, MANAGER));
        let mut violations = Vec::new();
        repeated(&lives, &mut violations);
        at_once(&lives, &mut violations);
        for life in lives.values() {
            uncommitted(life, locals.get(&life.local_uid), &mut violations);
            killed(life, locals.get(&life.local_uid), &mut violations);
        }
        for (uid, local) in &locals {
            failed(uid, local, &lives, &mut violations);
            expired(uid, local, &mut violations);
        }
        foreign(&events, MANAGER, &mut violations);
        made_here(&events, MANAGER, &mut violations);
        let found: Vec<Kind> = violations.iter().map(|violation| violation.kind).collect();
        assert_eq!(found, expected, "{violations:?}");
    }
}

fn copy(uid: &str, spec: Value) -> Value {
    json!({"metadata": {"uid": uid, "annotations": {LOCAL_UID: "local"}}, "spec": spec})
}

#[test]
fn a_job_that_went_its_way_is_no_violation() {
    Log::default()
        .dispatched("worker-a", "one")
        .ended(ACCOUNT, "Complete", "CompletionsReached")
        .delete(MANAGER, "alice", "local")
        .delete("worker-a", ACCOUNT, "one")
        .shows(&[]);
}

#[test]
fn two_copies_that_were_not_suspended_are_seen_though_the_first_is_gone() {
    Log::default()
        .dispatched("worker-a", "one")
        .delete("worker-a", "somebody", "one")
        .dispatched("worker-b", "two")
        .shows(&[Kind::BoundTwice, Kind::OpenedTwice]);
}

#[test]
fn two_copies_at_once_are_seen() {
    Log::default()
        .dispatched("worker-a", "one")
        .dispatched("worker-b", "two")
        .shows(&[Kind::BoundTwice, Kind::OpenedTwice, Kind::TwoAtOnce]);
}

#[test]
fn a_second_copy_that_stayed_suspended_did_not_run() {
    Log::default()
        .copy("worker-b", "create", "two", true)
        .dispatched("worker-a", "one")
        .delete("worker-b", ACCOUNT, "two")
        .shows(&[]);
}

#[test]
fn a_copy_that_runs_before_it_is_recorded_is_seen() {
    Log::default()
        .copy("worker-a", "create", "one", false)
        .commit("one")
        .shows(&[Kind::OpenedUncommitted]);
}

#[test]
fn an_mpi_job_is_suspended_elsewhere() {
    let held = copy("one", json!({"runPolicy": {"suspend": true}}));
    Log::default()
        .add("worker-a", ACCOUNT, "create", "mpijobs", held)
        .shows(&[]);
    let open = copy("one", json!({"suspend": true}));
    Log::default()
        .add("worker-a", ACCOUNT, "create", "mpijobs", open)
        .shows(&[Kind::OpenedUncommitted]);
}

#[test]
fn a_healthy_copy_that_we_deleted_is_seen() {
    Log::default()
        .dispatched("worker-a", "one")
        .delete("worker-a", ACCOUNT, "one")
        .shows(&[Kind::KilledHealthy]);
}

#[test]
fn a_job_fails_only_if_somebody_deleted_its_copy() {
    let lost = |user: &str| {
        Log::default()
            .dispatched("worker-a", "one")
            .delete("worker-a", user, "one")
            .ended(ACCOUNT, "Failed", "RemoteJobDeleted")
    };
    lost("somebody").shows(&[]);
    Log::default()
        .dispatched("worker-a", "one")
        .ended(ACCOUNT, "Failed", "RemoteJobDeleted")
        .shows(&[Kind::FailedWithoutCause]);
    lost(ACCOUNT).shows(&[Kind::KilledHealthy, Kind::FailedWithoutCause]);
}

#[test]
fn a_job_is_deleted_by_us_only_after_its_end() {
    Log::default()
        .dispatched("worker-a", "one")
        .ended(ACCOUNT, "Complete", "")
        .delete(MANAGER, ACCOUNT, "local")
        .shows(&[]);
    Log::default()
        .dispatched("worker-a", "one")
        .delete(MANAGER, ACCOUNT, "local")
        .shows(&[Kind::KilledHealthy]);
}

#[test]
fn what_somebody_else_made_is_not_ours_whatever_it_says_of_itself() {
    let theirs = json!({"metadata": {"uid": "theirs"}, "spec": {"suspend": true}});
    let made = || Log::default().add("worker-a", "somebody", "create", JOB, theirs.clone());
    made().shows(&[]);
    made()
        .delete("worker-a", ACCOUNT, "theirs")
        .shows(&[Kind::ForeignTouched]);
    made()
        .copy("worker-a", "patch", "theirs", true)
        .shows(&[Kind::ForeignTouched]);
}

#[test]
fn a_pod_of_a_job_on_the_manager_is_seen() {
    let pod =
        |owner: &str| json!({"metadata": {"uid": "p", "ownerReferences": [{"kind": owner, "name": "j"}]}});
    let made = |owner: &str| Log::default().add(MANAGER, "a controller", "create", "pods", pod(owner));
    made("Job").shows(&[Kind::RanOnManager]);
    made("MPIJob").shows(&[Kind::RanOnManager]);
    made("ReplicaSet").shows(&[]);
}
