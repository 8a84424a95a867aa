use super::*;

/// A pod's life as Kubernetes 1.37.2 wrote it down (specs shortened): created with two gates, opened in a
/// dry run, opened, annotated, its other gate removed, bound, Running.
const RECORDED: &str = include_str!("recorded.jsonl");
const UID: &str = "89aa37ff-d147-47ef-b526-ff4f4ab47e1b";

#[test]
fn an_opening_is_counted_once_and_a_dry_run_is_none() {
    let ledger = ledger(RECORDED);
    let [opening] = &ledger.openings()[..] else {
        panic!("{:?}", ledger.openings())
    };
    let Opening {
        time,
        user,
        namespace,
        name,
        uid,
        local_uid,
    } = opening;
    assert_eq!(
        (user.as_str(), namespace.as_str(), name.as_str()),
        ("admin", "team", "gated")
    );
    assert_eq!((uid.as_str(), local_uid.as_deref()), (UID, Some("uid-of-local")));
    assert_eq!(
        *time, ledger.writes[1].time,
        "the first write after which the gate was gone"
    );
}

#[test]
fn the_order_of_the_log_does_not_matter() {
    let reversed: String = RECORDED.lines().rev().flat_map(|line| [line, "\n"]).collect();
    assert_eq!(ledger(&reversed).openings(), ledger(RECORDED).openings());
}

#[test]
fn a_refused_write_is_no_write() {
    let refused = RECORDED.replace(r#""code":200"#, r#""code":422"#);
    assert_eq!(ledger(&refused).openings(), []);
}

#[test]
fn a_pod_created_without_the_gate_is_open_from_the_start() {
    let ungated = RECORDED.replace(GATE, "yet-another");
    let ledger = ledger(&ungated);
    assert_eq!(ledger.openings().len(), 1);
    assert_eq!(ledger.openings()[0].time, ledger.writes[0].time);
}

#[test]
fn a_pod_that_was_never_gated_and_has_no_local_uid_is_not_ours() {
    let foreign = RECORDED
        .replace(GATE, "yet-another")
        .replace(LOCAL_UID, "somebody.else/uid");
    assert_eq!(ledger(&foreign).openings(), []);
}

#[test]
fn a_binding_tells_whose_pod_it_was() {
    let ledger = ledger(RECORDED);
    let [binding] = &ledger.bindings()[..] else {
        panic!("{:?}", ledger.bindings())
    };
    assert_eq!(
        (binding.user.as_str(), binding.node.as_str()),
        ("system:kube-scheduler", "smoke-0")
    );
    assert_eq!(
        (binding.uid.as_str(), binding.local_uid.as_deref()),
        (UID, Some("uid-of-local"))
    );
}

#[test]
fn two_pods_of_one_local_pod_are_found_on_two_clusters() {
    let other = RECORDED.replace(UID, "another-uid");
    let both = [ledger(RECORDED), ledger(&other)];
    assert_eq!(opened_more_than_once(&both)["uid-of-local"].len(), 2);
    assert_eq!(bound_more_than_once(&both)["uid-of-local"].len(), 2);
}

#[test]
fn the_same_pod_twice_is_one() {
    let same = [ledger(RECORDED), ledger(RECORDED)];
    assert!(opened_more_than_once(&same).is_empty());
    assert!(bound_more_than_once(&same[..1]).is_empty());
}

#[test]
fn writes_are_found_by_user() {
    let ledger = ledger(RECORDED);
    let resources = |user: &str| -> Vec<String> {
        ledger
            .pod_writes_by(user)
            .into_iter()
            .map(|write| format!("{} {}", write.verb, write.resource))
            .collect()
    };
    assert_eq!(resources("kwok"), ["patch pods/status"]);
    assert_eq!(resources("system:kube-scheduler"), ["create pods/binding"]);
    assert_eq!(resources("admin").len(), 4, "the dry run is not among them");
    assert_eq!(resources("nobody").len(), 0);
}

#[test]
fn a_write_to_a_foreign_pod_is_found() {
    assert!(ledger(RECORDED).foreign_pod_writes_by("kwok").is_empty());
    let foreign = ledger(&RECORDED.replace(LOCAL_UID, "somebody.else/uid"));
    assert_eq!(foreign.foreign_pod_writes_by("kwok").len(), 1);
}

#[test]
fn a_line_that_is_being_written_is_left_for_later() {
    let cut = RECORDED.trim_end_matches('\n');
    assert_eq!(ledger(cut).writes.len(), ledger(RECORDED).writes.len() - 1);
}

#[test]
fn a_broken_line_is_an_error_with_its_number() {
    let broken = format!("{RECORDED}nonsense\n");
    let error = Ledger::parse(&broken).expect_err("it is no audit event");
    assert_eq!(error.to_string(), "line 8");
}

#[track_caller]
fn ledger(text: &str) -> Ledger {
    Ledger::parse(text).expect("an audit log")
}
