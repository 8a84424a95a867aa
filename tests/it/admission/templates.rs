//! Templates: marked when they are new or change anyway, and never so that something rolls out.

use super::*;

const TEMPLATED: [(&str, &str); 3] = [
    ("deployments", "Deployment"),
    ("statefulsets", "StatefulSet"),
    ("replicasets", "ReplicaSet"),
];

/// The template of `object` with all marks, `root` as given.
fn marked(object: &Value, root: &str) -> Value {
    let mut object = object.clone();
    let template = &mut object["spec"]["template"];
    *at(template, "/metadata/labels/portcullis.dev~1gated") = json!("true");
    *at(template, "/metadata/annotations/portcullis.dev~1root") = json!(root);
    let gates = at(template, "/spec/schedulingGates");
    match gates.as_array_mut() {
        Some(gates) => gates.push(json!({"name": "portcullis.dev/multikueue"})),
        None => *gates = json!([{"name": "portcullis.dev/multikueue"}]),
    }
    object
}

#[track_caller]
fn check_update(new: &Value, old: &Value, reason: &str, expected: &Value) {
    let reply = ask(
        &review("deployments", "UPDATE", new, old),
        &Namespaces::AllowExempt,
    );
    assert_eq!(reply.applied_to(new), *expected);
    assert_eq!(reply.answer.reason, reason);
    let again = ask(
        &review("deployments", "UPDATE", expected, old),
        &Namespaces::AllowExempt,
    );
    assert_eq!(
        again.patch(),
        Vec::<Value>::new(),
        "a second pass finds nothing to do"
    );
}

#[test]
fn a_new_template_gets_gate_label_and_root() {
    for (plural, kind) in TEMPLATED {
        let object = workload(kind, "web");
        assert_eq!(
            created(plural, &object),
            marked(&object, &format!("apps/{kind}/web"))
        );
    }
}

/// P19: the name is made later, so there is none to write down.
#[test]
fn an_object_that_is_yet_to_be_named_has_no_root() {
    let mut object = workload("ReplicaSet", "");
    object["metadata"]["generateName"] = json!("web-");
    let stored = created("replicasets", &object);
    assert!(
        stored["spec"]["template"]["metadata"]
            .get("annotations")
            .is_none()
    );
    assert_eq!(
        stored["spec"]["template"]["metadata"]["labels"]["portcullis.dev/gated"],
        "true"
    );
}

#[test]
fn the_root_of_a_copied_manifest_is_put_right() {
    let object = workload("Deployment", "web");
    let copied = marked(&object, "apps/Deployment/other");
    assert_eq!(
        created("deployments", &copied),
        marked(&object, "apps/Deployment/web")
    );
}

/// P10, for templates.
#[test]
fn a_template_without_metadata_gets_it_whole() {
    for metadata in [
        None,
        Some(Value::Null),
        Some(json!({})),
        Some(json!({"labels": null, "annotations": {}})),
    ] {
        let mut object = workload("Deployment", "web");
        let template = object["spec"]["template"].as_object_mut().unwrap();
        template.remove("metadata");
        if let Some(metadata) = metadata {
            template.insert("metadata".to_owned(), metadata);
        }
        assert_eq!(
            created("deployments", &object)["spec"]["template"]["metadata"],
            json!({
                "labels": {"portcullis.dev/gated": "true"},
                "annotations": {"portcullis.dev/root": "apps/Deployment/web"},
            })
        );
    }
}

/// R74: `kubectl replace` and `kubectl apply` of the manifest as the user wrote it.
#[test]
fn an_unchanged_manifest_without_our_marks_gets_the_stored_ones_back() {
    let manifest = workload("Deployment", "web");
    let stored = marked(&manifest, "apps/Deployment/web");
    check_update(&manifest, &stored, "restored", &stored);

    let mut scaled = manifest.clone();
    scaled["spec"]["replicas"] = json!(5);
    let mut expected = stored.clone();
    expected["spec"]["replicas"] = json!(5);
    check_update(&scaled, &stored, "restored", &expected);

    // A root from another name, say of a restored backup, is stored and stays.
    let odd = marked(&manifest, "apps/Deployment/odd");
    check_update(&manifest, &odd, "restored", &odd);
}

/// R74: the stored template may have only some of our marks.
#[test]
fn what_the_stored_template_lacks_is_not_added_to_an_unchanged_one() {
    let manifest = workload("Deployment", "web");
    for lacking in [
        "/metadata/labels/portcullis.dev~1gated",
        "/metadata/annotations",
        "/spec/schedulingGates",
    ] {
        let mut stored = marked(&manifest, "apps/Deployment/web");
        remove(&mut stored["spec"]["template"], lacking);
        let reply = ask(
            &review("deployments", "UPDATE", &manifest, &stored),
            &Namespaces::OptedIn,
        );
        assert_eq!(reply.applied_to(&manifest), stored, "{lacking}");
    }
}

