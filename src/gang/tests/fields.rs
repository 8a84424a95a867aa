//! Queue, priority, timeout and annotations of the group.

use serde_json::{Value, json};

use super::words::{Case, check, job};
use crate::gang::volcano::QUEUE_NAME;
use crate::gang::*;

fn mpi() -> Case {
    job("MPIJob", "L1 W2")
}

fn volcano() -> Case {
    mpi().on(BackEnd::Volcano)
}

fn annotated(case: Case, key: &str, value: &str) -> Case {
    case.with(
        &format!("/metadata/annotations/{}", key.replace('/', "~1")),
        json!(value),
    )
}

/// One field of the group's object; null if it is absent.
#[track_caller]
fn field(case: &Case, pointer: &str) -> Value {
    case.objects()[0].pointer(pointer).cloned().unwrap_or_default()
}

#[test]
fn every_row_of_queues() {
    let both = annotated(volcano(), QUEUE_NAME, "project-x").policy("queue", json!("project-y"));
    let production = job("MPIJob v1", "L1 W2")
        .on(BackEnd::Volcano)
        .policy("queue", json!("production"));
    for (id, case, queue) in [
        ("V73", both, json!("project-y")),
        (
            "V74",
            annotated(volcano(), QUEUE_NAME, "project-x"),
            json!("project-x"),
        ),
        ("V75", volcano(), json!(null)),
        (
            "V75 with a default",
            volcano().settings(|settings| settings.volcano_default_queue = Some("batch".to_owned())),
            json!("batch"),
        ),
        ("V77", volcano().policy("queue", json!("")), json!(null)),
        ("V78", volcano().policy("queue", json!("q1")), json!("q1")),
        ("V78 changed", volcano().policy("queue", json!("q2")), json!("q2")),
        ("V80", production.clone(), json!("production")),
        ("V90", annotated(volcano(), QUEUE_NAME, ""), json!(null)),
        (
            "Kueue's queue is another thing",
            annotated(volcano(), "kueue.x-k8s.io/queue-name", "k"),
            json!(null),
        ),
    ] {
        assert_eq!(field(&case, "/spec/queue"), queue, "{id}");
    }
    // V80: the pods name our group from their creation on, so Volcano makes none of its own.
    let marked = production.gang().marks.apply(&production.job).unwrap();
    let annotation = marked
        .pointer("/spec/mpiReplicaSpecs/Worker/template/metadata/annotations/scheduling.k8s.io~1group-name");
    assert_eq!(annotation, Some(&json!("train")), "V80");
    check(vec![
        (
            "V81",
            mpi().policy("queue", json!("q1")),
            "3 of 3 |  | QueueIgnored",
        ),
        (
            "V90",
            annotated(volcano(), QUEUE_NAME, ""),
            "3 of 3 |  | EmptyQueue",
        ),
        (
            "no name of a queue",
            volcano().policy("queue", json!("Q_1")),
            "refused: spec.runPolicy.schedulingPolicy.queue",
        ),
        (
            "no name of a queue",
            annotated(volcano(), QUEUE_NAME, "-q"),
            "refused: metadata.annotations[scheduling.volcano.sh/queue-name]",
        ),
    ]);
    let annotation = "/metadata/annotations/portcullis.dev~1queue";
    assert_eq!(
        field(&mpi().policy("queue", json!("q1")), annotation),
        "q1",
        "V81"
    );
    assert_eq!(
        field(&mpi().policy("queue", json!("q1")), "/spec/queue"),
        json!(null),
        "V81"
    );
}

