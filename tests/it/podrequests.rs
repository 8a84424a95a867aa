//! Our formula for a pod's requests and limits beside what Kubernetes answered (`tests/testbed/podrequests` made the
//! vectors).

use std::collections::BTreeMap;

use portcullis::gang::ClusterFacts;
use portcullis::gang::requests::{Resources, pod_needs};
use portcullis::workload::jobs::Field;
use serde_json::{Value, json};

const VECTORS: &str = include_str!("podrequests.jsonl");

#[test]
fn pods_request_what_kubernetes_says() {
    let mut wrong = Vec::new();
    for (number, line) in (1..).zip(VECTORS.lines()) {
        let vector: Value = serde_json::from_str(line).unwrap();
        let template = json!({"spec": vector["spec"]});
        let needs = pod_needs(&Field::root(&template), &ClusterFacts::default()).unwrap();
        for (what, ours) in [
            ("requests", printed(&needs.requests)),
            ("limits", printed(&needs.limits)),
        ] {
            if ours != vector[what] {
                wrong.push(format!("line {number}: {what} were {ours}, not {}", vector[what]));
            }
        }
    }
    assert!(VECTORS.lines().count() >= 250);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn printed(resources: &Resources) -> Value {
    let amounts: BTreeMap<&str, String> = resources
        .iter()
        .map(|(key, amount)| (key.as_str(), amount.to_string()))
        .collect();
    json!(amounts)
}
