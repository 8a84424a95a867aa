use expect_test::{Expect, expect};

use super::super::testing::{BEFORE, NOW, applied, dispatched, kind, local, mirrored, remote};
use super::*;

mod batch;
mod replay;
mod validation;

/// Shows the patch: `field: value`, one a line, lists one element a line; our condition goes without saying.
fn show(patch: Option<&Value>) -> String {
    let Some(patch) = patch else {
        return "nothing\n".to_owned();
    };
    let mut lines = String::new();
    for (field, value) in patch["status"].as_object().into_iter().flatten() {
        match value {
            Value::Array(elements) => {
                let others = elements
                    .iter()
                    .filter(|element| element["type"] != names::DISPATCHED);
                lines += &format!("{field}:\n");
                lines.extend(others.map(|element| format!("- {element}\n")));
            }
            value => lines += &format!("{field}: {value}\n"),
        }
    }
    lines
}

/// What a Job gets from its copy: that the API server would take it, and that the second pass has nothing to do.
#[track_caller]
fn patch_of_job(local: &Value, remote: &Value) -> Option<Value> {
    let kind = kind("Job");
    let patch = mirrored(kind, local, remote);
    if let Some(patch) = &patch {
        let after = applied(local, patch);
        assert_eq!(validation::refusals(local, &after), Vec::<&str>::new(), "{patch}");
        assert_eq!(
            mirrored(kind, &after, remote),
            None,
            "the second pass writes again"
        );
    }
    patch
}

#[track_caller]
#[allow(clippy::needless_pass_by_value)] // an Expect is the literal of its test
fn check(local: Value, remote: Value, expect: Expect) {
    let kind = kind("Job");
    let (local, remote) = (
        super::super::testing::local(kind, local),
        super::super::testing::remote(kind, remote),
    );
    expect.assert_eq(&show(patch_of_job(&local, &remote).as_ref()));
}

fn condition(kind: &str, status: &str) -> Value {
    json!({"type": kind, "status": status, "lastTransitionTime": BEFORE})
}

#[test]
fn only_the_committed_job_on_its_cluster_is_mirrored() {
    let kind = kind("Job");
    let (job, copy) = (
        local(kind, json!({})),
        remote(kind, json!({"status": {"active": 1}})),
    );
    let mut successor = copy.clone();
    successor["metadata"]["uid"] = "another".into();
    assert_eq!(mirrored(kind, &job, &successor), None);
    assert_eq!(mirror(kind, &job, &copy, &dispatched(), "worker-b", NOW), None);
    let restored = local(kind, json!({"metadata": {"uid": "restored"}}));
    assert_eq!(mirrored(kind, &restored, &copy), None);
}

/// Before it is open, a copy is suspended for our reasons, not for the user's.
#[test]
fn nothing_of_an_uncommitted_copy_is_shown_but_our_condition() {
    check(
        json!({}),
        json!({
            "metadata": {"annotations": {names::UNCOMMITTED: "true"}}, "spec": {"suspend": true},
            "status": {"conditions": [condition("Suspended", "True")]},
        }),
        expect![[r#"
            conditions:
        "#]],
    );
}

/// `kubectl get` shows the last condition of a MPIJob as its state.
#[test]
fn our_condition_is_the_first_of_all() {
    let kind = kind("MPIJob");
    let status = json!({"conditions": [condition("Created", "True"), condition("Running", "True"),
        {"type": names::DISPATCHED, "status": "True", "reason": "Worker", "message": "of another manager"}]});
    let job = local(
        kind,
        json!({"status": {"conditions": [condition("Created", "True")]}}),
    );
    let patch = mirrored(kind, &job, &remote(kind, json!({"status": status}))).unwrap();
    expect![[r#"
        {
          "metadata": {
            "resourceVersion": "7",
            "uid": "local-uid"
          },
          "status": {
            "conditions": [
              {
                "lastTransitionTime": "2026-11-30T10:00:00Z",
                "message": "on worker-a",
                "reason": "Open",
                "status": "True",
                "type": "portcullis.dev/Dispatched"
              },
              {
                "lastTransitionTime": "2026-11-30T09:00:00Z",
                "status": "True",
                "type": "Created"
              },
              {
                "lastTransitionTime": "2026-11-30T09:00:00Z",
                "status": "True",
                "type": "Running"
              }
            ]
          }
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&patch).unwrap());
}

/// The generations of the two clusters have nothing to do with each other.
#[test]
fn an_observed_generation_is_ours_or_none() {
    let kind = kind("JobSet");
    let status = |observed: u32| {
        let mut condition = condition("StartupPolicyCompleted", "True");
        condition["observedGeneration"] = observed.into();
        json!({"status": {"observedGeneration": observed, "conditions": [condition]}})
    };
    let job = local(kind, json!({"status": {"observedGeneration": 2}}));
    let shown = |observed| show(mirrored(kind, &job, &remote(kind, status(observed))).as_ref());
    expect![[r#"
        conditions:
        - {"lastTransitionTime":"2026-11-30T09:00:00Z","observedGeneration":3,"status":"True","type":"StartupPolicyCompleted"}
        observedGeneration: 3
    "#]].assert_eq(&shown(9));
    expect![[r#"
        conditions:
        - {"lastTransitionTime":"2026-11-30T09:00:00Z","status":"True","type":"StartupPolicyCompleted"}
    "#]]
    .assert_eq(&shown(8));
}
