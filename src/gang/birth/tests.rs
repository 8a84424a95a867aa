use std::sync::Arc;

use serde_json::{Value, json};

use super::{Birth, Maker, asks, left_behind};
use crate::gang::{
    BackEnd, ClusterFacts, Decision, Family, GangSettings, Moment, NativeVersion, Reason, Subject, gang,
    marked,
};
use crate::names::{ADOPT_PODGROUP, GANG_SCHEDULING};
use crate::workload::jobs::{BatchJob, GangKind, MpiJob};

fn maker(back_end: BackEnd) -> Maker {
    let settings = GangSettings {
        coscheduling_scheduler: "theirs".to_owned(),
        ..GangSettings::default()
    };
    Maker {
        back_end,
        facts: Arc::new(ClusterFacts {
            settings,
            ..ClusterFacts::default()
        }),
    }
}

fn mpi(policy: Value) -> Value {
    let template = json!({"spec": {"containers": [{"name": "main", "image": "x"}]}});
    json!({
        "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
        "metadata": {"name": "train", "namespace": "team", "labels": {}, "annotations": {}},
        "spec": {
            "runPolicy": {"suspend": true, "schedulingPolicy": policy},
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": template},
                "Worker": {"replicas": 2, "template": template},
            },
        },
    })
}

#[test]
fn a_copy_is_born_with_the_marks_of_its_workers_scheduler() {
    let copy = mpi(json!({}));
    let Birth::Marked { copy: born, from } = maker(BackEnd::Coscheduling).born(&MpiJob, &copy, &copy) else {
        panic!("it is a gang");
    };
    for role in ["Launcher", "Worker"] {
        let template = &born["spec"]["mpiReplicaSpecs"][role]["template"];
        assert_eq!(
            template["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"],
            "train"
        );
        assert_eq!(
            template["metadata"]["labels"]["portcullis.dev/pod-group"],
            "train"
        );
        assert_eq!(template["spec"]["schedulerName"], "theirs");
    }
    assert_eq!(from, "coscheduling theirs");
    assert_eq!(born["metadata"]["annotations"][GANG_SCHEDULING], "true");
    let family = marked(&MpiJob, &born).unwrap().0;
    assert_eq!(family, Some(Family::Coscheduling));
    let Birth::Marked { from, .. } = maker(BackEnd::Volcano).born(&MpiJob, &copy, &copy) else {
        panic!("it is a gang");
    };
    assert_eq!(from, "volcano volcano");
}

#[test]
fn what_asks_for_no_gang_is_born_as_it_is() {
    let mut copy = mpi(Value::Null);
    copy["spec"]["runPolicy"]
        .as_object_mut()
        .unwrap()
        .remove("schedulingPolicy");
    let Birth::Alone(notice) = maker(BackEnd::Coscheduling).born(&MpiJob, &copy, &copy) else {
        panic!("it asks for nothing");
    };
    assert_eq!(notice.reason, Reason::NotOptedIn);
}

#[test]
fn a_gang_that_cannot_be_made_is_not_born_without_its_gang() {
    let mut many = mpi(json!({}));
    many["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = i32::MAX.into();
    let no_number = mpi(json!({"minAvailable": "two"}));
    for (job, words) in [(many, "found 2147483648 pods"), (no_number, "minAvailable")] {
        let Birth::Refused(sentence) = maker(BackEnd::Coscheduling).born(&MpiJob, &job, &job) else {
            panic!("it asks for a gang");
        };
        assert!(sentence.contains(words), "{sentence}");
    }
    let mut silent = mpi(Value::Null);
    silent["metadata"]["annotations"][GANG_SCHEDULING] = "perhaps".into();
    let born = maker(BackEnd::Coscheduling).born(&MpiJob, &silent, &silent);
    assert!(
        matches!(&born, Birth::Alone(notice) if notice.reason == Reason::InvalidJob),
        "nothing asks for a gang: {born:?}"
    );
}

#[test]
fn the_annotations_of_the_local_job_count_on_the_worker() {
    let job = |annotations: Value| {
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "j", "namespace": "team", "labels": {}, "annotations": annotations},
            "spec": {"suspend": true, "parallelism": 2, "template": {"spec": {"containers": [{"name": "m", "image": "x"}]}}},
        })
    };
    let local = job(json!({GANG_SCHEDULING: "true", ADOPT_PODGROUP: "theirs"}));
    let Birth::Marked { copy, .. } = maker(BackEnd::Coscheduling).born(&BatchJob, &job(json!({})), &local)
    else {
        panic!("it is a gang");
    };
    assert_eq!(copy["metadata"]["annotations"][ADOPT_PODGROUP], "theirs");
    let labels = &copy["spec"]["template"]["metadata"]["labels"];
    assert_eq!(labels["scheduling.x-k8s.io/pod-group"], "theirs");
}

#[test]
fn who_asks_is_known_before_a_worker_is_chosen() {
    let settings = GangSettings::default();
    let check = |kind: &dyn GangKind, job: &Value, wanted: bool| {
        assert_eq!(asks(kind, job, &settings), wanted, "{job}");
    };
    let mut managed = mpi(json!({}));
    managed["spec"]["runPolicy"]["managedBy"] = json!("portcullis.dev/multikueue");
    check(&MpiJob, &managed, true);
    managed["metadata"]["annotations"] = json!({GANG_SCHEDULING: "false"});
    check(&MpiJob, &managed, false);
    let own = json!({"metadata": {"annotations": {GANG_SCHEDULING: "true"}}, "spec": {"scheduling": {}}});
    check(&BatchJob, &own, false);
    check(&BatchJob, &json!({"metadata": {}}), false);
}

