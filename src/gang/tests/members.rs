//! How many pods must start together.

use serde_json::json;

use super::words::{check, job, of};
use crate::gang::*;

#[test]
fn every_row_of_sizes() {
    let elastic = |min: u32| json!({"minReplicas": min, "maxReplicas": 4});
    let mpi = || job("MPIJob", "L1 W2");
    let min_available = "refused: spec.runPolicy.schedulingPolicy.minAvailable";
    let mut late = mpi().wait_for_workers();
    late.late_pods_exist = true;
    check(vec![
        (
            "V01",
            mpi().with("/spec/runPolicy", json!({})).settings(|settings| settings.gang_all = true),
            "3 of 3 |",
        ),
        ("V02", job("MPIJob", "L1 W99"), "100 of 100 |"),
        ("V03", job("MPIJob", "L1 W1000").min(2), "2 of 1001 |  | PartialGang"),
        (
            "V04",
            job("MPIJob", "L1{2,1Gi}").with("/spec/runLauncherAsWorker", json!(true)).min(1),
            "1 of 1 | cpu 2, memory 1Gi",
        ),
        ("V05", job("MPIJob", "L1"), "1 of 1 |"),
        (
            "V07",
            job("MPIJob", "L1{2,1Gi} W4{1,1Gi}").wait_for_workers(),
            "4 of 5 | cpu 6, memory 5Gi",
        ),
        ("V08", mpi().wait_for_workers(), "2 of 3 |"),
        ("V09 off", late.clone(), "2 of 3 |"),
        ("V09", late.settings(|settings| settings.raise_for_launcher = true), "3 of 3 |"),
        ("V11", mpi().wait_for_workers().min(3), "2 of 3 |  | LauncherExcluded"),
        (
            "V12",
            mpi().wait_for_workers().with("/spec/runPolicy/suspend", json!(true)),
            "2 of 3 |",
        ),
        ("V13", mpi().min(0), min_available),
        ("V13 stored", mpi().min(0).stored(), "3 of 3 |  | InvalidMinAvailable"),
        ("V14", mpi().min(-1), min_available),
        ("V14 stored", mpi().min(-1).stored(), "3 of 3 |  | InvalidMinAvailable"),
        ("V15", mpi().min(10), min_available),
        ("V15 stored", mpi().min(10).stored(), "3 of 3 |  | InvalidMinAvailable"),
        ("V16", job("PyTorchJob", "M1 W3"), "4 of 4 |"),
        ("V17", job("PyTorchJob", "M? W?"), "2 of 2 |"),
        ("V18", job("PyTorchJob", "M2 W4"), "6 of 6 |"),
        ("V20", job("PyTorchJob", "W4").with("/spec/elasticPolicy", elastic(2)), "2 of 4 |"),
        (
            "V20 upstream",
            job("PyTorchJob", "W4")
                .with("/spec/elasticPolicy", elastic(2))
                .settings(|settings| settings.elastic_min = ElasticMin::Upstream),
            "4 of 4 |",
        ),
        ("V21", job("PyTorchJob", "M1 W4").with("/spec/elasticPolicy", elastic(2)), "3 of 5 |"),
        (
            "V21 explicit",
            job("PyTorchJob", "M1 W4").with("/spec/elasticPolicy", elastic(2)).min(5),
            "5 of 5 |",
        ),
        ("V21 beyond", job("PaddleJob", "M1 W4").with("/spec/elasticPolicy", elastic(9)), "5 of 5 |"),
        ("V23", job("PyTorchJob", "M1 W0"), "1 of 1 |"),
        ("V24", job("TFJob", "C1 PS2 W4 Evaluator1"), "8 of 8 |"),
        ("V25 XGBoostJob", job("XGBoostJob", "M1 W2"), "3 of 3 |"),
        ("V25 PaddleJob", job("PaddleJob", "W2"), "2 of 2 |"),
        ("V25 JAXJob", job("JAXJob", "W4"), "4 of 4 |"),
        ("V26 empty", job("MPIJob", ""), "alone: NoPods"),
        ("V26 zero", job("TFJob", "C0 W0"), "alone: NoPods"),
        ("V26 absent", job("TFJob", "").with("/spec/tfReplicaSpecs", json!(null)), "alone: NoPods"),
        ("V27", job("PyTorchJob", "MASTER1 worker3"), "4 of 4 |"),
        ("V29", job("MPIJob v1", "L? W?"), "1 of 1 |"),
        ("V29 v2beta1", job("MPIJob", "L? W?"), "1 of 1 |"),
        ("V30", super::generic::initialized(2), "2 of 2 | cpu 1, memory 2Gi"),
        ("V31", mpi(), "3 of 3 |"),
        ("V31 absent", mpi().with("/spec/runPolicy", json!({})), "alone: NotOptedIn"),
        ("V39 no spec", of(json!({"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "a"}})), "alone: NotOptedIn"),
        (
            "V39 null spec",
            of(json!({"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "a"}, "spec": null}))
                .settings(|settings| settings.gang_all = true),
            "alone: NoPods",
        ),
        ("V118", job("MPIJob", "L1 W6").min(11), min_available),
        ("V118 stored", job("MPIJob", "L1 W6").min(11).stored(), "7 of 7 |  | InvalidMinAvailable"),
    ]);
}

/// kubeflow/mpi-operator#669: more or fewer roles than two, and replicas that are left out.
#[test]
fn any_number_of_roles_and_replicas_is_counted() {
    check(vec![
        ("one role", job("TFJob", "W?"), "1 of 1 |"),
        (
            "all roles",
            job("TFJob", "C? Master? PS? W? Evaluator?"),
            "5 of 5 |",
        ),
        (
            "no workers, but they are awaited",
            job("MPIJob", "L1").wait_for_workers(),
            "1 of 1 |",
        ),
        (
            "no workers, but they are awaited",
            job("MPIJob", "L1 W0").wait_for_workers(),
            "1 of 1 |",
        ),
        (
            "two launchers",
            job("MPIJob v1", "L2 W3").min(4),
            "4 of 5 |  | PartialGang",
        ),
    ]);
}

#[test]
fn two_billion_pods_neither_overflow_nor_allocate() {
    let most = u64::from(u32::MAX / 2);
    let started = std::time::Instant::now();
    check(vec![
        (
            "all",
            job("JAXJob", &format!("W{most}{{64,512Gi}}")),
            "2147483647 of 2147483647 | cpu 137438953408, memory 1099511627264Gi",
        ),
        (
            "with a launcher",
            job("MPIJob", &format!("L1 W{most}")),
            "refused: spec",
        ),
        (
            "2^31",
            job("JAXJob", "W2147483648"),
            "refused: spec.jaxReplicaSpecs.Worker.replicas",
        ),
        (
            "a part",
            job("PyTorchJob", &format!("M1{{1,1Gi}} W{}{{2,1Gi}}", most - 1)).min(1_000_000_000),
            "1000000000 of 2147483647 | cpu 1999999999, memory 1000000000Gi",
        ),
    ]);
    assert!(started.elapsed() < std::time::Duration::from_secs(1));
}
