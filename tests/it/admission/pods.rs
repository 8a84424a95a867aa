//! Pods: gate, label and snapshot when they are created, and nothing ever after.

use super::*;

#[test]
fn a_new_pod_gets_gate_and_label_and_nothing_else() {
    let mut expected = pod();
    *at(&mut expected, "/metadata/labels/portcullis.dev~1gated") = json!("true");
    *at(&mut expected, "/spec/schedulingGates") = json!([{"name": "portcullis.dev/multikueue"}]);
    let reply = ask(
        &review("pods", "CREATE", &pod(), &Value::Null),
        &Namespaces::OptedIn,
    );
    assert_eq!(reply.applied_to(&pod()), expected);
    assert_eq!((reply.answer.decision, reply.answer.reason), ("patched", "gated"));
    assert_eq!(
        (reply.answer.resource, reply.answer.operation),
        ("pods", "CREATE")
    );
}

#[test]
fn a_namespace_that_was_not_seen_yet_is_dispatched_and_allows_no_exemption() {
    let mut exempt = pod();
    *at(&mut exempt, "/metadata/labels/portcullis.dev~1exempt") = json!("true");
    for object in [pod(), exempt] {
        let reply = ask(
            &review("pods", "CREATE", &object, &Value::Null),
            &Namespaces::Unseen,
        );
        assert_eq!(gates(&reply.applied_to(&object)), ["portcullis.dev/multikueue"]);
    }
}

/// P10: absent, null, empty and filled, for each container that is touched.
#[test]
fn missing_null_empty_and_filled_containers_all_take_the_edit() {
    let maps = [
        None,
        Some(Value::Null),
        Some(json!({})),
        Some(json!({"kueue.x-k8s.io/queue-name": "q"})),
    ];
    let lists = [
        None,
        Some(Value::Null),
        Some(json!([])),
        Some(json!([{"name": "other", "new": 1}])),
    ];
    for labels in &maps {
        for annotations in &maps {
            for list in &lists {
                let mut object = pod();
                replace(&mut object["metadata"], "labels", labels.as_ref());
                replace(&mut object["metadata"], "annotations", annotations.as_ref());
                replace(&mut object["spec"], "schedulingGates", list.as_ref());
                let stored = created("pods", &object);
                assert_eq!(stored["metadata"]["labels"]["portcullis.dev/gated"], "true");
                assert_eq!(
                    gates(&stored).last().map(String::as_str),
                    Some("portcullis.dev/multikueue")
                );
                let kept = list.as_ref().and_then(Value::as_array).map_or(0, Vec::len);
                assert_eq!(gates(&stored).len(), kept + 1);
                let kueue = labels
                    .as_ref()
                    .is_some_and(|labels| labels != &json!({}) && !labels.is_null());
                assert_eq!(
                    stored["metadata"]["annotations"]
                        .get("portcullis.dev/submitted")
                        .is_some(),
                    kueue
                );
            }
        }
    }
    for metadata in [None, Some(Value::Null)] {
        let mut object = pod();
        replace(&mut object, "metadata", metadata.as_ref());
        assert_eq!(
            created("pods", &object)["metadata"],
            json!({"labels": {"portcullis.dev/gated": "true"}})
        );
    }
}

/// P18: order is kept, nothing is doubled.
#[test]
fn a_gate_that_is_there_stays_where_it_is() {
    for names in [
        vec!["portcullis.dev/multikueue", "a"],
        vec!["a", "portcullis.dev/multikueue", "b"],
    ] {
        let mut object = pod();
        let list: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        object["spec"]["schedulingGates"] = list.into();
        assert_eq!(gates(&created("pods", &object)), names);
    }
}

/// P19: identity does not hang on the name.
#[test]
fn pods_of_every_maker_are_gated() {
    let owner =
        |kind: &str| json!([{"apiVersion": "v1", "kind": kind, "name": "o", "uid": "u", "controller": true}]);
    let mut generated = pod();
    generated["metadata"] = json!({"generateName": "web-5d4-", "labels": {"pod-template-hash": "5d4"}});
    generated["metadata"]["ownerReferences"] = owner("ReplicaSet");
    let mut ordinal = pod();
    ordinal["metadata"] = json!({"name": "db-0", "ownerReferences": owner("StatefulSet")});
    let mut of_job = pod();
    of_job["metadata"] = json!({"generateName": "sum-", "finalizers": ["batch.kubernetes.io/job-tracking"]});
    of_job["metadata"]["ownerReferences"] = owner("Job");
    let mut bare = pod();
    bare["metadata"] = json!({"name": "", "generateName": "x-"});
    for object in [generated, ordinal, of_job, bare] {
        let stored = created("pods", &object);
        assert_eq!(gates(&stored), ["portcullis.dev/multikueue"]);
        assert_eq!(
            stored["metadata"]["ownerReferences"],
            object["metadata"]["ownerReferences"]
        );
    }
}

