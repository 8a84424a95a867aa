//! What is seen of a worker -> the status of its WorkerCluster (pure).

use jiff::Timestamp;

use crate::api::{JobCounts, PodCounts, WorkerClusterStatus};
use crate::cluster::fleet::same_cluster;
use crate::reconcile::conditions::{News, set};

/// What is seen of the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkSeen {
    /// Not usable.
    Down {
        /// In CamelCase.
        reason: &'static str,
        /// What to do.
        message: String,
        /// The credential is the problem.
        credential: bool,
    },
    /// Connected.
    Up {
        /// UID of its kube-system namespace.
        cluster_uid: String,
        /// Version of its API server.
        version: String,
        /// Why it counts as lost.
        lost: Option<String>,
        /// Missing rights in a sentence.
        not_permitted: Option<String>,
    },
}

/// The facts of one WorkerCluster.
#[derive(Clone, Debug)]
pub struct Facts {
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// Deletion was asked for.
    pub deleting: bool,
    /// `spec.cordoned`.
    pub cordoned: bool,
    /// The link.
    pub link: LinkSeen,
    /// What is committed to it.
    pub work: Work,
    /// The WorkerCluster that leads to the same cluster and is used instead.
    pub twin: Option<String>,
    /// Namespaces that we created there, as far as this process knows.
    pub created_namespaces: Vec<String>,
}

/// What is committed to a cluster.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// Pods.
    pub pods: PodCounts,
    /// Finished pods whose copies are kept there.
    pub finished: i64,
    /// Whole jobs.
    pub jobs: JobCounts,
    /// Finished ones whose copies are kept there.
    pub finished_jobs: i64,
}

impl Work {
    /// Whether nothing of ours is left there.
    pub fn is_none(&self) -> bool {
        self.pods.committed + self.finished + self.jobs.committed + self.finished_jobs == 0
    }
}

/// The status that the object should have.
pub fn status(held: &WorkerClusterStatus, facts: &Facts, now: Timestamp) -> WorkerClusterStatus {
    let mut next = held.clone();
    next.pods = facts.work.pods;
    next.jobs = facts.work.jobs;
    next.created_namespaces
        .extend(facts.created_namespaces.iter().cloned());
    next.created_namespaces.sort();
    next.created_namespaces.dedup();
    if let LinkSeen::Up {
        cluster_uid, version, ..
    } = &facts.link
    {
        next.cluster_uid = Some(cluster_uid.clone());
        next.version = Some(version.clone());
    }
    for news in [
        ready(facts),
        connected(&facts.link),
        credentials(&facts.link),
        permitted(&facts.link),
    ] {
        set(&mut next.conditions, facts.generation, news, now);
    }
    next
}

/// What a worker that is to go still has.
fn what_remains(work: &Work) -> String {
    let remains = [
        (work.pods.committed, "pods that are committed to it"),
        (work.finished, "pods that have finished"),
        (work.jobs.committed + work.finished_jobs, "whole jobs"),
    ];
    let some = remains.iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = some.map(|(count, what)| format!("{count} {what}")).collect();
    words.join(", and ")
}

fn ready(facts: &Facts) -> News<'static> {
    let (status, reason, message) = match (&facts.link, facts.deleting, facts.cordoned) {
        (_, true, _) => (
            false,
            "WorkRemains",
            format!(
                "is being deleted and waits for {}; delete them, or remove the finalizer and accept that the copies stay there unseen",
                what_remains(&facts.work),
            ),
        ),
        (LinkSeen::Down { reason, message, .. }, false, _) => (false, *reason, message.clone()),
        (
            LinkSeen::Up {
                lost: Some(words), ..
            },
            false,
            _,
        ) => (false, "Unreachable", words.clone()),
        (
            LinkSeen::Up {
                not_permitted: Some(words),
                ..
            },
            false,
            _,
        ) => (false, "NotPermitted", words.clone()),
        (LinkSeen::Up { .. }, false, _) if facts.twin.is_some() => (
            false,
            "DuplicateCluster",
            facts.twin.as_deref().map(same_cluster).unwrap_or_default(),
        ),
        (LinkSeen::Up { .. }, false, true) => (
            true,
            "Cordoned",
            "works; takes no new pods, since spec.cordoned is true".to_owned(),
        ),
        (LinkSeen::Up { .. }, false, false) => (true, "Ready", "takes pods".to_owned()),
    };
    News {
        kind: "Ready",
        status: Some(status),
        reason,
        message,
    }
}

