//! What is said of copies that are being deleted.

use super::super::super::local::Subject;
use super::super::is_news;
use super::view::View;
use super::words;
use crate::pod::mirror::Dispatched;
use crate::workload::jobs::{BatchJob, RayJob};

/// Our condition, as the plan writes it.
fn said(subject: Subject, view: &str) -> Option<Dispatched> {
    View::of(subject, view).said()
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
fn an_object_whose_copy_is_gone_says_who_holds_it_here() {
    let view = "L terminating committed a/u1 held-here dispatched; a: -; b: -; u1 is gone";
    for subject in [Subject::Pod, Subject::Job(&BatchJob)] {
        let said = said(subject, view).unwrap();
        let words =
            "its copy on a is gone; it stays here until these finalizers are taken off: example.com/before";
        assert_eq!(
            (said.reason.as_str(), said.message.as_str()),
            ("Terminating", words)
        );
        assert!(said.status && !is_news(&said), "no Warning");
        let lines = words::lines(&View::of(subject, &format!("{view}; u1 ended")).plan());
        assert!(!lines.contains("Terminating"), "its end is told: {lines}");
    }
}

#[test]
fn words_about_a_job_do_not_call_it_a_pod_nor_say_that_it_runs() {
    let job = |view: &str| said(Subject::Job(&BatchJob), view).unwrap().message;
    let unrecorded = job("L; a: R u1 opened suspended; b: -");
    assert!(
        unrecorded.starts_with("a: a copy of this Job stands there, though this Job has not recorded it;"),
        "{unrecorded}"
    );
    let runs = job("L; a: R u1 opened node; b: -");
    assert!(
        runs.starts_with("a: a copy of this Job runs there, though this Job"),
        "{runs}"
    );
    let orphan = job("L of L2; a: R u1 opened suspended; b: -; L1 is gone");
    assert!(orphan.contains("still stands there"), "{orphan}");
    let other = job("L committed a/u1; a: R u1 opened another-cluster; b: -");
    assert!(other.contains("than the one that has the Job"), "{other}");
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
