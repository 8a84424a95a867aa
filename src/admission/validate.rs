//! An object, its namespace's labels and who sends it -> refused by the guard, or not; and the guard's sentences.
//!
//! The API server keeps the guard by the policies of [`super::policies`]; this is the same, at CREATE, for
//! `portcullis preview admission`. Both say the same sentences: they stand here and nowhere else.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::names::{ALLOW_EXEMPT, DISPATCH, EXEMPT, GATE, GATED, RECONCILER_KEYS, REMOTE_COPY, TRUE};
use crate::workload::{Treatment, by_kind};

/// A pod that names its node.
pub(crate) const NODE_NAME: &str = "pods of this namespace run on worker clusters; remove spec.nodeName";
/// A pod without the gate, or with the gate and without the label.
pub(crate) const UNGATED: &str = "pods of this namespace run on worker clusters: they need the scheduling gate \
    portcullis.dev/multikueue and the label portcullis.dev/gated=true, which admission adds; if something took them \
    away again, correct that, or set both, or label the pod portcullis.dev/exempt=true where the namespace allows it";
/// A DaemonSet.
pub(crate) const DAEMON_SET: &str = "a DaemonSet puts its pods on the nodes of this cluster, but pods of this \
    namespace run on worker clusters; create it in another namespace, or label it portcullis.dev/exempt=true where \
    the namespace allows it";
/// Keys that only the reconciler writes, in a pod; `{}` are the keys.
pub(crate) const KEYS: &str = "only portcullis itself writes {}: remove it from metadata, for a dispatched pod is \
    not created again from its own manifest";
/// Keys that only the reconciler writes, in a workload or its pod template; `{}` are the keys.
pub(crate) const TEMPLATE_KEYS: &str = "only portcullis itself writes {}: remove it from \
    metadata and from spec.template.metadata";

/// The gate of a pod that exists.
pub(crate) const GATE_CHANGED: &str = "the scheduling gate portcullis.dev/multikueue of a pod is never changed after \
    its creation, since the pod runs on a worker cluster; to run it on this cluster, delete it and create it with the \
    label portcullis.dev/exempt=true where the namespace allows it";
/// The labels of a pod that exists.
pub(crate) const LABEL_CHANGED: &str = "the labels portcullis.dev/gated and portcullis.dev/exempt of a pod are never \
    changed after its creation; delete the pod and create it as it should be";
/// Keys that only the reconciler writes, changed on a pod; `{}` are the keys.
pub(crate) const KEYS_CHANGED: &str = "only portcullis itself changes {}: leave it as it is; to end the remote copy, \
    delete this pod";
/// The finalizer of a pod that is not being deleted.
pub(crate) const FINALIZER_CHANGED: &str = "only portcullis itself adds or removes the finalizer \
    portcullis.dev/remote-copy of a pod that is not being deleted; delete the pod, then anyone may remove it";
/// The spec of a committed pod; `{}` is the cluster.
pub(crate) const SPEC_CHANGED: &str = "this pod was handed to the worker cluster {}, so its spec can no longer be \
    changed here; delete it and create it anew, or change the template of its owner";

/// A namespace that no label of ours may be set on; `{}` is its name.
pub(crate) const PROTECTED: &str = "the namespace {} keeps its pods on this cluster: its labels portcullis.dev/dispatch, \
    portcullis.dev/gang and portcullis.dev/allow-exempt can only be removed; label another namespace";
/// The opt-in without the right; `{}` are the policies. (A messageExpression cannot ask the authorizer which of them.)
pub(crate) const MAY_NOT_DISPATCH: &str = "changing the label portcullis.dev/dispatch needs the verb use on \
    dispatchpolicies.portcullis.dev {}, the old and the new value; ask an administrator for a ClusterRole with it";
/// `allow-exempt` without the right; `{}` are the policies.
pub(crate) const MAY_NOT_EXEMPT: &str = "changing the label portcullis.dev/allow-exempt needs the verb use on \
    dispatchpolicies.portcullis.dev {}, which the namespace names; ask an administrator for a ClusterRole with it";