#[test]
fn an_exempt_pod_is_left_alone_only_where_the_namespace_allows_it() {
    let mut object = pod();
    *at(&mut object, "/metadata/labels/portcullis.dev~1exempt") = json!("true");
    let request = review("pods", "CREATE", &object, &Value::Null);
    let allowed = ask(&request, &Namespaces::AllowExempt);
    assert_eq!(
        (allowed.applied_to(&object), allowed.answer.reason),
        (object.clone(), "exempt")
    );
    let refused = ask(&request, &Namespaces::OptedIn);
    assert_eq!(gates(&refused.applied_to(&object)), ["portcullis.dev/multikueue"]);
    assert_eq!(
        refused.warnings(),
        ["metadata.labels: this namespace does not allow portcullis.dev/exempt; it runs on a worker"]
    );
    object["metadata"]["labels"]["portcullis.dev/exempt"] = json!("yes");
    let other = ask(
        &review("pods", "CREATE", &object, &Value::Null),
        &Namespaces::AllowExempt,
    );
    assert_eq!(other.answer.reason, "gated");
}

/// A label that means nothing would be missed by nobody but the one who wrote it.
#[test]
fn a_value_that_means_nothing_is_warned_about_with_field_found_and_allowed() {
    let with = |map: &str, value: &str| {
        let mut object = pod();
        object["metadata"][map]["portcullis.dev/exempt"] = json!(value);
        object
    };
    let check = |object: &Value, namespace: Namespaces, warning: &[&str]| {
        let reply = ask(&review("pods", "CREATE", object, &Value::Null), &namespace);
        assert_eq!(gates(&reply.applied_to(object)), ["portcullis.dev/multikueue"]);
        assert_eq!(reply.warnings(), warning, "{object}");
    };
    let sentence =
        r#"metadata.labels[portcullis.dev/exempt]: found "TRUE", allowed is "true"; it runs on a worker"#;
    check(&with("labels", "TRUE"), Namespaces::AllowExempt, &[sentence]);
    check(&with("labels", "TRUE"), Namespaces::OptedIn, &[sentence]);
    let empty = r#"metadata.labels[portcullis.dev/exempt]: found "", allowed is "true"; it runs on a worker"#;
    check(&with("labels", ""), Namespaces::AllowExempt, &[empty]);
    let long = r#"metadata.labels[portcullis.dev/exempt]: found "xxxxxxxxxxxxxxxx…", allowed is "true"; it runs on a worker"#;
    check(
        &with("labels", &"x".repeat(9999)),
        Namespaces::AllowExempt,
        &[long],
    );
    check(
        &with("labels", "true"),
        Namespaces::Misspelt,
        &[
            r#"namespace metadata.labels[portcullis.dev/allow-exempt]: found "TRUE", allowed is "true"; it runs on a worker"#,
        ],
    );
    check(
        &with("annotations", "true"),
        Namespaces::AllowExempt,
        &["metadata.annotations: portcullis.dev/exempt counts as a label only; it runs on a worker"],
    );
    check(&with("labels", "false"), Namespaces::AllowExempt, &[]);
    check(&pod(), Namespaces::Misspelt, &[]);
}

#[test]
fn a_pod_with_both_gate_and_exempt_counts_as_gated() {
    for sent in ["/spec/schedulingGates", "/metadata/labels/portcullis.dev~1gated"] {
        let mut object = pod();
        *at(&mut object, "/metadata/labels/portcullis.dev~1exempt") = json!("true");
        *at(&mut object, sent) = match sent {
            "/spec/schedulingGates" => json!([{"name": "portcullis.dev/multikueue"}]),
            _ => json!("true"),
        };
        let reply = ask(
            &review("pods", "CREATE", &object, &Value::Null),
            &Namespaces::AllowExempt,
        );
        let stored = reply.applied_to(&object);
        assert_eq!(gates(&stored), ["portcullis.dev/multikueue"]);
        assert_eq!(stored["metadata"]["labels"]["portcullis.dev/gated"], "true");
    }
}

/// P21, R29: exceptions by identity; the annotation alone does not make a mirror pod, nor an owner a DaemonSet's.
#[test]
fn mirror_pods_and_daemon_set_pods_are_known_by_who_creates_them() {
    let mut mirror = pod();
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "hash"});
    let mut of_daemon_set = pod();
    of_daemon_set["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true}]);
    let daemon_set_controller = "system:serviceaccount:kube-system:daemon-set-controller";
    for (object, user, reason) in [
        (&mirror, "system:node:node-1", "mirror-pod"),
        (&mirror, USER, "gated"),
        (&mirror, "system:nodes", "gated"),
        (&pod(), "system:node:node-1", "gated"),
        (&of_daemon_set, daemon_set_controller, "daemon-set-pod"),
        (&of_daemon_set, "system:kube-controller-manager", "daemon-set-pod"),
        (&pod(), "system:kube-controller-manager", "gated"),
        (&of_daemon_set, USER, "gated"),
        (
            &of_daemon_set,
            "system:serviceaccount:team-a:daemon-set-controller",
            "gated",
        ),
    ] {
        let request = with(
            review("pods", "CREATE", object, &Value::Null),
            "/request/userInfo/username",
            json!(user),
        );
        assert_eq!(
            ask(&request, &Namespaces::OptedIn).answer.reason,
            reason,
            "{user}"
        );
    }
}

