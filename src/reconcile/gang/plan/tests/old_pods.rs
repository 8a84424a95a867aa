//! Pods that are left of an earlier start or job of a name.

use std::time::Duration;

use serde_json::json;

use super::scene::Scene;
use super::{suspended, unmarked};
use crate::names;
use crate::reconcile::gang::observed::LauncherSeen;
use crate::reconcile::gang::store::PodCount;

#[test]
fn pods_of_an_earlier_job_of_this_name_are_waited_for_however_long_they_take() {
    for (label, waits) in [("coscheduling", true), ("volcano", true), ("native", false)] {
        let mut job = suspended(unmarked());
        job["metadata"]["annotations"] = json!({names::HELD: "true"});
        let mut scene = Scene {
            label: Some(label),
            ..Scene::of(job)
        };
        scene.memory.launcher = LauncherSeen::Good;
        let first = scene.words();
        scene.memory.held_since = Some(scene.now);
        scene.now += Duration::from_secs(3600);
        (scene.pods.active, scene.pods.bound) = (1, 1);
        let now = scene.words();
        assert_eq!(now == "say WaitingForOldGroup", waits, "{label}: {now}");
        let mut standing = Scene {
            pods: PodCount::default(),
            ..scene
        };
        standing.now -= Duration::from_secs(3600);
        assert_eq!(standing.words(), first, "{label}: they are gone");
        let mut standing = standing.with_its_groups();
        (standing.pods.active, standing.pods.bound) = (1, 1);
        let now = standing.words();
        assert_eq!(
            now == "say WaitingForOldGroup",
            waits,
            "{label}, with its group: {now}"
        );
    }
}

#[test]
fn a_group_of_somebody_else_is_told_before_its_pods() {
    let mut job = suspended(unmarked());
    job["metadata"]["annotations"] = json!({names::HELD: "true"});
    let mut scene = Scene::of(job).with_its_groups();
    scene.groups[0]["metadata"]["ownerReferences"][0]["kind"] = "TFJob".into();
    scene.groups[0]["metadata"]["ownerReferences"][0]["uid"] = "other".into();
    scene.pods.bound = 2;
    assert_eq!(scene.words(), "say PodGroupConflict");
}

#[test]
fn before_the_list_of_pods_is_complete_nothing_is_released() {
    let mut job = suspended(unmarked());
    job["metadata"]["annotations"] = json!({names::HELD: "true"});
    let mut scene = Scene::of(job).with_its_groups();
    scene.memory.launcher = LauncherSeen::Good;
    scene.pods_listed = false;
    assert_eq!(scene.words(), "nothing");
    scene.pods_listed = true;
    assert!(scene.words().starts_with("mark"), "{}", scene.words());
}
