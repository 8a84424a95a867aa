//! The layer inject for gangs: jobs are held until their PodGroup exists, and pods of a native group name it.

use serde_json::{Value, json};

use super::inject::patch;
use super::{Layer, LayerKind, Layout, cel, condition, constraints, rule, rules_of, variable};
use crate::gang::hold::KUEUE_QUEUE;
use crate::names::{
    ACCEPTS, FALSE, GANG, GANG_SCHEDULER, GANG_SCHEDULING, HELD, POD_GROUP, STAND_DOWN, TRUE,
};
use crate::workload::jobs::{GANG_KINDS, GangKind};

const HOLD: &str = "portcullis-inject-holds";
const PODS: &str = "portcullis-inject-gang-pods";
const WORKER_PODS: &str = "portcullis-worker-gang-pods";

pub(super) fn render(layout: &Layout) -> Vec<Layer> {
    let [hold, its_binding] = bound(HOLD, holds(layout));
    let [pods, their_binding] = bound(PODS, pods(layout));
    vec![hold, its_binding, pods, their_binding]
}

/// The policy of a worker with native gangs, and its binding.
pub(super) fn on_worker(namespace: &str) -> [Layer; 2] {
    bound(WORKER_PODS, pods_of_copies(namespace))
}

fn bound(name: &str, spec: Value) -> [Layer; 2] {
    [
        Layer::new(LayerKind::MutatingAdmissionPolicy, name, ("spec", spec)),
        Layer::binding(LayerKind::MutatingAdmissionPolicyBinding, name),
    ]
}

/// `suspend` and our claim to it, at CREATE. A field that the served schema lacks is pruned like any other, so nothing is
/// refused where a kind cannot be suspended; the reconciler sees what came of it.
fn holds(layout: &Layout) -> Value {
    let annotations = cel::annotations("object");
    json!({
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": constraints(&layout.ganged(), &job_rules(&["CREATE"])),
        "matchConditions": [
            condition("top", &cel::top()),
            condition("gang", &asked()),
            condition("runs", &at_each(|kind| kind.suspend(), |value| format!("{value}.orValue(false) != true"))),
            condition("of-this-cluster", &of_this_cluster()),
            condition("not-of-kueue", &format!("!({} in {})", cel::text(KUEUE_QUEUE), cel::labels("object"))),
            condition("unclaimed", &format!(
                "!({} in {annotations}) && !({} in {annotations})", cel::text(HELD), cel::text(STAND_DOWN)
            )),
        ],
        "variables": [
            variable("suspend", &suspend_pointer()),
            // Its launcher would come at once after a hold; but a native pod must be born with its group's name.
            variable("late", &format!(
                "object.?spec.?launcherCreationPolicy.orValue('') == 'WaitForWorkersReady' &&\n!({} in ['native', 'auto'])",
                cel::label("namespaceObject", GANG)
            )),
            variable("annotated", "object.?metadata.?annotations.hasValue()"),
        ],
        "mutations": [patch(&format!(
            "variables.late ? [] :\n(variables.suspend != '/spec/suspend' && !object.?spec.?runPolicy.hasValue() ?\n \
             [JSONPatch{{op: 'add', path: '/spec/runPolicy', value: {{'suspend': true}}}}] :\n \
             [JSONPatch{{op: 'add', path: variables.suspend, value: true}}]) +\n\
             (variables.annotated ? \
             [JSONPatch{{op: 'add', path: '/metadata/annotations/{token}', value: {value}}}] :\n \
             [JSONPatch{{op: 'add', path: '/metadata/annotations', value: {{{key}: {value}}}}}])",
            token = cel::token(HELD),
            key = cel::text(HELD),
            value = cel::text(TRUE),
        ))],
    })
}

/// Pods whose template says that their group is a native one. The field cannot stand in the template: the CRDs prune it.
/// It cannot be changed later, so without this policy's answer there is no pod.
fn pods(layout: &Layout) -> Value {
    grouped(&layout.ganged(), &[], None)
}

/// The same on a worker, where no label says which namespaces have gangs: the copies of jobs have the marks, and are only in
/// namespaces that consent, which is an annotation. Our own namespace there is for trying whether it works.
fn pods_of_copies(namespace: &str) -> Value {
    let namespaces = json!({"matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "kube-node-lease"]},
    ]});
    let takes_copies = format!(
        "{} in {} ||\nnamespaceObject.metadata.name == {}",
        cel::text(ACCEPTS),
        cel::annotations("namespaceObject"),
        cel::text(namespace)
    );
    let variables = [variable("takesCopies", &takes_copies)];
    grouped(&namespaces, &variables, Some("variables.takesCopies"))
}

