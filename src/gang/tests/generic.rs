//! Kinds that opt in by annotation, and shapes of jobs whose kinds are not ours yet.

use serde_json::{Value, json};

use super::words::{Case, check, of, template};
use crate::gang::requests::Resources;
use crate::gang::*;

/// A JobSet whose nodes start when an initializer has completed.
pub(super) fn initialized(nodes: u32) -> Case {
    let initializer = replicated("dataset-initializer", 1, 1, "250m,512Mi");
    let mut node = replicated("node", 1, nodes, "500m,1Gi");
    node["dependsOn"] = json!([{"name": "dataset-initializer", "status": "Complete"}]);
    job_set(&[initializer, node])
}

fn replicated(name: &str, replicas: u32, parallelism: u32, resources: &str) -> Value {
    let spec =
        json!({"parallelism": parallelism, "completions": parallelism, "template": template(resources)});
    json!({"name": name, "replicas": replicas, "template": {"spec": spec}})
}

pub(super) fn job_set(jobs: &[Value]) -> Case {
    of(json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"name": "train", "namespace": "team", "annotations": {"portcullis.dev/gang-scheduling": "true"}},
        "spec": {"replicatedJobs": jobs},
    }))
}

fn batch_job(spec: &Value) -> Case {
    let mut case = of(json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "solve", "namespace": "team", "annotations": {"portcullis.dev/gang-scheduling": "true"}},
        "spec": spec,
    }));
    case.job["spec"]["template"] = template("1,1Gi");
    case
}

#[test]
fn a_stored_job_whose_template_cannot_change_is_to_be_made_anew() {
    let path = "spec.template.spec.schedulerName";
    let named =
        batch_job(&json!({"parallelism": 2})).with("/spec/template/spec/schedulerName", json!("theirs"));
    let said = |case: &Case| match case.decide() {
        Ok(Decision::Alone(notice)) => notice.to_string(),
        other => panic!("{other:?}"),
    };
    let named = named.on(BackEnd::Volcano);
    assert_eq!(
        said(&named),
        format!(
            "SchedulerNameMismatch: \"theirs\" serves no group of volcano; name \"volcano\" or none: {path}"
        )
    );
    assert_eq!(
        said(&named.stored()),
        format!(
            "SchedulerNameMismatch: \"theirs\" serves no group of volcano; create the job anew with \"volcano\" or none, for it cannot be changed: {path}"
        )
    );
}

#[test]
fn every_row_of_generic_kinds() {
    let two = || job_set(&[replicated("r1", 1, 1, "1,1Gi"), replicated("r2", 2, 4, "2,1Gi")]);
    let waves = batch_job(&json!({"parallelism": 4, "completions": 10}));
    check(vec![
        ("V137", two(), "9 of 9 | cpu 17, memory 9Gi"),
        (
            "V138",
            two().with("/spec/startupPolicy/startupPolicyOrder", json!("InOrder")),
            "1 of 9 | cpu 17, memory 9Gi",
        ),
        ("V142", batch_job(&json!({"parallelism": 4, "completions": 2})), "2 of 2 | cpu 2, memory 2Gi"),
        ("V142 left", waves.clone().with("/status/succeeded", json!(8)), "2 of 2 | cpu 2, memory 2Gi"),
        ("a wave", waves, "4 of 4 | cpu 4, memory 4Gi"),
        ("no numbers", batch_job(&json!({})), "1 of 1 | cpu 1, memory 1Gi"),
        (
            "its own group",
            batch_job(&json!({"parallelism": 4, "scheduling": {}})),
            "alone: UserManagedPodGroup",
        ),
        ("no annotation", two().with("/metadata/annotations", json!({})), "alone: NotOptedIn"),
        (
            "no annotation, but all",
            two().with("/metadata/annotations", json!({})).settings(|settings| settings.gang_all = true),
            "alone: NotOptedIn",
        ),
        (
            "another value",
            two().with("/metadata/annotations/portcullis.dev~1gang-scheduling", json!("yes")),
            "refused: metadata.annotations[portcullis.dev/gang-scheduling]",
        ),
        (
            "of a JobSet",
            batch_job(&json!({})).with(
                "/metadata/ownerReferences",
                json!([{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "a", "uid": "u", "controller": true}]),
            ),
            "alone: PartOfAnotherJob",
        ),
        ("V63", initialized(2), "2 of 2 | cpu 1, memory 2Gi"),
        ("V64", job_set(&[replicated("node", 1, 2, "500m,1Gi")]), "2 of 2 | cpu 1, memory 2Gi"),
        ("V66", job_set(&[replicated("node", 1, 1, "")]), "1 of 1 |"),
    ]);
}

