//! Marks of pods, and the schedulers that they name.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::words::{Case, check, job};
use crate::gang::*;

fn mpi() -> Case {
    job("MPIJob", "L1{1,1Gi} W2{1,1Gi}")
}

/// Both roles name this scheduler.
fn named(case: Case, scheduler: &str) -> Case {
    let path = "/template/spec/schedulerName";
    case.role("Launcher", path, json!(scheduler))
        .role("Worker", path, json!(scheduler))
}

/// The templates' marks, one line each.
#[track_caller]
fn check_marks(case: &Case, expect: Expect) {
    let marks = case.gang().marks;
    let lines = marks
        .templates
        .iter()
        .map(|template| format!("{}: {}\n", template.role, template.alone(marks.pods.as_ref())));
    expect.assert_eq(&lines.collect::<String>());
    let marked = marks.apply(&case.job).unwrap();
    let again = Case {
        job: marked.clone(),
        ..case.clone()
    };
    assert_eq!(
        again.gang().marks.patch(&marked).0,
        [],
        "admission of its own output is empty"
    );
    for template in &marks.templates {
        let at =
            |job: &Value| job.pointer(template.template.pointer()).unwrap()["spec"]["containers"].clone();
        assert_eq!(at(&marked), at(&case.job), "nothing else changes");
    }
}

