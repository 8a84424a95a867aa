//! The servers that are compared, all on one thread with the same certificate and TLS configuration.

use std::convert::Infallible;
use std::net::TcpListener;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt, Full};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use portcullis::admission::server::{RequestLimits, Route, Webhook, serve as serve_webhook};
use portcullis::admission::{Answer, NamespaceFacts, NamespaceLabels, admit};
use portcullis::telemetry::metrics::Metrics;
use portcullis::tls::issue::{Issued, Lives, ServerNames};
use portcullis::tls::{DrainBudget, Limits, Resolver, Shutdown, server_config};
use serde_json::{Value, json};
use tokio_rustls::TlsAcceptor;

/// What a server does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// hyper and rustls: the body is read, a fixed answer goes back.
    Bare,
    /// Our edge (limits, deadlines, metrics) around a fixed answer.
    Edge,
    /// Our edge around the real pipeline: parse, decide, patch.
    Portcullis,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Bare, Self::Edge, Self::Portcullis];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Edge => "edge",
            Self::Portcullis => "portcullis",
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| format!("no server {name:?}"))
    }
}

/// Prints the port and serves until stdin ends.
pub(crate) fn serve(kind: Kind) {
    portcullis::tls::install_crypto();
    let names = ServerNames::of_url("https://127.0.0.1:1").unwrap();
    let issued = Issued::new(&names, &Lives::default(), Timestamp::now()).unwrap();
    let resolver = Resolver::new();
    resolver.install(issued.served(Timestamp::now()).unwrap());
    std::thread::spawn(|| {
        let _ended = std::io::read_to_string(std::io::stdin());
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let listener = portcullis::tls::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        println!("{}", listener.local_addr().unwrap().port());
        match kind {
            Kind::Bare => bare(listener, resolver).await,
            Kind::Edge => {
                ours(
                    listener,
                    resolver,
                    Route {
                        path: "/mutate",
                        webhook: "enrich",
                        admit: Box::new(|_| fixed()),
                    },
                )
                .await;
            }
            Kind::Portcullis => ours(listener, resolver, Route::enrich(Arc::new(OptedIn))).await,
        }
    });
}

async fn bare(listener: TcpListener, resolver: Arc<Resolver>) {
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    let acceptor = TlsAcceptor::from(server_config(resolver));
    let answer = Bytes::from(fixed().body);
    loop {
        let (tcp, _) = listener.accept().await.unwrap();
        tcp.set_nodelay(true).unwrap();
        let (acceptor, answer) = (acceptor.clone(), answer.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(tcp).await else {
                return;
            };
            let service = service_fn(|request: http::Request<hyper::body::Incoming>| {
                let answer = answer.clone();
                async move {
                    let _read = request.into_body().collect().await;
                    Ok::<_, Infallible>(Response::new(Full::new(answer)))
                }
            });
            let _ended = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn ours(listener: TcpListener, resolver: Arc<Resolver>, route: Route) {
    let webhook = Webhook {
        routes: vec![route],
        resolver,
        metrics: Metrics::new(),
        limits: Limits::default(),
        requests: RequestLimits::default(),
        drain: DrainBudget::default(),
    };
    serve_webhook(webhook, listener, Shutdown::default())
        .await
        .unwrap();
}

struct OptedIn;

impl NamespaceFacts for OptedIn {
    fn namespace(&self, _: &str) -> Option<NamespaceLabels> {
        Some(NamespaceLabels::default())
    }
}

/// The answer of the real pipeline, made once: all servers send the same bytes.
fn fixed() -> Answer {
    static ONCE: std::sync::OnceLock<Answer> = std::sync::OnceLock::new();
    let answer = ONCE.get_or_init(|| admit(&review(), &OptedIn));
    assert_eq!(
        answer.decision, "patched",
        "the bench is to measure a mutation: {answer:?}"
    );
    answer.clone()
}

/// The review of a Job's pod, 2.4 KB.
pub(crate) fn review() -> Vec<u8> {
    let review = |filling: &str| {
        let pod = pod(filling);
        json!({
            "kind": "AdmissionReview",
            "apiVersion": "admission.k8s.io/v1",
            "request": {
                "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
                "kind": {"group": "", "version": "v1", "kind": "Pod"},
                "resource": {"group": "", "version": "v1", "resource": "pods"},
                "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
                "requestResource": {"group": "", "version": "v1", "resource": "pods"},
                "namespace": "team-a",
                "operation": "CREATE",
                "userInfo": {
                    "username": "system:serviceaccount:kube-system:job-controller",
                    "uid": "a1b2c3d4-0000-4000-8000-000000000001",
                    "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
                },
                "object": pod,
                "oldObject": null,
                "dryRun": false,
                "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
            },
        })
        .to_string()
        .into_bytes()
    };
    let missing = 2_400_usize.saturating_sub(review("").len());
    review(&"x".repeat(missing))
}

fn pod(filling: &str) -> Value {
    json!({
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "generateName": "train-",
            "namespace": "team-a",
            "creationTimestamp": null,
            "labels": {"batch.kubernetes.io/controller-uid": "0f8c", "job-name": "train"},
            "annotations": {"example.com/note": filling},
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "0f8c",
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "volumes": [{"name": "kube-api-access", "projected": {"sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            ], "defaultMode": 420}}],
            "containers": [{
                "name": "main", "image": "registry.example.com/train:1", "command": ["python", "train.py"],
                "env": [{"name": "EPOCHS", "value": "3"}, {"name": "DATA", "value": "/data"}],
                "resources": {"limits": {"cpu": "2", "memory": "4Gi"}, "requests": {"cpu": "1", "memory": "2Gi"}},
                "volumeMounts": [{"name": "kube-api-access", "readOnly": true,
                    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
            }],
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default", "serviceAccount": "default", "securityContext": {},
            "schedulerName": "default-scheduler", "enableServiceLinks": true,
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ],
            "priority": 0, "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {},
    })
}
