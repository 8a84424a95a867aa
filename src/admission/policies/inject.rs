//! The layer inject: MutatingAdmissionPolicies that put gate, label and `root` on pods and templates.
//!
//! JSON patches, not apply configurations: they can take marks off again and never meet the merge's rules about
//! duplicate list keys in a user's object.

use serde_json::{Value, json};

use super::{
    Layer, LayerKind, Layout, cel, condition, constraints, rules, template_conditions, template_rules,
    variable,
};
use crate::names::{GATE, GATED, ROOT, TRUE};
use crate::workload::Treatment;

const PODS: &str = "portcullis-inject-pods";
const TEMPLATES: &str = "portcullis-inject-templates";

pub(super) fn render(layout: &Layout) -> Vec<Layer> {
    vec![
        Layer::new(LayerKind::MutatingAdmissionPolicy, PODS, ("spec", pods(layout))),
        Layer::new(
            LayerKind::MutatingAdmissionPolicy,
            TEMPLATES,
            ("spec", templates(layout)),
        ),
        Layer::binding(LayerKind::MutatingAdmissionPolicyBinding, PODS),
        Layer::binding(LayerKind::MutatingAdmissionPolicyBinding, TEMPLATES),
    ]
}

/// Gate and label, at CREATE.
fn pods(layout: &Layout) -> Value {
    let missing = format!(
        "!({} in {}) || !{}",
        cel::text(GATED),
        cel::labels("object"),
        cel::has_gate("object")
    );
    json!({
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": constraints(
            &layout.opted_in(),
            &rules(Treatment::GatePod, &["CREATE"]),
        ),
        "matchConditions": [
            condition("no-node-name", "object.?spec.?nodeName.orValue('') == ''"),
            condition("not-of-this-cluster", &cel::not(&cel::made_for_this_cluster())),
            condition("marks-missing", &missing),
        ],
        "variables": [
            variable("exempt", &cel::exempt_pod()),
            variable("labels", &cel::labels("object")),
            variable("gates", &cel::gates("object")),
            variable("label", &none_or_one("variables.labels", GATED)),
            variable("wantedLabel", &set_if_absent("variables.label")),
            variable("wantedGates", &with_gate("variables.gates")),
        ],
        "mutations": [patch(&format!(
            "variables.exempt ? [] :\n{} +\n{}",
            set_key("object", "", "labels", GATED, ("label", "wantedLabel")),
            set_gates(""),
        ))],
    })
}

/// Gate, label and `root` on `spec.template`: at CREATE, and at UPDATE if the user changes the template. If he
/// does not, the marks that the stored template carries are put back, so that no rollout starts; none is added.
fn templates(layout: &Layout) -> Value {
    let template = "object.spec.template";
    json!({
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": constraints(&layout.opted_in(), &template_rules()),
        "matchConditions": template_conditions(),
        "variables": template_variables(template, "oldObject.spec.template"),
        "mutations": [patch(&[
            set_key(template, "/spec/template", "labels", GATED, ("label", "wantedLabel")),
            set_key(template, "/spec/template", "annotations", ROOT, ("root", "wantedRoot")),
            set_gates("/spec/template"),
        ].join(" +\n"))],
    })
}

/// What is there, what was there, and which marks are wanted: a list of none or one where a mark may be absent.
fn template_variables(new: &str, old: &str) -> Vec<Value> {
    let metadata = |holder: &str| format!("{holder}.?metadata.orValue({{}})");
    let wanted = |restored: &str, fresh: &str| {
        format!("variables.unchanged ? {restored} :\nvariables.unmarked ? [] :\n{fresh}")
    };
    let of_update = |list: &str| format!("request.operation == 'CREATE' ? [] : {list}");
    vec![
        variable("labels", &cel::labels(new)),
        variable("annotations", &cel::annotations(new)),
        variable("gates", &cel::gates(new)),
        variable("metadata", &metadata(new)),
        variable("oldLabels", &cel::labels(old)),
        variable("oldAnnotations", &cel::annotations(old)),
        variable("oldGates", &cel::gates(old)),
        variable("oldMetadata", &metadata(old)),
        variable("unchanged", &unchanged(new, old)),
        // Beside a node name a gate would be refused in the server's words, not in ours.
        variable(
            "unmarked",
            &format!(
                "{new}.?spec.?nodeName.orValue('') != '' ||\n({} &&\n{})",
                cel::namespace_allows_exempt(),
                cel::asks_exempt(new)
            ),
        ),
        variable("label", &none_or_one("variables.labels", GATED)),
        variable("oldLabel", &of_update(&none_or_one("variables.oldLabels", GATED))),
        variable(
            "wantedLabel",
            &wanted("variables.oldLabel", &set_if_absent("variables.label")),
        ),
        variable("root", &none_or_one("variables.annotations", ROOT)),
        variable(
            "oldRoot",
            &of_update(&none_or_one("variables.oldAnnotations", ROOT)),
        ),
        variable(
            "ownRoot",
            "object.metadata.?name.orValue('') == '' ? [] :\n\
             [request.kind.group + '/' + request.kind.kind + '/' + object.metadata.name]",
        ),
        variable(
            "wantedRoot",
            &wanted(
                "variables.oldRoot",
                "variables.oldRoot != [] ? variables.oldRoot :\n\
                 variables.ownRoot != [] ? variables.ownRoot : variables.root",
            ),
        ),
        variable(
            "wantedGates",
            &format!(
                "variables.unchanged ? variables.oldGates :\nvariables.unmarked ? {} :\n{}",
                without_gate("variables.gates"),
                with_gate("variables.gates")
            ),
        ),
    ]
}

