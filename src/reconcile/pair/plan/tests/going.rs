//! What is said of copies that are being deleted.

use super::super::super::local::Subject;
use super::super::is_news;
use super::view::View;
use super::words;
use crate::names::DISPATCHED;
use crate::pod::mirror::Dispatched;
use crate::reconcile::step::Step;
use crate::workload::jobs::{BatchJob, RayJob};

/// Our condition, as the plan writes it.
fn said(subject: Subject, view: &str) -> Option<Dispatched> {
    let plan = View::of(subject, view).plan();
    let patch = plan.steps.iter().find_map(|step| match step {
        Step::Mirror { patch, .. } => Some(patch),
        _ => None,
    })?;
    let conditions = patch["status"]["conditions"].as_array()?;
    let ours = conditions
        .iter()
        .find(|condition| condition["type"] == DISPATCHED)?;
    let text = |key: &str| ours[key].as_str().map(str::to_owned);
    Some(Dispatched {
        status: ours["status"] == "True",
        reason: text("reason")?,
        message: text("message")?,
    })
}

#[test]
fn a_copy_that_goes_without_its_object_says_so_and_who_holds_it() {
    let held = "; it stays there until these finalizers are taken off: example.com/hold";
    let goes = "on a: its copy is being deleted there, and follows no edits any more";
    for subject in [Subject::Pod, Subject::Job(&BatchJob)] {
        for (view, status, message) in [
            (
                "L committed a/u1 dispatched; a: R u1 opened node terminating kept; b: -",
                true,
                format!("{goes}{held}"),
            ),
            (
                "L committed a/u1 dispatched; a: R u1 opened terminating kept; b: -",
                true,
                format!("{goes}{held}"),
            ),
            (
                "L committed a/u1 dispatched; a: R u1 opened node terminating; b: -",
                true,
                goes.to_owned(),
            ),
            (
                "L committed a/u1; a: R u1 gated terminating kept; b: -",
                false,
                format!("{goes}{held}"),
            ),
        ] {
            let said = said(subject, view).unwrap();
            let expected = (status, "RemoteTerminating", message.as_str());
            assert_eq!(
                (said.status, said.reason.as_str(), said.message.as_str()),
                expected,
                "{view}"
            );
            assert_eq!(is_news(&said), message.ends_with("hold"), "{view}");
        }
        let ended = said(
            subject,
            "L committed a/u1; a: R u1 opened node ended terminating kept; b: -",
        )
        .unwrap();
        assert_ne!(ended.reason, "RemoteTerminating", "its end is told");
        let local = said(
            subject,
            "L terminating committed a/u1; a: R u1 opened terminating kept; b: -",
        )
        .unwrap();
        assert_eq!(local.reason, "Terminating");
        assert_eq!(local.message, format!("on a; being deleted there{held}"));
        let earlier = said(
            subject,
            "L of L2; a: R u1 opened terminating kept; b: -; L1 is gone",
        )
        .unwrap();
        assert!(earlier.message.ends_with(held), "{}", earlier.message);
    }
}

#[test]
fn who_holds_a_copy_is_told_where_there_are_no_conditions() {
    for (view, reason) in [
        (
            "L committed a/u1; a: R u1 opened node terminating kept; b: -",
            "RemoteTerminating",
        ),
        (
            "L terminating committed a/u1; a: R u1 opened node terminating kept; b: -",
            "Terminating",
        ),
    ] {
        let lines = words::lines(&View::of(Subject::Job(&RayJob), view).plan());
        assert!(lines.contains(&format!("tell {reason}")), "{view}: {lines}");
    }
}
