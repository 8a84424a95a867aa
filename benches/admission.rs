//! parse -> decide -> respond for CREATE reviews of pods, by the size of the review; a job -> its PodGroup and marks.
#![allow(missing_docs, clippy::unwrap_used)] // criterion_group! makes an undocumented function

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use portcullis::admission::{NamespaceFacts, NamespaceLabels, Review, admit};
use portcullis::gang::{BackEnd, ClusterFacts, Decision, Moment, NativeVersion, Subject, gang};
use portcullis::workload::jobs::MpiJob;
use serde_json::{Value, json};

struct OptedIn;

impl NamespaceFacts for OptedIn {
    fn namespace(&self, _: &str) -> Option<NamespaceLabels> {
        Some(NamespaceLabels::default())
    }
}

/// The review of a ReplicaSet's pod as an API server sends it, padded to `size` bytes by what makes pods big: containers
/// with environments, and the managed fields that mirror them.
fn review(size: usize) -> Vec<u8> {
    let grown = |variables: usize| body(1 + variables / 40, variables);
    let bytes = |variables: usize| grown(variables).len();
    let mut variables = 0;
    let mut step = size / 64;
    while step > 0 {
        while bytes(variables + step) <= size {
            variables += step;
        }
        step /= 2;
    }
    let mut body = grown(variables);
    body.resize(size.max(body.len()), b' ');
    body
}

fn body(containers: usize, variables: usize) -> Vec<u8> {
    let names: Vec<String> = (0..variables).map(|n| format!("SETTING_{n}")).collect();
    let shares = names.chunks(variables.div_ceil(containers).max(1));
    let containers: Vec<Value> = (0..containers)
        .zip(shares.chain(std::iter::repeat(&[][..])))
        .map(|(n, names)| container(n, names))
        .collect();
    let fields: serde_json::Map<String, Value> = names
        .iter()
        .map(|name| {
            (
                format!("k:{{\"name\":\"{name}\"}}"),
                json!({".": {}, "f:value": {}}),
            )
        })
        .collect();
    let kind = json!({"group": "", "version": "v1", "kind": "Pod"});
    let resource = json!({"group": "", "version": "v1", "resource": "pods"});
    let object = json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "generateName": "web-5d4f8c7b9-", "creationTimestamp": null,
            "labels": {"app": "web", "app.kubernetes.io/name": "web", "pod-template-hash": "5d4f8c7b9"},
            "annotations": {"checksum/config": "01ba4719c80b6fe911b091a7c05124b6"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d4f8c7b9",
                "uid": "0b2e0f0c-36ea-4e8b-9f43-b4f3d2f5a111", "controller": true, "blockOwnerDeletion": true,
            }],
            "managedFields": [{
                "manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:containers": {"f:env": fields}}},
            }],
        },
        "spec": {
            "volumes": [{"name": "kube-api-access", "projected": {"sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            ]}}],
            "containers": containers,
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default", "serviceAccount": "default", "securityContext": {},
            "schedulerName": "default-scheduler", "priority": 0, "enableServiceLinks": true,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {},
    });
    // The fields of a request in the order in which API servers write them.
    format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{
        "uid":"705ab4f5-6393-11e8-b7cc-42010a800002","kind":{kind},"resource":{resource},"requestKind":{kind},
        "requestResource":{resource},"namespace":"team-a","operation":"CREATE","userInfo":{{
        "username":"system:serviceaccount:kube-system:replicaset-controller","uid":"a1b2",
        "groups":["system:serviceaccounts","system:serviceaccounts:kube-system","system:authenticated"]}},
        "object":{object},"oldObject":null,"dryRun":false,
        "options":{{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1"}}}}}}"#
    )
    .into_bytes()
}

fn container(n: usize, variables: &[String]) -> Value {
    let env: Vec<Value> = variables
        .iter()
        .map(|name| json!({"name": name, "value": "a < b & c"}))
        .collect();
    json!({
        "name": format!("main-{n}"), "image": "registry.example.com/team/web:1.27.4", "env": env,
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        "volumeMounts": [{"name": "kube-api-access", "readOnly": true, "mountPath": "/var/run/secrets"}],
        "terminationMessagePath": "/dev/termination-log", "imagePullPolicy": "IfNotPresent",
    })
}

fn admission(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("admission");
    for (name, size) in [("2.4 KB", 2_400), ("10 KB", 10_000), ("226 KB", 226_000)] {
        let body = review(size);
        assert_eq!(admit(&body, &OptedIn).decision, "patched");
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(format!("{name} whole"), |bencher| {
            bencher.iter(|| admit(black_box(&body), &OptedIn));
        });
        group.bench_function(format!("{name} envelope"), |bencher| {
            bencher.iter(|| Review::parse(black_box(&body)));
        });
    }
    group.finish();
}

/// An MPIJob with one launcher and so many workers, each with what real ones carry.
fn mpi_job(workers: u32) -> Value {
    let template = |cpu: &str| {
        json!({"metadata": {"labels": {"app": "pi"}}, "spec": {
            "containers": [container(0, &["OMP_NUM_THREADS".to_owned()]), {
                "name": "log", "image": "log:1", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": {"nvidia.com/gpu": 8}},
            }],
            "initContainers": [{"name": "wait", "image": "wait:1", "resources": {"requests": {"cpu": "50m", "memory": "10Mi"}}}],
        }})
    };
    json!({
        "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
        "metadata": {"name": "pi", "namespace": "team-a", "uid": "705ab4f5-6393-11e8-b7cc-42010a800002"},
        "spec": {
            "runPolicy": {"schedulingPolicy": {"queue": "research"}},
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": template("1")},
                "Worker": {"replicas": workers, "template": template("4")},
            },
        },
    })
}

fn translation(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("gang");
    let facts = ClusterFacts::default();
    for (name, back_end) in [
        ("coscheduling", BackEnd::Coscheduling),
        ("volcano", BackEnd::Volcano),
        ("native", BackEnd::Native(NativeVersion::V1beta1)),
    ] {
        for workers in [1_000, 2_147_483_646] {
            let job = mpi_job(workers);
            let subject = Subject {
                kind: &MpiJob,
                job: &job,
                back_end,
                moment: Moment::Admission,
                seed: "",
                late_pods_exist: false,
            };
            group.bench_function(format!("MPIJob of {workers} workers, {name}"), |bencher| {
                bencher.iter(|| {
                    let Ok(Decision::Gang(gang)) = gang(black_box(&subject), &facts) else {
                        panic!()
                    };
                    let objects = back_end.objects(&gang.pod_group, 0, None, &facts.settings);
                    (objects, gang.marks.patch(&job))
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, admission, translation);
criterion_main!(benches);