#[test]
fn a_restored_gate_goes_back_to_its_place_among_the_users_own() {
    let mut manifest = workload("Deployment", "web");
    manifest["spec"]["template"]["spec"]["schedulingGates"] = json!([{"name": "a"}, {"name": "b"}]);
    let ours = json!({"name": "portcullis.dev/multikueue"});
    for place in 0..=2 {
        let mut stored = marked(&manifest, "apps/Deployment/web");
        let mut gates = vec![json!({"name": "a"}), json!({"name": "b"})];
        gates.insert(place, ours.clone());
        stored["spec"]["template"]["spec"]["schedulingGates"] = gates.into();
        check_update(&manifest, &stored, "restored", &stored);
    }
}

/// R74: created before the opt-in, or while nothing of ours ran.
#[test]
fn a_template_from_before_the_opt_in_stays_until_it_changes_anyway() {
    let old = workload("Deployment", "web");
    check_update(&old, &old, "unchanged", &old);
    let mut scaled = old.clone();
    scaled["spec"]["replicas"] = json!(0);
    check_update(&scaled, &old, "unchanged", &scaled);

    let mut changed = old.clone();
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = json!("pause:2");
    check_update(&changed, &old, "marked", &marked(&changed, "apps/Deployment/web"));
    // kubectl rollout restart
    let mut restarted = old.clone();
    restarted["spec"]["template"]["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/restartedAt": "now"});
    check_update(
        &restarted,
        &old,
        "marked",
        &marked(&restarted, "apps/Deployment/web"),
    );
}

#[test]
fn a_changed_template_keeps_the_stored_root() {
    let manifest = workload("Deployment", "web");
    let stored = marked(&manifest, "apps/Deployment/odd");
    let mut changed = manifest.clone();
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = json!("pause:2");
    check_update(
        &changed,
        &stored,
        "marked",
        &marked(&changed, "apps/Deployment/odd"),
    );
}

/// R32: a field that no type of ours knows is as much a change as any.
#[test]
fn a_change_of_an_unknown_field_is_a_change() {
    let old = workload("Deployment", "web");
    let mut changed = old.clone();
    changed["spec"]["template"]["spec"]["fromTheFuture"] = json!({"a": [1.5]});
    check_update(&changed, &old, "marked", &marked(&changed, "apps/Deployment/web"));
}

#[test]
fn a_gate_that_a_user_adds_is_a_change() {
    let old = workload("Deployment", "web");
    let mut new = old.clone();
    new["spec"]["template"]["spec"]["schedulingGates"] = json!([{"name": "example.com/a"}]);
    check_update(&new, &old, "marked", &marked(&new, "apps/Deployment/web"));
    let stored = marked(&old, "apps/Deployment/web");
    check_update(&new, &stored, "marked", &marked(&new, "apps/Deployment/web"));
}

/// What is stored may be older than our rules: it stays, or becomes as we write it, when the template changes otherwise.
#[test]
fn what_is_stored_already_does_not_stop_a_change() {
    let mut old = workload("Deployment", "web");
    old["spec"]["template"]["metadata"]["labels"]["portcullis.dev/gated"] = json!("odd");
    old["spec"]["template"]["metadata"]["annotations"] = json!({"portcullis.dev/cluster": "x"});
    let mut changed = old.clone();
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = json!("pause:2");
    check_update(&changed, &old, "marked", &marked(&changed, "apps/Deployment/web"));
}

/// P10, for templates that come again: what we made to hold our marks is no change.
#[test]
fn a_manifest_without_metadata_in_its_template_gets_the_stored_marks_back() {
    for metadata in [
        None,
        Some(Value::Null),
        Some(json!({})),
        Some(json!({"labels": {}})),
    ] {
        let mut manifest = workload("Deployment", "web");
        replace(&mut manifest["spec"]["template"], "metadata", metadata.as_ref());
        let stored = created("deployments", &manifest);
        let reply = ask(
            &review("deployments", "UPDATE", &manifest, &stored),
            &Namespaces::OptedIn,
        );
        assert_eq!(
            (reply.applied_to(&manifest), reply.answer.reason),
            (stored, "restored")
        );
    }
}

#[test]
fn marks_that_a_user_adds_himself_are_a_change_and_are_completed() {
    let old = workload("Deployment", "web");
    let mut new = old.clone();
    new["spec"]["template"]["spec"]["schedulingGates"] = json!([{"name": "portcullis.dev/multikueue"}]);
    let complete = marked(&old, "apps/Deployment/web");
    check_update(&new, &old, "marked", &complete);
}

#[test]
fn a_root_that_a_user_alters_becomes_the_stored_one_again() {
    let stored = marked(&workload("Deployment", "web"), "apps/Deployment/web");
    let altered = marked(&workload("Deployment", "web"), "apps/Deployment/other");
    check_update(&altered, &stored, "marked", &stored);
}

