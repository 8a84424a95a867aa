//! Something on the worker undoes what a copy was given, or the copy.

use std::time::{Duration, Instant};

use serde_json::json;

use super::super::super::local::Subject;
use super::super::super::observed::{Forwarded, Memory};
use super::super::super::vain::Copies;
use super::super::{is_void, remembered};
use super::view::View;
use crate::reconcile::step::Step;
use crate::workload::jobs::{BatchJob, RayJob};

const SUSPENDED_THERE: &str = "L committed a/u1 dispatched; a: R u1 opened suspended; b: -";

fn forwards(view: &View) -> Vec<Step> {
    let steps = view.plan().steps.into_iter();
    steps
        .filter(|step| matches!(step, Step::Forward { .. }))
        .collect()
}

/// The memory after the copy was given the same so many times, the last `ago` before the view's now.
fn given(view: &View, times: u32, ago: u64) -> Memory {
    let step = &forwards(view)[0];
    let at = view.now() - Duration::from_secs(ago);
    let last = (0..times).fold(None, |last, _| remembered(last, step, at));
    Memory {
        forwarded: last,
        ..Memory::default()
    }
}

fn waits(view: &View) -> Option<u64> {
    let plan = view.plan();
    let waits = forwards(view).is_empty();
    assert!(!waits || plan.look_again.is_some(), "{plan:?}");
    waits.then(|| plan.look_again.unwrap().as_secs())
}

#[test]
fn what_is_undone_is_given_again_ever_more_rarely() {
    let view = View::of(Subject::Job(&BatchJob), SUSPENDED_THERE);
    for (times, ago, rest) in [
        (1, 0, Some(1)),
        (1, 1, None),
        (2, 0, Some(2)),
        (3, 1, Some(3)),
        (5, 0, Some(16)),
        (6, 0, Some(30)),
        (100, 10, Some(20)),
        (100, 30, None),
    ] {
        let mut view = view.clone();
        view.memory = given(&view, times, ago);
        assert_eq!(waits(&view), rest, "{times} times, {ago} s ago");
    }
}

#[test]
fn what_somebody_edits_in_the_job_and_another_copy_wait_for_nothing() {
    let mut view = View::of(Subject::Job(&BatchJob), SUSPENDED_THERE);
    let memory = given(&view, 9, 0);
    view.memory = memory.clone();
    assert!(forwards(&view).is_empty());
    view.local.as_mut().unwrap()["spec"]["parallelism"] = json!(2);
    assert_eq!(forwards(&view).len(), 1, "another value is wanted");
    let edited = remembered(memory.forwarded.clone(), &forwards(&view)[0], view.now());
    assert_eq!(edited.unwrap().before, 0);

    let mut view = View::of(Subject::Job(&BatchJob), SUSPENDED_THERE);
    view.memory = memory;
    view.memory.forwarded.as_mut().unwrap().remote = "u0".into();
    assert_eq!(forwards(&view).len(), 1, "it was an earlier copy");
}

/// The copy is suspended by others already, so that nothing is given to it; then the job is resumed.
#[test]
fn an_edit_that_the_copy_has_by_chance_is_an_edit() {
    let mut view = View::of(Subject::Job(&BatchJob), SUSPENDED_THERE);
    view.memory = given(&view, 9, 0);
    assert!(!is_void(&view.observed(view.now())));
    view.local.as_mut().unwrap()["spec"]["suspend"] = json!(true);
    assert!(forwards(&view).is_empty() && is_void(&view.observed(view.now())));
}

#[test]
fn after_two_quiet_minutes_it_begins_anew() {
    let mut view = View::of(Subject::Job(&BatchJob), SUSPENDED_THERE);
    let step = forwards(&view).remove(0);
    let before = |ago| {
        let last = given(&view, 9, ago).forwarded;
        remembered(last, &step, view.now()).unwrap().before
    };
    assert_eq!((before(119), before(120)), (9, 0));
    view.memory = given(&view, 9, 120);
    assert_eq!(told(&view), None);
}

#[test]
fn from_the_third_repeat_on_it_is_told_also_while_the_copy_is_as_wanted() {
    let undone = View::of(Subject::Job(&BatchJob), SUSPENDED_THERE);
    let kept = View::of(
        Subject::Job(&BatchJob),
        "L committed a/u1 dispatched; a: R u1 opened node; b: -",
    );
    for mut view in [undone.clone(), kept] {
        view.memory = given(&undone, 3, 0);
        assert_eq!(told(&view), None);
        view.memory = given(&undone, 4, 0);
        let words = "a: something there keeps changing spec.suspend of its copy; it is put back ever more rarely; look at what manages jobs there";
        assert_eq!(told(&view).as_deref(), Some(words));
        let again = view.plan().look_again;
        assert!(again.is_some(), "it is looked at when it may be over: {again:?}");
    }
    // Kinds without our condition hear it by an Event, once.
    let mut view = View::of(Subject::Job(&RayJob), SUSPENDED_THERE);
    view.memory = given(&view, 4, 0);
    let plan = view.plan();
    let told: Vec<_> = plan
        .steps
        .iter()
        .filter(|step| matches!(step, Step::Tell { reason, .. } if reason == "ForwardUndone"))
        .collect();
    assert_eq!(told.len(), 1, "{plan:?}");
}

/// The words of our condition, if it says that something is undone.
fn told(view: &View) -> Option<String> {
    let said = view.said()?;
    (said.reason == "ForwardUndone").then_some(said.message)
}

#[test]
fn the_fields_are_named_in_words() {
    let patch = json!([
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        {"op": "add", "path": "/spec/parallelism", "value": 2},
        {"op": "remove", "path": "/metadata/labels/example.com~1team"},
    ]);
    let step = Step::Forward {
        remote: crate::reconcile::step::RemoteTarget {
            worker: "a".into(),
            key: View::parse("L; a: -; b: -").observed(Instant::now()).key,
            uid: "u".into(),
        },
        resource_version: "1".into(),
        patch: Box::new(patch),
        wanted: json!({}).into(),
    };
    let Some(Forwarded { fields, .. }) = remembered(None, &step, Instant::now()) else {
        panic!("it is remembered");
    };
    assert_eq!(fields, "spec.parallelism, metadata.labels[example.com/team]");
}

#[test]
fn copies_that_are_never_recorded_are_made_ever_more_rarely_and_it_is_told() {
    for subject in [Subject::Pod, Subject::Job(&BatchJob), Subject::Job(&RayJob)] {
        let mut view = View::of(subject, "L; a: -; b: -");
        let made = |view: &View, ago: u64| {
            let at = view.now() - Duration::from_secs(ago);
            (0..5).fold(None, |copies, _| {
                Some(Copies::and_one(copies.as_ref(), &"L1".into(), at))
            })
        };
        view.memory.copies = made(&view, 0);
        let plan = view.plan();
        assert_eq!(plan.look_again, Some(Duration::from_secs(2)), "{subject:?}");
        let told = match &plan.steps[..] {
            [Step::Mirror { patch, .. }] => patch["status"].to_string(),
            [Step::Tell { reason, message, .. }] => format!("{reason} {message}"),
            steps => panic!("{steps:?}"),
        };
        assert!(
            told.contains("CopyNotKept") && told.contains("a: copies are made there again and again"),
            "{told}"
        );
        view.memory.copies = made(&view, 2);
        assert!(
            matches!(&view.plan().steps[..], [Step::Prepare { .. }]),
            "{subject:?}"
        );
    }
}
