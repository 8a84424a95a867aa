use expect_test::{Expect, expect};

use super::super::testing::{self, kind, local, remote};
use super::*;
use crate::workload::jobs::JOB_KINDS;

/// Shows a patch and asserts that, applied, there is nothing left to do.
#[track_caller]
#[allow(clippy::needless_pass_by_value)] // an Expect is the literal of its test
fn check(kind: &dyn JobKind, local: &Value, remote: &Value, expect: Expect) {
    let labels = ["team".to_owned(), "gone".to_owned(), names::ORIGIN.to_owned()];
    let annotations = ["example.com/note".to_owned()];
    let allowed = Allowed {
        labels: &labels,
        annotations: &annotations,
    };
    let Some(patch) = forward(kind, local, remote, allowed) else {
        return expect.assert_eq("nothing");
    };
    let mut after = remote.clone();
    json_patch::patch(&mut after, &patch).unwrap();
    assert_eq!(forward(kind, local, &after, allowed), None);
    let operation = |operation: &PatchOperation| serde_json::to_string(operation).unwrap() + "\n";
    expect.assert_eq(&patch.iter().map(operation).collect::<String>());
}

#[test]
fn opening_takes_the_mark_off_and_gives_the_users_own_suspend() {
    for kind in JOB_KINDS {
        for suspended in [true, false] {
            let mut job = local(*kind, json!({}));
            testing::set(&mut job, kind.suspend(), suspended.into());
            let mut copy = remote(
                *kind,
                json!({"metadata": {"annotations": {names::UNCOMMITTED: "true"}}}),
            );
            testing::set(&mut copy, kind.suspend(), true.into());
            if let Some(flag) = kind.flag_of_suspended() {
                testing::set(&mut copy, flag, true.into());
            }
            let patch = open(*kind, &job, &copy).unwrap();
            let mut opened = copy.clone();
            json_patch::patch(&mut opened, &patch).unwrap();
            assert!(!is_uncommitted(&opened));
            assert_eq!(is_suspended(*kind, &opened), suspended);
            if let Some(flag) = kind.flag_of_suspended() {
                let expected = suspended.then_some(&Value::Bool(true));
                assert_eq!(at(&opened, flag), expected, "as the operator wants it");
            }
            assert_eq!(open(*kind, &job, &opened), None);
            assert!(
                json_patch::patch(&mut opened, &patch).is_err(),
                "it is opened once"
            );
            copy["metadata"]["uid"] = "another".into();
            assert!(
                json_patch::patch(&mut copy, &patch).is_err(),
                "a namesake is never opened"
            );
        }
    }
}

#[test]
fn nothing_is_forwarded_to_a_copy_that_is_not_open() {
    let kind = kind("Job");
    let mut copy = remote(kind, json!({"spec": {"suspend": true}}));
    copy["metadata"]["annotations"][names::UNCOMMITTED] = "true".into();
    check(kind, &local(kind, json!({})), &copy, expect!["nothing"]);
}

#[test]
fn a_copy_that_was_made_uncommitted_again_is_not_started() {
    let kind = kind("Job");
    let copy = remote(kind, json!({"spec": {"suspend": true}}));
    let patch = forward(kind, &local(kind, json!({})), &copy, Allowed::default()).unwrap();
    let mut rolled_back = copy.clone();
    rolled_back["metadata"]["annotations"][names::UNCOMMITTED] = "true".into();
    assert!(json_patch::patch(&mut rolled_back, &patch).is_err());
}

