//! What the installed layers may never be: broad, slow, in the way of deletes, or in system namespaces.

use portcullis::admission::policies::{LayerKind, Layout, WebhookAddress, on_native_worker, render};
use portcullis::workload::WORKLOAD_KINDS;
use portcullis::workload::jobs::{JobKind, JobKinds};
use serde_json::{Value, json};

fn layouts() -> Vec<Layout> {
    let elsewhere = Layout {
        namespace: "elsewhere".to_owned(),
        ..Layout::default()
    };
    let url = Layout {
        webhook: WebhookAddress::Url("https://10.0.0.1:9443/".to_owned()),
        ..Layout::default()
    };
    vec![
        Layout::default(),
        Layout {
            inject: false,
            ..Layout::default()
        },
        elsewhere,
        url,
    ]
}

fn webhooks(layout: &Layout) -> Vec<Value> {
    let layers = render(layout);
    let configuration = layers
        .iter()
        .find(|layer| layer.kind == LayerKind::MutatingWebhookConfiguration);
    configuration.unwrap().object["webhooks"]
        .as_array()
        .unwrap()
        .clone()
}

/// `matchConstraints` of policies, and webhooks themselves: both select namespaces and have rules.
fn selections(layout: &Layout) -> Vec<Value> {
    let policies = render(layout)
        .into_iter()
        .map(|layer| layer.object["spec"]["matchConstraints"].clone());
    policies
        .filter(|constraints| !constraints.is_null())
        .chain(webhooks(layout))
        .collect()
}

fn rules(selection: &Value) -> Vec<Value> {
    let rules = ["resourceRules", "rules"]
        .iter()
        .find_map(|field| selection[field].as_array());
    rules.unwrap().clone()
}

fn texts(value: &Value) -> Vec<&str> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|text| text.as_str().unwrap())
        .collect()
}

