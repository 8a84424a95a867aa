//! Workloads and PodGroups of Kubernetes itself.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::words::{Case, check, job};
use crate::gang::native::{
    best_of, is_enabled, is_grouped, marked_probe, min_count, min_count_for, names, probe, resized,
};
use crate::gang::*;
use crate::names::{GANG_SCHEDULER, POD_GROUP};

fn torch(version: NativeVersion) -> Case {
    job("PyTorchJob", "M1 W3").on(BackEnd::Native(version))
}

/// The specs of the objects, and the field of the pods.
#[track_caller]
fn check_objects(case: &Case, expect: Expect) {
    let mut lines: Vec<String> = case
        .objects()
        .iter()
        .map(|object| {
            format!(
                "{} {} {} {}",
                object["apiVersion"], object["kind"], object["metadata"]["name"], object["spec"]
            )
        })
        .collect();
    let (field, value) = case.gang().marks.pods.unwrap().field();
    lines.push(format!("{field}: {value}\n"));
    expect.assert_eq(&lines.join("\n"));
}

#[test]
fn every_row_of_versions() {
    // V125
    check_objects(
        &torch(NativeVersion::V1beta1),
        expect![[r#"
        "scheduling.k8s.io/v1beta1" "Workload" "train" {"controllerRef":{"apiGroup":"kubeflow.org","kind":"PyTorchJob","name":"train"},"podGroupTemplates":[{"disruptionMode":{"all":{}},"name":"gang","schedulingPolicy":{"gang":{"minCount":4}}}]}
        "scheduling.k8s.io/v1beta1" "PodGroup" "train-18eeecfe" {"disruptionMode":{"all":{}},"schedulingPolicy":{"gang":{"minCount":4}},"workloadRef":{"templateName":"gang","workloadName":"train"}}
        schedulingGroup: {"podGroupName":"train-18eeecfe"}
    "#]],
    );
    check_objects(
        &torch(NativeVersion::V1alpha3),
        expect![[r#"
        "scheduling.k8s.io/v1alpha3" "Workload" "train" {"controllerRef":{"apiGroup":"kubeflow.org","kind":"PyTorchJob","name":"train"},"podGroupTemplates":[{"disruptionMode":{"all":{}},"name":"gang","schedulingPolicy":{"gang":{"minCount":4}}}]}
        "scheduling.k8s.io/v1alpha3" "PodGroup" "train-18eeecfe" {"disruptionMode":{"all":{}},"schedulingPolicy":{"gang":{"minCount":4}},"workloadRef":{"templateName":"gang","workloadName":"train"}}
        schedulingGroup: {"podGroupName":"train-18eeecfe"}
    "#]],
    );
    // V126
    check_objects(
        &torch(NativeVersion::V1alpha2),
        expect![[r#"
        "scheduling.k8s.io/v1alpha2" "Workload" "train" {"controllerRef":{"apiGroup":"kubeflow.org","kind":"PyTorchJob","name":"train"},"podGroupTemplates":[{"disruptionMode":"PodGroup","name":"gang","schedulingPolicy":{"gang":{"minCount":4}}}]}
        "scheduling.k8s.io/v1alpha2" "PodGroup" "train-18eeecfe" {"disruptionMode":"PodGroup","podGroupTemplateRef":{"workload":{"podGroupTemplateName":"gang","workloadName":"train"}},"schedulingPolicy":{"gang":{"minCount":4}}}
        schedulingGroup: {"podGroupName":"train-18eeecfe"}
    "#]],
    );
    // V127
    check_objects(
        &torch(NativeVersion::V1alpha1),
        expect![[r#"
        "scheduling.k8s.io/v1alpha1" "Workload" "train" {"controllerRef":{"apiGroup":"kubeflow.org","kind":"PyTorchJob","name":"train"},"podGroups":[{"name":"gang","policy":{"gang":{"minCount":4}}}]}
        workloadRef: {"name":"train","podGroup":"gang"}
    "#]],
    );
}

#[test]
fn every_other_row_of_native_groups() {
    let beta = BackEnd::Native(NativeVersion::V1beta1);
    // V131: the launcher comes later, in the same group.
    let waiting = job("MPIJob", "L1 W4").wait_for_workers().on(beta);
    assert_eq!(
        waiting.objects()[1]["spec"]["schedulingPolicy"]["gang"]["minCount"],
        4,
        "V131"
    );
    assert_eq!(waiting.gang().marks.templates.len(), 2, "V131");
    assert!(
        waiting.objects()[1]["spec"].get("disruptionMode").is_none(),
        "not all pods are there at once"
    );
    // V132
    let high = torch(NativeVersion::V1beta1)
        .policy("priorityClass", json!("high"))
        .classes(&[("high", 7)]);
    for object in high.objects() {
        let text = object.to_string();
        assert!(
            text.contains("\"priorityClassName\":\"high\"") && !text.contains("\"priority\""),
            "V132"
        );
    }
    // V133: one template for any number of roles.
    let roles = job("TFJob", "C1 Master1 PS1 W1 Evaluator1").on(beta);
    assert_eq!(
        roles.objects()[0]["spec"]["podGroupTemplates"]
            .as_array()
            .map(Vec::len),
        Some(1),
        "V133"
    );
    // V129
    assert_eq!(
        (min_count_for(4, 3), min_count_for(4, 9), min_count_for(4, 0)),
        (3, 4, 1),
        "V129"
    );
    // V114: natively the count alone changes, and in 1.36 not even that.
    let wider = job("PyTorchJob", "M1 W5").on(beta);
    assert_eq!(
        wider.objects()[1]["metadata"],
        torch(NativeVersion::V1beta1).objects()[1]["metadata"],
        "V114"
    );
    assert!(
        NativeVersion::V1beta1.can_resize() && !NativeVersion::V1alpha2.can_resize(),
        "V114"
    );
}

/// V130: a group that is being deleted is still honoured and keeps its name.
#[test]
fn every_attempt_has_a_group_of_its_own() {
    let group = torch(NativeVersion::V1beta1).gang().pod_group;
    let named = |version, attempt| names(&group, version, attempt);
    let first = named(NativeVersion::V1beta1, 0);
    assert!(first.pod_group.starts_with("train-") && first.pod_group.len() == "train-".len() + 8);
    assert_ne!(
        first.pod_group,
        named(NativeVersion::V1beta1, 1).pod_group,
        "V130"
    );
    assert_eq!(first, named(NativeVersion::V1beta1, 0));
    assert_eq!(named(NativeVersion::V1beta1, 1).workload, "train");
    assert_ne!(
        named(NativeVersion::V1alpha2, 1).workload,
        "train",
        "nothing of it can change"
    );
}

/// V99, V128: the mark is put on pods, once, and an answer without it shows that the gate is off.
/// All but the size is immutable, and a gang that is only a part of its job is made with another mode of disruption.
#[test]
fn an_update_changes_the_size_and_nothing_else() {
    let made = torch(NativeVersion::V1beta1).objects();
    let smaller = torch(NativeVersion::V1beta1)
        .min(2)
        .policy("priorityClass", json!("high"))
        .classes(&[("high", 5)]);
    for (live, wanted) in made.iter().zip(smaller.objects()) {
        let mut updated = resized(live, wanted);
        assert_eq!(min_count(&updated), Some(2));
        for place in ["/spec", "/spec/podGroupTemplates/0"] {
            if let Some(count) = updated.pointer_mut(&format!("{place}/schedulingPolicy/gang/minCount")) {
                *count = json!(4);
            }
        }
        assert_eq!(updated["spec"], live["spec"]);
    }
}

#[test]
fn pods_are_marked_when_they_are_created() {
    for version in NativeVersion::ALL {
        let mark = torch(version).gang().marks.pods.unwrap();
        let mut pod = json!({"spec": {"containers": []}});
        let patch = mark.patch(&pod);
        json_patch::patch(&mut pod, &patch).unwrap();
        assert_eq!(pod["spec"].get(mark.field().0), Some(&mark.field().1));
        assert_eq!(mark.patch(&pod).0, []);
        let tried = probe();
        assert!(is_enabled(version, &tried), "V128");
        let mut dropped = tried;
        dropped["spec"].as_object_mut().unwrap().remove(mark.field().0);
        assert!(!is_enabled(version, &dropped), "V128");
    }
}

#[test]
fn a_pod_that_is_tried_shows_whether_its_marks_put_it_into_its_group() {
    let mut tried = marked_probe();
    assert!(!is_grouped(&tried));
    let name = tried["metadata"]["labels"][POD_GROUP].clone();
    assert_eq!(tried["metadata"]["annotations"][GANG_SCHEDULER], "native");
    tried["spec"]["schedulingGroup"] = json!({"podGroupName": "another"});
    assert!(!is_grouped(&tried));
    tried["spec"]["schedulingGroup"] = json!({"podGroupName": name});
    assert!(is_grouped(&tried));
}

#[test]
fn pods_of_one_native_group_have_one_priority() {
    let classes = [("high", 10), ("low", 1), ("same", 10)];
    let two = |other: &str| {
        torch(NativeVersion::V1beta1)
            .class("Master", "high")
            .class("Worker", other)
            .classes(&classes)
    };
    let given = torch(NativeVersion::V1beta1)
        .class("Worker", "high")
        .classes(&classes);
    assert_eq!(
        given.gang().marks.templates[0].priority_class_name.as_deref(),
        Some("high")
    );
    check(vec![
        (
            "different",
            two("low"),
            "refused: spec.pytorchReplicaSpecs.Worker.template.spec.priorityClassName",
        ),
        (
            "different, stored",
            two("low").stored(),
            "4 of 4 |  | MixedPriorities",
        ),
        ("equal", two("same"), "4 of 4 |"),
        ("one of two", given, "4 of 4 |"),
    ]);
}

#[test]
fn what_native_groups_cannot_say_is_said() {
    let case = torch(NativeVersion::V1beta1)
        .policy("queue", json!("q"))
        .policy("scheduleTimeoutSeconds", json!(60))
        .policy("minResources", json!({"cpu": 1}));
    check(vec![(
        "all",
        case,
        "4 of 4 | cpu 1 | QueueIgnored | TimeoutIgnored | MinResourcesIgnored",
    )]);
}

#[test]
fn a_pod_group_names_its_workload_once_that_is_there() {
    let case = torch(NativeVersion::V1beta1);
    let group = case.gang().pod_group;
    let owners = |uid: Option<&str>| -> Value {
        case.back_end.objects(&group, 0, uid, &case.facts.settings)[1]["metadata"]["ownerReferences"].clone()
    };
    assert_eq!(owners(None).as_array().map(Vec::len), Some(1));
    assert_eq!(
        owners(Some("u"))[1],
        json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload", "name": "train", "uid": "u"})
    );
}

#[test]
fn the_best_version_that_is_served_is_taken() {
    for (served, best) in [
        (&["v1", "v1alpha3", "v1beta1"][..], Some(NativeVersion::V1beta1)),
        (&["v1", "v1alpha3"], Some(NativeVersion::V1alpha3)),
        (&["v1alpha2"], Some(NativeVersion::V1alpha2)),
        (&["v1alpha1"], Some(NativeVersion::V1alpha1)),
        (&["v1"], None),
    ] {
        assert_eq!(best_of(served), best, "{served:?}");
    }
    assert_eq!(NativeVersion::of_kubernetes(34), None);
    assert_eq!(NativeVersion::of_kubernetes(38), Some(NativeVersion::V1beta1));
}

/// Nothing of an object is lost on the way through the types of the API.
#[test]
fn objects_of_1_37_are_those_of_the_api() {
    use k8s_openapi::api::scheduling::{v1alpha3, v1beta1};
    fn through<T: serde::de::DeserializeOwned + serde::Serialize>(object: &Value) -> Value {
        serde_json::to_value(serde_json::from_value::<T>(object.clone()).unwrap()).unwrap()
    }
    for uneven in [false, true] {
        let objects = |version| {
            let case = torch(version)
                .policy("priorityClass", json!("high"))
                .classes(&[("high", 7)]);
            if uneven {
                case.min(2).objects()
            } else {
                case.objects()
            }
        };
        let beta = objects(NativeVersion::V1beta1);
        assert_eq!(through::<v1beta1::Workload>(&beta[0]), beta[0]);
        assert_eq!(through::<v1beta1::PodGroup>(&beta[1]), beta[1]);
        let alpha = objects(NativeVersion::V1alpha3);
        assert_eq!(through::<v1alpha3::Workload>(&alpha[0]), alpha[0]);
        assert_eq!(through::<v1alpha3::PodGroup>(&alpha[1]), alpha[1]);
    }
}