/// Pods with both marks get the group that the label names, if the variables do not say otherwise.
fn grouped(namespaces: &Value, variables: &[Value], only_if: Option<&str>) -> Value {
    let group = format!("object.metadata.labels[{}]", cel::text(POD_GROUP));
    let mut constraints = constraints(
        namespaces,
        &[rule("", "v1", &["pods"], &["CREATE"], "Namespaced")],
    );
    constraints["objectSelector"] = json!({"matchExpressions": [{"key": POD_GROUP, "operator": "Exists"}]});
    let only_if = only_if.map_or_else(String::new, |variable| format!("!{variable} ? [] :\n"));
    let mut spec = json!({
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": constraints,
        "matchConditions": [
            condition("native", &format!(
                "{}[?{}].orValue('') == 'native'", cel::annotations("object"), cel::text(GANG_SCHEDULER)
            )),
            condition("without-a-group", "!object.?spec.?schedulingGroup.hasValue()"),
        ],
        "mutations": [patch(&format!(
            "{only_if}[JSONPatch{{op: 'add', path: '/spec/schedulingGroup', value: {{'podGroupName': {group}}}}}]"
        ))],
    });
    if !variables.is_empty() {
        spec["variables"] = variables.into();
    }
    spec
}

/// One rule for each group and version of jobs that can be gangs.
pub(super) fn job_rules(operations: &[&str]) -> Vec<Value> {
    rules_of(GANG_KINDS.iter().map(|kind| kind.resource()), &[""], operations)
}

/// It asks by annotation, or has a `schedulingPolicy` and no annotation that says otherwise.
fn asked() -> String {
    let annotation = format!(
        "{}[?{}].orValue('')",
        cel::annotations("object"),
        cel::text(GANG_SCHEDULING)
    );
    let policies = distinct(|kind| kind.scheduling_policy())
        .map(|path| format!("{}.orValue(null) != null", cel::optional("object", path)));
    let policies: Vec<String> = policies.collect();
    format!(
        "{annotation} == {} ||\n{annotation} != {} && ({})",
        cel::text(TRUE),
        cel::text(FALSE),
        policies.join(" ||\n")
    )
}

/// Its `managedBy` names nobody, or an operator of this cluster.
fn of_this_cluster() -> String {
    let values: Vec<&str> = std::iter::once("")
        .chain(GANG_KINDS.iter().map(|kind| kind.managed_by().local))
        .collect();
    let values = cel::texts(&values);
    at_each(
        |kind| kind.managed_by().path,
        |value| format!("{value}.orValue('') in {values}"),
    )
}

/// What holds at each of the places where a kind may have the field; in other kinds the place is empty.
fn at_each(path: fn(&dyn GangKind) -> &'static [&'static str], holds: impl Fn(&str) -> String) -> String {
    let conditions: Vec<String> = distinct(|kind| Some(path(kind)))
        .map(|path| holds(&cel::optional("object", path)))
        .collect();
    cel::all(&conditions)
}

fn suspend_pointer() -> String {
    let mut paths: Vec<_> = distinct(|kind| Some(kind.suspend())).collect();
    let last = paths.pop().expect("kinds of jobs have a suspend field");
    let mut expression = cel::text(&pointer(last));
    for path in paths {
        let kinds: Vec<String> = GANG_KINDS
            .iter()
            .filter(|kind| kind.suspend() == path)
            .map(|kind| format!("{}/{}", kind.resource().group, kind.resource().kind))
            .collect();
        let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
        expression = format!(
            "request.kind.group + '/' + request.kind.kind in {} ? {} : {expression}",
            cel::texts(&kinds),
            cel::text(&pointer(path))
        );
    }
    expression
}

fn distinct(
    path: impl Fn(&dyn GangKind) -> Option<&'static [&'static str]>,
) -> impl Iterator<Item = &'static [&'static str]> {
    let mut paths: Vec<&'static [&'static str]> = Vec::new();
    for path in GANG_KINDS.iter().filter_map(|kind| path(*kind)) {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths.into_iter()
}

fn pointer(path: &[&str]) -> String {
    format!("/{}", path.join("/"))
}
