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
    forged["metadata"]["annotations"] = json!({"portcullis.dev/attempt": "1", "portcullis.dev/root": "x"});
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
    let set =
        |labels: Value| json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"labels": labels}});
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
    assert_eq!(
        guard(
            &pod(json!({}), json!({})),
            &BTreeMap::new(),
            ALICE,
            JobKinds::BUILT_IN
        ),
        Ok(())
    );
    check(
        json!({"apiVersion": "v1", "kind": "ConfigMap"}),
        ALICE,
        expect!["ok"],
    );
    check(json!(null), ALICE, expect!["ok"]);
}

#[test]
fn keys_in_a_new_job_are_refused_in_every_kind_and_in_its_template() {
    for kind in JobKinds::BUILT_IN.iter() {
        let mut job: Value = serde_saphyr::from_str(kind.example()).unwrap();
        check(job.clone(), ALICE, expect!["ok"]);
        job["metadata"]["finalizers"] = json!([REMOTE_COPY]);
        check(
            job,
            ALICE,
            expect!["metadata: JOB_KEYS(portcullis.dev/remote-copy)"],
        );
    }
    let mut job = json!({"apiVersion": "batch/v1", "kind": "Job"});
    job["spec"]["template"]["metadata"]["annotations"] = json!({"portcullis.dev/cluster": "a"});
    check(
        job,
        ALICE,
        expect!["spec.template.metadata: JOB_KEYS(portcullis.dev/cluster)"],
    );
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
    let answer = match guard(object, &labels, user, JobKinds::BUILT_IN) {
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
        ("JOB_KEYS", JOB_KEYS),
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
