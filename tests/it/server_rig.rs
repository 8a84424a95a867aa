//! A webhook on a real socket, and a client that sees every byte.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use portcullis::admission::Answer;
use portcullis::admission::server::{self, Admit, RequestLimits, Route, Webhook};
use portcullis::telemetry::health::Health;
use portcullis::telemetry::metrics::Metrics;
use portcullis::tls::issue::{Issued, Lives, ServerNames};
use portcullis::tls::own_thread::OwnThread;
use portcullis::tls::{DrainBudget, Drained, Limits, Resolver, Shutdown};
use rustls::RootCertStore;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// What a test may change before the start.
pub struct Setup {
    pub limits: Limits,
    pub requests: RequestLimits,
    pub drain: DrainBudget,
}

impl Setup {
    pub fn new() -> Self {
        Self {
            limits: Limits::default(),
            requests: RequestLimits::default(),
            drain: quick_drain(),
        }
    }

    /// Stages are cut after this long, so that tests need not wait.
    pub fn impatient(limit: Duration) -> Self {
        let limits = Limits {
            handshake: limit,
            first_byte: limit,
            header: limit,
            request: limit,
            write: limit,
            ..Limits::default()
        };
        Self {
            limits,
            ..Self::new()
        }
    }

    pub fn webhook(self, admit: Admit) -> (Webhook, Issued) {
        portcullis::tls::install_crypto();
        let names = ServerNames::of_url("https://127.0.0.1:1").unwrap();
        let issued = Issued::new(&names, &Lives::default(), Timestamp::now()).unwrap();
        let resolver = Resolver::new();
        resolver.install(issued.served(Timestamp::now()).unwrap());
        let Self {
            limits,
            requests,
            drain,
        } = self;
        let routes = vec![Route {
            path: "/mutate",
            webhook: "enrich",
            admit,
        }];
        let metrics = Metrics::new();
        (
            Webhook {
                routes,
                resolver,
                metrics,
                limits,
                requests,
                drain,
            },
            issued,
        )
    }

    pub fn start(self, admit: impl Fn(&[u8]) -> Answer + Send + Sync + 'static) -> Rig {
        let (webhook, issued) = self.webhook(Box::new(admit));
        let listener = portcullis::tls::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let (resolver, metrics) = (Arc::clone(&webhook.resolver), Arc::clone(&webhook.metrics));
        let (address, shutdown, health) =
            (listener.local_addr().unwrap(), Shutdown::default(), Health::new());
        let ended = server::spawn(webhook, listener, health.beat("admission"), shutdown.clone()).unwrap();
        Rig {
            address,
            issued,
            resolver,
            metrics,
            health,
            shutdown,
            ended,
        }
    }
}

/// No endpoint lag, ends as soon as it can.
pub fn quick_drain() -> DrainBudget {
    DrainBudget {
        total: Duration::from_secs(20),
        endpoint_lag: Duration::ZERO,
        refuse: Duration::from_secs(1),
        finish: Duration::from_secs(2),
    }
}

pub struct Rig {
    pub address: SocketAddr,
    pub issued: Issued,
    pub resolver: Arc<Resolver>,
    pub metrics: Arc<Metrics>,
    pub health: Arc<Health>,
    pub shutdown: Shutdown,
    pub ended: OwnThread<io::Result<Drained>>,
}

impl Rig {
    pub async fn dial(&self) -> Wire<TlsStream<TcpStream>> {
        dial(self.address, &self.issued.ca).await.unwrap()
    }

    pub fn metric(&self, series: &str) -> f64 {
        metric(&self.metrics, series)
    }

    /// How many connections were cut in this stage.
    pub fn cut(&self, stage: &str) -> f64 {
        self.metric(&format!(
            "portcullis_connections_cut_total{{listener=\"webhook\",stage=\"{stage}\"}}"
        ))
    }

    pub fn open(&self) -> f64 {
        self.metric("portcullis_connections_open{listener=\"webhook\"}")
    }

    pub async fn end(self) -> Drained {
        self.shutdown.begin.cancel();
        within(self.ended.join()).await.unwrap().unwrap()
    }
}

