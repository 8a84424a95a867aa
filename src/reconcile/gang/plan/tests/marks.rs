//! Marks on the templates of jobs that are suspended: they come late, go, or change.

use serde_json::{Value, json};

use super::scene::Scene;
use super::{held, running, suspended, unmarked};
use crate::names;
use crate::reconcile::gang::execute::Step;
use crate::reconcile::gang::observed::LauncherSeen;

impl Scene {
    /// Takes the steps until nothing is left to do; answers them in words.
    fn run(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        while said.len() < 12 {
            let plan = self.plan();
            let Some(step) = plan.steps.first() else { break };
            said.push(self.words().split(['[', ',']).next().unwrap().trim().to_owned());
            match step {
                Step::PatchJob { operations, .. } => {
                    json_patch::patch(&mut self.job, operations).unwrap();
                    self.memory.launcher = LauncherSeen::Unknown;
                }
                Step::Launcher { .. } => self.memory.launcher = LauncherSeen::Good,
                Step::Delete { uid, .. } => self.groups.retain(|group| group["metadata"]["uid"] != **uid),
                Step::Create { object, .. } => {
                    let mut object = (**object).clone();
                    object["metadata"]["uid"] = format!("new{}", said.len()).into();
                    object["metadata"]["resourceVersion"] = "1".into();
                    self.groups.push(object);
                }
                Step::Look { .. } => {
                    let uids = self.groups.iter().map(|group| group["metadata"]["uid"].as_str());
                    self.memory.proven = uids.flatten().map(Into::into).collect();
                }
                Step::Update { .. } => panic!("{step:?}"),
            }
        }
        said
    }

    fn marks(&self) -> String {
        let template = &self.job["spec"]["mpiReplicaSpecs"]["Worker"]["template"];
        let mut keys: Vec<&str> = ["labels", "annotations"]
            .iter()
            .filter_map(|map| template["metadata"][map].as_object())
            .flat_map(|map| map.keys().map(String::as_str))
            .collect();
        keys.sort_unstable();
        format!("{} {}", keys.join(" "), template["spec"]["schedulerName"])
    }
}

const NONE: &str = " null";
const VOLCANO: &str =
    "portcullis.dev/pod-group scheduling.k8s.io/group-name volcano.sh/task-spec \"volcano\"";
const COSCHEDULING: &str =
    "portcullis.dev/pod-group scheduling.x-k8s.io/pod-group \"scheduler-plugins-scheduler\"";
const NATIVE: &str = "portcullis.dev/gang-scheduler portcullis.dev/pod-group null";

/// Kueue's jobs too: its webhook suspends them, and ours was down.
#[test]
fn a_job_that_others_suspended_is_marked_before_they_start_it() {
    for (label, marks) in [
        ("coscheduling", COSCHEDULING),
        ("volcano", VOLCANO),
        ("native", NATIVE),
    ] {
        let mut scene = Scene {
            label: Some(label),
            ..Scene::of(suspended(unmarked()))
        };
        let steps = scene.run();
        let expected: &[&str] = match label {
            "native" => &["mark"],
            _ => &["mark", "look for a launcher", "mark"],
        };
        assert_eq!(steps, expected, "{label}");
        assert_eq!(scene.marks(), marks);
        assert_eq!(scene.words(), "nothing");
        scene.pods.active = 1;
        assert_eq!(scene.words(), "nothing");
    }
}

#[test]
fn a_suspended_job_gets_the_marks_of_the_gang_scheduler_that_is_asked_for_now() {
    let mut scene = Scene::of(running()).with_its_groups();
    scene.job = suspended(running());
    for (label, marks) in [
        ("volcano", VOLCANO),
        ("native", NATIVE),
        ("coscheduling", COSCHEDULING),
    ] {
        scene.label = Some(label);
        scene.pods.active = 1;
        assert_eq!(scene.words(), "nothing", "its pods still go");
        scene.pods.active = 0;
        let steps = scene.run();
        assert!(steps.len() < 12, "{steps:?}");
        assert_eq!(scene.marks(), marks, "{steps:?}");
        assert!(scene.groups.is_empty(), "{steps:?}");
    }
    scene.label = None;
    assert_eq!(scene.run(), ["mark", "look for a launcher", "mark"]);
    assert_eq!(scene.marks(), NONE);
    assert_eq!(scene.words(), "nothing");
}

