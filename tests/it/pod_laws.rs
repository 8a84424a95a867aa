//! Laws of the copy and of the mirrored status, for pods that nobody thought of.

use portcullis::names;
use portcullis::pod::mirror::{self, Dispatched, MirrorOptions};
use portcullis::pod::sanitize::{CopyMarks, NamespaceOwner, sanitize, source};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Map, Value, json};

const NOW: &str = "2026-11-30T10:00:00Z";
const MARKS: CopyMarks<'static> = CopyMarks {
    origin: "manager",
    owner: Some(NamespaceOwner {
        name: "shop",
        uid: "namespace",
    }),
};

/// Any JSON, small.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z./-]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,6}", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn keys(of: &'static [&'static str]) -> impl Strategy<Value = Value> {
    subsequence(of, 0..=of.len())
        .prop_map(|keys| keys.into_iter().map(|key| (key.to_owned(), json!("v"))).collect())
}

fn container() -> impl Strategy<Value = Value> {
    let mounts = subsequence(vec!["data", "kube-api-access-x", "kube-api-access-y"], 0..=3);
    ("[a-z]{1,4}", mounts, any_json()).prop_map(|(name, mounts, unknown)| {
        let path = "/var/run/secrets/kubernetes.io/serviceaccount";
        let mounts: Vec<Value> = mounts
            .iter()
            .map(|name| json!({"name": name, "mountPath": path}))
            .collect();
        json!({"name": name, "image": "i", "volumeMounts": mounts, "unknown": unknown})
    })
}

/// Fields that the sanitiser looks at, filled with anything.
const KNOWN: [&str; 14] = [
    "affinity",
    "nodeName",
    "nodeSelector",
    "overhead",
    "priority",
    "priorityClassName",
    "schedulingGates",
    "schedulingGroup",
    "serviceAccountName",
    "tolerations",
    "topologySpreadConstraints",
    "ephemeralContainers",
    "automountServiceAccountToken",
    "volumes",
];

/// A local pod with known, unknown and senseless fields.
fn local_pod() -> impl Strategy<Value = Value> {
    let labels = keys(&[
        "app",
        "pod-template-hash",
        names::GATED,
        names::ORIGIN,
        "kueue.x-k8s.io/queue-name",
    ]);
    let annotations = keys(&[
        names::ROOT,
        names::CLUSTER,
        names::SUBMITTED,
        names::SOURCE,
        "note",
    ]);
    let odd = prop::collection::vec((select(&KNOWN[..]), any_json()), 0..5);
    let unknown = prop::collection::btree_map("x[a-z]{1,6}", any_json(), 0..4);
    let containers = prop::collection::vec(container(), 1..3);
    (labels, annotations, odd, unknown, containers).prop_map(|(labels, annotations, odd, unknown, containers)| {
        let mut spec: Map<String, Value> = unknown.into_iter().collect();
        spec.extend(odd.into_iter().map(|(field, value)| (field.to_owned(), value)));
        spec.insert("containers".to_owned(), containers.into());
        json!({
            "metadata": {
                "name": "web", "namespace": "shop", "uid": "local", "labels": labels, "annotations": annotations,
                "ownerReferences": [{}], "finalizers": ["f"],
            },
            "spec": spec,
        })
    })
}