#[test]
fn a_native_group_stands_in_the_template_and_is_found_again() {
    let version = NativeVersion::V1beta1;
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "j", "namespace": "team", "uid": "L1", "labels": {}, "annotations": {GANG_SCHEDULING: "true"}},
        "spec": {"suspend": true, "parallelism": 2, "template": {"spec": {"containers": [{"name": "m", "image": "x"}]}}},
    });
    let born = |local: &Value| match maker(BackEnd::Native(version)).born(&BatchJob, local, local) {
        Birth::Marked { copy, from } => (copy, from),
        other => panic!("{other:?}"),
    };
    let (mut copy, from) = born(&job);
    assert_eq!(from, "native scheduling.k8s.io/v1beta1");
    let named = |copy: &Value| copy["spec"]["template"]["spec"]["schedulingGroup"]["podGroupName"].clone();
    let name = named(&copy);
    assert_eq!(
        copy["spec"]["template"]["metadata"]["labels"]["portcullis.dev/pod-group"],
        name
    );
    job["metadata"]["annotations"]["portcullis.dev/attempt"] = "1".into();
    assert_ne!(named(&born(&job).0), name, "another copy");

    copy["metadata"]["uid"] = "R1".into();
    let subject = Subject {
        kind: &BatchJob,
        job: &copy,
        back_end: BackEnd::Native(version),
        moment: Moment::Stored,
        seed: "",
        late_pods_exist: false,
    };
    let Ok(Decision::Gang(gang)) = gang(&subject, &ClusterFacts::default()) else {
        panic!("it is a gang");
    };
    let objects = subject
        .back_end
        .objects(&gang.pod_group, 0, None, &GangSettings::default());
    assert_eq!(objects[1]["metadata"]["name"], name);

    let Birth::Alone(notice) = maker(BackEnd::Native(NativeVersion::V1alpha1)).born(&BatchJob, &job, &job)
    else {
        panic!("its pods are in no PodGroup");
    };
    assert_eq!(notice.reason, Reason::GangUnsupported);
}

/// What its schema drops is not written, or the copy would not be as it was made.
#[test]
fn a_template_that_does_not_keep_the_group_only_names_it() {
    let mut local = mpi(json!({}));
    local["metadata"]["uid"] = "L1".into();
    let Birth::Marked { copy, .. } =
        maker(BackEnd::Native(NativeVersion::V1beta1)).born(&MpiJob, &local, &local)
    else {
        panic!("it is a gang");
    };
    let (family, name) = marked(&MpiJob, &copy).unwrap();
    assert_eq!(family, Some(Family::Native));
    for role in ["Launcher", "Worker"] {
        let template = &copy["spec"]["mpiReplicaSpecs"][role]["template"];
        assert_eq!(
            template["metadata"],
            json!({
                "labels": {"portcullis.dev/pod-group": name},
                "annotations": {"portcullis.dev/gang-scheduler": "native"},
            })
        );
        assert_eq!(
            template["spec"],
            local["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]
        );
    }
}

/// Its pods would wait for ever, or join a group of somebody else with that name.
#[test]
fn a_copy_that_was_made_for_another_gang_scheduler_is_left_behind() {
    let Birth::Marked { copy, .. } =
        maker(BackEnd::Coscheduling).born(&MpiJob, &mpi(json!({})), &mpi(json!({})))
    else {
        panic!("it is a gang");
    };
    let left = |now: Option<(Family, Option<&str>)>| left_behind(&MpiJob, &copy, now);
    assert_eq!(left(Some((Family::Coscheduling, Some("theirs")))), None);
    let was = Some("coscheduling with schedulerName \"theirs\"".to_owned());
    assert_eq!(left(None), was);
    assert_eq!(left(Some((Family::Coscheduling, Some("another")))), was);
    assert_eq!(left(Some((Family::Volcano, Some("theirs")))), was);
    assert_eq!(left(Some((Family::Native, None))), was);

    let mut own = copy.clone();
    own["metadata"]["annotations"] = json!({});
    assert_eq!(left_behind(&MpiJob, &own, None), None, "its user wrote the marks");
    assert_eq!(left_behind(&MpiJob, &mpi(json!({})), None), None, "it has none");
}

#[test]
fn a_native_copy_is_left_behind_by_any_other_gang_scheduler() {
    let version = NativeVersion::V1beta1;
    let local = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "j", "namespace": "team", "uid": "l1", "labels": {}, "annotations": {GANG_SCHEDULING: "true"}},
        "spec": {"suspend": true, "parallelism": 2, "template": {"spec": {"containers": [{"name": "m", "image": "x"}]}}},
    });
    let Birth::Marked { copy, .. } = maker(BackEnd::Native(version)).born(&BatchJob, &local, &local) else {
        panic!("it is a gang");
    };
    assert_eq!(left_behind(&BatchJob, &copy, Some((Family::Native, None))), None);
    let was = Some("native".to_owned());
    assert_eq!(left_behind(&BatchJob, &copy, None), was);
    assert_eq!(
        left_behind(&BatchJob, &copy, Some((Family::Volcano, Some("volcano")))),
        was
    );
}