#[test]
fn every_row_of_marks() {
    // V91
    check_marks(
        &mpi().on(BackEnd::Volcano),
        expect![[r#"
            Launcher: {"metadata":{"annotations":{"scheduling.k8s.io/group-name":"train","volcano.sh/task-spec":"launcher"}},"spec":{"schedulerName":"volcano"}}
            Worker: {"metadata":{"annotations":{"scheduling.k8s.io/group-name":"train","volcano.sh/task-spec":"worker"}},"spec":{"schedulerName":"volcano"}}
        "#]],
    );
    // V92
    check_marks(
        &mpi().settings(|settings| settings.coscheduling_scheduler = "default-scheduler".to_owned()),
        expect![[r#"
            Launcher: {"metadata":{"labels":{"scheduling.x-k8s.io/pod-group":"train"}},"spec":{"schedulerName":"default-scheduler"}}
            Worker: {"metadata":{"labels":{"scheduling.x-k8s.io/pod-group":"train"}},"spec":{"schedulerName":"default-scheduler"}}
        "#]],
    );
    // V93, V84: no role names a scheduler, or both name the default; the policy's class goes on the pods.
    check_marks(
        &named(mpi(), "default-scheduler").policy("priorityClass", json!("high")),
        expect![[r#"
            Launcher: {"metadata":{"labels":{"scheduling.x-k8s.io/pod-group":"train"}},"spec":{"priorityClassName":"high","schedulerName":"scheduler-plugins-scheduler"}}
            Worker: {"metadata":{"labels":{"scheduling.x-k8s.io/pod-group":"train"}},"spec":{"priorityClassName":"high","schedulerName":"scheduler-plugins-scheduler"}}
        "#]],
    );
    // V27: the role's key stays as the user wrote it, and the mark is in canonical form.
    let spelled = job("PyTorchJob", "MASTER1 worker2").on(BackEnd::Volcano);
    let marks = spelled.gang().marks.templates;
    assert_eq!(
        marks[1].template.to_string(),
        "spec.pytorchReplicaSpecs.worker.template",
        "V27"
    );
    assert_eq!(
        marks[0].annotations[1],
        ("volcano.sh/task-spec", "master".to_owned()),
        "V27"
    );
}

#[test]
fn every_row_of_schedulers() {
    let native = BackEnd::Native(NativeVersion::V1beta1);
    let two = || mpi().role("Worker", "/template/spec/schedulerName", json!("other"));
    let path = "refused: spec.mpiReplicaSpecs.Worker.template.spec.schedulerName";
    check(vec![
        ("V93", mpi(), "3 of 3 | cpu 3, memory 3Gi"),
        (
            "V93 ours",
            named(mpi(), "scheduler-plugins-scheduler"),
            "3 of 3 | cpu 3, memory 3Gi",
        ),
        ("V94", named(mpi(), "other"), "alone: SchedulerNameMismatch"),
        ("V94 one of two", two(), "alone: SchedulerNameMismatch"),
        (
            "V94 of the other back end",
            named(mpi(), "volcano"),
            "alone: SchedulerNameMismatch",
        ),
        ("V100", two().on(native), path),
        (
            "V100 stored",
            two().on(native).stored(),
            "alone: SchedulerNameMismatch",
        ),
        (
            "native, one name",
            named(mpi(), "other").on(native),
            "3 of 3 | cpu 3, memory 3Gi",
        ),
    ]);
}

#[test]
fn every_row_of_groups_that_are_there() {
    let labelled = |case: Case, role: &str, name: &str| {
        case.role(
            role,
            "/template/metadata/labels/scheduling.x-k8s.io~1pod-group",
            json!(name),
        )
    };
    let annotated = |case: Case, name: &str| {
        case.role(
            "Worker",
            "/template/metadata/annotations/scheduling.k8s.io~1group-name",
            json!(name),
        )
    };
    let chosen = |case: Case| {
        case.with(
            "/metadata/annotations/portcullis.dev~1gang-scheduler",
            json!("coscheduling"),
        )
    };
    let group =
        "refused: spec.mpiReplicaSpecs.Worker.template.metadata.annotations[scheduling.k8s.io/group-name]";
    check(vec![
        (
            "V96",
            annotated(mpi().on(BackEnd::Volcano), "other"),
            "alone: UserManagedPodGroup",
        ),
        (
            "V96 coscheduling",
            labelled(mpi(), "Worker", "other"),
            "alone: UserManagedPodGroup",
        ),
        (
            "V96 ours",
            labelled(mpi(), "Worker", "train"),
            "3 of 3 | cpu 3, memory 3Gi",
        ),
        (
            "of the other back end",
            annotated(mpi(), "train"),
            "alone: UserManagedPodGroup",
        ),
        (
            "two back ends by choice",
            chosen(annotated(mpi(), "train")),
            group,
        ),
        (
            "two back ends",
            annotated(labelled(mpi(), "Launcher", "train"), "train"),
            group,
        ),
        (
            "a native group",
            mpi().on(BackEnd::Native(NativeVersion::V1beta1)).role(
                "Worker",
                "/template/spec/schedulingGroup/podGroupName",
                json!("g"),
            ),
            "alone: UserManagedPodGroup",
        ),
    ]);
}

#[test]
fn a_group_is_adopted_by_name() {
    let adopting = mpi().with(
        "/metadata/annotations/portcullis.dev~1adopt-podgroup",
        json!("theirs"),
    );
    let gang = adopting.gang();
    assert!(adopting.objects().is_empty());
    assert_eq!(
        gang.marks.templates[0].labels,
        [("scheduling.x-k8s.io/pod-group", "theirs".to_owned())]
    );
    let nameless = mpi().with("/metadata/annotations/portcullis.dev~1adopt-podgroup", json!(""));
    let annotation = "refused: metadata.annotations[portcullis.dev/adopt-podgroup]";
    check(vec![("no name", nameless, annotation)]);
}

#[test]
fn every_row_of_long_names() {
    let name = |length: usize| "n".repeat(length);
    for back_end in [BackEnd::Coscheduling, BackEnd::Volcano] {
        for length in [63, 64, 70, 200] {
            let case = mpi().on(back_end).with("/metadata/name", json!(name(length)));
            let found = case.objects()[0]["metadata"]["name"].as_str().unwrap().to_owned();
            match length {
                63 => assert_eq!(found, name(63)),
                _ => {
                    assert_eq!(found.len(), 63, "V97");
                    assert!(found.starts_with(&format!("{}-", name(54))), "V97: {found}");
                    assert!(
                        found[55..].bytes().all(|byte| byte.is_ascii_hexdigit()),
                        "V97: {found}"
                    );
                }
            }
            let marks = &case.gang().marks.templates[0];
            let mark = marks.labels.first().or(marks.annotations.first());
            assert_eq!(mark.map(|(_, value)| value), Some(&found), "V97");
        }
    }
    let other = mpi().with("/metadata/name", json!(format!("{}x", name(69))));
    assert_ne!(
        other.objects()[0]["metadata"]["name"],
        mpi().with("/metadata/name", json!(name(70))).objects()[0]["metadata"]["name"]
    );
}

/// A job that gets its name after admission: its group is found by the mark that admission left.
#[test]
fn a_job_without_a_name_yet_has_a_group_with_one() {
    for back_end in [BackEnd::Coscheduling, BackEnd::Volcano] {
        let new = mpi().on(back_end).with(
            "/metadata",
            json!({"generateName": "train-", "namespace": "team"}),
        );
        let marked = new.gang().marks.apply(&new.job).unwrap();
        let name = new.gang().pod_group.name;
        assert!(name.starts_with("train-") && name.len() == 14, "{name}");
        let stored = Case { job: marked, ..new }
            .with("/metadata/name", json!("train-x7k2p"))
            .stored();
        assert_eq!(stored.gang().pod_group.name, name);
        assert_eq!(stored.gang().marks.patch(&stored.job).0, []);
        let missed = mpi().on(back_end).with("/metadata/generateName", json!("train-"));
        assert_eq!(missed.gang().pod_group.name, "train", "admission did not see it");
    }
}

#[test]
fn a_group_keeps_its_name_when_the_style_changes() {
    let by_kind = |case: Case| case.settings(|settings| settings.name_style = NameStyle::Kind);
    let marked = mpi().gang().marks.apply(&mpi().job).unwrap();
    let later = by_kind(Case { job: marked, ..mpi() });
    assert_eq!(later.gang().pod_group.name, "train");
    assert_eq!(by_kind(mpi()).gang().pod_group.name, "train-mpijob");
}

#[test]
fn a_template_gets_its_metadata_whole_or_by_the_key() {
    let check = |template: Value| {
        let case = job("JAXJob", "W1").role("Worker", "/template", template);
        let marked = case.gang().marks.apply(&case.job).unwrap();
        let template = &marked["spec"]["jaxReplicaSpecs"]["Worker"]["template"];
        assert_eq!(
            template["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"],
            "train"
        );
        assert_eq!(template["spec"]["schedulerName"], "scheduler-plugins-scheduler");
        template.clone()
    };
    check(json!({}));
    check(json!({"metadata": null, "spec": null}));
    check(json!({"metadata": {"labels": null}}));
    let kept = check(json!({"metadata": {"labels": {"a": "b"}, "x": 1}, "spec": {"y": {"z": 1.50}}}));
    assert_eq!(kept["metadata"]["labels"]["a"], "b");
    assert_eq!(kept["metadata"]["x"], 1);
    assert_eq!(kept["spec"]["y"], json!({"z": 1.5}));
}

#[test]
fn the_back_end_is_the_jobs_or_the_namespaces() {
    let all = Served {
        coscheduling: true,
        volcano: true,
        native: Some(NativeVersion::V1beta1),
    };
    let only = Served {
        volcano: true,
        ..Served::default()
    };
    let chosen = |name: &str| {
        mpi().with(
            "/metadata/annotations/portcullis.dev~1gang-scheduler",
            json!(name),
        )
    };
    let line = |case: &Case, label: &str, served: Served| {
        let subject = case.subject();
        match choose(subject.kind, subject.job, label, served, &case.facts.settings) {
            Ok(Choice::Alone(notice)) => notice.reason.name().to_owned(),
            Ok(Choice::Use(back_end)) => back_end.family().to_string(),
            Ok(Choice::NotServed(family)) => format!("{family} is not served"),
            Err(error) => error.to_string(),
        }
    };
    assert_eq!(line(&mpi(), "native", all), "native");
    assert_eq!(line(&chosen("volcano"), "native", all), "volcano");
    assert_eq!(
        line(&mpi(), "coscheduling", only),
        "coscheduling is not served",
        "V124"
    );
    assert_eq!(line(&mpi(), "auto", only), "volcano");
    assert_eq!(line(&named(mpi(), "volcano"), "auto", all), "volcano");
    assert_eq!(
        line(&named(mpi(), "scheduler-plugins-scheduler"), "auto", all),
        "coscheduling"
    );
    assert_eq!(
        line(&mpi(), "auto", all),
        "label portcullis.dev/gang of namespace team: found auto, but this cluster serves coscheduling and volcano and native; name one of them"
    );
    assert_eq!(
        line(&mpi(), "kai", all),
        "label portcullis.dev/gang of namespace team: found \"kai\", expected coscheduling, volcano, native or auto"
    );
    let plain = mpi().with("/spec/runPolicy", json!({}));
    assert_eq!(
        line(&plain, "kai", all),
        "NotOptedIn",
        "what asks for no gang is let through"
    );
    assert_eq!(line(&plain, "auto", all), "NotOptedIn");
    assert_eq!(
        line(&chosen("coscheduling,volcano"), "native", all),
        "metadata.annotations[portcullis.dev/gang-scheduler]: found \"coscheduling,volcano\", expected coscheduling, volcano, native or auto"
    );
}