#[test]
fn marks_that_a_user_takes_off_come_back() {
    let stored = marked(&workload("Deployment", "web"), "apps/Deployment/web");
    for taken in [
        "/metadata/labels/portcullis.dev~1gated",
        "/metadata/annotations",
        "/spec/schedulingGates",
    ] {
        let mut new = stored.clone();
        remove(&mut new["spec"]["template"], taken);
        check_update(&new, &stored, "restored", &stored);
    }
}

#[test]
fn a_template_that_becomes_exempt_loses_our_marks() {
    let exempt = |mut object: Value| {
        *at(
            &mut object,
            "/spec/template/metadata/labels/portcullis.dev~1exempt",
        ) = json!("true");
        object
    };
    let plain = workload("Deployment", "web");
    let stored = marked(&plain, "apps/Deployment/web");
    let expected = {
        let mut bare = exempt(stored.clone());
        remove(
            &mut bare["spec"]["template"],
            "/metadata/labels/portcullis.dev~1gated",
        );
        remove(
            &mut bare["spec"]["template"],
            "/metadata/annotations/portcullis.dev~1root",
        );
        bare["spec"]["template"]["spec"]["schedulingGates"] = json!([]);
        bare
    };
    check_update(&exempt(stored.clone()), &stored, "unmarked", &expected);
    check_update(&exempt(plain.clone()), &stored, "exempt", &exempt(plain.clone()));
    check_update(&plain, &exempt(plain.clone()), "marked", &stored);
    let reply = ask(
        &review("deployments", "CREATE", &exempt(plain.clone()), &Value::Null),
        &Namespaces::AllowExempt,
    );
    assert_eq!((reply.patch(), reply.answer.reason), (vec![], "exempt"));
    let reply = ask(
        &review("deployments", "CREATE", &exempt(plain.clone()), &Value::Null),
        &Namespaces::OptedIn,
    );
    assert_eq!(reply.applied_to(&exempt(plain.clone())), exempt(stored));
    assert_eq!(
        reply.warnings(),
        [
            "spec.template.metadata.labels: this namespace does not allow portcullis.dev/exempt; it runs on a worker"
        ]
    );
}

#[test]
fn exempt_on_the_object_around_the_template_is_warned_about() {
    let mut object = workload("Deployment", "web");
    object["metadata"]["labels"] = json!({"portcullis.dev/exempt": "true"});
    let reply = ask(
        &review("deployments", "CREATE", &object, &Value::Null),
        &Namespaces::AllowExempt,
    );
    assert_eq!(
        reply.warnings(),
        ["metadata.labels: portcullis.dev/exempt counts in spec.template.metadata.labels only"]
    );
}

#[test]
fn a_value_of_exempt_that_means_nothing_is_warned_about_in_templates_too() {
    let mut object = workload("StatefulSet", "web");
    object["spec"]["template"]["metadata"]["labels"]["portcullis.dev/exempt"] = json!("yes");
    let reply = ask(
        &review("statefulsets", "CREATE", &object, &Value::Null),
        &Namespaces::AllowExempt,
    );
    assert_eq!(
        reply.warnings(),
        [
            r#"spec.template.metadata.labels[portcullis.dev/exempt]: found "yes", allowed is "true"; it runs on a worker"#
        ]
    );
}

#[test]
fn a_template_with_a_node_is_warned_about() {
    let mut object = workload("Deployment", "web");
    object["spec"]["template"]["spec"]["nodeName"] = json!("node-1");
    let reply = ask(
        &review("deployments", "CREATE", &object, &Value::Null),
        &Namespaces::OptedIn,
    );
    assert_eq!((reply.patch(), reply.answer.reason), (vec![], "node-name"));
    assert_eq!(
        reply.warnings(),
        ["spec.template.spec.nodeName: pods of this namespace run on worker clusters; remove it"]
    );
}

/// A ReplicaSet whose template differs from its Deployment's makes its controller create ReplicaSets without end.
#[test]
fn an_object_with_a_controller_owner_is_never_touched() {
    for (plural, kind) in TEMPLATED {
        let mut object = workload(kind, "web");
        object["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u", "controller": true}]);
        for (operation, old) in [("CREATE", Value::Null), ("UPDATE", workload(kind, "web"))] {
            let reply = ask(&review(plural, operation, &object, &old), &Namespaces::OptedIn);
            assert_eq!((reply.patch(), reply.answer.reason), (vec![], "controlled"));
        }
        object["metadata"]["ownerReferences"][0]["controller"] = json!(false);
        assert_eq!(
            created(plural, &object)["spec"],
            marked(&object, &format!("apps/{kind}/web"))["spec"]
        );
    }
}

fn remove(value: &mut Value, pointer: &str) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let key = key.replace("~1", "/");
    value
        .pointer_mut(parent)
        .unwrap()
        .as_object_mut()
        .unwrap()
        .remove(&key);
}
