//! Copies on a worker: their pair opens them, and their marks are never touched.

use std::time::Duration;

use serde_json::{Value, json};

use super::scene::Scene;
use super::{ended, running, suspended, unmarked};
use crate::names;
use crate::reconcile::gang::scope::Stage;
use crate::reconcile::gang::store::PodCount;

fn copy() -> Value {
    let mut job = suspended(running());
    job["metadata"]["annotations"] = json!({names::UNCOMMITTED: names::TRUE, names::LOCAL_UID: "L1"});
    job
}

fn scene(job: Value, stage: Stage) -> Scene {
    let mut scene = Scene::of(job);
    scene.copy = Some(stage);
    scene
}

#[test]
fn a_copy_gets_its_group_after_its_commit_and_is_opened_by_its_pair() {
    assert_eq!(scene(copy(), Stage::Uncommitted).words(), "nothing");
    let mut scene = scene(copy(), Stage::Committed);
    assert_eq!(scene.words(), "create PodGroup");
    scene = scene.with_its_groups();
    assert_eq!(scene.words(), "may open");
    scene.memory.proven.clear();
    assert_eq!(scene.words(), "look at podgroups", "a watch alone is no proof");
    scene.listed = false;
    assert_eq!(scene.words(), "nothing", "its list tells");
}

#[test]
fn a_group_of_a_copy_that_is_refused_lets_it_go_in_time() {
    let mut scene = scene(copy(), Stage::Committed);
    let began = scene.now;
    scene.memory.held_since = Some(began);
    scene.memory.refused = Some("no groups today".to_owned());
    scene.now = began + Duration::from_secs(59);
    assert_eq!(scene.words(), "create PodGroup");
    scene.now = began + Duration::from_secs(60);
    assert_eq!(scene.words(), "may open, say HoldTimedOut");
}

#[test]
fn a_scheduler_that_is_not_served_any_more_is_awaited_until_the_hold_ends() {
    let mut scene = scene(copy(), Stage::Committed);
    scene.served.coscheduling = false;
    scene.memory.held_since = Some(scene.now);
    assert_eq!(scene.words(), "say GangSchedulerNotServed");
    scene.now += Duration::from_secs(60);
    assert_eq!(
        scene.words(),
        "may open, say GangSchedulerNotServed, say HoldTimedOut"
    );
}

#[test]
fn marks_of_a_copy_are_neither_added_nor_taken_away() {
    let mut other = scene(copy(), Stage::Committed);
    other.label = Some("volcano");
    assert_eq!(
        other.words(),
        "create PodGroup",
        "that of the scheduler it was made for"
    );
    let mut opened = scene(suspended(running()), Stage::Opened);
    opened.label = Some("volcano");
    assert_eq!(opened.words(), "nothing");
    let unmarked = scene(suspended(unmarked()), Stage::Opened);
    assert_eq!(unmarked.words(), "nothing");
}

#[test]
fn pods_of_an_earlier_start_are_waited_for() {
    let mut scene = scene(copy(), Stage::Committed);
    scene.pods = PodCount {
        active: 1,
        bound: 1,
        succeeded: 0,
    };
    assert_eq!(scene.words(), "say WaitingForOldGroup");
}

#[test]
fn the_group_of_an_opened_copy_follows_it_to_its_end() {
    let mut scene = scene(running(), Stage::Opened).with_its_groups();
    assert_eq!(scene.words(), "nothing");
    scene.job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = 4.into();
    assert_eq!(scene.words(), "update PodGroup");
    scene.job = suspended(running());
    scene.pods.active = 1;
    assert_eq!(scene.words(), "nothing");
    scene.pods.active = 0;
    assert_eq!(scene.words(), "delete podgroups g0");
    scene.job = ended(running());
    assert_eq!(scene.words(), "delete podgroups g0");
}

/// Whoever manages it keeps it when the job is suspended: after a resume nobody else would make it.
#[test]
fn a_group_that_is_left_to_somebody_else_stays() {
    let mut scene = scene(running(), Stage::Opened).with_its_groups();
    scene.job["metadata"]["annotations"] = json!({names::STAND_DOWN: "bob writes it; undo that"});
    for job in [scene.job.clone(), suspended(scene.job.clone())] {
        scene.job = job;
        assert_eq!(scene.words(), "say OperatorManagesPodGroup");
    }
    assert_eq!(
        scene.plan().notices[0].sentence,
        "bob writes it; undo that (metadata.annotations[portcullis.dev/stand-down]), on the copy there"
    );
    scene.job = ended(scene.job);
    assert_eq!(scene.words(), "delete podgroups g0");
}

#[test]
fn a_launcher_that_was_to_wait_is_told_to_start_early() {
    let mut job = copy();
    job["spec"]["launcherCreationPolicy"] = "WaitForWorkersReady".into();
    let held = scene(job, Stage::Committed);
    assert_eq!(held.words(), "create PodGroup, say LauncherStartsEarly");
    let group = match &held.plan().steps[0] {
        crate::reconcile::gang::execute::Step::Create { object, .. } => object.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(group["spec"]["minMember"], 2, "its workers");
}

/// The marks of a copy are all that names its native group: it has had no UID when they were made.
#[test]
fn a_native_group_of_a_copy_has_the_name_of_its_marks() {
    let mut job = suspended(unmarked());
    job["metadata"]["annotations"] = json!({names::UNCOMMITTED: names::TRUE, names::LOCAL_UID: "L1"});
    for role in ["Launcher", "Worker"] {
        job["spec"]["mpiReplicaSpecs"][role]["template"]["metadata"] = json!({"labels": {names::POD_GROUP: "train-0a1b2c3d"}, "annotations": {names::GANG_SCHEDULER: "native"}});
    }
    let mut scene = scene(job, Stage::Committed);
    scene.label = Some("native");
    assert_eq!(scene.words(), "create Workload");
    scene = scene.with_its_groups();
    assert_eq!(scene.words(), "may open");
    let named = |scene: &Scene| {
        scene
            .groups
            .iter()
            .any(|group| group["metadata"]["name"] == "train-0a1b2c3d")
    };
    assert!(named(&scene), "{:?}", scene.groups);
}