#[test]
fn every_row_of_priority_classes() {
    let named = |case: Case, launcher: &str, worker: &str| {
        let case = case.classes(&[("p", 1), ("l", 1), ("w", 1)]);
        let case = if launcher.is_empty() {
            case
        } else {
            case.class("Launcher", launcher)
        };
        if worker.is_empty() {
            case
        } else {
            case.class("Worker", worker)
        }
    };
    for (id, case, class) in [
        (
            "V82",
            named(volcano().policy("priorityClass", json!("p")), "l", "w"),
            json!("p"),
        ),
        ("V83 both", named(volcano(), "l", "w"), json!("l")),
        ("V83 worker", named(volcano(), "", "w"), json!("w")),
        ("V83 none", named(volcano(), "", ""), json!(null)),
    ] {
        assert_eq!(field(&case, "/spec/priorityClassName"), class, "{id}");
    }
    let policy = || volcano().policy("priorityClass", json!("p"));
    check(vec![
        ("V85", policy(), "3 of 3 |  | UnknownPriorityClass"),
        (
            "V85 strict",
            policy()
                .classes(&[("l", 1)])
                .settings(|settings| settings.strict_priority_class = true),
            "refused: spec.runPolicy.schedulingPolicy.priorityClass",
        ),
        (
            "V85 of the system",
            volcano()
                .policy("priorityClass", json!("system-cluster-critical"))
                .settings(|settings| settings.strict_priority_class = true),
            "3 of 3 |",
        ),
        (
            "coscheduling without propagation",
            mpi()
                .policy("priorityClass", json!("p"))
                .classes(&[("p", 0)])
                .settings(|settings| settings.propagate_priority = false),
            "3 of 3 |  | PriorityClassIgnored",
        ),
    ]);
}

#[test]
fn every_row_of_propagation() {
    let policy = || {
        mpi()
            .policy("priorityClass", json!("p"))
            .classes(&[("p", 1), ("l", 1)])
    };
    let classes = |case: &Case| -> Vec<Option<String>> {
        let marks = case.gang().marks.templates;
        marks.into_iter().map(|marks| marks.priority_class_name).collect()
    };
    let p = || Some("p".to_owned());
    assert_eq!(classes(&policy()), [p(), p()], "V84");
    let off = policy().settings(|settings| settings.propagate_priority = false);
    assert_eq!(classes(&off), [None, None], "V84 off");
    let set = policy().class("Launcher", "l");
    assert_eq!(classes(&set), [None, p()], "a template's own class stays");
    assert_eq!(set.line(), "3 of 3 |  | MixedPriorities");
}

/// The API server makes no pod with a class that does not exist, and no native group either.
#[test]
fn a_class_that_does_not_exist_goes_on_no_pod() {
    let typo = |back_end| {
        mpi()
            .on(back_end)
            .policy("priorityClass", json!("typo"))
            .classes(&[("l", 1)])
    };
    let said = |case: &Case| case.gang().notices.remove(0).sentence;
    let native = BackEnd::Native(NativeVersion::V1beta1);
    for (back_end, class) in [
        (BackEnd::Coscheduling, json!(null)),
        (BackEnd::Volcano, json!("typo")),
        (native, json!(null)),
    ] {
        let case = typo(back_end);
        let marks = case.gang().marks.templates;
        assert!(marks.iter().all(|marks| marks.priority_class_name.is_none()));
        assert_eq!(field(&case, "/spec/priorityClassName"), class, "{back_end:?}");
        let named = case
            .objects()
            .iter()
            .any(|object| object.to_string().contains("typo"));
        assert_eq!(named, back_end == BackEnd::Volcano);
        assert_eq!(case.line(), "3 of 3 |  | UnknownPriorityClass", "{back_end:?}");
        assert!(
            said(&case).contains("\"typo\", so pods do not get it"),
            "{}",
            said(&case)
        );
        let launcher = case.class("Launcher", "l").class("Worker", "l");
        assert_eq!(
            launcher.line(),
            "3 of 3 |  | UnknownPriorityClass",
            "{back_end:?}"
        );
    }
    let own = typo(BackEnd::Coscheduling).class("Worker", "typo");
    assert!(
        said(&own).contains("no pod is made with it: spec.mpiReplicaSpecs.Worker"),
        "{}",
        said(&own)
    );
    let nothing_known = typo(BackEnd::Coscheduling).classes(&[]);
    assert_eq!(
        nothing_known.gang().marks.templates[0]
            .priority_class_name
            .as_deref(),
        Some("typo")
    );
}

#[test]
fn every_row_of_timeouts() {
    let seconds = |seconds: u32| mpi().policy("scheduleTimeoutSeconds", json!(seconds));
    for (id, case, timeout) in [
        ("V86", seconds(100), json!(100)),
        ("V86 nil", mpi(), json!(null)),
        ("V87", seconds(900), json!(900)),
        ("V87 changed", seconds(10), json!(10)),
        ("V88", seconds(30), json!(30)),
        ("zero is a value", seconds(0), json!(0)),
    ] {
        assert_eq!(field(&case, "/spec/scheduleTimeoutSeconds"), timeout, "{id}");
    }
    check(vec![(
        "Volcano",
        seconds(100).on(BackEnd::Volcano),
        "3 of 3 |  | TimeoutIgnored",
    )]);
}

