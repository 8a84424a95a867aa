//! What is seen of a job -> the next steps, one test for each row of the life of a PodGroup.

mod copies;
mod marks;
mod old_pods;
mod scene;

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::names;
use crate::reconcile::gang::execute::Step;
use crate::reconcile::gang::observed::LauncherSeen;
use crate::reconcile::gang::store::PodCount;

use scene::Scene;

/// As the webhook leaves it: held, with marks.
fn held() -> Value {
    let mut job = running();
    job["metadata"]["annotations"] = json!({names::HELD: "true"});
    job["spec"]["runPolicy"]["suspend"] = true.into();
    job
}

fn running() -> Value {
    let template = json!({
        "metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "train", names::POD_GROUP: "train"}},
        "spec": {
            "schedulerName": "scheduler-plugins-scheduler",
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
        },
    });
    job(template)
}

fn job(template: Value) -> Value {
    json!({
        "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
        "metadata": {"name": "train", "namespace": "n", "uid": "j1", "resourceVersion": "5"},
        "spec": {
            "runPolicy": {"schedulingPolicy": {}},
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": template},
                "Worker": {"replicas": 2, "template": template},
            },
        },
    })
}

fn unmarked() -> Value {
    job(json!({"spec": {"containers": [{"name": "main"}]}}))
}

fn suspended(mut job: Value) -> Value {
    job["spec"]["runPolicy"]["suspend"] = true.into();
    job
}

fn ended(mut job: Value) -> Value {
    job["status"] = json!({
        "completionTime": "2026-01-02T03:04:05Z",
        "conditions": [{"type": "Succeeded", "status": "True"}],
    });
    job
}

#[test]
fn a_held_job_is_released_once_its_group_stands_in_the_api() {
    let mut scene = Scene::of(held());
    assert_eq!(scene.words(), "create PodGroup");
    scene = scene.with_its_groups();
    assert_eq!(scene.words(), "release [2]");
    scene.memory.proven = BTreeSet::new();
    assert_eq!(scene.words(), "look at podgroups", "a watch alone is no proof");
}

#[test]
fn at_rest_nothing_is_written() {
    let mut scene = Scene::of(running()).with_its_groups();
    assert_eq!(scene.words(), "nothing");
    scene.groups[0]["spec"]["minResources"]["cpu"] = "3000m".into();
    scene.groups[0]["status"] = json!({"phase": "Running"});
    assert_eq!(
        scene.words(),
        "nothing",
        "the same amount, and a status of others"
    );
}

#[test]
fn a_changed_job_changes_its_group() {
    let mut scene = Scene::of(running()).with_its_groups();
    scene.job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = 4.into();
    assert_eq!(scene.words(), "update PodGroup");
    scene.memory.met_owner = 2;
    assert_eq!(
        scene.words(),
        "stand down [1]",
        "somebody else writes the same fields"
    );
}

#[test]
fn a_suspended_job_has_no_group_once_its_pods_are_gone() {
    let mut scene = Scene::of(running()).with_its_groups();
    scene.job = suspended(running());
    scene.pods.active = 1;
    assert_eq!(scene.words(), "nothing");
    scene.pods.active = 0;
    assert_eq!(scene.words(), "delete podgroups g0");
    scene.groups.clear();
    assert_eq!(scene.words(), "nothing", "a user's own suspend is his");
}

#[test]
fn a_finished_job_keeps_its_group_while_pods_run() {
    let mut scene = Scene::of(running()).with_its_groups();
    scene.job = ended(running());
    scene.pods.active = 2;
    assert_eq!(scene.words(), "nothing");
    scene.pods.active = 0;
    assert_eq!(scene.words(), "delete podgroups g0");
}

#[test]
fn a_group_of_somebody_else_is_left_alone_and_the_job_waits_for_ever() {
    let mut scene = Scene::of(held()).with_its_groups();
    let said = |scene: &Scene| scene.plan().notices[0].sentence.clone();
    scene.groups[0]["metadata"]["ownerReferences"][0]["kind"] = "TFJob".into();
    scene.groups[0]["metadata"]["ownerReferences"][0]["uid"] = "other".into();
    assert!(said(&scene).starts_with("the job waits: PodGroup train belongs to TFJob train"));
    scene.groups[0]["metadata"]["ownerReferences"] = json!([]);
    assert!(
        said(&scene).contains("is left of a job that is gone"),
        "{}",
        said(&scene)
    );
    scene.groups[0]["metadata"]["labels"] = Value::Null;
    assert!(said(&scene).contains("belongs to nobody"), "{}", said(&scene));
    let running = Scene {
        groups: scene.groups.clone(),
        ..Scene::of(running())
    };
    assert!(said(&running).starts_with("the job's pods have no group of their own"));
    assert_eq!(scene.words(), "say PodGroupConflict");
    scene.memory.held_since = Some(scene.now - Duration::from_secs(3600));
    scene.now += Duration::from_secs(3600);
    assert_eq!(scene.words(), "say PodGroupConflict");
    assert!(scene.plan().look_again.is_some());
}

