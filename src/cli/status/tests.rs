//! What is asked, against a manager that is played.

use bytes::Bytes;
use clap::Parser;
use expect_test::{Expect, expect};
use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use std::collections::BTreeSet;

use super::orphan::OrphanLine;
use super::workers::{foreign_note, without_foreign};
use super::*;
use crate::names;
use crate::words::chain;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: StatusArgs,
}

#[tokio::test]
async fn a_namespace_that_does_not_exist_is_a_sentence() {
    check(
        &["-n", "nosuch"],
        expect![[
            r#"error: namespace "nosuch" does not exist on the manager; `kubectl get namespaces` lists them"#
        ]],
    )
    .await;
}

#[tokio::test]
async fn a_namespace_that_is_not_opted_in_says_so_and_how_to_opt_in() {
    check(
        &["-n", "default"],
        expect![[r#"
            Namespace default is not opted in: new pods run on this cluster, and those that were dispatched before stay where they are. To opt it in: kubectl label namespace default portcullis.dev/dispatch=POLICY (`kubectl get dispatchpolicies` lists them)
        "#]],
    )
    .await;
    check(
        &["-n", "default", "one"],
        expect![[r#"
            Namespace default is not opted in: new pods run on this cluster, and those that were dispatched before stay where they are. To opt it in: kubectl label namespace default portcullis.dev/dispatch=POLICY (`kubectl get dispatchpolicies` lists them)

            Running here, ungated:
            NAMESPACE   POD   PHASE     WHY
            default     one   Running   its namespace is not opted in
        "#]],
    )
    .await;
    check(
        &["-n", "kube-system"],
        expect![[r#"
            Namespace kube-system is never opted in: its pods run on this cluster.
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_namespace_that_asks_for_gangs_is_not_told_to_opt_in_to_dispatch() {
    check(
        &["-n", "ganged"],
        expect![[r#"
            Nothing to show: no pods that are dispatched, no gangs.
        "#]],
    )
    .await;
    check(
        &["-n", "misled"],
        expect![[r#"
            Label portcullis.dev/gang of namespace misled: found "kueue", expected coscheduling, volcano, native or auto; jobs that ask for gangs are refused there.
        "#]],
    )
    .await;
}

#[tokio::test]
async fn all_namespaces_is_what_no_namespace_is_and_what_left_is_listed_too() {
    let all = expect![[r#"
        No longer opted in, but pods are still dispatched from there: left. They stay where they are until they are deleted.

        NAMESPACE   POD   STATE     CLUSTER   NODE   WHERE AND WHY
        left        old   Waiting   -         -      not looked at yet, or Portcullis does not run

        Running here, ungated:
        NAMESPACE   POD   PHASE     WHY
        shop        one   Running   created before the opt-in, or by a DaemonSet or a node
    "#]];
    for args in [&[][..], &["-A"], &["--all-namespaces"]] {
        all.assert_eq(&said(args).await);
    }
    check(
        &["-n", "shop", "pod/one"],
        expect![[r#"
            Running here, ungated:
            NAMESPACE   POD   PHASE     WHY
            shop        one   Running   created before the opt-in, or by a DaemonSet or a node
        "#]],
    )
    .await;
}

#[tokio::test]
async fn who_may_not_read_a_namespace_sees_its_pods_all_the_same() {
    check(
        &["-n", "secretive", "pods/one"],
        expect![[r#"
            Running here, ungated:
            NAMESPACE   POD   PHASE     WHY
            secretive   one   Running   created before the opt-in, or by a DaemonSet or a node
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_namesake_where_no_pods_of_ours_are_accepted_is_no_orphan() {
    let line = |namespace: &str| OrphanLine {
        cluster: "worker-a".to_owned(),
        namespace: namespace.to_owned(),
        kind: "Pod".to_owned(),
        name: "one".to_owned(),
        remove: String::new(),
    };
    let api = ClusterApi::new(manager());
    let lines = vec![line("accepting"), line("default"), line("left-behind")];
    let (orphans, foreign) = without_foreign(&api, "o", lines).await.unwrap();
    assert_eq!(orphans, [line("accepting")]);
    let note = foreign_note("worker-a", &foreign).unwrap();
    assert!(
        note.contains("do not accept its pods: default, left-behind."),
        "{note}"
    );
    assert_eq!(foreign_note("worker-a", &BTreeSet::new()), None);
    let error = without_foreign(&api, "o", vec![line("secretive")])
        .await
        .unwrap_err();
    assert_eq!(
        chain(error.as_ref()),
        "read namespace secretive: 403 Forbidden: Forbidden"
    );
}

#[test]
fn arguments_that_do_not_go_together_are_refused() {
    for wrong in [
        &["status", "-A", "-n", "shop"][..],
        &["status", "one"],
        &["status", "job/one"],
        &["status", "-n", "shop", "a/b/c"],
        &["status", "-n", ""],
    ] {
        assert!(Line::try_parse_from(wrong).is_err(), "{wrong:?}");
    }
}

#[allow(clippy::needless_pass_by_value)]
async fn check(args: &[&str], expect: Expect) {
    expect.assert_eq(&said(args).await);
}

async fn said(args: &[&str]) -> String {
    let line = ["status"].iter().chain(args);
    let Line { args } = Line::try_parse_from(line).unwrap();
    match report(manager(), &args).await {
        Ok(report) => report.table(),
        Err(error) => format!("error: {error:#}"),
    }
}

/// `shop` is opted in, `left` was and has the pod `old` from then, each other namespace has the pod `one`, and there are no
/// workers.
fn manager() -> Client {
    let answer = |request: Request<Body>| async move {
        let (code, body) = answer(request.uri().path());
        let body = Body::from(Bytes::from(body.to_string()));
        Ok::<_, std::convert::Infallible>(Response::builder().status(code).body(body).unwrap())
    };
    Client::new(tower::service_fn(answer), "default")
}

fn answer(path: &str) -> (u16, Value) {
    let named =
        |name: &str, labels: Value| json!({"metadata": {"name": name, "uid": name, "labels": labels}});
    let list =
        |kind: &str, items: Value| json!({"apiVersion": "v1", "kind": kind, "metadata": {}, "items": items});
    let shop = named("shop", json!({"portcullis.dev/dispatch": "default"}));
    let refused = |code: u16, reason: &str| {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
            "message": reason});
        (code, status)
    };
    match path.split('/').skip(2).collect::<Vec<_>>()[..] {
        ["v1", "namespaces"] => (200, list("NamespaceList", json!([shop]))),
        ["v1", "namespaces", "shop"] => (200, shop),
        [
            "v1",
            "namespaces",
            name @ ("default" | "kube-system" | "left-behind"),
        ] => (200, named(name, json!({}))),
        ["v1", "namespaces", "ganged"] => (200, named("ganged", json!({names::GANG: "auto"}))),
        ["v1", "namespaces", "misled"] => (200, named("misled", json!({names::GANG: "kueue"}))),
        ["v1", "namespaces", "accepting"] => {
            let mut accepting = named("accepting", json!({}));
            accepting["metadata"]["annotations"] = json!({names::ACCEPTS: "o/accepting"});
            (200, accepting)
        }
        ["v1", "namespaces", "secretive"] => refused(403, "Forbidden"),
        ["v1", "namespaces", "left", "pods"] => {
            let pod = json!({
                "metadata": {"namespace": "left", "name": "old", "uid": "o", "labels": {names::GATED: names::TRUE}},
                "spec": {"containers": [], "schedulingGates": [{"name": names::GATE}]},
                "status": {"phase": "Running"},
            });
            (200, list("PodList", json!([pod])))
        }
        ["v1", "namespaces", namespace, "pods"] => {
            let pod =
                json!({"metadata": {"namespace": namespace, "name": "one"}, "status": {"phase": "Running"}});
            (200, list("PodList", json!([pod])))
        }
        ["v1", "pods"] => {
            let pod = json!({"metadata": {
                "namespace": "left", "name": "old", "uid": "o", "labels": {names::GATED: names::TRUE},
            }});
            (200, list("PartialObjectMetadataList", json!([pod])))
        }
        ["portcullis.dev", "v1alpha1", "workerclusters"] => (200, list("WorkerClusterList", json!([]))),
        _ => refused(404, "NotFound"),
    }
}