/// `gang` without the right.
pub(crate) const MAY_NOT_GANG: &str = "changing the label portcullis.dev/gang needs the verb use on \
    dispatchpolicies.portcullis.dev without resourceNames; ask an administrator for such a ClusterRole";

/// The user's mistake: which field, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct Denial {
    /// The field, such as `spec.nodeName`.
    pub path: String,
    /// What is wrong and the way out.
    pub message: String,
}

/// The guard's answer to the creation of `object` by `user` in a namespace with these labels.
///
/// The object must be as admission leaves it, that is with our gate and labels already on it.
///
/// # Errors
/// The first refusal, in the order in which the API server gives them.
pub fn guard(object: &Value, namespace_labels: &BTreeMap<String, String>, user: &str) -> Result<(), Denial> {
    if !namespace_labels.contains_key(DISPATCH) {
        return Ok(());
    }
    let allows_exempt = namespace_labels
        .get(ALLOW_EXEMPT)
        .is_some_and(|value| value == TRUE);
    let kind = by_kind(text(object, "/apiVersion"), text(object, "/kind"));
    match kind.map(|kind| kind.treatment()) {
        Some(Treatment::GatePod) if made_for_this_cluster(object, user) => Ok(()),
        Some(Treatment::GatePod) => guard_pod(object, allows_exempt),
        Some(Treatment::Refuse) => guard_daemon_set(object, allows_exempt),
        Some(Treatment::GateTemplate) if has_controller(object) => Ok(()),
        Some(Treatment::GateTemplate) => {
            refuse_keys(object, "metadata", TEMPLATE_KEYS)?;
            refuse_keys(
                &object["spec"]["template"],
                "spec.template.metadata",
                TEMPLATE_KEYS,
            )
        }
        None => Ok(()),
    }
}

/// A pod of the node it is bound to, told by who makes it: a static pod's mirror, or a DaemonSet's.
fn made_for_this_cluster(pod: &Value, user: &str) -> bool {
    let mirror = user.starts_with("system:node:")
        && pod
            .pointer("/metadata/annotations/kubernetes.io~1config.mirror")
            .is_some();
    let by_daemon_set = matches!(
        user,
        "system:serviceaccount:kube-system:daemon-set-controller" | "system:kube-controller-manager"
    ) && owners(pod)
        .any(|owner| is_controller(owner) && text(owner, "/kind") == "DaemonSet");
    mirror || by_daemon_set
}

fn guard_pod(pod: &Value, allows_exempt: bool) -> Result<(), Denial> {
    let label = pod["metadata"]["labels"].get(GATED);
    let gated = pod["spec"]["schedulingGates"]
        .as_array()
        .is_some_and(|gates| gates.iter().any(|gate| gate["name"] == GATE));
    let exempt = allows_exempt && !gated && label.is_none() && pod["metadata"]["labels"][EXEMPT] == TRUE;
    let bound = !text(pod, "/spec/nodeName").is_empty();
    if bound && !exempt {
        return Err(denial("spec.nodeName", NODE_NAME));
    }
    let marked = gated && label.is_some_and(|value| value == TRUE);
    if !exempt && !marked {
        return Err(denial("spec.schedulingGates", UNGATED));
    }
    refuse_keys(pod, "metadata", KEYS)
}

fn guard_daemon_set(object: &Value, allows_exempt: bool) -> Result<(), Denial> {
    let labelled = |object: &Value| object["metadata"]["labels"][EXEMPT] == TRUE;
    if allows_exempt && (labelled(object) || labelled(&object["spec"]["template"])) {
        return Ok(());
    }
    Err(denial("kind", DAEMON_SET))
}

fn refuse_keys(holder: &Value, path: &str, sentence: &str) -> Result<(), Denial> {
    let metadata = &holder["metadata"];
    let keys = RECONCILER_KEYS
        .into_iter()
        .filter(|key| metadata["annotations"].get(key).is_some());
    let finalizer = metadata["finalizers"]
        .as_array()
        .is_some_and(|all| all.iter().any(|one| one == REMOTE_COPY));
    let found: Vec<&str> = keys.chain(finalizer.then_some(REMOTE_COPY)).collect();
    if found.is_empty() {
        return Ok(());
    }
    Err(denial(path, &sentence.replace("{}", &found.join(", "))))
}