fn connected(link: &LinkSeen) -> News<'static> {
    let (status, reason, message) = match link {
        LinkSeen::Down {
            reason,
            message,
            credential: false,
        } => (Some(false), *reason, message.clone()),
        LinkSeen::Down { credential: true, .. } => (
            None,
            "NoCredential",
            "without a usable credential it is not tried".to_owned(),
        ),
        LinkSeen::Up {
            lost: Some(words), ..
        } => (Some(false), "Unreachable", words.clone()),
        LinkSeen::Up { lost: None, .. } => (Some(true), "Connected", "answers".to_owned()),
    };
    News {
        kind: "Connected",
        status,
        reason,
        message,
    }
}

fn credentials(link: &LinkSeen) -> News<'static> {
    let (status, reason, message) = match link {
        LinkSeen::Down {
            reason,
            message,
            credential: true,
        } => (Some(false), *reason, message.clone()),
        LinkSeen::Down {
            credential: false, ..
        } => (
            None,
            "NotTried",
            "it could not be tried, since the cluster does not answer".to_owned(),
        ),
        LinkSeen::Up { .. } => (Some(true), "Accepted", "the API server accepts it".to_owned()),
    };
    News {
        kind: "CredentialsValid",
        status,
        reason,
        message,
    }
}

fn permitted(link: &LinkSeen) -> News<'static> {
    let (status, reason, message) = match link {
        LinkSeen::Down { .. } => (None, "NotTried", "it could not be asked".to_owned()),
        LinkSeen::Up {
            not_permitted: Some(words),
            ..
        } => (Some(false), "NotPermitted", words.clone()),
        LinkSeen::Up {
            not_permitted: None, ..
        } => (
            Some(true),
            "Permitted",
            "the rights for pods are there".to_owned(),
        ),
    };
    News {
        kind: "Permitted",
        status,
        reason,
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    #[test]
    fn a_usable_cluster_is_ready() {
        check(
            up(None),
            false,
            expect![
                "Ready=True/Ready Connected=True/Connected CredentialsValid=True/Accepted Permitted=True/Permitted"
            ],
        );
        check(
            up(None),
            true,
            expect![
                "Ready=False/WorkRemains Connected=True/Connected CredentialsValid=True/Accepted Permitted=True/Permitted"
            ],
        );
    }

    #[test]
    fn a_lost_cluster_keeps_its_credential() {
        check(
            up(Some("no answer")),
            false,
            expect![
                "Ready=False/Unreachable Connected=False/Unreachable CredentialsValid=True/Accepted Permitted=True/Permitted"
            ],
        );
    }

    #[test]
    fn a_bad_credential_is_told_from_a_bad_network() {
        let down = |credential| LinkSeen::Down {
            reason: "Why",
            message: "m".to_owned(),
            credential,
        };
        check(
            down(true),
            false,
            expect![
                "Ready=False/Why Connected=Unknown/NoCredential CredentialsValid=False/Why Permitted=Unknown/NotTried"
            ],
        );
        check(
            down(false),
            false,
            expect![
                "Ready=False/Why Connected=False/Why CredentialsValid=Unknown/NotTried Permitted=Unknown/NotTried"
            ],
        );
    }

    #[test]
    fn a_status_that_stands_is_not_changed() {
        let facts = facts(up(None), false);
        let once = status(
            &WorkerClusterStatus::default(),
            &facts,
            Timestamp::from_second(1).unwrap(),
        );
        assert_eq!(status(&once, &facts, Timestamp::from_second(9).unwrap()), once);
    }

    #[track_caller]
    fn check(link: LinkSeen, deleting: bool, expect: Expect) {
        let status = status(
            &WorkerClusterStatus::default(),
            &facts(link, deleting),
            Timestamp::UNIX_EPOCH,
        );
        let words: Vec<String> = status
            .conditions
            .iter()
            .map(|condition| format!("{}={}/{}", condition.type_, condition.status, condition.reason))
            .collect();
        expect.assert_eq(&words.join(" "));
    }

    fn facts(link: LinkSeen, deleting: bool) -> Facts {
        Facts {
            generation: Some(1),
            deleting,
            cordoned: false,
            link,
            work: Work::default(),
            twin: None,
            created_namespaces: Vec::new(),
        }
    }

    fn up(lost: Option<&str>) -> LinkSeen {
        LinkSeen::Up {
            cluster_uid: "u".to_owned(),
            version: "v1.37.2".to_owned(),
            lost: lost.map(str::to_owned),
            not_permitted: None,
        }
    }
}