/// kubeflow/pytorch-operator#186: pods of the gang that wait for others of it, wait for ever.
#[test]
fn what_ends_before_the_gang_gets_no_mark_and_what_comes_later_does() {
    let templates = |case: &Case| -> Vec<String> {
        case.gang()
            .marks
            .templates
            .iter()
            .map(|marks| marks.template.to_string())
            .collect()
    };
    assert_eq!(
        templates(&initialized(2)),
        ["spec.replicatedJobs[1].template.spec.template"]
    );
    let mut second = replicated("second", 1, 3, "1,1Gi");
    second["dependsOn"] = json!([{"name": "first", "status": "Ready"}]);
    let case = job_set(&[replicated("first", 1, 1, "1,1Gi"), second]);
    assert_eq!(case.line(), "1 of 4 | cpu 4, memory 4Gi");
    assert_eq!(templates(&case).len(), 2);
}

/// Kinds of section 6 that have no file yet are sets of pods like any other: what counts is who must exist at once.
#[test]
fn shapes_of_other_kinds_are_sets_of_pods() {
    let share = |count, minimum| Share {
        count,
        minimum,
        priority: 0,
    };
    for (id, shares, n, expected) in [
        ("V134", vec![share(1, 0), share(3 * 4, 0)], 13, vec![1, 12]),
        ("V135", vec![share(1, 1), share(3, 1)], 2, vec![1, 1]),
        ("V136", vec![share(1, 0), share(0, 0)], 1, vec![1, 0]),
        ("V68", vec![share(2, 2), share(2, 2)], 2, vec![2, 0]),
    ] {
        assert_eq!(first(&shares, n), expected, "{id}");
    }
    // V140, V141: one pod starts alone, those that come later need room from the start.
    let ready = |name: &str, after: &str, count, resources: &str| {
        let mut job = replicated(name, 1, count, resources);
        job["dependsOn"] = json!([{"name": after, "status": "Ready"}]);
        job
    };
    let leader = job_set(&[
        replicated("leader", 1, 1, "1,1Gi"),
        ready("worker", "leader", 3, "1,1Gi"),
    ]);
    assert_eq!(leader.line(), "1 of 4 | cpu 4, memory 4Gi", "V140");
    let driver = job_set(&[
        replicated("driver", 1, 1, "1,1408Mi"),
        ready("executor", "driver", 10, "1,1408Mi"),
    ]);
    assert_eq!(driver.line(), "1 of 11 | cpu 11, memory 15488Mi", "V141");
}

/// V67, V68, V70: Volcano's own job controller, per-role minimums first, then by priority.
#[test]
fn minimums_of_roles_come_before_priorities() {
    let requests = |milli: u64| Resources::from([("cpu".to_owned(), format!("{milli}m").parse().unwrap())]);
    for (id, minimums, worker_priority, n, cpu) in [
        ("V67", [2, 2], 0, 3, "200m"),
        ("V68", [2, 2], 0, 2, "100m"),
        ("V70", [1, 1], 10, 3, "250m"),
    ] {
        let share = |place: usize, priority| Share {
            count: 2,
            minimum: minimums[place],
            priority,
        };
        let taken = first(&[share(0, 0), share(1, worker_priority)], n);
        let mut sum = Resources::new();
        for (milli, taken) in [50, 100].into_iter().zip(&taken) {
            (0..*taken).for_each(|_| add(&mut sum, &requests(milli)));
        }
        let resources = MinResources::Computed {
            requests: sum,
            limits: Resources::new(),
            pods: taken.iter().sum(),
        };
        let keys = resources.with_quota_keys();
        let keys: Vec<String> = keys
            .iter()
            .map(|(key, amount)| format!("{key} {amount}"))
            .collect();
        assert_eq!(
            keys.join(", "),
            format!("count/pods {n}, cpu {cpu}, pods {n}, requests.cpu {cpu}"),
            "{id}"
        );
    }
}
