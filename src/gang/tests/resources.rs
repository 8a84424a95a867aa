//! What the pods of a gang need together.

use serde_json::{Value, json};

use super::words::{Case, check, job};
use crate::gang::facts::runtime_overhead;
use crate::gang::requests::resource_list;
use crate::gang::*;
use crate::workload::jobs::Field;

/// A JAXJob of one worker with this pod spec.
fn one(spec: Value) -> Case {
    job("JAXJob", "W1").role("Worker", "/template/spec", spec)
}

fn container(requests: &Value) -> Value {
    json!({"name": "main", "resources": {"requests": requests}})
}

fn sidecar(requests: &Value) -> Value {
    let mut container = container(requests);
    container["restartPolicy"] = json!("Always");
    container
}

#[test]
fn every_row_of_minimum_resources() {
    let given = json!({"cpu": "100", "memory": "512Gi", "example.com/gpu": "40"});
    let mixed = || {
        job("PyTorchJob", "M1{1,1Gi} W4{2,2Gi}")
            .class("Worker", "batch")
            .min(1)
    };
    let gpu = json!({"requests": {"cpu": "10", "memory": "16Gi"}, "limits": {"cpu": "20", "memory": "32Gi", "nvidia.com/gpu": 8}});
    check(vec![
        (
            "V32",
            job("MPIJob", "L1{1,2Gi} W1000{10,20Gi}").policy("minResources", given).min(2),
            "2 of 1001 | cpu 100, example.com/gpu 40, memory 512Gi | PartialGang",
        ),
        ("V32 empty", job("MPIJob", "L1{1,2Gi} W2{10,20Gi}").policy("minResources", json!({})), "3 of 3 |"),
        ("V33", job("MPIJob", "L1{2,1Gi} W2{10,32Gi}").min(3), "3 of 3 | cpu 22, memory 65Gi"),
        ("V34", job("MPIJob", "L1{1,2Gi} W2{10,20Gi}").min(3), "3 of 3 | cpu 21, memory 42Gi"),
        ("V35", job("MPIJob", "L1{2,1Gi}").min(1), "1 of 1 | cpu 2, memory 1Gi"),
        (
            "V37",
            job("MPIJob", "L1{2,2Gi} W2{5,16Gi}").class("Launcher", "unknown").class("Worker", "unknown").min(2),
            "2 of 3 | cpu 7, memory 18Gi | PartialGang | UnknownPriorityClass",
        ),
        (
            "V38",
            job("MPIJob", "L1{2,4Gi} W100{20,64Gi}")
                .class("Launcher", "high")
                .class("Worker", "low")
                .classes(&[("high", 100_010), ("low", 10_010)])
                .min(2),
            "2 of 101 | cpu 22, memory 68Gi | PartialGang | MixedPriorities",
        ),
        ("V41", one(json!({"containers": [{"resources": gpu}]})), "1 of 1 | cpu 10, memory 16Gi, nvidia.com/gpu 8"),
        ("V42", one(json!({"containers": [{"resources": gpu}]})), "1 of 1 | cpu 10, memory 16Gi, nvidia.com/gpu 8"),
        (
            "V45",
            mixed().classes(&[("batch", 1000)]).facts(|facts| facts.priority_classes.global_default = Some(2000)),
            "1 of 5 | cpu 1, memory 1Gi | MixedPriorities",
        ),
        (
            "V45 without the default",
            mixed().classes(&[("batch", 1000)]),
            "1 of 5 | cpu 2, memory 2Gi | MixedPriorities",
        ),
        ("V46", mixed(), "1 of 5 | cpu 1, memory 1Gi | UnknownPriorityClass | MixedPriorities"),
        (
            "V47",
            one(json!({"containers": [container(&json!({"cpu": 2, "memory": "4Gi"}))],
                "initContainers": [container(&json!({"cpu": 5, "memory": "1Gi"}))]})),
            "1 of 1 | cpu 5, memory 4Gi",
        ),
        (
            "V48",
            one(json!({"containers": [container(&json!({"cpu": 2, "memory": "4Gi"}))], "initContainers": [
                sidecar(&json!({"cpu": 1, "memory": "1Gi"})), container(&json!({"cpu": 3, "memory": "1Gi"}))]})),
            "1 of 1 | cpu 4, memory 5Gi",
        ),
        (
            "V48 other order",
            one(json!({"containers": [container(&json!({"cpu": 2, "memory": "4Gi"}))], "initContainers": [
                container(&json!({"cpu": 3, "memory": "1Gi"})), sidecar(&json!({"cpu": 1, "memory": "1Gi"}))]})),
            "1 of 1 | cpu 3, memory 5Gi",
        ),
        (
            "V51",
            one(json!({"containers": [container(&json!({"cpu": 1}))], "initContainers": [sidecar(&json!({"cpu": 1}))],
                "overhead": {"cpu": 1}})),
            "1 of 1 | cpu 3",
        ),
        (
            "V52",
            one(json!({"containers": [container(&json!({"cpu": 2, "memory": "4Gi"}))], "runtimeClassName": "kata"})).facts(|facts| {
                let class = json!({"overhead": {"podFixed": {"cpu": "250m", "memory": "128Mi"}}});
                facts.runtime_overheads.insert("kata".to_owned(), runtime_overhead(&class).unwrap());
            }),
            "1 of 1 | cpu 2250m, memory 4224Mi",
        ),
        (
            "V54",
            one(json!({"containers": [{}], "resources": {"limits": {"cpu": 4, "memory": "8Gi"}}})),
            "1 of 1 | cpu 4, memory 8Gi",
        ),
        (
            "V54 with a container's request",
            one(json!({"containers": [container(&json!({"cpu": 1}))], "resources": {"limits": {"cpu": 4, "memory": "8Gi"}}})),
            "1 of 1 | cpu 1, memory 8Gi",
        ),
        (
            "V54 requests alone",
            one(json!({"containers": [container(&json!({"cpu": 1, "memory": "1Gi"}))], "resources": {"requests": {"cpu": 4}}})),
            "1 of 1 | cpu 4, memory 1Gi",
        ),
        (
            "V56",
            one(json!({"containers": [container(&json!({"cpu": 1}))], "resources": {"limits": {"nvidia.com/gpu": 4}}})),
            "1 of 1 | cpu 1",
        ),
        ("V57 without", job("JAXJob", "W3"), "3 of 3 |"),
        (
            "V57",
            job("JAXJob", "W3").facts(|facts| {
                let range = json!({"spec": {"limits": [
                    {"type": "Pod", "max": {"cpu": 9}},
                    {"type": "Container", "defaultRequest": {"cpu": "100m", "memory": "64Mi"}}]}});
                facts.container_defaults = ContainerDefaults::of([&range]).unwrap();
            }),
            "3 of 3 | cpu 300m, memory 192Mi",
        ),
        (
            "V59",
            one(json!({"containers": [{"resources": {"requests": {"cpu": "0"}, "limits": {"cpu": 1}}}]})),
            "1 of 1 | cpu 0",
        ),
        ("V62", job("MPIJob", "L1{2,1Gi} W2{10,32Gi}").wait_for_workers(), "2 of 3 | cpu 22, memory 65Gi"),
        (
            "V72",
            one(json!({"containers": [container(&json!({"cpu": 1}))], "resourceClaims": [{"name": "gpu"}]})),
            "1 of 1 | cpu 1 | ResourceClaimsNotCounted",
        ),
    ]);
}

