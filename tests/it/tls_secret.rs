//! Certificates kept in a Secret, shared by replicas.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::client::Body;
use portcullis::telemetry::metrics::Metrics;
use portcullis::tls::Resolver;
use portcullis::tls::issue::ServerNames;
use portcullis::tls::secret::{Keeper, SECRET};
use tokio_util::sync::CancellationToken;

use crate::server_logs::capture;
use crate::server_rig::{eventually, within};

/// An API server that holds this one Secret.
#[derive(Default)]
struct Store {
    secret: Mutex<Option<Secret>>,
    version: AtomicI64,
    /// Calls are answered 503.
    away: std::sync::atomic::AtomicBool,
    calls: Mutex<Vec<String>>,
}

impl Store {
    fn answer(&self, method: &Method, path: &str, body: &[u8]) -> (StatusCode, Option<Secret>) {
        self.calls.lock().unwrap().push(format!("{method} {path}"));
        if self.away.load(Ordering::Relaxed) {
            return (StatusCode::SERVICE_UNAVAILABLE, None);
        }
        let mut held = self.secret.lock().unwrap();
        let sent = || serde_json::from_slice::<Secret>(body).unwrap();
        let stored = |mut secret: Secret| {
            let version = self.version.fetch_add(1, Ordering::Relaxed) + 1;
            secret.metadata.resource_version = Some(version.to_string());
            secret
        };
        match (method, &*held) {
            (&Method::GET, Some(secret)) => (StatusCode::OK, Some(secret.clone())),
            (&Method::GET, None) => (StatusCode::NOT_FOUND, None),
            (&Method::POST, Some(_)) => (StatusCode::CONFLICT, None),
            (&Method::POST, None) => {
                *held = Some(stored(sent()));
                (StatusCode::CREATED, held.clone())
            }
            (&Method::PUT, Some(secret))
                if secret.metadata.resource_version == sent().metadata.resource_version =>
            {
                *held = Some(stored(sent()));
                (StatusCode::OK, held.clone())
            }
            (&Method::PUT, _) => (StatusCode::CONFLICT, None),
            (method, _) => panic!("{method} is no call that we have rights for"),
        }
    }

    fn client(self: &Arc<Self>) -> kube::Client {
        let store = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<Body>| {
            let store = Arc::clone(&store);
            async move {
                let (head, body) = request.into_parts();
                // Time for others to come between.
                tokio::task::yield_now().await;
                let body = body.collect().await.unwrap().to_bytes();
                let (status, secret) = store.answer(&head.method, head.uri.path(), &body);
                let body = match secret {
                    Some(secret) => serde_json::to_vec(&secret).unwrap(),
                    None => format!(
                        r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","message":"m","reason":"{}","code":{}}}"#,
                        status.canonical_reason().unwrap().replace(' ', ""),
                        status.as_u16()
                    )
                    .into_bytes(),
                };
                Ok::<_, std::convert::Infallible>(
                    Response::builder().status(status).body(Body::from(body)).unwrap(),
                )
            }
        });
        kube::Client::new(service, "portcullis-system")
    }

    fn keeper(self: &Arc<Self>) -> Keeper {
        portcullis::tls::install_crypto();
        let names = ServerNames::of_service("portcullis-system/portcullis").unwrap();
        let metrics = Arc::clone(&Metrics::new().tls);
        let mut keeper = Keeper::new(
            self.client(),
            "portcullis-system",
            names,
            Resolver::new(),
            metrics,
        );
        keeper.period = Duration::from_millis(20);
        keeper
    }

    fn text(&self, key: &str) -> String {
        let held = self.secret.lock().unwrap();
        let data = held.as_ref().unwrap().data.as_ref().unwrap();
        String::from_utf8(data[key].0.clone()).unwrap()
    }

    fn change(&self, key: &str, value: &str) {
        let mut held = self.secret.lock().unwrap();
        let secret = held.as_mut().unwrap();
        let data = secret.data.get_or_insert_default();
        data.insert(key.to_owned(), k8s_openapi::ByteString(value.as_bytes().to_vec()));
        let version = self.version.fetch_add(1, Ordering::Relaxed) + 1;
        secret.metadata.resource_version = Some(version.to_string());
    }
}

/// C3, T4
#[tokio::test]
async fn an_absent_secret_is_made_and_served() {
    let store = Arc::new(Store::default());
    let keeper = store.keeper();
    keeper.turn().await.unwrap();
    let current = keeper.resolver.current().unwrap();
    assert_eq!(current.ca_bundle(), Some(store.text("ca.crt").as_str()));
    keeper.turn().await.unwrap();
    let path = "/api/v1/namespaces/portcullis-system/secrets";
    let calls = store.calls.lock().unwrap().clone();
    let get = format!("GET {path}/{SECRET}");
    assert_eq!(
        calls,
        [get.clone(), format!("POST {path}"), get],
        "and nothing is written again"
    );
}

/// T5: replicas that start at once share one CA.
#[tokio::test]
async fn replicas_that_start_together_adopt_one_ca() {
    for _ in 0..10 {
        let store = Arc::new(Store::default());
        let end = CancellationToken::new();
        let resolvers: Vec<_> = (0..5)
            .map(|_| {
                let keeper = store.keeper();
                let resolver = Arc::clone(&keeper.resolver);
                tokio::spawn(keeper.run(end.clone()));
                resolver
            })
            .collect();
        eventually(|| {
            let leaf = |resolver: &Arc<Resolver>| resolver.current().map(|served| served.leaf().to_vec());
            let first = leaf(&resolvers[0]);
            first.is_some() && resolvers.iter().all(|resolver| leaf(resolver) == first)
        })
        .await;
        end.cancel();
    }
}