/// The same JSON with the keys of every object in the opposite order.
fn backwards(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let fields = map
                .iter()
                .rev()
                .map(|(key, value)| format!("{}:{}", json!(key), backwards(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        Value::Array(list) => format!("[{}]", list.iter().map(backwards).collect::<Vec<_>>().join(",")),
        leaf => leaf.to_string(),
    }
}

proptest! {
    #[test]
    fn a_copy_carries_one_gate_and_no_key_of_the_local_pod(local in local_pod()) {
        let copy = sanitize(&local, &MARKS).unwrap().pod;
        prop_assert_eq!(&copy["spec"]["schedulingGates"], &json!([{"name": names::UNCOMMITTED}]));
        let ours = |field: &str| -> Vec<String> {
            let map = copy["metadata"][field].as_object().unwrap();
            map.keys().filter(|key| key.starts_with(names::PREFIX)).cloned().collect()
        };
        prop_assert_eq!(ours("labels"), [names::ORIGIN]);
        prop_assert_eq!(
            ours("annotations"),
            [names::LOCAL_ATTEMPT, names::LOCAL_NAME, names::LOCAL_UID, names::SOURCE]
        );
        prop_assert_eq!(&copy["metadata"]["labels"][names::ORIGIN], "manager");
        prop_assert_eq!(copy["metadata"].get("finalizers"), None);
        for dropped in ["nodeName", "priority", "overhead", "ephemeralContainers", "schedulingGroup"] {
            prop_assert_eq!(copy["spec"].get(dropped), None);
        }
    }

    #[test]
    fn unknown_fields_survive(local in local_pod()) {
        let copy = sanitize(&local, &MARKS).unwrap().pod;
        for (field, value) in local["spec"].as_object().unwrap() {
            if field.starts_with('x') {
                prop_assert_eq!(&copy["spec"][field], value);
            }
        }
        let unknown = |pod: &Value| -> Vec<Value> {
            pod["spec"]["containers"].as_array().unwrap().iter().map(|c| c["unknown"].clone()).collect()
        };
        prop_assert_eq!(unknown(&copy), unknown(&local));
    }

    #[test]
    fn the_same_pod_gives_the_same_copy_in_any_order_of_keys(local in local_pod()) {
        let reordered: Value = serde_json::from_str(&backwards(&local)).unwrap();
        let copy = sanitize(&local, &MARKS).unwrap();
        prop_assert_eq!(&sanitize(&reordered, &MARKS).unwrap(), &copy);
        prop_assert_eq!(source(&local).unwrap(), copy.source);
    }

    #[test]
    fn a_copy_of_a_copy_changes_nothing_more(local in local_pod()) {
        let copy = sanitize(&local, &MARKS).unwrap();
        let mut again = copy.pod.clone();
        again["metadata"]["uid"] = "remote".into();
        let again = sanitize(&again, &MARKS).unwrap();
        prop_assert_eq!(&again.pod["spec"], &copy.pod["spec"]);
        prop_assert_eq!(again.source, copy.source);
    }
}

const CONDITIONS: [&str; 9] = [
    "PodScheduled",
    "Initialized",
    "ContainersReady",
    "Ready",
    "PodReadyToStartContainers",
    "DisruptionTarget",
    "example.com/gate",
    "example.com/theirs",
    names::DISPATCHED,
];

fn conditions() -> impl Strategy<Value = Value> {
    let said = (
        select(vec!["True", "False", "Unknown"]),
        select(vec!["", "A", "SchedulingGated", "Unschedulable"]),
    );
    let kinds = subsequence(&CONDITIONS[..], 0..=CONDITIONS.len()).prop_shuffle();
    (kinds, prop::collection::vec(said, CONDITIONS.len())).prop_map(|(kinds, said)| {
        let conditions = kinds.iter().zip(said).map(|(kind, (status, reason))| {
            json!({"type": kind, "status": status, "reason": reason, "lastProbeTime": null, "lastTransitionTime": "t"})
        });
        conditions.collect()
    })
}

fn statuses() -> impl Strategy<Value = Value> {
    let state = select(vec![
        json!({"running": {"startedAt": "t"}}),
        json!({"waiting": {"reason": "CrashLoopBackOff"}}),
        json!({"terminated": {"exitCode": 1, "finishedAt": null}}),
    ]);
    let status = (select(vec!["app", "init", "sidecar"]), state, 0i64..4);
    prop::collection::btree_map(status.clone().prop_map(|(name, ..)| name), status, 0..3).prop_map(|statuses| {
        let statuses = statuses.into_iter().map(|(name, (_, state, restarts))| {
            json!({"name": name, "state": state, "restartCount": restarts, "ready": true, "resources": {"x": "y"}})
        });
        statuses.collect()
    })
}

fn status() -> impl Strategy<Value = Value> {
    let phase = select(vec!["Pending", "Running", "Succeeded", "Failed", "Unknown"]);
    let text = select(vec![json!(null), json!("told")]);
    let address = select(vec![json!(null), json!("10.0.0.1")]);
    (phase, conditions(), statuses(), text, address).prop_map(
        |(phase, conditions, statuses, text, address)| {
            json!({
                "phase": phase, "conditions": conditions, "containerStatuses": statuses, "message": text,
                "podIP": address, "qosClass": "Guaranteed", "startTime": text,
            })
        },
    )
}

fn spec() -> Value {
    json!({"containers": [{"name": "app"}], "readinessGates": [{"conditionType": "example.com/gate"}]})
}

fn local_with_status() -> impl Strategy<Value = Value> {
    (status(), any::<bool>()).prop_map(|(status, terminating)| {
        let deleted = if terminating { json!(NOW) } else { Value::Null };
        let metadata = json!({"uid": "l", "resourceVersion": "1", "deletionTimestamp": deleted});
        json!({"metadata": metadata, "spec": spec(), "status": status})
    })
}

fn remote_with_status() -> impl Strategy<Value = Value> {
    (status(), any::<bool>()).prop_map(|(status, bound)| {
        let mut spec = spec();
        if bound {
            spec["nodeName"] = "node-1".into();
        }
        json!({"metadata": {"uid": "r"}, "spec": spec, "status": status})
    })
}

fn dispatched() -> Dispatched {
    Dispatched {
        status: true,
        reason: "Open".into(),
        message: "on worker-a".into(),
    }
}

fn applied(local: &Value, patch: Option<&Value>) -> Value {
    let mut after = local.clone();
    if let Some(patch) = patch {
        json_patch::merge(&mut after, patch);
    }
    after
}

fn condition<'a>(pod: &'a Value, kind: &str) -> Option<&'a Value> {
    pod["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == kind)
}

fn has_ended(pod: &Value) -> bool {
    pod["status"]["phase"] == "Succeeded" || pod["status"]["phase"] == "Failed"
}

proptest! {
    #[test]
    fn the_second_pass_writes_nothing(
        local in local_with_status(),
        remote in remote_with_status(),
        pod_ips in any::<bool>(),
    ) {
        let options = MirrorOptions { pod_ips, cluster: "worker-a".into() };
        let patch = mirror::mirror(&local, &remote, &dispatched(), &options, NOW);
        let after = applied(&local, patch.as_ref());
        prop_assert_eq!(mirror::mirror(&after, &remote, &dispatched(), &options, "later"), None);
    }

    #[test]
    fn the_local_pod_says_what_it_may_say(local in local_with_status(), remote in remote_with_status()) {
        let options = MirrorOptions { pod_ips: false, cluster: "worker-a".into() };
        let patch = mirror::mirror(&local, &remote, &dispatched(), &options, NOW);
        let after = applied(&local, patch.as_ref());
        let terminating = !local["metadata"]["deletionTimestamp"].is_null();

        prop_assert_eq!(&after["status"]["qosClass"], &local["status"]["qosClass"]);
        if has_ended(&local) && !terminating {
            prop_assert_eq!(patch, None);
            return Ok(());
        }
        prop_assert_eq!(condition(&after, names::DISPATCHED).unwrap()["message"].as_str(), Some("on worker-a"));
        prop_assert_eq!(condition(&after, "example.com/theirs"), condition(&local, "example.com/theirs"));
        if terminating {
            let phase = &after["status"]["phase"];
            prop_assert!(*phase == local["status"]["phase"] || (has_ended(&remote) && !has_ended(&local)));
        } else {
            let scheduled = condition(&after, "PodScheduled").unwrap();
            prop_assert!(scheduled["status"] == "True" || scheduled["reason"] == "SchedulingGated");
            prop_assert_eq!(&after["status"]["podIP"], &Value::Null);
        }
        for status in after["status"]["containerStatuses"].as_array().into_iter().flatten() {
            prop_assert_eq!(&status["name"], "app");
            let before = local["status"]["containerStatuses"].as_array().into_iter().flatten();
            for before in before.filter(|before| before["name"] == "app") {
                prop_assert!(status["restartCount"].as_i64() >= before["restartCount"].as_i64());
            }
        }
    }

    #[test]
    fn every_other_patch_is_written_once_too(local in local_with_status()) {
        let lost = mirror::worker_lost(&local, &dispatched(), NOW);
        prop_assert_eq!(mirror::worker_lost(&applied(&local, lost.as_ref()), &dispatched(), "later"), None);
        let told = mirror::condition_patch(&local, &dispatched(), NOW);
        prop_assert_eq!(mirror::condition_patch(&applied(&local, told.as_ref()), &dispatched(), "later"), None);
        let failed = applied(&local, Some(&mirror::failed(&local, "Gone", "gone", &dispatched(), NOW)));
        prop_assert_eq!(&failed["status"]["phase"], "Failed");
        for status in failed["status"]["containerStatuses"].as_array().into_iter().flatten() {
            prop_assert!(!status["state"]["terminated"].is_null());
        }
    }
}
