//! Keeping the installed layers, against an API server that misbehaves.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::future::pending;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use portcullis::admission::policies::{Layer, LayerKind, Layout, render};
use portcullis::reconcile::webhook_config::{ConfigReport, keep};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// One object behind an API server.
struct Server {
    object: Mutex<Option<Value>>,
    /// What the server makes of what it is sent.
    keeps: fn(Value) -> Value,
    refuses_watches: bool,
    refuses_writes: bool,
    writes: Mutex<Vec<Value>>,
}

impl Server {
    fn with(object: Value) -> Self {
        Self {
            object: Mutex::new(Some(object)),
            keeps: |object| object,
            refuses_watches: false,
            refuses_writes: false,
            writes: Mutex::default(),
        }
    }

    fn client(self: &Arc<Self>) -> kube::Client {
        let server = self.clone();
        let answer = move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, std::convert::Infallible>(server.answer(request).await) }
        };
        kube::Client::new(tower::service_fn(answer), "default")
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let method = request.method().clone();
        let one = request.uri().path().split('/').count() > 5;
        if method == Method::PATCH {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            return self.patch(&body);
        }
        let object = self.object.lock().unwrap().clone();
        match (method == Method::GET, one, query.contains("watch=true")) {
            (true, true, _) => object.map_or_else(|| status(404), |object| ok(&object)),
            (true, false, true) if self.refuses_watches => status(403),
            (true, false, true) => pending().await, // no news, ever
            (true, false, false) => ok(
                &json!({"metadata": {"resourceVersion": "7"}, "items": object.into_iter().collect::<Vec<_>>()}),
            ),
            (false, ..) => status(201), // an Event
        }
    }

    fn patch(&self, body: &Bytes) -> Response<Body> {
        if self.refuses_writes {
            return status(403);
        }
        let mut object = self.object.lock().unwrap();
        let object = object.as_mut().unwrap();
        let patch: json_patch::Patch = serde_json::from_slice(body).unwrap();
        json_patch::patch(object, &patch).unwrap();
        *object = (self.keeps)(object.take());
        self.writes.lock().unwrap().push(object.clone());
        ok(object)
    }
}

fn ok(object: &Value) -> Response<Body> {
    Response::new(Body::from(serde_json::to_vec(object).unwrap()))
}

fn status(code: u16) -> Response<Body> {
    let body = json!({"kind": "Status", "status": "Failure", "message": "no", "reason": "No", "code": code});
    let mut answer = Response::new(Body::from(serde_json::to_vec(&body).unwrap()));
    *answer.status_mut() = StatusCode::from_u16(code).unwrap();
    answer
}

fn layer(kind: LayerKind) -> Layer {
    render(&Layout::default())
        .into_iter()
        .find(|layer| layer.kind == kind)
        .unwrap()
}

fn stored(layer: &Layer) -> Value {
    let mut object = layer.object.clone();
    object["metadata"]["resourceVersion"] = json!("7");
    object
}

/// The states that are told of one object within `time`, and the writes.
async fn watch_for(
    time: Duration,
    layer: Layer,
    server: Server,
    bundle: &[u8],
) -> (Vec<&'static str>, usize) {
    let server = Arc::new(server);
    let told = Arc::new(Mutex::new(Vec::new()));
    let stop = CancellationToken::new();
    let (_bundle, bundles) = watch::channel(bundle.to_vec());
    let hear = told.clone();
    let report = move |report: ConfigReport| hear.lock().unwrap().push(report.state.name());
    let keeper = tokio::spawn(keep(server.client(), vec![layer], bundles, report, stop.clone()));
    tokio::time::sleep(time).await;
    stop.cancel();
    keeper.await.unwrap();
    let told = told.lock().unwrap().clone();
    let writes = server.writes.lock().unwrap().len();
    (told, writes)
}

#[tokio::test(start_paused = true)]
async fn in_peace_nothing_is_written() {
    for kind in LayerKind::ALL {
        let layer = layer(kind);
        let server = Server::with(stored(&layer));
        assert_eq!(
            watch_for(Duration::from_mins(10), layer, server, b"").await,
            (vec!["current"], 0)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn drift_is_undone_once() {
    let layer = layer(LayerKind::ValidatingAdmissionPolicy);
    let mut drifted = stored(&layer);
    drifted["spec"]["failurePolicy"] = json!("Ignore");
    assert_eq!(
        watch_for(Duration::from_mins(10), layer, Server::with(drifted), b"").await,
        (vec!["repaired"], 1)
    );
}

#[tokio::test(start_paused = true)]
async fn the_bundle_is_written_once_and_is_no_drift() {
    let layer = layer(LayerKind::MutatingWebhookConfiguration);
    let server = Server::with(stored(&layer));
    assert_eq!(
        watch_for(Duration::from_mins(10), layer, server, b"pem").await,
        (vec!["bundle-written"], 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_default_that_we_do_not_know_starts_no_fight() {
    let layer = layer(LayerKind::ValidatingAdmissionPolicy);
    let with_default = |mut object: Value| {
        object["spec"]["ofTheFuture"] = json!("default");
        object
    };
    let server = Server {
        keeps: with_default,
        ..Server::with(with_default(stored(&layer)))
    };
    let (told, writes) = watch_for(Duration::from_mins(10), layer, server, b"").await;
    assert_eq!(writes, 1, "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_not_there_is_told_and_not_made() {
    let layer = layer(LayerKind::MutatingAdmissionPolicy);
    let server = Server::with(Value::Null);
    *server.object.lock().unwrap() = None;
    assert_eq!(
        watch_for(Duration::from_mins(10), layer, server, b"").await,
        (vec!["missing"], 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_cannot_start_is_told_and_the_object_is_read() {
    let layer = layer(LayerKind::ValidatingAdmissionPolicyBinding);
    let server = Server {
        refuses_watches: true,
        ..Server::with(stored(&layer))
    };
    let (told, writes) = watch_for(Duration::from_secs(2), layer, server, b"").await;
    assert_eq!(
        told.get(..3),
        Some(&["current", "failed", "current"][..]),
        "{told:?}"
    );
    assert_eq!(writes, 0);
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_is_told_once_and_tried_twice_a_minute() {
    let layer = layer(LayerKind::ValidatingAdmissionPolicyBinding);
    let mut drifted = stored(&layer);
    drifted["spec"]["validationActions"] = json!(["Warn"]);
    let server = Server {
        refuses_writes: true,
        ..Server::with(drifted)
    };
    assert_eq!(
        watch_for(Duration::from_mins(10), layer, server, b"").await,
        (vec!["failed"], 0)
    );
}
