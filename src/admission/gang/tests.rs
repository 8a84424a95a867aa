use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use expect_test::{Expect, expect};

use super::*;

/// A cluster in memory.
struct Cluster {
    label: &'static str,
    served: Option<Served>,
}

impl GangFacts for Cluster {
    fn label(&self, _: &str) -> Option<Arc<str>> {
        Some(self.label.into())
    }

    fn is_dispatched(&self, _: &str) -> bool {
        false
    }

    fn served(&self) -> Option<Served> {
        self.served
    }

    fn cluster(&self) -> Arc<ClusterFacts> {
        Arc::default()
    }
}

const fn native(version: NativeVersion) -> Option<Served> {
    Some(Served {
        coscheduling: false,
        volcano: false,
        native: Some(version),
    })
}

/// The patch of an object that is created, or why there is none.
fn check(label: &'static str, served: Option<Served>, plural: &str, object: &Value, expected: Expect) {
    let api_version = object["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    // In the order in which API servers write the fields: a new pod may be read on the way.
    let (kind, user) = (&object["kind"], json!({"username": "jane"}));
    let review = format!(
        r#"{{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {{"uid": "u",
        "kind": {{"group": "{group}", "version": "{version}", "kind": {kind}}},
        "resource": {{"group": "{group}", "version": "{version}", "resource": "{plural}"}},
        "namespace": "n", "operation": "CREATE", "userInfo": {user}, "object": {object}, "oldObject": null}}}}"#
    );
    let answer = crate::admission::admit_gang(review.as_bytes(), &Cluster { label, served });
    let body: Value = serde_json::from_slice(&answer.body).unwrap();
    let response = &body["response"];
    let said = if let Some(patch) = response["patch"].as_str() {
        let patch = STANDARD.decode(patch).unwrap();
        let operations: Vec<Value> = serde_json::from_slice(&patch).unwrap();
        let lines = operations.iter().map(|operation| {
            let text = |key: &str| operation[key].as_str().unwrap_or_default().to_owned();
            format!("{} {} {}", text("op"), text("path"), operation["value"])
        });
        lines.collect::<Vec<_>>().join("\n")
    } else if response["allowed"] == true {
        answer.reason.to_owned()
    } else {
        format!(
            "refused: {}",
            response["status"]["message"].as_str().unwrap_or_default()
        )
    };
    expected.assert_eq(&said);
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "p", "labels": {POD_GROUP: "train-1"}, "annotations": {GANG_SCHEDULER: "native"},
        },
        "spec": {"containers": []},
    })
}

#[test]
fn a_pod_of_a_native_group_gets_the_field_of_the_release_and_both_while_that_is_unknown() {
    check(
        "native",
        native(NativeVersion::V1beta1),
        "pods",
        &pod(),
        expect![[r#"add /spec/schedulingGroup {"podGroupName":"train-1"}"#]],
    );
    check(
        "native",
        native(NativeVersion::V1alpha1),
        "pods",
        &pod(),
        expect![[r#"add /spec/workloadRef {"name":"train-1","podGroup":"gang"}"#]],
    );
    check(
        "native",
        None,
        "pods",
        &pod(),
        expect![[r#"
        add /spec/schedulingGroup {"podGroupName":"train-1"}
        add /spec/workloadRef {"name":"train-1","podGroup":"gang"}"#]],
    );
}

fn job(annotations: Value) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "train", "annotations": annotations},
        "spec": {"parallelism": 2, "template": {"spec": {"containers": [{"name": "main"}]}}},
    })
}

#[test]
fn what_is_served_is_unknown_for_a_moment_and_a_job_is_held_meanwhile() {
    let asks = job(json!({"portcullis.dev/gang-scheduling": "true"}));
    for label in ["native", "coscheduling", "volcano", "auto"] {
        check(
            label,
            None,
            "jobs",
            &asks,
            expect![[r#"
            add /spec/suspend true
            add /metadata/annotations/portcullis.dev~1held "true""#]],
        );
    }
    let mut held = job(json!({"portcullis.dev/gang-scheduling": "true", HELD: TRUE}));
    held["spec"]["suspend"] = json!(true);
    check("auto", None, "jobs", &held, expect!["ganged"]);
    // Once it is known that nothing is served, there is nothing to wait for.
    check(
        "native",
        Some(Served::default()),
        "jobs",
        &held,
        expect![[r#"
        add /spec/suspend false
        remove /metadata/annotations/portcullis.dev~1held null"#]],
    );
    check("auto", None, "jobs", &job(json!({})), expect!["no-gang"]);
    check(
        "nativ",
        None,
        "jobs",
        &asks,
        expect![[
            r#"refused: label portcullis.dev/gang of namespace n: found "nativ", expected coscheduling, volcano, native or auto"#
        ]],
    );
}