#[test]
fn every_row_of_annotations() {
    let mut case = volcano();
    for key in [
        "volcano.sh/preemptable",
        "kubectl.kubernetes.io/last-applied-configuration",
        "foo/bar",
        QUEUE_NAME,
        "scheduling.volcano.sh/group-min-member",
    ] {
        case = annotated(case, key, "true");
    }
    assert_eq!(
        field(&case, "/metadata/annotations"),
        json!({"volcano.sh/preemptable": "true"}),
        "V89"
    );
    assert_eq!(
        field(&case.on(BackEnd::Coscheduling), "/metadata/annotations"),
        json!(null)
    );
}

/// V75, V111: the same job gives the same object, so there is nothing to write again.
#[test]
fn the_same_job_gives_the_same_object() {
    for back_end in [
        BackEnd::Coscheduling,
        BackEnd::Volcano,
        BackEnd::Native(NativeVersion::V1beta1),
    ] {
        let case = mpi().on(back_end);
        let first = case.objects();
        assert!((0..100).all(|_| case.objects() == first), "V111");
    }
}

#[test]
fn an_object_names_its_job() {
    let object = &mpi().objects()[0];
    let uid = "11111111-2222-3333-4444-555555555555";
    assert_eq!(
        object["metadata"],
        json!({
            "name": "train", "namespace": "team",
            "labels": {"app.kubernetes.io/managed-by": "portcullis", "portcullis.dev/job-uid": uid},
            "ownerReferences": [{"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "name": "train", "uid": uid,
                "controller": true, "blockOwnerDeletion": true}],
        })
    );
    let kind = mpi().settings(|settings| settings.name_style = NameStyle::Kind);
    assert_eq!(kind.objects()[0]["metadata"]["name"], "train-mpijob");
}

#[test]
fn volcano_knows_the_least_of_each_role_if_asked() {
    let asked = |case: Case| {
        case.on(BackEnd::Volcano)
            .settings(|settings| settings.volcano_task_minimums = true)
    };
    let minimums = |case: Case| field(&asked(case), "/spec/minTaskMember");
    assert_eq!(
        minimums(job("PyTorchJob", "M1 W4").min(3)),
        json!({"master": 1, "worker": 2})
    );
    assert_eq!(
        minimums(job("TFJob", "C1 PS2 W4").min(2)),
        json!(null),
        "fewer than must be there"
    );
    assert_eq!(minimums(job("PyTorchJob", "M1 W4")), json!(null), "all");
}

/// Admission cuts warnings at 120 characters; what matters stands before the path.
#[test]
fn what_kubectl_shows_is_short_or_ends_in_a_path() {
    let classes = || {
        mpi()
            .classes(&[("high", 9), ("low", 1)])
            .class("Launcher", "high")
    };
    let scheduler = "/template/spec/schedulerName";
    for (case, head) in [
        (
            mpi().min(2),
            "PartialGang: leave out spec.runPolicy.schedulingPolicy.minAvailable: 2 of 3 pods may start, but a MPIJob needs all",
        ),
        (
            mpi().wait_for_workers().min(3),
            "LauncherExcluded: the gang is 2 pods, for others come once these run: spec.runPolicy.schedulingPolicy.minAvailable",
        ),
        (
            classes().class("Worker", "low"),
            "MixedPriorities: PriorityClass \"low\" beside PriorityClass \"high\": spec.mpiReplicaSpecs.",
        ),
        (
            classes().policy("priorityClass", json!("typo")),
            "UnknownPriorityClass: there is no \"typo\", so pods do not get it: spec.runPolicy.schedulingPolicy.priorityClass",
        ),
        (
            mpi().role("Worker", scheduler, json!("theirs")),
            "SchedulerNameMismatch: \"theirs\" serves no group of coscheduling; name \"scheduler-plugins-scheduler\" or none: spec.",
        ),
        (
            volcano().policy("queue", json!("")),
            "EmptyQueue: an empty name of a queue counts as none: spec.runPolicy.schedulingPolicy.queue",
        ),
    ] {
        let notice = match case.decide().unwrap() {
            Decision::Gang(gang) => gang.notices[0].to_string(),
            Decision::Alone(notice) => notice.to_string(),
        };
        assert!(head.len() <= 120 && notice.starts_with(head), "{notice}");
    }
}