/// The user's template is the stored one, or the stored one without some of our marks.
fn unchanged(new: &str, old: &str) -> String {
    let same_or_lost = |new: &str, old: &str, mark: &str| {
        [
            format!("{new}.all(key, key in {old} && {old}[key] == {new}[key])"),
            format!("{old}.all(key, key == {} || key in {new})", cel::text(mark)),
        ]
    };
    let gates = format!(
        "(variables.gates == variables.oldGates || variables.gates == {})",
        without_gate("variables.oldGates")
    );
    let parts = [
        same_or_lost("variables.labels", "variables.oldLabels", GATED),
        same_or_lost("variables.annotations", "variables.oldAnnotations", ROOT),
        cel::same_but(
            "variables.metadata",
            "variables.oldMetadata",
            &["labels", "annotations"],
        ),
        cel::same_but(
            &format!("{new}.spec"),
            &format!("{old}.spec"),
            &["schedulingGates"],
        ),
    ];
    let parts: Vec<String> = ["request.operation == 'UPDATE'".to_owned(), gates]
        .into_iter()
        .chain(parts.into_iter().flatten())
        .collect();
    cel::all(&parts)
}

/// The label's own value; a wrong one is the user's and refused as such.
fn set_if_absent(label: &str) -> String {
    format!("{label} == [] ? [{}] : {label}", cel::text(TRUE))
}

fn with_gate(gates: &str) -> String {
    let gate = cel::text(GATE);
    format!("({gates}.exists(gate, gate.name == {gate}) ? {gates} : {gates} + [{{'name': {gate}}}])")
}

fn without_gate(gates: &str) -> String {
    format!("{gates}.filter(gate, gate.name != {})", cel::text(GATE))
}

pub(super) fn patch(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

/// The value of `key` as a list of none or one.
fn none_or_one(map: &str, key: &str) -> String {
    format!("({0} in {map} ? [{map}[{0}]] : [])", cel::text(key))
}

/// Operations that bring `key` of a map of the metadata from the variable `now` to the variable `wanted`, each a
/// list of none or one value; a missing map is added with the key (P10).
fn set_key(holder: &str, path: &str, map: &str, key: &str, (now, wanted): (&str, &str)) -> String {
    let map_path = format!("{path}/metadata/{map}");
    let path = cel::text(&format!("{map_path}/{}", cel::token(key)));
    format!(
        "(variables.{wanted} == variables.{now} ? [] :\n \
         variables.{wanted} == [] ? [JSONPatch{{op: 'remove', path: {path}}}] :\n \
         {holder}.?metadata.?{map}.hasValue() ? [JSONPatch{{op: 'add', path: {path}, value: variables.{wanted}[0]}}] :\n \
         [JSONPatch{{op: 'add', path: {map_path}, value: {{{key}: variables.{wanted}[0]}}}}])",
        key = cel::text(key),
        map_path = cel::text(&map_path),
    )
}

/// The operation that brings `variables.gates` to `variables.wantedGates`. The list is made anew: a list taken from
/// the object does not become JSON (1.37.2: "type conversion error from list(dyn)"). A gate is only a name.
fn set_gates(path: &str) -> String {
    let path = cel::text(&format!("{path}/spec/schedulingGates"));
    format!(
        "(variables.gates == variables.wantedGates ? [] :\n \
         [JSONPatch{{op: 'add', path: {path}, \
         value: variables.wantedGates.map(gate, {{'name': gate.name}})}}])"
    )
}
