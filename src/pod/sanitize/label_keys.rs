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
