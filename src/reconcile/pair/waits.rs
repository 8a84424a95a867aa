//! A job that runs on a worker -> when to ask what its pods there wait for, and what is said of them (pure).
//!
//! Its status does not tell: a pod that has no node counts as active. Pods of a copy are not watched, as they are not ours,
//! so the worker is asked: some time after the opening, ever less often while some pod does not run, and then only when the
//! status of the copy has changed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::remote::RemoteObject;
use crate::job::pods::PodsSeen;

/// A job whose pods run sooner, or that ends, is not asked about.
const FIRST: Duration = Duration::from_secs(10);
/// While some pod does not run.
const AGAIN: Duration = Duration::from_secs(15);
const LONGEST: Duration = Duration::from_secs(300);
/// The status has changed.
const STIRRED: Duration = Duration::from_secs(10);
const STIRRED_LONGEST: Duration = Duration::from_secs(60);
/// What changes a status mostly makes pods, which are scheduled and started then.
const SETTLING: Duration = Duration::from_secs(3);

/// An opened copy that runs: some pod of it may wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// UID of the copy.
    pub remote: Arc<str>,
    /// Since when this process sees it so.
    since: Instant,
    /// Since when its status is another one than at the last answer.
    stirred: Option<Instant>,
    /// The last answer.
    answer: Option<Answer>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    seen: PodsSeen,
    /// The copy's status when it was asked.
    status: u64,
    at: Instant,
    /// How often in a row it was about the same; the pause doubles.
    same: u32,
}

impl Doubt {
    fn of(remote: Arc<str>, now: Instant) -> Self {
        Self {
            remote,
            since: now,
            stirred: None,
            answer: None,
        }
    }

    /// What some of its pods wait for.
    fn words(&self) -> Option<&str> {
        match &self.answer.as_ref()?.seen {
            PodsSeen::Wait(words) => Some(words),
            PodsSeen::Start | PodsSeen::Run => None,
        }
    }

    /// How long until the worker is asked; none: not before something changes.
    fn due_in(&self, now: Instant) -> Option<Duration> {
        let due = match &self.answer {
            None => self.since + FIRST,
            Some(answer) => {
                let pause =
                    |first: Duration, longest| first.saturating_mul(1 << answer.same.min(5)).min(longest);
                let again = (answer.seen != PodsSeen::Run).then(|| answer.at + pause(AGAIN, LONGEST));
                let stirred = self
                    .stirred
                    .map(|stirred| (stirred + SETTLING).max(answer.at + pause(STIRRED, STIRRED_LONGEST)));
                again.into_iter().chain(stirred).min()?
            }
        };
        Some(due.saturating_duration_since(now))
    }
}

/// What is remembered once the copy is seen like this; none if that is what is remembered. `open`: the committed copy, if
/// it is open and nobody ends it.
pub fn seen(before: Option<&Doubt>, open: Option<&RemoteObject>, now: Instant) -> Option<Option<Doubt>> {
    let after = open.and_then(|remote| {
        let status = remote.untold?;
        let held = before.filter(|before| before.remote == remote.uid).cloned();
        let mut doubt = held.unwrap_or_else(|| Doubt::of(remote.uid.clone(), now));
        let is_stirred = doubt
            .answer
            .as_ref()
            .is_some_and(|answer| answer.status != status);
        doubt.stirred = is_stirred.then(|| doubt.stirred.unwrap_or(now));
        Some(doubt)
    });
    (before != after.as_ref()).then_some(after)
}

/// What some pods of this copy wait for.
pub fn words<'a>(doubt: Option<&'a Doubt>, remote: &RemoteObject) -> Option<&'a str> {
    about(doubt, remote)?.words()
}

/// How long until its worker is asked about its pods; zero: now.
pub fn due_in(doubt: Option<&Doubt>, remote: &RemoteObject, now: Instant) -> Option<Duration> {
    about(doubt, remote)?.due_in(now)
}

fn about<'a>(doubt: Option<&'a Doubt>, remote: &RemoteObject) -> Option<&'a Doubt> {
    doubt.filter(|doubt| doubt.remote == remote.uid && remote.untold.is_some())
}

