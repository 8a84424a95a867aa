//! A policy's clusters, the workload's other pods, earlier refusals -> the cluster to try now.

use std::sync::Arc;
use std::time::Duration;

use crate::api::{Colocate, Strategy};

/// One cluster of the policy, in the policy's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Name of the WorkerCluster.
    pub name: Arc<str>,
    /// Why nothing new may be placed there now; none: usable.
    pub rejection: Option<Rejection>,
}

/// Why a cluster is passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// In CamelCase.
    pub reason: String,
    /// A sentence, the worker's own words where it spoke.
    pub message: String,
    /// When it may be tried again; none: when something changes.
    pub retry_in: Option<Duration>,
    /// It will be known in a moment, for which its place in the order is kept.
    pub settling: bool,
}

/// What the workload's other pods say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootState {
    /// None of its pods is committed, and nobody else decides for it now.
    Free,
    /// Its pods are on this cluster.
    Fixed(Arc<str>),
    /// Another pod of it is being placed.
    Deciding,
}

/// Where to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Try this cluster.
    Try(Arc<str>),
    /// Another pod of the workload is being placed; it decides.
    Queue,
    /// A cluster that comes before every usable one is just being connected.
    Soon,
    /// No cluster now: one line for each, and the time of the first retry.
    Nowhere {
        reason: &'static str,
        message: String,
        retry_in: Option<Duration>,
    },
}

/// Chooses the cluster for one pod. Placement is decided one at a time per workload (`RootState::Deciding`).
pub fn choose(strategy: Strategy, colocate: Colocate, candidates: &[Candidate], root: &RootState) -> Choice {
    let ordered: Vec<&Candidate> = match strategy {
        Strategy::Ordered => candidates.iter().collect(),
    };
    match (colocate, root) {
        (Colocate::Owner, RootState::Deciding) => Choice::Queue,
        (Colocate::Owner, RootState::Fixed(cluster)) => {
            match ordered.iter().find(|candidate| candidate.name == *cluster) {
                Some(Candidate {
                    rejection: None,
                    name,
                }) => Choice::Try(name.clone()),
                Some(Candidate {
                    rejection: Some(rejection),
                    name,
                }) => Choice::Nowhere {
                    reason: "WaitingForColocation",
                    message: format!(
                        "the other pods of this workload are on {name}: {}",
                        sentence(rejection)
                    ),
                    retry_in: rejection.retry_in,
                },
                None => Choice::Nowhere {
                    reason: "WaitingForColocation",
                    message: format!(
                        "the other pods of this workload are on {cluster}, which its policy no longer names"
                    ),
                    retry_in: None,
                },
            }
        }
        (Colocate::Owner | Colocate::None, RootState::Free) | (Colocate::None, _) => first(&ordered),
    }
}

fn first(ordered: &[&Candidate]) -> Choice {
    let settled = |candidate: &&&Candidate| {
        candidate
            .rejection
            .as_ref()
            .is_none_or(|rejection| rejection.settling)
    };
    match ordered.iter().find(settled) {
        Some(Candidate {
            rejection: None,
            name,
        }) => return Choice::Try(name.clone()),
        Some(Candidate {
            rejection: Some(_),
            name: _,
        }) => return Choice::Soon,
        None => {}
    }
    let lines: Vec<String> = ordered
        .iter()
        .filter_map(|candidate| {
            Some(format!(
                "{}: {}",
                candidate.name,
                sentence(candidate.rejection.as_ref()?)
            ))
        })
        .collect();
    Choice::Nowhere {
        reason: "NoClusterTakesIt",
        message: lines.join("; "),
        retry_in: ordered
            .iter()
            .filter_map(|candidate| candidate.rejection.as_ref()?.retry_in)
            .min(),
    }
}

fn sentence(rejection: &Rejection) -> String {
    format!("{} ({})", rejection.message, rejection.reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    #[test]
    fn the_first_usable_cluster_in_the_policys_order() {
        check("a b", &RootState::Free, expect![[r#"Try("a")"#]]);
        check("a! b", &RootState::Free, expect![[r#"Try("b")"#]]);
    }

    #[test]
    fn with_none_usable_each_cluster_says_why_and_the_first_retry_counts() {
        check(
            "a! b!",
            &RootState::Free,
            expect![[
                r#"Nowhere { reason: "NoClusterTakesIt", message: "a: no room (Full); b: no room (Full)", retry_in: Some(2s) }"#
            ]],
        );
    }

    #[test]
    fn the_cluster_of_its_siblings_wins_over_the_order() {
        check("a b", &RootState::Fixed("b".into()), expect![[r#"Try("b")"#]]);
    }

    #[test]
    fn a_pod_waits_for_the_cluster_of_its_siblings() {
        check(
            "a b!",
            &RootState::Fixed("b".into()),
            expect![[
                r#"Nowhere { reason: "WaitingForColocation", message: "the other pods of this workload are on b: no room (Full)", retry_in: Some(2s) }"#
            ]],
        );
        check(
            "a",
            &RootState::Fixed("gone".into()),
            expect![[
                r#"Nowhere { reason: "WaitingForColocation", message: "the other pods of this workload are on gone, which its policy no longer names", retry_in: None }"#
            ]],
        );
    }

    #[test]
    fn one_pod_at_a_time_decides_for_a_workload() {
        check("a b", &RootState::Deciding, expect!["Queue"]);
    }

    #[test]
    fn without_colocation_siblings_do_not_matter() {
        for root in [RootState::Fixed("b".into()), RootState::Deciding] {
            assert_eq!(
                choose(Strategy::Ordered, Colocate::None, &candidates("a b"), &root),
                Choice::Try("a".into())
            );
        }
    }

    #[test]
    fn a_cluster_that_is_just_being_connected_keeps_its_place() {
        check("a~ b", &RootState::Free, expect!["Soon"]);
        check("a! b~", &RootState::Free, expect!["Soon"]);
        check("a b~", &RootState::Free, expect![[r#"Try("a")"#]]);
    }

    /// `b!` refused for two seconds, `b~` is just being connected.
    #[track_caller]
    fn check(text: &str, root: &RootState, expect: Expect) {
        let choice = choose(Strategy::Ordered, Colocate::Owner, &candidates(text), root);
        expect.assert_eq(&format!("{choice:?}"));
    }

    fn candidates(text: &str) -> Vec<Candidate> {
        text.split(' ')
            .map(|word| Candidate {
                name: word.trim_end_matches(['!', '~']).into(),
                rejection: word.ends_with(['!', '~']).then(|| Rejection {
                    reason: "Full".to_owned(),
                    message: "no room".to_owned(),
                    retry_in: Some(Duration::from_secs(2)),
                    settling: word.ends_with('~'),
                }),
            })
            .collect()
    }
}
