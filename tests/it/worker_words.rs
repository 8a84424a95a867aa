//! What is said of a worker that cannot be used: its name, what was asked, and each cause once.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::watcher;
use portcullis::cluster::client::Clients;
use portcullis::cluster::kubeconfig;
use portcullis::cluster::watch::{Watched, Watching, follow};
use portcullis::cluster::worker::connect::identify;
use tokio_util::sync::CancellationToken;

use crate::server_logs::capture;
use crate::server_rig::within;

#[tokio::test]
async fn a_worker_that_is_not_there_is_told_without_type_names_and_each_cause_once() {
    let problem = identify(&nobody().await).await.err().unwrap();
    assert_eq!(problem.reason, "Unreachable");
    said_once(&problem.message);
}

#[tokio::test]
async fn a_failed_watch_is_one_line_with_the_worker_and_what_is_watched() {
    let (captured, _guard) = capture("info");
    let stop = CancellationToken::new();
    let what = Watching {
        cluster: "worker-a".into(),
        resource: "pods".into(),
        namespace: "shop".into(),
    };
    let pods: Api<Pod> = Api::namespaced(nobody().await.watches, "shop");
    let failures = Arc::new(tokio::sync::Semaphore::new(0));
    let seen = failures.clone();
    let sink = move |watched| {
        if matches!(watched, Watched::Failed(_)) {
            seen.add_permits(1);
        }
    };
    let watch = follow(what, pods, watcher::Config::default(), stop.clone(), sink);
    let (_, three) = within(futures::future::join(watch, async {
        let three = failures.acquire_many(3).await.is_ok();
        stop.cancel();
        three
    }))
    .await;
    assert!(three);
    let text = captured.text();
    let lines: Vec<&str> = text.lines().collect();
    let [line] = lines[..] else {
        panic!("an outage is told once, and by nobody else: {text}");
    };
    for words in [
        r#""cluster":"worker-a""#,
        r#""resource":"pods""#,
        r#""namespace":"shop""#,
        "initial object list: ",
    ] {
        assert!(line.contains(words), "{words} in {line}");
    }
    said_once(line);
}

#[track_caller]
fn said_once(words: &str) {
    assert_eq!(words.matches("Connection refused").count(), 1, "{words}");
    for name in [
        "ServiceError",
        "HyperError",
        "ApiError",
        "Kind(",
        "Os {",
        "Status {",
    ] {
        assert!(!words.contains(name), "{name} in {words}");
    }
}

/// Nobody listens on port 1.
async fn nobody() -> Clients {
    portcullis::tls::install_crypto();
    let text = "current-context: x
contexts: [{name: x, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: u, user: {token: t}}]
";
    let config = kubeconfig::parse(text.as_bytes()).unwrap();
    Clients::from_kubeconfig(config).await.unwrap()
}