/// What is remembered after the worker was asked; `seen` is none if it did not answer, which is no news.
pub fn answered(
    before: Option<Doubt>,
    remote: &Arc<str>,
    status: u64,
    seen: Option<PodsSeen>,
    now: Instant,
) -> Option<Doubt> {
    let mut doubt = before.filter(|before| before.remote == *remote)?;
    let last = doubt.answer.take();
    let seen = seen
        .or_else(|| {
            last.as_ref()
                .map(|last| last.seen.clone())
                .filter(|last| *last != PodsSeen::Run)
        })
        .unwrap_or(PodsSeen::Start);
    // The scheduler's words change with its nodes: that is no reason to ask more often.
    let is_same = |last: &Answer| (last.seen == PodsSeen::Run) == (seen == PodsSeen::Run);
    let same = last.filter(is_same).map_or(0, |last| last.same.saturating_add(1));
    doubt.answer = Some(Answer {
        seen,
        status,
        at: now,
        same,
    });
    doubt.stirred = None;
    Some(doubt)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::key::Subject;
    use super::*;
    use crate::workload::jobs::BatchJob;

    fn copy(status: Value) -> RemoteObject {
        let job = json!({
            "metadata": {"name": "j", "namespace": "n", "uid": "u1", "resourceVersion": "7"}, "spec": {},
            "status": status,
        });
        RemoteObject::parse(Subject::Job(&BatchJob), job.to_string().into()).unwrap()
    }

    /// One job, looked at as time goes by.
    struct Watched {
        start: Instant,
        doubt: Option<Doubt>,
        remote: RemoteObject,
    }

    impl Watched {
        fn new() -> Self {
            let mut watched = Self {
                start: Instant::now(),
                doubt: None,
                remote: copy(json!({})),
            };
            watched.shows(0, json!({"active": 3}));
            watched
        }

        fn at(&self, seconds: u64) -> Instant {
            self.start + Duration::from_secs(seconds)
        }

        fn shows(&mut self, seconds: u64, status: Value) {
            self.remote = copy(status);
            if let Some(doubt) = seen(self.doubt.as_ref(), Some(&self.remote), self.at(seconds)) {
                self.doubt = doubt;
            }
        }

        fn answers(&mut self, seconds: u64, pods: Option<PodsSeen>) {
            let status = self.remote.untold.unwrap();
            assert_eq!(self.due(seconds), Some(0), "nobody asks at {seconds} s");
            let doubt = self.doubt.take();
            self.doubt = answered(doubt, &self.remote.uid, status, pods, self.at(seconds));
        }

        fn due(&self, seconds: u64) -> Option<u64> {
            due_in(self.doubt.as_ref(), &self.remote, self.at(seconds)).map(|time| time.as_secs())
        }
    }

    fn full(nodes: u32) -> Option<PodsSeen> {
        Some(PodsSeen::Wait(format!("2 pods wait: 0/{nodes} nodes")))
    }

    #[test]
    fn a_job_that_ends_soon_or_says_that_all_is_ready_is_never_asked_about() {
        let mut job = Watched::new();
        assert_eq!(job.due(0), Some(10));
        job.shows(9, json!({"conditions": [{"type": "Complete", "status": "True"}]}));
        assert_eq!((job.due(9), &job.doubt), (None, &None));
        job.shows(9, json!({"active": 3, "ready": 3}));
        assert_eq!((job.due(100), &job.doubt), (None, &None));
    }

    #[test]
    fn while_pods_wait_it_is_asked_ever_less_often_whatever_the_words_are() {
        let mut job = Watched::new();
        let mut at = 10;
        for (nodes, pause) in [(2, 15), (3, 30), (2, 60), (4, 120), (5, 240), (6, 300), (7, 300)] {
            job.answers(at, full(nodes));
            assert_eq!(job.due(at), Some(pause));
            at += pause;
        }
        assert_eq!(
            words(job.doubt.as_ref(), &job.remote),
            Some("2 pods wait: 0/7 nodes")
        );
    }

    #[test]
    fn once_all_run_it_is_asked_only_after_a_change_of_the_status() {
        let mut job = Watched::new();
        job.answers(10, Some(PodsSeen::Run));
        assert_eq!((job.due(10), job.due(100_000)), (None, None));
        job.shows(100_000, json!({"active": 2}));
        assert_eq!(job.due(100_000), Some(3), "when it has settled");
        job.shows(100_002, json!({"active": 3, "failed": 1}));
        assert_eq!(job.due(100_002), Some(1), "a change is not put off by the next");
        job.answers(100_003, full(2));
        job.shows(100_004, json!({"active": 3, "failed": 2}));
        assert_eq!(job.due(100_004), Some(9));
    }

    #[test]
    fn a_status_that_never_rests_costs_a_request_a_minute_at_most() {
        let mut job = Watched::new();
        let mut asked = 0;
        for second in 0..3600 {
            job.shows(second, json!({"active": 3, "succeeded": second}));
            if job.due(second) == Some(0) {
                job.answers(second, Some(PodsSeen::Run));
                asked += 1;
            }
        }
        assert!((50..=70).contains(&asked), "{asked}");
    }

    #[test]
    fn no_answer_is_no_news() {
        let mut job = Watched::new();
        job.answers(10, None);
        assert_eq!(job.due(10), Some(15));
        job.answers(25, full(2));
        job.answers(55, None);
        assert_eq!(
            words(job.doubt.as_ref(), &job.remote),
            Some("2 pods wait: 0/2 nodes")
        );
    }

    #[test]
    fn what_was_said_of_another_copy_or_before_a_pause_does_not_count() {
        let mut job = Watched::new();
        job.answers(10, full(2));
        let another = Arc::from("u2");
        assert_eq!(
            answered(job.doubt.clone(), &another, 1, full(2), job.at(11)),
            None
        );
        job.doubt = seen(job.doubt.as_ref(), None, job.at(12)).unwrap();
        assert_eq!(job.doubt, None, "it was suspended");
        job.shows(20, json!({"active": 3}));
        assert_eq!(
            (job.due(20), words(job.doubt.as_ref(), &job.remote)),
            (Some(10), None)
        );
    }
}