/// The value of one series of a scrape; 0 if it is not there yet.
pub fn metric(metrics: &Metrics, series: &str) -> f64 {
    let scrape = metrics.scrape();
    let line = scrape
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.parse().unwrap())
}

/// An answer that a pipeline could give.
pub fn allowed() -> Answer {
    Answer {
        status: 200,
        body: br#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#.to_vec(),
        decision: "allowed",
        reason: "patched",
        resource: "pods",
        operation: "CREATE",
        uid: String::new(),
        namespace: String::new(),
        name: String::new(),
        detail: String::new(),
    }
}

/// Fails instead of hanging.
#[track_caller]
pub fn within<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        match tokio::time::timeout(Duration::from_secs(30), work).await {
            Ok(output) => output,
            Err(_) => panic!("30 s are over at {caller}"),
        }
    }
}

/// Waits for a state.
#[track_caller]
pub fn eventually(mut state: impl FnMut() -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        for _ in 0..3000 {
            if state() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the state was not reached within 30 s: {caller}");
    }
}

/// A client that trusts this CA alone and offers these protocols.
pub fn client(
    ca: &str,
    alpn: &[&str],
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> TlsConnector {
    portcullis::tls::install_crypto();
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap())
        .unwrap();
    let mut config = rustls::ClientConfig::builder_with_protocol_versions(versions)
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    config.resumption = rustls::client::Resumption::disabled();
    TlsConnector::from(Arc::new(config))
}

/// As the API server dials: `http/1.1`, no session cache.
pub async fn dial(address: SocketAddr, ca: &str) -> io::Result<Wire<TlsStream<TcpStream>>> {
    let tcp = TcpStream::connect(address).await?;
    tcp.set_nodelay(true)?;
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connector = client(ca, &["http/1.1"], rustls::ALL_VERSIONS);
    Ok(Wire {
        stream: connector.connect(name, tcp).await?,
        read: Vec::new(),
    })
}

pub struct Wire<S> {
    pub stream: S,
    read: Vec<u8>,
}

/// An answer as it came.
#[derive(Debug)]
pub struct Received {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Received {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(found, _)| found == name)
            .map(|(_, value)| value.as_str())
    }

    pub fn closes(&self) -> bool {
        self.header("connection") == Some("close")
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub fn new(stream: S) -> Self {
        Self {
            stream,
            read: Vec::new(),
        }
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref()).await?;
        self.stream.flush().await
    }

    /// The next answer; `None` if the server closed instead. Reads exactly `Content-Length` bytes of body.
    pub async fn receive(&mut self) -> Option<Received> {
        let head_end = loop {
            if let Some(at) = self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                break at;
            }
            within(self.more()).await?;
        };
        let head = String::from_utf8(self.read[..head_end].to_vec()).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let mut received = Received {
            status,
            headers,
            body: Vec::new(),
        };
        let length: usize = received.header("content-length").unwrap().parse().unwrap();
        while self.read.len() < head_end + 4 + length {
            within(self.more()).await?;
        }
        received.body = self.read[head_end + 4..head_end + 4 + length].to_vec();
        self.read.drain(..head_end + 4 + length);
        Some(received)
    }

    async fn more(&mut self) -> Option<()> {
        match self.stream.read_buf(&mut self.read).await {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(()),
        }
    }

    /// A review as the API server sends it.
    pub async fn post(&mut self, body: impl AsRef<[u8]>) -> Option<Received> {
        let body = body.as_ref();
        self.send(request("/mutate?timeout=10s", body.len())).await.ok()?;
        self.send(body).await.ok()?;
        self.receive().await
    }

    /// Whether the server has closed, without any byte.
    pub async fn is_closed(&mut self) -> bool {
        within(self.more()).await.is_none()
    }
}

/// The head of a POST.
pub fn request(path: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: kube-apiserver-admission\r\n\
         Content-Length: {length}\r\nAccept: application/json, */*\r\nContent-Type: application/json\r\n\
         Accept-Encoding: gzip\r\n\r\n"
    )
}