/// kubeflow/mpi-operator: with workers above the launcher, its copies were counted instead of the workers.
#[test]
fn workers_of_higher_priority_come_first() {
    let case = job("MPIJob", "L1{1,1Gi} W100{10,2Gi}")
        .class("Worker", "high")
        .classes(&[("high", 10)])
        .min(50);
    assert_eq!(
        case.line(),
        "50 of 101 | cpu 500, memory 100Gi | PartialGang | MixedPriorities"
    );
}

/// volcano-sh/volcano#2229: an elastic gang has its master, whatever the priorities.
#[test]
fn an_elastic_gang_counts_its_master_first() {
    let case = job("PyTorchJob", "M1{1,1Gi} W4{10,2Gi}")
        .class("Worker", "high")
        .classes(&[("high", 10)]);
    let case = case.with("/spec/elasticPolicy", json!({"minReplicas": 2}));
    assert_eq!(case.line(), "3 of 5 | cpu 21, memory 5Gi | MixedPriorities");
}

/// V71, and what only Volcano gets.
#[test]
fn quota_keys_are_volcanos_alone() {
    let case = job("MPIJob", "L1{2,1Gi} W2{10,32Gi}").role(
        "Worker",
        "/template/spec/containers/0/resources/limits",
        json!({"cpu": 20}),
    );
    let resources = |case: &Case| case.objects()[0]["spec"]["minResources"].clone();
    assert_eq!(resources(&case), json!({"cpu": "22", "memory": "65Gi"}), "V71");
    let volcano = case.on(BackEnd::Volcano);
    assert_eq!(
        resources(&volcano),
        json!({"cpu": "22", "memory": "65Gi", "requests.cpu": "22", "requests.memory": "65Gi", "limits.cpu": "40", "pods": "3", "count/pods": "3"})
    );
    let without = volcano
        .clone()
        .settings(|settings| settings.volcano_quota_keys = false);
    assert_eq!(resources(&without), json!({"cpu": "22", "memory": "65Gi"}));
    let given = volcano.policy("minResources", json!({"cpu": "0.50"}));
    assert_eq!(resources(&given), json!({"cpu": "0.50"}));
}

#[test]
fn an_empty_result_is_left_out_and_an_empty_map_is_written() {
    let resources = |case: Case| case.objects()[0]["spec"].get("minResources").cloned();
    assert_eq!(resources(job("JAXJob", "W2")), None);
    assert_eq!(
        resources(job("JAXJob", "W2{1,1Gi}").policy("minResources", json!({}))),
        Some(json!({}))
    );
}

/// Pod-level hugepages: the request follows the limit, and the limit the containers.
#[test]
fn hugepages_of_a_pod_are_its_containers() {
    let pages = json!({"name": "main", "resources": {"limits": {"hugepages-2Mi": "4Mi", "cpu": 1}}});
    check(vec![(
        "hugepages",
        one(json!({"containers": [pages, pages], "resources": {"requests": {"cpu": 3}}})),
        "1 of 1 | cpu 3, hugepages-2Mi 8Mi",
    )]);
}

#[test]
fn limit_ranges_are_read_as_they_are_stored() {
    let list = |value: Value| resource_list(&Field::root(&value)).unwrap();
    let of = |item: Value| ContainerDefaults::of([&json!({"spec": {"limits": [item]}})]).unwrap();
    let max = of(json!({"type": "Container", "max": {"cpu": 4}, "min": {"memory": "1Gi"}}));
    assert_eq!(max.limits, list(json!({"cpu": 4})));
    assert_eq!(max.requests, list(json!({"cpu": 4, "memory": "1Gi"})));
    assert_eq!(
        of(json!({"type": "PersistentVolumeClaim", "max": {"storage": 4}})),
        ContainerDefaults::default()
    );
}
