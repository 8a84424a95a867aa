//! `matchLabelKeys` that the manager's API server has merged into selectors -> selectors as the user wrote them.
//!
//! At creation the server appends `key In (value of the pod's label)` to the labelSelector of an affinity term or a
//! spread constraint for each of its `matchLabelKeys` that the pod has. The worker's server does the same to the copy,
//! and then refuses it: "exists in both matchLabelKeys and labelSelector". As it refuses the user's own expression of
//! such a key likewise, every one that is there is merged. What `mismatchLabelKeys` adds (`NotIn`) may stand there twice.

use std::fmt;

use serde_json::{Map, Value};

use super::change::Log;
use super::list;

const REASON: &str = "merged from matchLabelKeys by the manager; the worker merges them itself";

/// Takes the merged expressions out again, in affinity, anti-affinity and spread constraints.
pub(super) fn unmerge(spec: &mut Map<String, Value>, labels: Option<&Value>, log: &mut Log) {
    let Some(Value::Object(labels)) = labels else {
        return;
    };
    let mut unmerge = |term: &mut Value, path: fmt::Arguments<'_>| {
        if unmerge_term(term, labels) {
            log.rewritten(format_args!("{path}.labelSelector"), REASON);
        }
    };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec
            .get_mut("affinity")
            .and_then(|affinity| affinity.get_mut(kind))
        else {
            continue;
        };
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        for (index, term) in elements(affinity.get_mut(required)) {
            unmerge(term, format_args!("spec.affinity.{kind}.{required}[{index}]"));
        }
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        for (index, weighted) in elements(affinity.get_mut(preferred)) {
            let Some(term) = weighted.get_mut("podAffinityTerm") else {
                continue;
            };
            unmerge(
                term,
                format_args!("spec.affinity.{kind}.{preferred}[{index}].podAffinityTerm"),
            );
        }
    }
    for (index, constraint) in elements(spec.get_mut("topologySpreadConstraints")) {
        unmerge(
            constraint,
            format_args!("spec.topologySpreadConstraints[{index}]"),
        );
    }
}

fn elements(list: Option<&mut Value>) -> impl Iterator<Item = (usize, &mut Value)> {
    list.and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .enumerate()
}

/// Whether the term had a merged expression.
fn unmerge_term(term: &mut Value, labels: &Map<String, Value>) -> bool {
    let Some(Value::Array(keys)) = term.get("matchLabelKeys") else {
        return false;
    };
    let has = |key: &&str| labels.contains_key(*key);
    let keys: Vec<String> = keys
        .iter()
        .filter_map(Value::as_str)
        .filter(has)
        .map(str::to_owned)
        .collect();
    let Some(Value::Object(selector)) = term.get_mut("labelSelector") else {
        return false;
    };
    let is_merged = |expression: &Value| keys.iter().any(|key| expression["key"] == key.as_str());
    let mut changed = false;
    list::drop(selector, "matchExpressions", is_merged, |_| changed = true);
    changed
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::super::testing::{check_pod, local};
    use super::*;

    #[test]
    fn a_spread_constraint_is_as_the_user_wrote_it() {
        let constraint = json!({
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "matchLabelKeys": ["pod-template-hash"],
            "labelSelector": {
                "matchLabels": {"app": "web"},
                "matchExpressions": [{"key": "pod-template-hash", "operator": "In", "values": ["6d5f"]}],
            },
        });
        check(
            json!({"topologySpreadConstraints": [constraint]}),
            expect![[r#"
                topologySpreadConstraints: [{"labelSelector":{"matchLabels":{"app":"web"}},"matchLabelKeys":["pod-template-hash"],"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule"}]
                rewritten spec.topologySpreadConstraints[0].labelSelector: merged from matchLabelKeys by the manager; the worker merges them itself
            "#]],
        );
    }

    #[test]
    fn affinity_terms_are_as_the_user_wrote_them() {
        let term = json!({
            "topologyKey": "zone", "matchLabelKeys": ["pod-template-hash"], "mismatchLabelKeys": ["tenant"],
            "labelSelector": {"matchExpressions": [
                {"key": "tenant", "operator": "Exists"},
                {"key": "pod-template-hash", "operator": "In", "values": ["6d5f"]},
                {"key": "tenant", "operator": "NotIn", "values": ["a"]},
            ]},
        });
        let affinity = json!({
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}],
            },
        });
        check(
            json!({"affinity": affinity}),
            expect![[r#"
                affinity: {"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{"matchExpressions":[{"key":"tenant","operator":"Exists"},{"key":"tenant","operator":"NotIn","values":["a"]}]},"matchLabelKeys":["pod-template-hash"],"mismatchLabelKeys":["tenant"],"topologyKey":"zone"}]},"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"podAffinityTerm":{"labelSelector":{"matchExpressions":[{"key":"tenant","operator":"Exists"},{"key":"tenant","operator":"NotIn","values":["a"]}]},"matchLabelKeys":["pod-template-hash"],"mismatchLabelKeys":["tenant"],"topologyKey":"zone"},"weight":1}]}}
                rewritten spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: merged from matchLabelKeys by the manager; the worker merges them itself
                rewritten spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.labelSelector: merged from matchLabelKeys by the manager; the worker merges them itself
            "#]],
        );
    }

    #[test]
    fn expressions_of_other_keys_are_the_users() {
        let selector = json!({"matchExpressions": [
            {"key": "tenant", "operator": "In", "values": ["b"]},
            {"key": "absent", "operator": "In", "values": ["a"]},
        ]});
        let constraint = json!({"matchLabelKeys": ["app", "absent"], "labelSelector": selector});
        let spec = json!({"topologySpreadConstraints": [constraint, {"labelSelector": selector}]});
        let mut after = spec.as_object().unwrap().clone();
        unmerge(
            &mut after,
            Some(&json!({"app": "web", "tenant": "a"})),
            &mut Log::off(),
        );
        assert_eq!(Value::Object(after), spec);
    }

    #[track_caller]
    #[allow(clippy::needless_pass_by_value)]
    fn check(spec: Value, expect: Expect) {
        check_pod(
            &local(
                json!({"labels": {"app": "web", "tenant": "a", "pod-template-hash": "6d5f"}}),
                spec,
            ),
            expect,
        );
    }
}