/// T5: after a jump of the clock past two thirds, the next turn renews; the CA and the listeners' trust stay.
#[tokio::test]
async fn a_leaf_is_renewed_by_wall_clock_and_the_ca_stays() {
    static JUMP: AtomicI64 = AtomicI64::new(0);
    let store = Arc::new(Store::default());
    let mut keeper = store.keeper();
    keeper.now = || Timestamp::now() + SignedDuration::from_hours(24 * JUMP.load(Ordering::Relaxed));
    keeper.turn().await.unwrap();
    let (ca, leaf) = (store.text("ca.crt"), store.text("tls.crt"));
    for (days, renewed) in [(59, false), (61, true), (118, false), (125, true), (400, true)] {
        let before = store.text("tls.crt");
        JUMP.store(days, Ordering::Relaxed);
        keeper.turn().await.unwrap();
        assert_eq!(store.text("tls.crt") != before, renewed, "day {days}");
        assert!(keeper.resolver.ready((keeper.now)()).is_ok(), "day {days}");
    }
    assert_eq!(store.text("ca.crt"), ca);
    assert_ne!(store.text("tls.crt"), leaf);
}

/// T5: two replicas find it due at once; one writes, the other adopts.
#[tokio::test]
async fn a_renewal_is_written_once() {
    static JUMP: AtomicI64 = AtomicI64::new(0);
    let store = Arc::new(Store::default());
    let later: fn() -> Timestamp =
        || Timestamp::now() + SignedDuration::from_hours(24 * JUMP.load(Ordering::Relaxed));
    let (mut one, mut two) = (store.keeper(), store.keeper());
    (one.now, two.now) = (later, later);
    one.turn().await.unwrap();
    two.turn().await.unwrap();
    JUMP.store(61, Ordering::Relaxed);
    let (first, second) = tokio::join!(one.turn(), two.turn());
    assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
    one.turn().await.unwrap();
    two.turn().await.unwrap();
    let leaf = |keeper: &Keeper| keeper.resolver.current().unwrap().leaf().to_vec();
    assert_eq!(leaf(&one), leaf(&two));
    let writes = store
        .calls
        .lock()
        .unwrap()
        .iter()
        .filter(|call| call.starts_with("PUT"))
        .count();
    assert_eq!(writes, 2, "of which one met a conflict");
}

/// T11: what somebody blanked or broke is put right, the CA kept if it can be.
#[tokio::test]
async fn a_damaged_secret_is_repaired() {
    let store = Arc::new(Store::default());
    let keeper = store.keeper();
    keeper.turn().await.unwrap();
    let ca = store.text("ca.crt");
    for (key, keeps_ca) in [
        ("tls.crt", true),
        ("tls.key", true),
        ("ca.key", false),
        ("ca.crt", false),
    ] {
        let before = store.text("ca.crt");
        store.change(key, "");
        keeper.turn().await.unwrap();
        assert_eq!(store.text("ca.crt") == before, keeps_ca, "{key}");
        let served = keeper.resolver.current().unwrap();
        assert_eq!(served.ca_bundle(), Some(store.text("ca.crt").as_str()), "{key}");
    }
    assert_ne!(store.text("ca.crt"), ca);
    store.secret.lock().unwrap().as_mut().unwrap().data = None;
    keeper.turn().await.unwrap();
    assert!(!store.text("tls.crt").is_empty());
}

/// C1: while the API server is away, what is served stays; after, all goes on.
#[tokio::test]
async fn an_absent_api_server_changes_nothing_that_is_served() {
    let store = Arc::new(Store::default());
    let keeper = store.keeper();
    let (resolver, end) = (Arc::clone(&keeper.resolver), CancellationToken::new());
    store.away.store(true, Ordering::Relaxed);
    let run = tokio::spawn(keeper.run(end.clone()));
    eventually(|| store.calls.lock().unwrap().len() > 2).await;
    assert!(resolver.current().is_none());
    store.away.store(false, Ordering::Relaxed);
    eventually(|| resolver.current().is_some()).await;
    store.away.store(true, Ordering::Relaxed);
    let before = store.calls.lock().unwrap().len();
    eventually(|| store.calls.lock().unwrap().len() > before + 2).await;
    assert!(resolver.ready(Timestamp::now()).is_ok());
    end.cancel();
    within(run).await.unwrap();
}

/// S5: not a line of a key, at any level, of any crate.
#[tokio::test]
async fn keys_are_never_logged() {
    let (captured, _guard) = capture("trace");
    let store = Arc::new(Store::default());
    let keeper = store.keeper();
    keeper.turn().await.unwrap();
    store.change("tls.crt", "broken");
    keeper.turn().await.unwrap();
    let text = captured.text();
    assert!(text.contains("made a CA"), "{text}");
    for key in ["tls.key", "ca.key"] {
        for line in store.text(key).lines().filter(|line| line.len() > 40) {
            assert!(!text.contains(line), "{text}");
            let base64 = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, line);
            assert!(!text.contains(&base64[4..base64.len() - 8]), "{text}");
        }
    }
}
