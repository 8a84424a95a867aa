//! Gang schedulers and job operators of the test bed, each seen to work with nothing of ours.

mod jobs;
mod schedulers;

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use portcullis_testbed::{Cluster, ClusterOptions, ProcessId, wait_for};

const SOON: Duration = Duration::from_secs(120);

/// One after the other on one cluster: two cores are not enough for many.
#[tokio::test]
async fn gang_schedulers_and_operators_from_start_to_end() {
    let options = ClusterOptions {
        native_gangs: true,
        ..ClusterOptions::named("gangs")
    };
    let cluster = timed("cluster", Cluster::start(options)).await;
    cluster
        .create_namespace("team", &[])
        .await
        .expect("create a namespace");

    schedulers::a_native_gang_is_bound_as_a_whole(&cluster).await;
    timed("coscheduler", cluster.start_coscheduler()).await;
    schedulers::a_group_of_coscheduling_is_bound_as_a_whole(&cluster).await;
    schedulers::a_new_node_makes_room_for_a_group(&cluster).await;
    schedulers::objects_of_volcano_are_taken(&cluster).await;

    timed("mpi-operator", cluster.start_mpi_operator(&[])).await;
    jobs::an_mpi_job_runs_and_ends(&cluster).await;
    jobs::a_suspended_mpi_job_has_no_pods(&cluster).await;
    timed("training-operator", cluster.start_training_operator(&[])).await;
    jobs::a_pytorch_job_runs_and_ends(&cluster).await;
    jobs::webhooks_of_training_operator_answer(&cluster).await;
    timed("jobset", cluster.start_jobset()).await;
    jobs::a_job_set_runs_and_ends(&cluster).await;
    jobs::operators_are_who_they_are_in_production(&cluster);
    jobs::an_operator_comes_back(&cluster).await;
    jobs::operators_may_have_their_own_gang_flag(&cluster).await;

    let ids = cluster.process_ids();
    assert_eq!(ids.len(), 9, "five of the cluster, a scheduler, three operators");
    all_listen_on_loopback_only(&ids);
    drop(cluster);
    assert!(!ids.iter().any(ProcessId::is_running), "{ids:?}");
}

/// The figures of README.md.
async fn timed<T>(what: &str, start: impl Future<Output = anyhow::Result<T>>) -> T {
    let began = Instant::now();
    let started = start.await.unwrap_or_else(|error| panic!("{what}: {error:#}"));
    eprintln!("{what} started in {:?}", began.elapsed());
    started
}

/// Waits until so many pods of a selector run, and there are no others.
pub(crate) async fn await_running(cluster: &Cluster, selector: &str, count: usize) {
    let what = format!("{count} pods of {selector} to run");
    wait_for(&what, SOON, async || {
        let pods = pods(cluster, selector).await;
        let running = pods.iter().filter(|pod| phase(pod) == "Running").count();
        let seen: Vec<_> = pods.iter().map(phase).collect();
        let all = running == count && pods.len() == count;
        all.then_some(Some(())).ok_or(format!("{seen:?}"))
    })
    .await
    .unwrap_or_else(|error| panic!("{error}\n{}", cluster.log_tails(8)));
}

pub(crate) async fn pods(cluster: &Cluster, selector: &str) -> Vec<Pod> {
    let pods: Api<Pod> = Api::namespaced(cluster.admin_client().await.expect("a client"), "team");
    let params = ListParams::default().labels(selector);
    pods.list(&params).await.expect("list pods").items
}

/// As `kubectl wait`, which fails on an object that has no condition yet: until the object has this one.
pub(crate) async fn await_condition(cluster: &Cluster, object: &str, condition: &str) {
    let is = format!("--for=condition={condition}");
    wait_for(&format!("{object} to be {condition}"), SOON, async || {
        let args = ["wait", "-n=team", &is, "--timeout=120s", object];
        cluster.kubectl(&args).await.map(Some)
    })
    .await
    .unwrap_or_else(|error| panic!("{error:#}\n{}", cluster.log_tails(8)));
}

pub(crate) async fn apply(cluster: &Cluster, yaml: &str) {
    cluster
        .apply(yaml)
        .await
        .unwrap_or_else(|error| panic!("{error:#}"));
}

fn phase(pod: &Pod) -> String {
    let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
    phase.unwrap_or_default()
}

pub(crate) fn bound(pods: &[Pod]) -> usize {
    let nodes = pods
        .iter()
        .filter_map(|pod| pod.spec.as_ref()?.node_name.as_ref());
    nodes.count()
}

/// By the kernel's tables: no socket of ours waits for somebody from outside.
fn all_listen_on_loopback_only(ids: &[ProcessId]) {
    let mut listening = 0;
    for id in ids {
        let sockets: Vec<String> = std::fs::read_dir(format!("/proc/{}/fd", id.pid))
            .expect("its open files")
            .filter_map(|file| std::fs::read_link(file.ok()?.path()).ok())
            .map(|link| link.display().to_string())
            .collect();
        for (table, loopback) in [("tcp", "0100007F:"), ("tcp6", "none")] {
            let table = std::fs::read_to_string(format!("/proc/{}/net/{table}", id.pid)).expect("the table");
            for line in table.lines().skip(1) {
                let fields: Vec<&str> = line.split_whitespace().collect();
                let is_ours = sockets.contains(&format!("socket:[{}]", fields[9]));
                if is_ours && fields[3] == "0A" {
                    listening += 1;
                    assert!(
                        fields[1].starts_with(loopback),
                        "process {} at {}",
                        id.pid,
                        fields[1]
                    );
                }
            }
        }
    }
    assert!(
        listening >= ids.len(),
        "{listening} sockets of {} processes",
        ids.len()
    );
}