/// R29: gate and node together would be refused with words that help nobody; the guard has better ones.
#[test]
fn a_pod_with_a_node_is_left_to_the_guard() {
    let mut object = pod();
    object["spec"]["nodeName"] = json!("node-1");
    let reply = ask(
        &review("pods", "CREATE", &object, &Value::Null),
        &Namespaces::OptedIn,
    );
    assert_eq!((reply.patch(), reply.answer.reason), (vec![], "node-name"));
    object["spec"]["nodeName"] = json!("");
    assert_eq!(gates(&created("pods", &object)), ["portcullis.dev/multikueue"]);
}

#[test]
fn marks_sent_by_a_user_are_accepted() {
    let stored = created("pods", &pod());
    let reply = ask(
        &review("pods", "CREATE", &stored, &Value::Null),
        &Namespaces::OptedIn,
    );
    assert_eq!((reply.patch(), reply.answer.reason), (vec![], "complete"));
}

/// R14: the snapshot holds what the user asked for, in the user's own numbers, before Kueue merges its own.
#[test]
fn a_pod_that_kueue_will_edit_keeps_what_it_asked_for() {
    let mut object = pod();
    *at(&mut object, "/metadata/labels/kueue.x-k8s.io~1queue-name") = json!("q");
    object["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    let stored = created("pods", &object);
    let submitted = stored["metadata"]["annotations"]["portcullis.dev/submitted"]
        .as_str()
        .unwrap();
    let submitted: Value = serde_json::from_str(submitted).unwrap();
    assert_eq!(submitted["nodeSelector"], object["spec"]["nodeSelector"]);
    assert_eq!(submitted["tolerations"], object["spec"]["tolerations"]);

    // Kueue merges a flavour in and we are called again: the snapshot stays.
    let mut merged = stored.clone();
    merged["spec"]["nodeSelector"]["pool"] = json!("m-only");
    assert_eq!(created("pods", &merged), merged);
    // Nothing asked for is a snapshot too.
    object["spec"] = json!({"containers": []});
    let stored = created("pods", &object);
    assert_eq!(
        stored["metadata"]["annotations"]["portcullis.dev/submitted"],
        r#"{"nodeSelector":{},"tolerations":[]}"#
    );
}

#[test]
fn a_snapshot_that_would_break_the_pod_is_left_out() {
    let mut object = pod();
    *at(&mut object, "/metadata/labels/kueue.x-k8s.io~1queue-name") = json!("q");
    object["metadata"]["annotations"] = json!({"big": "x".repeat(256 * 1024 - 40)});
    let reply = ask(
        &review("pods", "CREATE", &object, &Value::Null),
        &Namespaces::OptedIn,
    );
    let stored = reply.applied_to(&object);
    assert_eq!(gates(&stored), ["portcullis.dev/multikueue"]);
    assert!(
        stored["metadata"]["annotations"]
            .get("portcullis.dev/submitted")
            .is_none()
    );
    assert!(reply.warnings()[0].contains("no room for the snapshot"));
    object["metadata"]["annotations"] = json!({"big": "x".repeat(256 * 1024 - 1000)});
    let stored = created("pods", &object);
    assert!(
        stored["metadata"]["annotations"]["portcullis.dev/submitted"].is_string(),
        "there is room"
    );
}

/// A13, P14, P22: labels and gates are a matter of creation alone; a pod that lost its gate does not get it back.
#[test]
fn an_update_of_a_pod_is_never_edited() {
    let stored = created("pods", &pod());
    let mut released = stored.clone();
    released["spec"]["schedulingGates"] = json!([]);
    let mut terminating = pod();
    terminating["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut spread = pod();
    spread["spec"]["topologySpreadConstraints"] =
        json!([{"maxSkew": 1, "topologyKey": "zone", "matchLabelKeys": ["portcullis.dev/gated"]}]);
    for (new, old) in [
        (&released, &stored),
        (&pod(), &pod()),
        (&terminating, &pod()),
        (&spread, &spread),
    ] {
        let reply = ask(&review("pods", "UPDATE", new, old), &Namespaces::OptedIn);
        assert!(reply.allowed());
        assert_eq!((reply.patch(), reply.answer.reason), (vec![], "not-mutated"));
    }
}

/// P21: whatever routed the review here.
#[test]
fn system_namespaces_and_our_own_are_never_touched() {
    for namespace in ["kube-system", "kube-node-lease", "portcullis-system"] {
        for (plural, object) in [("pods", pod()), ("deployments", workload("Deployment", "web"))] {
            let request = review(plural, "CREATE", &object, &Value::Null);
            let request = with(request, "/request/namespace", json!(namespace));
            let reply = ask(&request, &Namespaces::OptedIn);
            assert_eq!(
                (reply.patch(), reply.answer.reason),
                (vec![], "protected"),
                "{namespace}"
            );
        }
    }
}

pub(crate) fn gates(pod: &Value) -> Vec<String> {
    let list = pod["spec"]["schedulingGates"].as_array();
    list.into_iter()
        .flatten()
        .map(|gate| gate["name"].as_str().unwrap().to_owned())
        .collect()
}
