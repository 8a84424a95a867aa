//! The CEL that more than one layer uses, so that inject, enrich and guard cannot come to differ.
//!
//! Absent fields are the rule, not the exception (A6), so everything optional is read by `.?` or `has`.
//! `matchConditions` see neither `variables` nor `namespaceObject`: what needs them is a variable.

use crate::names::{ALLOW_EXEMPT, EXEMPT, GATE, GATED, TRUE};

/// A string literal.
pub(super) fn text(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// A list of string literals.
pub(super) fn texts(values: &[&str]) -> String {
    let values: Vec<String> = values.iter().map(|value| text(value)).collect();
    format!("[{}]", values.join(", "))
}

/// A sentence whose `{}` is the value of a CEL expression.
pub(super) fn sentence(sentence: &str, value: &str) -> String {
    let (before, after) = sentence
        .split_once("{}")
        .expect("the caller passes a sentence with a place for the value");
    format!("{} + {value} + {}", text(before), text(after))
}

/// All of them hold.
pub(super) fn all(conditions: &[String]) -> String {
    conditions.join(" &&\n")
}

/// It does not hold.
pub(super) fn not(condition: &str) -> String {
    format!("!({condition})")
}

/// The labels of what `holder` names (an object or a pod template), as a map.
pub(super) fn labels(holder: &str) -> String {
    format!("{holder}.?metadata.?labels.orValue({{}})")
}

/// The annotations of what `holder` names, as a map.
pub(super) fn annotations(holder: &str) -> String {
    format!("{holder}.?metadata.?annotations.orValue({{}})")
}

/// The finalizers of what `holder` names, as a list.
pub(super) fn finalizers(holder: &str) -> String {
    format!("{holder}.?metadata.?finalizers.orValue([])")
}

/// The gates of a pod or template, as a list.
pub(super) fn gates(holder: &str) -> String {
    format!("{holder}.?spec.?schedulingGates.orValue([])")
}

/// A pod or template carries our gate.
pub(super) fn has_gate(holder: &str) -> String {
    format!("{}.exists(gate, gate.name == {})", gates(holder), text(GATE))
}

/// The value of a label, or the empty string.
pub(super) fn label(holder: &str, key: &str) -> String {
    format!("{holder}.?metadata.?labels[?{}].orValue('')", text(key))
}

/// A field that may be absent, as an optional value.
pub(super) fn optional(holder: &str, path: &[&str]) -> String {
    path.iter().fold(holder.to_owned(), |place, key| {
        if key
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && !RESERVED.contains(key)
        {
            format!("{place}.?{key}")
        } else {
            format!("{place}[?{}]", text(key))
        }
    })
}

/// The map under a key, or an empty one.
pub(super) fn optional_map(holder: &str, key: &str) -> String {
    format!("{}.orValue({{}})", optional(holder, &[key]))
}

/// Words that CEL keeps for itself, so that no selector may be called so.
const RESERVED: [&str; 20] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "while",
];

/// Every key of two maps but these is in both, with the same value.
pub(super) fn same_but(new: &str, old: &str, but: &[&str]) -> [String; 2] {
    let but = texts(but);
    [
        format!("{new}.all(key, key in {but} || (key in {old} && {old}[key] == {new}[key]))"),
        format!("{old}.all(key, key in {but} || key in {new})"),
    ]
}

/// A job that its maker wants on this cluster, in a namespace that allows it: the job says so, or, in a kind that has but
/// one, its pod template (a variable: needs `namespaceObject`).
pub(super) fn exempt_job() -> String {
    format!(
        "{} &&\n({} ||\n{})",
        namespace_allows_exempt(),
        asks_exempt("object"),
        asks_exempt("object.?spec.?template")
    )
}

/// The object is on top: no controller but a CronJob made it.
pub(super) fn top() -> String {
    format!("!{}", controlled_by_other_than("CronJob"))
}

/// A pod that its maker wants on this cluster, in a namespace that allows it, and that carries no mark of ours
/// (a variable: needs `namespaceObject`).
pub(super) fn exempt_pod() -> String {
    all(&[
        namespace_allows_exempt(),
        asks_exempt("object"),
        format!("!({} in {})", text(GATED), labels("object")),
        not(&has_gate("object")),
    ])
}

/// What `holder` names carries the label `exempt`.
pub(super) fn asks_exempt(holder: &str) -> String {
    format!("{} == {}", label(holder, EXEMPT), text(TRUE))
}

/// The namespace of the object carries `allow-exempt` (a variable: needs `namespaceObject`).
pub(super) fn namespace_allows_exempt() -> String {
    format!("{} == {}", label("namespaceObject", ALLOW_EXEMPT), text(TRUE))
}

/// A pod that belongs to a node of this cluster, told by who makes it, never by what it says of itself alone:
/// the mirror of a static pod, by its kubelet; a DaemonSet's pod, by the controller.
pub(super) fn made_for_this_cluster() -> String {
    let mirror = [
        "request.userInfo.username.startsWith('system:node:')".to_owned(),
        "request.userInfo.groups.exists(group, group == 'system:nodes')".to_owned(),
        format!("'kubernetes.io/config.mirror' in {}", annotations("object")),
    ];
    let daemon_set = [
        format!("request.userInfo.username in {}", texts(&DAEMON_SET_CONTROLLERS)),
        format!(
            "{}.exists(owner, owner.?controller.orValue(false) && owner.kind == 'DaemonSet')",
            owners()
        ),
    ];
    format!("({}) ||\n({})", all(&mirror), all(&daemon_set))
}

/// The DaemonSet controller; under the second name if the controller manager runs all controllers as itself.
pub(super) const DAEMON_SET_CONTROLLERS: [&str; 2] = [
    "system:serviceaccount:kube-system:daemon-set-controller",
    "system:kube-controller-manager",
];

/// The object belongs to a controller (a ReplicaSet of a Deployment, say).
pub(super) fn has_controller() -> String {
    format!("{}.exists(owner, owner.?controller.orValue(false))", owners())
}

/// The object belongs to a controller of another kind than this.
fn controlled_by_other_than(kind: &str) -> String {
    format!(
        "{}.exists(owner, owner.?controller.orValue(false) && owner.kind != {})",
        owners(),
        text(kind)
    )
}

fn owners() -> &'static str {
    "object.?metadata.?ownerReferences.orValue([])"
}

/// A JSON pointer's last token of `key` (RFC 6901).
pub(super) fn token(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
