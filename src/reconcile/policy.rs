//! What is seen of the fleet -> the status of a DispatchPolicy (pure).

use jiff::Timestamp;

use crate::api::{ClusterUse, DispatchPolicySpec, DispatchPolicyStatus};
use crate::clock::parse_duration;
use crate::reconcile::conditions::{News, set};

/// The status that the policy should have. `why_not` says why nothing new may be placed on a cluster of this name.
pub fn status(
    held: &DispatchPolicyStatus,
    spec: &DispatchPolicySpec,
    generation: Option<i64>,
    why_not: impl Fn(&str) -> Option<(String, String)>,
    now: Timestamp,
) -> DispatchPolicyStatus {
    let mut next = held.clone();
    let reasons: Vec<(&String, Option<(String, String)>)> =
        spec.clusters.iter().map(|name| (name, why_not(name))).collect();
    next.clusters = reasons
        .iter()
        .map(|(name, why)| ClusterUse {
            name: (*name).clone(),
            usable: why.is_none(),
            reason: why
                .as_ref()
                .map_or_else(|| "Usable".to_owned(), |(reason, _)| reason.clone()),
        })
        .collect();
    set(&mut next.conditions, generation, ready(spec, &reasons), now);
    next
}

fn ready(spec: &DispatchPolicySpec, reasons: &[(&String, Option<(String, String)>)]) -> News<'static> {
    let durations = [
        ("spec.unschedulableAfter", &spec.unschedulable_after),
        ("spec.keepFinished", &spec.keep_finished),
    ];
    let bad = durations
        .iter()
        .find_map(|(field, text)| Some(format!("{field}: {}", parse_duration(text.as_deref()?).err()?)));
    let usable = reasons.iter().filter(|(_, why)| why.is_none()).count();
    let (status, reason, message) = match (bad, usable, reasons.len()) {
        (Some(sentence), _, _) => (false, "InvalidDuration", sentence),
        (None, 0, 0) => (
            false,
            "NoClusters",
            "spec.clusters is empty; name a WorkerCluster".to_owned(),
        ),
        (None, 0, _) => (false, "NoUsableCluster", sentences(reasons)),
        (None, usable, all) if usable == all => {
            (true, "Ready", format!("{usable} of {all} clusters take pods"))
        }
        (None, usable, all) => (
            true,
            "Degraded",
            format!("{usable} of {all} clusters take pods; {}", sentences(reasons)),
        ),
    };
    News {
        kind: "Ready",
        status: Some(status),
        reason,
        message,
    }
}

fn sentences(reasons: &[(&String, Option<(String, String)>)]) -> String {
    let lines: Vec<String> = reasons
        .iter()
        .filter_map(|(name, why)| why.as_ref().map(|(_, message)| format!("{name}: {message}")))
        .collect();
    lines.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    #[test]
    fn ready_while_one_cluster_takes_pods() {
        check(
            &["a", "b"],
            None,
            expect!["True Ready: 2 of 2 clusters take pods"],
        );
        check(
            &["a", "x"],
            None,
            expect!["True Degraded: 1 of 2 clusters take pods; x: there is no WorkerCluster x"],
        );
        check(
            &["x"],
            None,
            expect!["False NoUsableCluster: x: there is no WorkerCluster x"],
        );
        check(
            &[],
            None,
            expect!["False NoClusters: spec.clusters is empty; name a WorkerCluster"],
        );
    }

    #[test]
    fn a_duration_that_cannot_be_read_is_told() {
        check(
            &["a"],
            Some("5"),
            expect![[
                r#"False InvalidDuration: spec.unschedulableAfter: "5" is no duration: write a number and a unit of h, m, s or ms, such as 5m or 1h30m"#
            ]],
        );
    }

    #[track_caller]
    fn check(clusters: &[&str], unschedulable_after: Option<&str>, expect: Expect) {
        let spec = DispatchPolicySpec {
            clusters: clusters.iter().map(|name| (*name).to_owned()).collect(),
            unschedulable_after: unschedulable_after.map(str::to_owned),
            ..DispatchPolicySpec::default()
        };
        let why_not = |name: &str| {
            (name == "x").then(|| {
                (
                    "ClusterNotFound".to_owned(),
                    format!("there is no WorkerCluster {name}"),
                )
            })
        };
        let status = status(
            &DispatchPolicyStatus::default(),
            &spec,
            None,
            why_not,
            Timestamp::UNIX_EPOCH,
        );
        let ready = &status.conditions[0];
        expect.assert_eq(&format!("{} {}: {}", ready.status, ready.reason, ready.message));
    }
}