fn has_controller(object: &Value) -> bool {
    owners(object).any(is_controller)
}

fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
}

fn is_controller(owner: &Value) -> bool {
    owner["controller"] == true
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn denial(path: &str, message: &str) -> Denial {
    Denial {
        path: path.to_owned(),
        message: message.to_owned(),
    }
}

#[cfg(test)]
#[allow(
    clippy::needless_pass_by_value,
    reason = "json!(…) is handed over where it is made"
)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    const ALICE: &str = "alice";
    const KUBELET: &str = "system:node:n1";
    const DAEMON_SETS: &str = "system:serviceaccount:kube-system:daemon-set-controller";

    #[test]
    fn a_gated_pod_passes() {
        check(gated(), ALICE, expect!["ok"]);
    }

    #[test]
    fn a_pod_without_gate_or_label_is_refused() {
        check(
            pod(json!({}), json!({})),
            ALICE,
            expect!["spec.schedulingGates: UNGATED"],
        );
        let mut gate_only = gated();
        gate_only["metadata"] = json!({});
        check(gate_only, ALICE, expect!["spec.schedulingGates: UNGATED"]);
        let label_only = pod(json!({"labels": {GATED: TRUE}}), json!({}));
        check(label_only, ALICE, expect!["spec.schedulingGates: UNGATED"]);
    }

    #[test]
    fn a_node_name_is_refused_before_the_missing_gate() {
        check(
            pod(json!({}), json!({"nodeName": "n1"})),
            ALICE,
            expect!["spec.nodeName: NODE_NAME"],
        );
    }

    #[test]
    fn only_a_kubelet_shows_static_pods() {
        let mirror = pod(
            json!({"annotations": {"kubernetes.io/config.mirror": "x"}}),
            json!({"nodeName": "n1"}),
        );
        check(mirror.clone(), KUBELET, expect!["ok"]);
        check(mirror, ALICE, expect!["spec.nodeName: NODE_NAME"]);
        check(
            pod(json!({}), json!({"nodeName": "n1"})),
            KUBELET,
            expect!["spec.nodeName: NODE_NAME"],
        );
    }

    #[test]
    fn only_the_controller_makes_pods_of_daemon_sets() {
        let owned = |kind: &str| {
            pod(
                json!({"ownerReferences": [{"kind": kind, "controller": true}]}),
                json!({}),
            )
        };
        check(owned("DaemonSet"), DAEMON_SETS, expect!["ok"]);
        check(
            owned("DaemonSet"),
            ALICE,
            expect!["spec.schedulingGates: UNGATED"],
        );
        let not_controlled = pod(json!({"ownerReferences": [{"kind": "DaemonSet"}]}), json!({}));
        check(
            not_controlled,
            DAEMON_SETS,
            expect!["spec.schedulingGates: UNGATED"],
        );
        check(
            owned("ReplicaSet"),
            DAEMON_SETS,
            expect!["spec.schedulingGates: UNGATED"],
        );
    }

    #[test]
    fn exempt_counts_where_the_namespace_allows_it() {
        let exempt = pod(json!({"labels": {EXEMPT: TRUE}}), json!({}));
        check(exempt.clone(), ALICE, expect!["spec.schedulingGates: UNGATED"]);
        check_allowing(exempt, expect!["ok"]);
        let bound = pod(json!({"labels": {EXEMPT: TRUE}}), json!({"nodeName": "n1"}));
        check_allowing(bound, expect!["ok"]);
        let both = pod(json!({"labels": {EXEMPT: TRUE, GATED: TRUE}}), json!({}));
        check_allowing(both, expect!["spec.schedulingGates: UNGATED"]);
    }

    #[test]
    fn keys_are_refused_by_name_also_on_exempt_pods() {
        let mut forged = gated();
        forged["metadata"]["annotations"] =
            json!({"portcullis.dev/attempt": "1", "portcullis.dev/root": "x"});
        forged["metadata"]["finalizers"] = json!([REMOTE_COPY]);
        check(
            forged,
            ALICE,
            expect!["metadata: KEYS(portcullis.dev/attempt, portcullis.dev/remote-copy)"],
        );
        let exempt = pod(
            json!({"labels": {EXEMPT: TRUE}, "annotations": {"portcullis.dev/cluster": "a"}}),
            json!({}),
        );
        check_allowing(exempt, expect!["metadata: KEYS(portcullis.dev/cluster)"]);
    }

    #[test]
    fn a_daemon_set_is_refused_unless_it_is_exempt() {
        let set = |labels: Value| json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"labels": labels}});
        check(set(json!({EXEMPT: TRUE})), ALICE, expect!["kind: DAEMON_SET"]);
        check_allowing(set(json!({})), expect!["kind: DAEMON_SET"]);
        check_allowing(set(json!({EXEMPT: TRUE})), expect!["ok"]);
        let mut by_template = set(json!({}));
        by_template["spec"]["template"]["metadata"]["labels"] = json!({EXEMPT: TRUE});
        check_allowing(by_template, expect!["ok"]);
    }

    #[test]
    fn keys_in_templates_are_refused_unless_a_controller_made_them() {
        let mut forged = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "x"}});
        forged["spec"]["template"]["metadata"]["annotations"] = json!({"portcullis.dev/cluster": "a"});
        check(
            forged.clone(),
            ALICE,
            expect!["spec.template.metadata: TEMPLATE_KEYS(portcullis.dev/cluster)"],
        );
        forged["metadata"]["ownerReferences"] = json!([{"kind": "Deployment", "controller": false}]);
        check(
            forged.clone(),
            ALICE,
            expect!["spec.template.metadata: TEMPLATE_KEYS(portcullis.dev/cluster)"],
        );
        forged["metadata"]["ownerReferences"] = json!([{"kind": "Deployment", "controller": true}]);
        check(forged, ALICE, expect!["ok"]);
        let mut outside = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
        outside["metadata"]["annotations"] = json!({"portcullis.dev/cluster": "a"});
        check(
            outside,
            ALICE,
            expect!["metadata: TEMPLATE_KEYS(portcullis.dev/cluster)"],
        );
    }

    #[test]
    fn other_namespaces_and_kinds_are_none_of_ours() {
        assert_eq!(guard(&pod(json!({}), json!({})), &BTreeMap::new(), ALICE), Ok(()));
        check(
            json!({"apiVersion": "v1", "kind": "ConfigMap"}),
            ALICE,
            expect!["ok"],
        );
        check(json!(null), ALICE, expect!["ok"]);
    }

    fn pod(metadata: Value, spec: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    }

    fn gated() -> Value {
        pod(
            json!({"labels": {GATED: TRUE}}),
            json!({"schedulingGates": [{"name": "other"}, {"name": GATE}]}),
        )
    }

    #[track_caller]
    fn check(object: Value, user: &str, expect: Expect) {
        told(&object, &[(DISPATCH, "p")], user, &expect);
    }

    #[track_caller]
    fn check_allowing(object: Value, expect: Expect) {
        told(&object, &[(DISPATCH, "p"), (ALLOW_EXEMPT, TRUE)], ALICE, &expect);
    }

    #[track_caller]
    fn told(object: &Value, labels: &[(&str, &str)], user: &str, expect: &Expect) {
        let labels = labels
            .iter()
            .map(|&(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let answer = match guard(object, &labels, user) {
            Ok(()) => "ok".to_owned(),
            Err(Denial { path, message }) => format!("{path}: {}", name_of(&message)),
        };
        expect.assert_eq(&answer);
    }

    /// The name of a sentence, with the value in it.
    fn name_of(message: &str) -> String {
        let sentences = [
            ("NODE_NAME", NODE_NAME),
            ("UNGATED", UNGATED),
            ("DAEMON_SET", DAEMON_SET),
            ("KEYS", KEYS),
            ("TEMPLATE_KEYS", TEMPLATE_KEYS),
        ];
        let named = sentences
            .iter()
            .find_map(|(name, sentence)| match sentence.split_once("{}") {
                None => (*sentence == message).then(|| (*name).to_owned()),
                Some((before, after)) => {
                    let value = message.strip_prefix(before)?.strip_suffix(after)?;
                    Some(format!("{name}({value})"))
                }
            });
        named.unwrap_or_else(|| message.to_owned())
    }
}