#[test]
fn a_group_that_the_job_adopts_is_waited_for_by_its_name() {
    for (label, api_version) in [
        ("coscheduling", "scheduling.x-k8s.io/v1alpha1"),
        ("volcano", "scheduling.volcano.sh/v1beta1"),
        ("native", "scheduling.k8s.io/v1beta1"),
    ] {
        let mut job = suspended(unmarked());
        job["metadata"]["annotations"] = json!({names::HELD: "true", names::ADOPT_PODGROUP: "theirs"});
        let mut scene = Scene {
            label: Some(label),
            ..Scene::of(job)
        };
        scene.memory.launcher = LauncherSeen::Good;
        scene.memory.held_since = Some(scene.now - Duration::from_secs(3600));
        assert_eq!(scene.words(), "say WaitingForPodGroup", "{label}");
        let said = &scene.plan().notices[0].sentence;
        assert!(said.contains("podgroups theirs, which does not exist"), "{said}");
        scene.groups.push(json!({
            "apiVersion": api_version, "kind": "PodGroup",
            "metadata": {"name": "theirs", "namespace": "n", "uid": "g", "resourceVersion": "9",
                "deletionTimestamp": "2026-01-02T03:04:05Z"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 5}}},
        }));
        assert_eq!(scene.words(), "say WaitingForPodGroup", "{label}: it goes");
        scene.groups[0]["metadata"]["deletionTimestamp"] = Value::Null;
        assert!(
            scene
                .words()
                .starts_with(["release", "mark"][usize::from(label != "native")]),
            "{label}: {}",
            scene.words()
        );
    }
}

