//! `matchLabelKeys` that the manager's API server has merged into selectors -> selectors as the user wrote them.
//!
//! At creation the server appends `key In (value of the pod's label)` to the labelSelector of an affinity term or a
//! spread constraint for each of its `matchLabelKeys`, and `key NotIn (value)` for each of its `mismatchLabelKeys`. The
//! worker's server does the same to the copy, and then refuses it: "exists in both matchLabelKeys and labelSelector".

use serde_json::{Map, Value, json};

use super::change::Log;

const REASON: &str = "merged from matchLabelKeys by the manager; the worker merges them itself";

/// Takes the merged expressions out again, in affinity, anti-affinity and spread constraints.
pub(super) fn unmerge(spec: &mut Map<String, Value>, labels: Option<&Value>, log: &mut Log) {
    let Some(Value::Object(labels)) = labels else {
        return;
    };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec
            .get_mut("affinity")
            .and_then(|affinity| affinity.get_mut(kind))
        else {
            continue;
        };
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        for (index, term) in elements(affinity, required).enumerate() {
            if unmerge_term(term, labels) {
                log.rewritten(
                    format_args!("spec.affinity.{kind}.{required}[{index}].labelSelector"),
                    REASON,
                );
            }
        }
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        for (index, weighted) in elements(affinity, preferred).enumerate() {
            if weighted
                .get_mut("podAffinityTerm")
                .is_some_and(|term| unmerge_term(term, labels))
            {
                let path =
                    format_args!("spec.affinity.{kind}.{preferred}[{index}].podAffinityTerm.labelSelector");
                log.rewritten(path, REASON);
            }
        }
    }
    let constraints = spec
        .get_mut("topologySpreadConstraints")
        .and_then(Value::as_array_mut);
    for (index, constraint) in constraints.into_iter().flatten().enumerate() {
        if unmerge_term(constraint, labels) {
            log.rewritten(
                format_args!("spec.topologySpreadConstraints[{index}].labelSelector"),
                REASON,
            );
        }
    }
}

fn elements<'a>(parent: &'a mut Value, list: &str) -> impl Iterator<Item = &'a mut Value> {
    parent
        .get_mut(list)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}

/// Whether the term had a merged expression. The server appends, so of two equal ones the last is the merged one.
fn unmerge_term(term: &mut Value, labels: &Map<String, Value>) -> bool {
    let merged: Vec<Value> = [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")]
        .into_iter()
        .flat_map(|(field, operator)| {
            let keys = term.get(field).and_then(Value::as_array).into_iter().flatten();
            keys.filter_map(move |key| {
                let value = labels.get(key.as_str()?)?;
                Some(json!({"key": key, "operator": operator, "values": [value]}))
            })
        })
        .collect();
    let Some(selector) = term.get_mut("labelSelector").and_then(Value::as_object_mut) else {
        return false;
    };
    let Some(Value::Array(expressions)) = selector.get_mut("matchExpressions") else {
        return false;
    };
    let before = expressions.len();
    for expression in &merged {
        if let Some(last) = expressions.iter().rposition(|candidate| candidate == expression) {
            expressions.remove(last);
        }
    }
    let changed = expressions.len() != before;
    if expressions.is_empty() {
        selector.remove("matchExpressions");
    }
    changed
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

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
                affinity: {"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{"matchExpressions":[{"key":"tenant","operator":"Exists"}]},"matchLabelKeys":["pod-template-hash"],"mismatchLabelKeys":["tenant"],"topologyKey":"zone"}]},"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"podAffinityTerm":{"labelSelector":{"matchExpressions":[{"key":"tenant","operator":"Exists"}]},"matchLabelKeys":["pod-template-hash"],"mismatchLabelKeys":["tenant"],"topologyKey":"zone"},"weight":1}]}}
                rewritten spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: merged from matchLabelKeys by the manager; the worker merges them itself
                rewritten spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.labelSelector: merged from matchLabelKeys by the manager; the worker merges them itself
            "#]],
        );
    }

    #[test]
    fn expressions_of_other_keys_and_values_are_the_users() {
        let constraint = json!({
            "matchLabelKeys": ["tenant", "absent"],
            "labelSelector": {"matchExpressions": [
                {"key": "tenant", "operator": "In", "values": ["b"]},
                {"key": "absent", "operator": "In", "values": ["a"]},
                {"key": "pod-template-hash", "operator": "In", "values": ["6d5f"]},
            ]},
        });
        check(
            json!({"topologySpreadConstraints": [constraint, {"matchLabelKeys": ["tenant"]}]}),
            expect![[r#"
                topologySpreadConstraints: [{"labelSelector":{"matchExpressions":[{"key":"tenant","operator":"In","values":["b"]},{"key":"absent","operator":"In","values":["a"]},{"key":"pod-template-hash","operator":"In","values":["6d5f"]}]},"matchLabelKeys":["tenant","absent"]},{"matchLabelKeys":["tenant"]}]
            "#]],
        );
    }

    #[track_caller]
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