#[test]
fn a_held_job_goes_over_to_the_gang_scheduler_that_is_asked_for_now() {
    let mut scene = Scene::of(held()).with_its_groups();
    scene.label = Some("volcano");
    let steps = scene.run();
    assert_eq!(
        steps.first().map(String::as_str),
        Some("delete podgroups g0"),
        "{steps:?}"
    );
    assert_eq!(steps.last().map(String::as_str), Some("release"), "{steps:?}");
    assert_eq!(scene.marks(), VOLCANO);
    assert_eq!(scene.groups.len(), 1);
    assert_eq!(scene.groups[0]["apiVersion"], "scheduling.volcano.sh/v1beta1");
}

#[test]
fn a_job_that_runs_stays_with_the_gang_scheduler_that_started_it() {
    let mut scene = Scene::of(running()).with_its_groups();
    scene.pods.active = 3;
    for label in ["volcano", "native", "auto"] {
        scene.label = Some(label);
        assert_eq!(scene.words(), "nothing", "{label}");
    }
    scene.job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = 4.into();
    assert_eq!(scene.words(), "update PodGroup");
}

#[test]
fn a_job_that_asks_for_no_gang_any_more_loses_its_marks() {
    let opt_out = |mut job: Value| {
        job["metadata"]["annotations"][names::GANG_SCHEDULING] = "false".into();
        job
    };
    let mut scene = Scene::of(opt_out(suspended(running())));
    assert_eq!(scene.run(), ["mark", "look for a launcher", "mark"]);
    assert_eq!(scene.marks(), NONE);
    let mut scene = Scene::of(opt_out(held()));
    assert_eq!(scene.run(), ["mark", "look for a launcher", "release"]);
    assert_eq!(scene.marks(), NONE);
}

/// The launcher's Job has the labels of its template, and is suspended with its MPIJob.
#[test]
fn a_job_that_belongs_to_another_is_left_as_it_is() {
    let template = running()["spec"]["mpiReplicaSpecs"]["Worker"]["template"].clone();
    let owner = json!([{"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "name": "train", "uid": "j1", "controller": true}]);
    let launcher = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "train-launcher", "namespace": "n", "uid": "j1", "resourceVersion": "5", "ownerReferences": owner},
        "spec": {"suspend": true, "template": template},
    });
    for label in [Some("coscheduling"), Some("volcano"), None] {
        let scene = Scene {
            label,
            ..Scene::of(launcher.clone())
        };
        assert_eq!(scene.words(), "nothing", "{label:?}");
    }
}

/// The API server takes no other scheduler's name in the template of a Job, suspended or not.
#[test]
fn a_job_whose_template_cannot_be_marked_is_not_held_for_ever() {
    let job = |annotations: Value, scheduler: &str| {
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "train", "namespace": "n", "uid": "j1", "resourceVersion": "5", "annotations": annotations},
            "spec": {"suspend": true, "parallelism": 2, "template": {
                "metadata": {"labels": {}},
                "spec": {"schedulerName": scheduler, "containers": [{"name": "main"}]},
            }},
        })
    };
    let asked = json!({names::GANG_SCHEDULING: "true"});
    let mut claimed = asked.clone();
    claimed[names::HELD] = "true".into();
    let scene = Scene::of(job(claimed.clone(), "default-scheduler"));
    assert_eq!(scene.words(), "release [2], say NotGangScheduled");
    let scene = Scene::of(job(asked.clone(), "default-scheduler"));
    assert_eq!(scene.words(), "say NotGangScheduled");
    let scene = Scene::of(job(asked, "scheduler-plugins-scheduler"));
    assert_eq!(scene.words(), "mark [2]", "labels can come");
    let native = Scene {
        label: Some("native"),
        ..Scene::of(job(claimed, "default-scheduler"))
    };
    assert_eq!(native.words(), "create Workload");
}

#[test]
fn marks_that_are_refused_end_the_hold_in_time() {
    let mut scene = Scene::of(held());
    scene.job["spec"]["mpiReplicaSpecs"]["Worker"]["template"] = json!({"spec": {"containers": []}});
    scene = scene.with_its_groups();
    assert_eq!(scene.words(), "mark [1]");
    scene.memory.refused = Some("no marks today".to_owned());
    scene.memory.held_since = Some(scene.now);
    assert_eq!(scene.words(), "mark [1]");
    scene.now += std::time::Duration::from_secs(60);
    assert_eq!(scene.words(), "release [2], say HoldTimedOut");
}