/// R88, decided: these edits reach the worker, and no others.
#[test]
fn an_edit_reaches_the_worker() {
    let job = kind("Job");
    let same = local(
        job,
        json!({"metadata": {"labels": {"other": "x"}}, "spec": {"template": {"spec": {"x": 1}}}}),
    );
    check(job, &same, &remote(job, json!({})), expect!["nothing"]);
    check(
        job,
        &local(job, json!({"spec": {"suspend": true}})),
        &remote(job, json!({})),
        expect![[r#"
            {"op":"test","path":"/metadata/uid","value":"remote-uid"}
            {"op":"test","path":"/metadata/annotations","value":{"portcullis.dev/gang-scheduling":"true","portcullis.dev/local-uid":"local-uid"}}
            {"op":"add","path":"/spec/suspend","value":true}
        "#]],
    );
    check(
        job,
        &local(job, json!({})),
        &remote(job, json!({"spec": {"suspend": true}})),
        expect![[r#"
            {"op":"test","path":"/metadata/uid","value":"remote-uid"}
            {"op":"test","path":"/metadata/annotations","value":{"portcullis.dev/gang-scheduling":"true","portcullis.dev/local-uid":"local-uid"}}
            {"op":"add","path":"/spec/suspend","value":false}
        "#]],
    );
    check(
        job,
        &local(job, json!({"spec": {"parallelism": 6, "completions": 6}})),
        &remote(job, json!({})),
        expect![[r#"
            {"op":"test","path":"/metadata/uid","value":"remote-uid"}
            {"op":"test","path":"/metadata/annotations","value":{"portcullis.dev/gang-scheduling":"true","portcullis.dev/local-uid":"local-uid"}}
            {"op":"add","path":"/spec/parallelism","value":6}
            {"op":"add","path":"/spec/completions","value":6}
        "#]],
    );
    check(
        job,
        &local(
            job,
            json!({"metadata": {"labels": {"team": "a", names::ORIGIN: "x"}, "annotations": {"example.com/note": "n"}}}),
        ),
        &remote(job, json!({"metadata": {"labels": {"gone": "x"}}})),
        expect![[r#"
            {"op":"test","path":"/metadata/uid","value":"remote-uid"}
            {"op":"test","path":"/metadata/annotations","value":{"portcullis.dev/gang-scheduling":"true","portcullis.dev/local-uid":"local-uid"}}
            {"op":"remove","path":"/metadata/labels/gone"}
            {"op":"add","path":"/metadata/labels/team","value":"a"}
            {"op":"add","path":"/metadata/annotations/example.com~1note","value":"n"}
        "#]],
    );
    let mpi = kind("MPIJob");
    check(
        mpi,
        &local(
            mpi,
            json!({"spec": {"runPolicy": {"suspend": true}, "mpiReplicaSpecs": {"Worker": {"replicas": 9}}}}),
        ),
        &remote(mpi, json!({"spec": {"runPolicy": null}})),
        expect![[r#"
            {"op":"test","path":"/metadata/uid","value":"remote-uid"}
            {"op":"test","path":"/metadata/annotations","value":{"portcullis.dev/local-uid":"local-uid"}}
            {"op":"add","path":"/spec/runPolicy","value":{"suspend":true}}
        "#]],
    );
    let ended = json!({"status": {"conditions": [{"type": "Complete", "status": "True"}]}});
    check(
        job,
        &local(job, json!({"spec": {"suspend": true}})),
        &remote(job, ended),
        expect!["nothing"],
    );
}

#[test]
fn a_listed_beginning_covers_all_that_begin_so_and_nothing_that_a_copy_never_carries() {
    let job = kind("Job");
    let here = json!({"metadata": {"labels": {
        "example.com/team": "a", "example.com.evil/team": "b", "kueue.x-k8s.io/queue-name": "q", names::ATTEMPT: "7",
    }}});
    let there = json!({"metadata": {"labels": {"example.com/gone": "x", names::ORIGIN: "o"}}});
    let listed = ["example.com/*", "kueue.x-k8s.io/*", "portcullis.dev/*"].map(str::to_owned);
    let allowed = Allowed {
        labels: &listed,
        annotations: &listed,
    };
    let (here, mut there) = (local(job, here), remote(job, there));
    let patch = forward(job, &here, &there, allowed).unwrap();
    json_patch::patch(&mut there, &patch).unwrap();
    assert_eq!(
        there["metadata"]["labels"],
        json!({"example.com/team": "a", names::ORIGIN: "o"})
    );
    assert_eq!(forward(job, &here, &there, allowed), None);
}

/// KubeRay refuses a suspended RayJob that would leave its cluster.
#[test]
fn a_ray_job_ends_its_cluster_while_it_is_suspended() {
    let kind = kind("RayJob");
    let stays = json!({"spec": {"shutdownAfterJobFinishes": false}});
    check(
        kind,
        &local(
            kind,
            json!({"spec": {"suspend": true, "shutdownAfterJobFinishes": false}}),
        ),
        &remote(kind, stays.clone()),
        expect![[r#"
            {"op":"test","path":"/metadata/uid","value":"remote-uid"}
            {"op":"test","path":"/metadata/annotations","value":{"portcullis.dev/local-uid":"local-uid"}}
            {"op":"add","path":"/spec/suspend","value":true}
            {"op":"add","path":"/spec/shutdownAfterJobFinishes","value":true}
        "#]],
    );
    check(
        kind,
        &local(kind, stays),
        &remote(
            kind,
            json!({"spec": {"suspend": true, "shutdownAfterJobFinishes": true}}),
        ),
        expect![[r#"
            {"op":"test","path":"/metadata/uid","value":"remote-uid"}
            {"op":"test","path":"/metadata/annotations","value":{"portcullis.dev/local-uid":"local-uid"}}
            {"op":"add","path":"/spec/suspend","value":false}
            {"op":"add","path":"/spec/shutdownAfterJobFinishes","value":false}
        "#]],
    );
    check(
        kind,
        &local(kind, json!({})),
        &remote(
            kind,
            json!({"spec": {"suspend": true, "shutdownAfterJobFinishes": true}}),
        ),
        expect![[r#"
            {"op":"test","path":"/metadata/uid","value":"remote-uid"}
            {"op":"test","path":"/metadata/annotations","value":{"portcullis.dev/local-uid":"local-uid"}}
            {"op":"add","path":"/spec/suspend","value":false}
            {"op":"remove","path":"/spec/shutdownAfterJobFinishes"}
        "#]],
    );
}