#[test]
fn a_group_that_goes_is_waited_for() {
    let mut scene = Scene::of(held()).with_its_groups();
    scene.groups[0]["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
    assert_eq!(scene.words(), "say WaitingForOldGroup");
    let mut scene = Scene::of(held()).with_its_groups();
    scene.groups[0]["metadata"]["ownerReferences"][0]["uid"] = "j0".into();
    assert_eq!(
        scene.words(),
        "say WaitingForOldGroup",
        "of an earlier job of this name"
    );
}

#[test]
fn an_operator_with_its_own_gangs_is_left_to_them() {
    let mut scene = Scene::of(held()).with_its_groups();
    scene.groups[0]["metadata"]["labels"] = json!({});
    assert_eq!(
        scene.words(),
        "stand down [3]",
        "annotation, and the end of the hold"
    );
    let mut job = running();
    job["metadata"]["annotations"] = json!({names::STAND_DOWN: "its operator makes the PodGroup"});
    let scene = Scene::of(job);
    assert_eq!(scene.words(), "say OperatorManagesPodGroup");
}

#[test]
fn a_hold_ends_where_nothing_is_to_wait_for() {
    let label_gone = Scene {
        label: None,
        ..Scene::of(held())
    };
    assert_eq!(
        label_gone.words(),
        "mark [4]",
        "the names of its scheduler go first"
    );
    let dispatched = Scene {
        dispatched: true,
        ..Scene::of(held())
    };
    assert_eq!(dispatched.words(), "mark [4], say GangUnsupported");
    let mut no_policy = Scene::of(held());
    no_policy.job["spec"]["runPolicy"]["schedulingPolicy"] = Value::Null;
    assert_eq!(no_policy.words(), "mark [4]");
    let mut unreadable = Scene::of(held());
    unreadable.job["spec"]["runPolicy"]["schedulingPolicy"] = json!({"minResources": {"cpu": "1.5.0"}});
    assert_eq!(unreadable.words(), "release [2], say InvalidJob");
}

#[test]
fn a_hold_times_out_while_the_gang_scheduler_is_not_there() {
    let mut scene = Scene::of(held());
    scene.served.coscheduling = false;
    scene.memory.held_since = Some(scene.now);
    assert_eq!(scene.words(), "say GangSchedulerNotServed");
    assert_eq!(scene.plan().look_again, Some(Duration::from_secs(60)));
    scene.now += Duration::from_secs(60);
    assert_eq!(
        scene.words(),
        "release [2], say GangSchedulerNotServed, say HoldTimedOut"
    );
}

#[test]
fn a_job_that_nobody_marked_gets_no_group_once_it_runs() {
    let scene = Scene::of(unmarked());
    assert_eq!(scene.words(), "say NotGangScheduled");
}

#[test]
fn a_held_job_that_nobody_marked_is_marked_and_its_early_launcher_made_anew() {
    let mut job = suspended(unmarked());
    job["metadata"]["annotations"] = json!({names::HELD: "true"});
    let mut scene = Scene::of(job).with_its_groups();
    assert_eq!(
        scene.words(),
        "mark [2]",
        "names of the scheduler, which a launcher never takes over"
    );
    for role in ["Launcher", "Worker"] {
        scene.job["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]["schedulerName"] =
            "scheduler-plugins-scheduler".into();
    }
    assert_eq!(scene.words(), "look for a launcher");
    scene.memory.launcher = LauncherSeen::Deleted(scene.now);
    assert_eq!(scene.words(), "look for a launcher", "its operator makes it anew");
    scene.memory.launcher = LauncherSeen::Good;
    assert_eq!(
        scene.words(),
        "release [4]",
        "the labels of both templates, and the hold"
    );
}

#[test]
fn nothing_is_made_before_the_list_of_groups_is_complete() {
    let scene = Scene {
        listed: false,
        ..Scene::of(held())
    };
    assert_eq!(scene.words(), "nothing");
}

#[test]
fn a_native_group_has_a_workload_first_and_a_fresh_name_while_the_old_one_goes() {
    let native = |job| Scene {
        label: Some("native"),
        ..Scene::of(job)
    };
    let mut job = suspended(unmarked());
    job["metadata"]["annotations"] = json!({names::HELD: "true"});
    let mut scene = native(job);
    assert_eq!(scene.words(), "create Workload");
    scene = scene.with_its_groups();
    let kinds: Vec<&str> = scene
        .groups
        .iter()
        .map(|object| object["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["Workload", "PodGroup"]);
    assert_eq!(
        scene.groups[1]["metadata"]["ownerReferences"][1]["uid"], "g0",
        "the Workload is an owner too"
    );
    scene.memory.launcher = LauncherSeen::Good;
    assert_eq!(
        scene.words(),
        "release [4]",
        "metadata of both templates, and the hold"
    );
    let first = scene.groups[1]["metadata"]["name"].clone();
    scene.groups[1]["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
    let Some(Step::Create { object, .. }) = scene.plan().steps.into_iter().next() else {
        panic!("{}", scene.words());
    };
    assert_eq!(object["kind"], "PodGroup");
    assert_ne!(object["metadata"]["name"], first);
}

#[test]
fn a_native_group_that_waits_says_so_again_and_again() {
    let mut job = suspended(unmarked());
    job["metadata"]["annotations"] = json!({names::HELD: "true"});
    let mut scene = Scene {
        label: Some("native"),
        ..Scene::of(job)
    };
    scene = scene.with_its_groups();
    scene.memory.launcher = LauncherSeen::Good;
    let Some(Step::PatchJob { operations, .. }) = scene.plan().steps.pop() else {
        panic!("{}", scene.words());
    };
    json_patch::patch(&mut scene.job, &operations).unwrap();
    assert_eq!(scene.words(), "nothing");
    scene.pods.active = 2;
    assert_eq!(scene.words(), "say WaitingForGang");
    assert!(scene.plan().look_again.is_some(), "an Event may be lost");
    scene.pods = PodCount {
        active: 3,
        bound: 3,
        succeeded: 0,
    };
    assert_eq!(
        (scene.words().as_str(), scene.plan().look_again),
        ("nothing", None)
    );
}

#[test]
fn a_job_that_its_user_suspended_names_its_next_native_group_before_it_is_resumed() {
    let scene = Scene {
        label: Some("native"),
        ..Scene::of(suspended(unmarked()))
    };
    assert_eq!(scene.words(), "mark [2]");
}

#[test]
fn a_claim_on_a_job_that_runs_is_dropped_so_that_its_next_suspend_is_its_users() {
    let mut job = running();
    job["metadata"]["annotations"] = json!({names::HELD: "true"});
    let mut scene = Scene::of(job).with_its_groups();
    assert_eq!(scene.words(), "drop our claim [1]");
    scene.label = None;
    assert_eq!(scene.words(), "drop our claim [1]");
    scene.job["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
    assert_eq!(scene.words(), "nothing");
}
