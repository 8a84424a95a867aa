//! Pods of a group are bound together or not at all.

use portcullis_testbed::{Cluster, Crds, wait_for};

use super::{SOON, apply, await_running, bound, pods};

pub(crate) async fn a_native_gang_is_bound_as_a_whole(cluster: &Cluster) {
    let group = "apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: native, namespace: team}
spec: {schedulingPolicy: {gang: {minCount: 3}}}
";
    let member = |number: u8| {
        pod(
            &format!("native-{number}"),
            "{group: native}",
            "schedulingGroup: {podGroupName: native}",
        )
    };
    apply(cluster, group).await;
    apply(cluster, &format!("{}{}", member(0), member(1))).await;
    overtaken(cluster, "after-native", "default-scheduler").await;
    assert_eq!(bound(&pods(cluster, "group=native").await), 0, "two of three");
    apply(cluster, &member(2)).await;
    await_running(cluster, "group=native", 3).await;
}

pub(crate) async fn a_group_of_coscheduling_is_bound_as_a_whole(cluster: &Cluster) {
    let member = |number: u8| coscheduled("co", number, "1");
    apply(cluster, &pod_group("co", 3)).await;
    apply(cluster, &format!("{}{}", member(0), member(1))).await;
    await_unschedulable(cluster, "co", 2, "sibling").await;
    overtaken(cluster, "after-co", "coscheduling").await;
    assert_eq!(bound(&pods(cluster, CO).await), 0, "two of three");
    apply(cluster, &member(2)).await;
    await_running(cluster, CO, 3).await;
}

const CO: &str = "scheduling.x-k8s.io/pod-group=co";

/// Two fit, three do not.
pub(crate) async fn a_new_node_makes_room_for_a_group(cluster: &Cluster) {
    let members: String = (0..3).map(|number| coscheduled("large", number, "20")).collect();
    apply(cluster, &format!("{}{members}", pod_group("large", 3))).await;
    await_unschedulable(cluster, "large", 3, "").await;
    overtaken(cluster, "after-large", "coscheduling").await;
    let selector = "scheduling.x-k8s.io/pod-group=large";
    assert_eq!(bound(&pods(cluster, selector).await), 0, "room for two of three");
    cluster.add_node("gangs-more", "32").await.expect("a node");
    // Any binding wakes the group; it would be looked at after half a minute anyway.
    overtaken(cluster, "after-node", "default-scheduler").await;
    await_running(cluster, selector, 3).await;
    cluster
        .kubectl(&["delete", "pod", "-n=team", "-l", selector])
        .await
        .expect("they end");
}

/// No scheduler for them is here: what an API server does with them.
pub(crate) async fn objects_of_volcano_are_taken(cluster: &Cluster) {
    cluster.install_crds(Crds::Volcano).await.expect("install");
    cluster.install_crds(Crds::Volcano).await.expect("and again");
    let objects = "apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: research}
spec: {weight: 1}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: v, namespace: team}
spec: {minMember: 3, queue: research, priorityClassName: high, minTaskMember: {worker: 2}, minResources: {cpu: '3'}}
";
    apply(cluster, objects).await;
    let kept = "-o=jsonpath={.spec.minMember} {.spec.queue} {.spec.priorityClassName} {.spec.minTaskMember.worker} {.spec.minResources.cpu}";
    let kept = cluster
        .kubectl(&["get", "podgroups.scheduling.volcano.sh", "v", "-n=team", kept])
        .await
        .expect("get");
    assert_eq!(kept, "3 research high 2 3");
}

/// A pod of nobody's group that was made later runs: the scheduler has seen those before it.
async fn overtaken(cluster: &Cluster, name: &str, scheduler: &str) {
    apply(cluster, &pod(name, "{}", &format!("schedulerName: {scheduler}"))).await;
    cluster
        .await_phase("team", name, "Running", SOON)
        .await
        .expect("a pod without a group runs");
}

async fn await_unschedulable(cluster: &Cluster, group: &str, count: usize, words: &str) {
    let selector = format!("scheduling.x-k8s.io/pod-group={group}");
    wait_for(&format!("{group} to be unschedulable"), SOON, async || {
        let pods = pods(cluster, &selector).await;
        let told: Vec<String> = pods
            .iter()
            .flat_map(|pod| {
                pod.status
                    .iter()
                    .flat_map(|status| status.conditions.iter().flatten())
            })
            .filter(|condition| condition.type_ == "PodScheduled" && condition.status == "False")
            .filter_map(|condition| condition.message.clone())
            .filter(|message| message.contains(words))
            .collect();
        (told.len() == count)
            .then_some(Some(()))
            .ok_or(format!("{told:?}"))
    })
    .await
    .expect("the scheduler says why they wait");
}

fn pod_group(name: &str, members: u8) -> String {
    format!(
        "---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {{name: {name}, namespace: team}}
spec: {{minMember: {members}, scheduleTimeoutSeconds: 10}}
"
    )
}

fn coscheduled(group: &str, number: u8, cpu: &str) -> String {
    let labels = format!("{{scheduling.x-k8s.io/pod-group: {group}}}");
    let yaml = pod(
        &format!("{group}-{number}"),
        &labels,
        "schedulerName: coscheduling",
    );
    yaml.replace(
        "image: main",
        &format!("image: main, resources: {{requests: {{cpu: '{cpu}'}}}}"),
    )
}

fn pod(name: &str, labels: &str, spec: &str) -> String {
    format!(
        "---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: team, labels: {labels}}}
spec:
  {spec}
  containers: [{{name: main, image: main}}]
"
    )
}
