//! Our marks on a copy: whose it is, and that nobody else takes it.

use serde_json::{Value, json};

use super::change::Log;
use super::local::{LocalObject, UnreadableLocal};
use super::{CopyMarks, NamespaceOwner};
use crate::names;

/// Labels by which a controller selects its pods. They stay only where the copy has a controller, so that nobody else
/// can adopt it (R65). Index labels (`apps.kubernetes.io/pod-index`, `batch.kubernetes.io/job-completion-index`,
/// `statefulset.kubernetes.io/pod-name`) and job names select nothing by themselves and are read by the containers
/// and by Services: they always stay.
const ADOPTABLE_LABELS: [&str; 5] = [
    "pod-template-hash",
    "controller-revision-hash",
    "pod-template-generation",
    "controller-uid",
    "batch.kubernetes.io/controller-uid",
];

/// Writes our marks and the owner; without an owner it takes off the labels by which others would adopt the copy.
pub(crate) fn put(
    pod: &mut Value,
    local: &LocalObject<'_>,
    marks: &CopyMarks<'_>,
    source: &str,
    log: &mut Log,
) -> Result<(), UnreadableLocal> {
    let attempt = local.attempt()?.to_string();
    let name = format!("{}/{}", local.namespace, local.name);
    let labels = &mut pod["metadata"]["labels"];
    if marks.owner.is_none() {
        drop_adoptable(labels, log);
    }
    labels[names::ORIGIN] = marks.origin.into();
    log.added(
        format_args!("metadata.labels[{}]", names::ORIGIN),
        "names the manager",
    );

    let annotations = &mut pod["metadata"]["annotations"];
    for (key, value, reason) in [
        (names::LOCAL_UID, local.uid, "names the local object"),
        (names::LOCAL_NAME, name.as_str(), "names the local object"),
        (
            names::LOCAL_ATTEMPT,
            attempt.as_str(),
            "counts the placements of the local object",
        ),
        (
            names::SOURCE,
            source,
            "tells whether the copy still fits the local object",
        ),
    ] {
        annotations[key] = value.into();
        log.added(format_args!("metadata.annotations[{key}]"), reason);
    }
    if let Some(NamespaceOwner { name, uid }) = marks.owner {
        set_owner(pod, &NamespaceOwner { name, uid });
        log.added(
            format_args!("metadata.ownerReferences"),
            "the namespace is its controller, so that no controller on the worker adopts the copy",
        );
    }
    Ok(())
}

fn drop_adoptable(labels: &mut Value, log: &mut Log) {
    let Some(labels) = labels.as_object_mut() else {
        return;
    };
    for label in ADOPTABLE_LABELS {
        if labels.remove(label).is_some() {
            let reason = "a controller on the worker that selects by it would adopt the copy";
            log.dropped(format_args!("metadata.labels[{label}]"), reason);
        }
    }
}