/// The API server stores no empty list: one that is rendered would be repaired at every start.
#[test]
fn nothing_is_rendered_that_is_not_stored() {
    fn has_empty_list(value: &Value) -> bool {
        match value {
            Value::Array(items) => items.is_empty() || items.iter().any(has_empty_list),
            Value::Object(members) => members.values().any(has_empty_list),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }
    let of_worker = on_native_worker("elsewhere");
    for layer in layouts().iter().flat_map(render).chain(of_worker) {
        assert!(!has_empty_list(&layer.object), "{}", layer.name);
    }
}

/// Users of a worker have never heard of it: it sees pods with our label that are being made, and no other.
#[test]
fn on_a_worker_only_pods_with_our_marks_are_looked_at() {
    let [policy, binding] = on_native_worker("elsewhere");
    let constraints = &policy.object["spec"]["matchConstraints"];
    let rules = json!([{
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"], "scope": "Namespaced",
    }]);
    assert_eq!(constraints["resourceRules"], rules);
    let label = json!({"matchExpressions": [{"key": "portcullis.dev/pod-group", "operator": "Exists"}]});
    assert_eq!(constraints["objectSelector"], label);
    assert_eq!(
        constraints["namespaceSelector"]["matchExpressions"][0]["values"],
        json!(["kube-system", "kube-node-lease"])
    );
    assert_eq!(binding.object["spec"], json!({"policyName": policy.name}));
    // On a cluster that is a manager too, it stands beside that one's.
    let names: Vec<String> = render(&Layout::default())
        .into_iter()
        .map(|layer| layer.name)
        .collect();
    assert!(!names.contains(&policy.name));
}

/// A2.
#[test]
fn the_webhook_answers_in_two_seconds_or_not_at_all() {
    for webhook in layouts().iter().flat_map(webhooks) {
        assert_eq!(webhook["timeoutSeconds"], 2);
        assert_eq!(webhook["sideEffects"], "None");
        assert_eq!(webhook["reinvocationPolicy"], "IfNeeded");
        assert_eq!(webhook["admissionReviewVersions"], json!(["v1"]));
    }
}

/// A3.
#[test]
fn rules_name_exact_groups_versions_and_resources() {
    let unsafe_resources = [
        "leases",
        "nodes",
        "events",
        "tokenreviews",
        "subjectaccessreviews",
        "certificatesigningrequests",
        "roles",
        "clusterroles",
        "rolebindings",
        "clusterrolebindings",
        "endpoints",
        "configmaps",
        "secrets",
        "bindings",
        "pods/binding",
        "pods/eviction",
        "pods/exec",
        "pods/log",
    ];
    for rule in layouts()
        .iter()
        .flat_map(selections)
        .flat_map(|selection| rules(&selection))
    {
        for field in ["apiGroups", "apiVersions", "operations", "resources"] {
            assert!(!rule[field].to_string().contains('*'), "{rule}");
        }
        for resource in texts(&rule["resources"]) {
            assert!(!unsafe_resources.contains(&resource), "{rule}");
        }
        assert_ne!(rule["scope"], "*", "{rule}");
    }
}

/// A4: a rule for namespaced objects is for opted-in namespaces, without the system's and our own; or, for what
/// happens to pods later, bound to pods that carry our labels.
#[test]
fn namespaces_of_the_system_and_our_own_are_left_out() {
    for layout in layouts() {
        for selection in selections(&layout) {
            let by_label = rules(&selection)
                .iter()
                .all(|rule| texts(&rule["operations"]) == ["UPDATE"]);
            let namespaces = rules(&selection).iter().all(|rule| rule["scope"] == "Cluster");
            if by_label || namespaces {
                assert_eq!(selection["namespaceSelector"], json!({}));
                continue;
            }
            let left_out = json!({
                "key": "kubernetes.io/metadata.name", "operator": "NotIn",
                "values": ["kube-system", "kube-node-lease", layout.namespace],
            });
            let opted_in = json!({"key": "portcullis.dev/dispatch", "operator": "Exists"});
            let ganged = json!({"key": "portcullis.dev/gang", "operator": "Exists"});
            let not_dispatched = json!({"key": "portcullis.dev/dispatch", "operator": "DoesNotExist"});
            let found = &selection["namespaceSelector"]["matchExpressions"];
            assert!(
                *found == json!([opted_in, left_out]) || *found == json!([ganged, left_out, not_dispatched]),
                "{found}"
            );
        }
        let bindings = render(&layout).into_iter().filter(|layer| {
            layer.kind == LayerKind::ValidatingAdmissionPolicyBinding
                && layer.object["spec"]["policyName"] == "portcullis-guard-pods"
        });
        for binding in bindings {
            let selector = &binding.object["spec"]["matchResources"]["objectSelector"]["matchExpressions"];
            assert_eq!(selector.as_array().map(Vec::len), Some(1), "{}", binding.name);
        }
    }
}

/// Jobs carry no label of ours to be selected by, so a condition looks at their marks, in the old and the new object.
#[test]
fn the_guard_of_jobs_is_for_jobs_that_carry_a_mark_of_ours() {
    for layout in layouts() {
        let layers = render(&layout);
        let policy = layers.iter().find(|layer| {
            layer.kind == LayerKind::ValidatingAdmissionPolicy && layer.name == "portcullis-guard-jobs"
        });
        let spec = &policy.unwrap().object["spec"];
        let marked = spec["matchConditions"][1]["expression"].as_str().unwrap();
        for mark in [
            "portcullis.dev/remote-uid",
            "portcullis.dev/dispatched-by",
            "portcullis.dev/remote-copy",
            "portcullis.dev/exempt",
            "portcullis.dev/multikueue",
        ] {
            assert!(marked.matches(mark).count() >= 2, "{mark}");
        }
        for rule in rules(&spec["matchConstraints"]) {
            let resources = texts(&rule["resources"]);
            let (status, jobs): (Vec<&str>, Vec<&str>) = resources
                .iter()
                .partition(|resource| resource.ends_with("/status"));
            assert_eq!(status.len(), jobs.len(), "{rule}");
        }
    }
}

/// Every kind of job is in each layer, and nothing but CREATE is asked of the webhook.
#[test]
fn every_kind_of_job_is_in_every_layer() {
    let layers = render(&Layout::default());
    for names in JobKinds::BUILT_IN.iter().map(JobKind::resource) {
        let has = |selection: &Value| {
            rules(selection).iter().any(|rule| {
                rule["apiGroups"] == json!([names.group])
                    && rule["apiVersions"] == json!([names.version])
                    && texts(&rule["resources"]).contains(&names.plural)
            })
        };
        let policies = [
            "portcullis-inject-jobs",
            "portcullis-guard-job-create",
            "portcullis-guard-jobs",
        ];
        for name in policies {
            let policy = layers
                .iter()
                .find(|layer| layer.name == name && layer.object["spec"].get("matchConstraints").is_some());
            assert!(
                has(&policy.unwrap().object["spec"]["matchConstraints"]),
                "{name} {}",
                names.kind
            );
        }
        let webhook = webhooks(&Layout::default())
            .into_iter()
            .find(|webhook| webhook["name"] == "dispatched-jobs.portcullis.dev");
        assert!(has(&webhook.unwrap()), "{}", names.kind);
    }
}

/// A7: a namespace selector does not hold cluster-scoped kinds back, so there is but one of them.
#[test]
fn namespaces_are_the_only_cluster_scoped_kind() {
    for rule in layouts()
        .iter()
        .flat_map(selections)
        .flat_map(|selection| rules(&selection))
    {
        let resources = texts(&rule["resources"]);
        let namespaces = resources
            .iter()
            .all(|resource| resource.split('/').next() == Some("namespaces"));
        assert_eq!(rule["scope"] == "Cluster", namespaces, "{rule}");
    }
}

/// A11.
#[test]
fn no_rule_is_about_deletes() {
    for rule in layouts()
        .iter()
        .flat_map(selections)
        .flat_map(|selection| rules(&selection))
    {
        for operation in texts(&rule["operations"]) {
            assert!(["CREATE", "UPDATE"].contains(&operation), "{rule}");
        }
    }
}

/// Design section 4.
#[test]
fn the_webhook_fails_open_only_beside_inject() {
    for layout in layouts() {
        let expected = if layout.inject { "Ignore" } else { "Fail" };
        assert!(
            webhooks(&layout)
                .iter()
                .all(|webhook| webhook["failurePolicy"] == expected)
        );
        let injects = render(&layout)
            .iter()
            .any(|layer| layer.kind == LayerKind::MutatingAdmissionPolicy);
        assert_eq!(injects, layout.inject);
    }
}

#[test]
fn every_binding_denies_and_every_policy_fails_closed() {
    for layer in layouts().iter().flat_map(render) {
        let spec = &layer.object["spec"];
        match layer.kind {
            LayerKind::ValidatingAdmissionPolicyBinding => {
                assert_eq!(spec["validationActions"], json!(["Deny"]));
            }
            LayerKind::MutatingAdmissionPolicy | LayerKind::ValidatingAdmissionPolicy => {
                assert_eq!(spec["failurePolicy"], "Fail");
            }
            LayerKind::MutatingAdmissionPolicyBinding | LayerKind::MutatingWebhookConfiguration => {}
        }
    }
}

#[test]
fn our_account_is_the_only_exception_and_is_of_our_namespace() {
    for layout in layouts() {
        let text = json!(
            render(&layout)
                .into_iter()
                .map(|layer| layer.object)
                .collect::<Vec<_>>()
        )
        .to_string();
        let user = format!("system:serviceaccount:{}:portcullis", layout.namespace);
        let expected = 2 + webhooks(&layout).len();
        assert_eq!(
            text.matches(&user).count(),
            expected,
            "the guard of pods, that of jobs, and the webhooks"
        );
        assert!(!text.contains("system:masters"));
    }
}

/// The template of every kind that is marked is where the policies look for it.
#[test]
fn templates_are_at_spec_template() {
    for kind in WORKLOAD_KINDS.iter().filter(|kind| !kind.pod().keys().is_empty()) {
        assert_eq!(kind.pod().dotted(), "spec.template");
    }
}
