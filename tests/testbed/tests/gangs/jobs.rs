//! Operators make pods of jobs, with their production identity.

use portcullis_testbed::{Cluster, Part};

use super::{apply, await_condition, await_running, pods};

const MPI_LAUNCHER: &str = "training.kubeflow.org/job-name=mpi,training.kubeflow.org/job-role=launcher";

pub(crate) async fn an_mpi_job_runs_and_ends(cluster: &Cluster) {
    apply(cluster, &mpi_job("mpi", "{cleanPodPolicy: Running}")).await;
    await_condition(cluster, "mpijob/mpi", "Running").await;
    await_running(cluster, "training.kubeflow.org/job-name=mpi", 3).await;
    end_pods(cluster, MPI_LAUNCHER).await;
    await_condition(cluster, "mpijob/mpi", "Succeeded").await;
    await_running(
        cluster,
        "training.kubeflow.org/job-name=mpi,training.kubeflow.org/job-role=worker",
        0,
    )
    .await;
}

pub(crate) async fn a_suspended_mpi_job_has_no_pods(cluster: &Cluster) {
    let selector = "training.kubeflow.org/job-name=held";
    apply(cluster, &mpi_job("held", "{suspend: true}")).await;
    await_condition(cluster, "mpijob/held", "Suspended").await;
    assert!(pods(cluster, selector).await.is_empty());
    let resume = r#"{"spec":{"runPolicy":{"suspend":false}}}"#;
    cluster
        .kubectl(&["patch", "mpijob", "held", "-n=team", "--type=merge", "-p", resume])
        .await
        .expect("resume");
    await_running(cluster, selector, 3).await;
}

pub(crate) async fn a_pytorch_job_runs_and_ends(cluster: &Cluster) {
    apply(cluster, &pytorch_job("torch", "{}")).await;
    await_condition(cluster, "pytorchjob/torch", "Running").await;
    await_running(cluster, "training.kubeflow.org/job-name=torch", 3).await;
    end_pods(
        cluster,
        "training.kubeflow.org/job-name=torch,training.kubeflow.org/replica-type=master",
    )
    .await;
    await_condition(cluster, "pytorchjob/torch", "Succeeded").await;
}

/// With a certificate that it made and an authority that it wrote into its webhook configuration.
pub(crate) async fn webhooks_of_training_operator_answer(cluster: &Cluster) {
    let job = pytorch_job("strange", "{managedBy: portcullis.dev/multikueue}");
    let error = cluster.apply(&job).await.expect_err("its webhook refuses");
    assert!(format!("{error:#}").contains("supported values"), "{error:#}");
}

pub(crate) async fn a_job_set_runs_and_ends(cluster: &Cluster) {
    let set = "apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: set, namespace: team}
spec:
  replicatedJobs:
  - name: a
    replicas: 2
    template:
      spec:
        parallelism: 2
        completions: 2
        template: {spec: {restartPolicy: Never, containers: [{name: main, image: main}]}}
";
    let selector = "jobset.sigs.k8s.io/jobset-name=set";
    apply(cluster, set).await;
    await_running(cluster, selector, 4).await;
    end_pods(cluster, selector).await;
    await_condition(cluster, "jobset/set", "Completed").await;
}

pub(crate) fn operators_are_who_they_are_in_production(cluster: &Cluster) {
    let ledger = cluster.ledger().expect("the ledger");
    let writes = |user: &str, resource: &str| {
        let writes = ledger.writes_by(&format!("system:serviceaccount:{user}"));
        assert!(
            writes.iter().any(|write| write.resource == resource),
            "{user} has written {resource}"
        );
    };
    writes("mpi-operator:mpi-operator", "mpijobs/status");
    writes("mpi-operator:mpi-operator", "pods");
    writes("kubeflow:training-operator", "pods");
    writes("jobset-system:jobset-controller-manager", "jobs");
    writes("scheduler-plugins:scheduler-plugins-scheduler", "pods/binding");
}

/// Its lease does not keep it from its work.
pub(crate) async fn an_operator_comes_back(cluster: &Cluster) {
    cluster.stop(Part::MpiOperator).await;
    apply(cluster, &mpi_job("meanwhile", "{}")).await;
    cluster.resume(Part::MpiOperator).await.expect("it comes back");
    await_running(cluster, "training.kubeflow.org/job-name=meanwhile", 3).await;
    for part in [Part::TrainingOperator, Part::JobSet, Part::Coscheduler] {
        cluster.stop(part).await;
        cluster.resume(part).await.expect("it comes back");
    }
}

pub(crate) async fn operators_may_have_their_own_gang_flag(cluster: &Cluster) {
    cluster
        .start_mpi_operator(&["-gang-scheduling=coscheduling"])
        .await
        .expect("it starts anew");
    cluster
        .start_training_operator(&["--gang-scheduler-name=coscheduling"])
        .await
        .expect("it starts anew");
    for (name, job) in [
        ("flagged-mpi", mpi_job("flagged-mpi", "{}")),
        ("flagged-torch", pytorch_job("flagged-torch", "{}")),
    ] {
        apply(cluster, &job).await;
        await_running(cluster, &format!("training.kubeflow.org/job-name={name}"), 3).await;
        let group = format!("podgroups.scheduling.x-k8s.io/{name}");
        let args = ["get", &group, "-n=team", "-o=jsonpath={.spec.minMember}"];
        let members = cluster.kubectl(&args).await.expect("the operator made it");
        assert_eq!(members, "3", "{name}");
    }
}

async fn end_pods(cluster: &Cluster, selector: &str) {
    cluster
        .kubectl(&[
            "annotate",
            "pods",
            "-n=team",
            "-l",
            selector,
            "kwok.test/end=complete",
        ])
        .await
        .expect("annotate");
}

fn mpi_job(name: &str, policy: &str) -> String {
    format!(
        "apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {{name: {name}, namespace: team}}
spec:
  runPolicy: {policy}
  mpiReplicaSpecs:
    Launcher: {{replicas: 1, template: {{spec: {{containers: [{{name: main, image: main}}]}}}}}}
    Worker: {{replicas: 2, template: {{spec: {{containers: [{{name: main, image: main}}]}}}}}}
"
    )
}

fn pytorch_job(name: &str, policy: &str) -> String {
    format!(
        "apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: {name}, namespace: team}}
spec:
  runPolicy: {policy}
  pytorchReplicaSpecs:
    Master: {{replicas: 1, template: {{spec: {{containers: [{{name: pytorch, image: main}}]}}}}}}
    Worker: {{replicas: 2, template: {{spec: {{containers: [{{name: pytorch, image: main}}]}}}}}}
"
    )
}