/// Makes the worker's Namespace the controller of a copy that was sanitised with an owner whose UID was not known yet.
pub fn set_owner(pod: &mut Value, owner: &NamespaceOwner<'_>) {
    let NamespaceOwner { name, uid } = owner;
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Namespace", "name": name, "uid": uid, "controller": true}]);
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::sanitize;
    use super::super::testing::{self, MARKS, check_metadata};
    use super::*;

    const UNOWNED: CopyMarks<'static> = CopyMarks {
        origin: "manager-uid",
        owner: None,
    };

    #[test]
    fn owners_are_dropped_and_the_namespace_becomes_the_controller() {
        let owners = json!([
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r", "controller": true},
            {"apiVersion": "example.com/v1", "kind": "Invented", "name": "x", "uid": "x"},
        ]);
        let pod = testing::local(json!({"ownerReferences": owners}), json!({}));
        let copy = sanitize(&pod, &MARKS).unwrap().pod;
        expect![[r#"[{"apiVersion":"v1","controller":true,"kind":"Namespace","name":"shop","uid":"worker-namespace-uid"}]"#]].assert_eq(&copy["metadata"]["ownerReferences"].to_string());
        let unowned = sanitize(&pod, &UNOWNED).unwrap().pod;
        assert_eq!(unowned["metadata"].get("ownerReferences"), None);
    }

    fn controllers_labels() -> Value {
        json!({"labels": {
            "app": "web",
            "apps.kubernetes.io/pod-index": "0",
            "batch.kubernetes.io/controller-uid": "j",
            "batch.kubernetes.io/job-completion-index": "0",
            "batch.kubernetes.io/job-name": "sum",
            "controller-revision-hash": "web-6d5f",
            "controller-uid": "j",
            "job-name": "sum",
            "pod-template-generation": "1",
            "pod-template-hash": "6d5f",
            "statefulset.kubernetes.io/pod-name": "web-0",
        }})
    }

    #[test]
    fn labels_of_controllers_stay_on_a_copy_that_has_a_controller() {
        check_metadata(
            controllers_labels(),
            &MARKS,
            expect![[r#"
                labels: {"app":"web","apps.kubernetes.io/pod-index":"0","batch.kubernetes.io/controller-uid":"j","batch.kubernetes.io/job-completion-index":"0","batch.kubernetes.io/job-name":"sum","controller-revision-hash":"web-6d5f","controller-uid":"j","job-name":"sum","pod-template-generation":"1","pod-template-hash":"6d5f","statefulset.kubernetes.io/pod-name":"web-0"}
            "#]],
        );
    }

    #[test]
    fn without_a_controller_the_labels_that_select_go_and_the_indices_stay() {
        check_metadata(
            controllers_labels(),
            &UNOWNED,
            expect![[r#"
                labels: {"app":"web","apps.kubernetes.io/pod-index":"0","batch.kubernetes.io/job-completion-index":"0","batch.kubernetes.io/job-name":"sum","job-name":"sum","statefulset.kubernetes.io/pod-name":"web-0"}
                dropped metadata.labels[pod-template-hash]: a controller on the worker that selects by it would adopt the copy
                dropped metadata.labels[controller-revision-hash]: a controller on the worker that selects by it would adopt the copy
                dropped metadata.labels[pod-template-generation]: a controller on the worker that selects by it would adopt the copy
                dropped metadata.labels[controller-uid]: a controller on the worker that selects by it would adopt the copy
                dropped metadata.labels[batch.kubernetes.io/controller-uid]: a controller on the worker that selects by it would adopt the copy
            "#]],
        );
    }

    #[test]
    fn our_keys_are_dropped_and_the_marks_added() {
        let pod = testing::local(
            json!({
                "labels": {"portcullis.dev/gated": "true", "portcullis.dev/origin": "forged"},
                "annotations": {
                    "portcullis.dev/attempt": "3", "portcullis.dev/cluster": "worker-a",
                    "portcullis.dev/local-uid": "forged", "portcullis.dev/root": "apps/Deployment/web",
                },
            }),
            json!({}),
        );
        let mut copy = sanitize(&pod, &MARKS).unwrap().pod;
        copy["metadata"]["annotations"][names::SOURCE] = "…".into();
        expect![[r#"
            {
              "annotations": {
                "portcullis.dev/local-attempt": "3",
                "portcullis.dev/local-name": "shop/web-0",
                "portcullis.dev/local-uid": "local-uid",
                "portcullis.dev/source": "…"
              },
              "labels": {
                "portcullis.dev/origin": "manager-uid"
              },
              "name": "web-0",
              "namespace": "shop",
              "ownerReferences": [
                {
                  "apiVersion": "v1",
                  "controller": true,
                  "kind": "Namespace",
                  "name": "shop",
                  "uid": "worker-namespace-uid"
                }
              ]
            }"#]]
        .assert_eq(&serde_json::to_string_pretty(&copy["metadata"]).unwrap());
    }
}
