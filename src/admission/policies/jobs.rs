//! The layer inject for whole jobs: `managedBy`, so that the operator of this cluster leaves a job to us.

use serde_json::{Value, json};

use super::inject::patch;
use super::{Layer, LayerKind, Layout, cel, condition, constraints, rules_of, variable};
use crate::names::{DISPATCHED_BY, GATE};
use crate::workload::jobs::{JobKind, JobKinds, Written};

const JOBS: &str = "portcullis-inject-jobs";

pub(super) fn render(layout: &Layout) -> Vec<Layer> {
    let policy = Layer::new(
        LayerKind::MutatingAdmissionPolicy,
        JOBS,
        ("spec", managed_by(layout)),
    );
    vec![
        policy,
        Layer::binding(LayerKind::MutatingAdmissionPolicyBinding, JOBS),
    ]
}

/// `managedBy`, at CREATE, unless it names somebody else; in kinds that take only Kueue's name, the annotation that says
/// that it is us. Where the served schema lacks the field it is pruned, the operator of this cluster runs the job, and its
/// pods are gated.
fn managed_by(layout: &Layout) -> Value {
    let kinds = layout.kinds;
    json!({
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": constraints(&layout.opted_in(), &job_rules(kinds, &[""], &["CREATE"])),
        "matchConditions": [condition("top", &cel::top())],
        "variables": [
            variable("exempt", &cel::exempt_job()),
            variable("kind", kind()),
            variable("managedBy", &choose(kinds, path, |path| value_at("object", path))),
            variable("local", &choose(kinds, local, |local| cel::text(local))),
            variable("kueues", &choose(kinds, written, |written| (*written == Written::Kueues).to_string())),
            variable("wanted", "!variables.exempt && variables.managedBy in ['', variables.local]"),
            variable("value", &format!(
                "variables.kueues ? {} : {}", cel::text(Written::Kueues.value()), cel::text(Written::Ours.value())
            )),
            variable("annotated", "object.?metadata.?annotations.hasValue()"),
        ],
        "mutations": [patch(&format!(
            "!variables.wanted ? [] :\n({}) +\n({})",
            choose(kinds, path, |path| set(path)),
            annotate(),
        ))],
    })
}

/// One rule for each group and version of jobs.
pub(super) fn job_rules(kinds: JobKinds, subresources: &[&str], operations: &[&str]) -> Vec<Value> {
    rules_of(kinds.iter().map(|kind| kind.resource()), subresources, operations)
}

/// The kind that the request is about, in the version of the rule.
pub(super) fn kind() -> &'static str {
    "request.kind.group + '/' + request.kind.version + '/' + request.kind.kind"
}

/// What holds for the kind of the variable `kind`: an expression for each value of `of`, in the order of the kinds; the
/// last one is for all others.
pub(super) fn choose<T: PartialEq>(
    kinds: JobKinds,
    of: impl Fn(&dyn JobKind) -> T,
    expression: impl Fn(&T) -> String,
) -> String {
    let mut chosen: Vec<(T, Vec<String>)> = Vec::new();
    for kind in kinds.iter() {
        let (value, names) = (of(kind), kind.resource());
        let name = format!("{}/{}/{}", names.group, names.version, names.kind);
        match chosen.iter_mut().find(|(known, _)| *known == value) {
            Some((_, kinds)) => kinds.push(name),
            None => chosen.push((value, vec![name])),
        }
    }
    let last = chosen
        .pop()
        .map_or_else(|| "null".to_owned(), |(value, _)| expression(&value));
    chosen.iter().rev().fold(last, |others, (value, kinds)| {
        let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
        format!(
            "variables.kind in {} ?\n({}) :\n{others}",
            cel::texts(&kinds),
            expression(value)
        )
    })
}

/// Where `managedBy` is.
pub(super) fn path(kind: &dyn JobKind) -> &'static [&'static str] {
    kind.managed_by().path
}

fn local(kind: &dyn JobKind) -> &'static str {
    kind.managed_by().local
}

fn written(kind: &dyn JobKind) -> Written {
    kind.dispatch().written
}

/// The text at the end of these keys, or the empty one.
pub(super) fn value_at(holder: &str, path: &[&str]) -> String {
    format!("{}.orValue('')", cel::optional(holder, path))
}

/// The operation that sets the field; what is missing above it is added with it (P10).
fn set(path: &[&str]) -> String {
    let pointer = |keys: &[&str]| {
        let tokens: String = keys.iter().map(|key| format!("/{}", cel::token(key))).collect();
        cel::text(&tokens)
    };
    let value = |below: &[&str]| {
        below
            .iter()
            .rev()
            .fold("variables.value".to_owned(), |value, key| {
                format!("{{{}: {value}}}", cel::text(key))
            })
    };
    let add = |depth: usize| {
        format!(
            "[JSONPatch{{op: 'add', path: {}, value: {}}}]",
            pointer(&path[..=depth]),
            value(&path[depth + 1..])
        )
    };
    (1..path.len()).fold(add(0), |shallower, depth| {
        let parent = cel::optional("object", &path[..depth]);
        format!("{parent}.hasValue() ? {} :\n{shallower}", add(depth))
    })
}

fn annotate() -> String {
    let value = cel::text(GATE);
    format!(
        "!variables.kueues ? [] :\nvariables.annotated ?\n \
         [JSONPatch{{op: 'add', path: '/metadata/annotations/{token}', value: {value}}}] :\n \
         [JSONPatch{{op: 'add', path: '/metadata/annotations', value: {{{key}: {value}}}}}]",
        token = cel::token(DISPATCHED_BY),
        key = cel::text(DISPATCHED_BY),
    )
}
