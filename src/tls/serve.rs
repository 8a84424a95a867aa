//! A listener -> answered requests, with limits on every stage and an end that breaks no call.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use prometheus_client::metrics::histogram::Histogram;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{Overdue, Watch, Watched};
use super::drain::{DrainBudget, Shutdown, Stage, StageCell, leave};
use super::handshake::Door;
use super::limits::Limits;
use crate::telemetry::metrics::ConnectionMetrics;

/// What answers requests.
pub trait Exchange: Send + Sync + 'static {
    /// Answers one request. Cancelled when the client goes away.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Reply> + Send;
}

/// An answer, and what is measured until its last byte is written.
#[derive(Debug)]
pub struct Reply {
    pub response: Response<Full<Bytes>>,
    pub measured: Option<Measured>,
}

/// A duration that ends when the answer is written.
#[derive(Debug)]
pub struct Measured {
    pub histogram: Histogram,
    pub since: Instant,
}

impl Measured {
    pub(super) fn end(&self) {
        self.histogram.observe(self.since.elapsed().as_secs_f64());
    }
}

impl Reply {
    /// An answer with a body of this content type; `Content-Length` is exact.
    #[must_use]
    pub fn new(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        let mut response = Response::new(Full::new(body.into()));
        *response.status_mut() = status;
        response
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        Self {
            response,
            measured: None,
        }
    }

    /// An answer in words.
    #[must_use]
    pub fn text(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self::new(status, "text/plain; charset=utf-8", body)
    }

    /// Closes the connection after this answer.
    #[must_use]
    pub fn closing(self) -> Self {
        self.with(CONNECTION, "close")
    }

    /// With one header more.
    #[must_use]
    pub fn with(mut self, name: http::HeaderName, value: &'static str) -> Self {
        self.response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
        self
    }
}

/// One listener's worth of serving.
pub struct Server<D, X> {
    pub door: D,
    pub exchange: X,
    pub limits: Limits,
    pub drain: DrainBudget,
    pub metrics: Arc<ConnectionMetrics>,
}

/// How serving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Connections that were cut because the budget was over.
    pub cut: usize,
}

/// Binds with a backlog for bursts (a hundred new connections at once are usual). Needs a runtime.
///
/// # Errors
/// If the address is taken or not ours.
pub fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(1024)?.into_std()
}

impl<D: Door, X: Exchange> Server<D, X> {
    /// Serves until told to leave, then leaves by the stages of [`super::drain`].
    ///
    /// # Errors
    /// If the listener cannot be used by this runtime.
    pub async fn run(self, listener: std::net::TcpListener, shutdown: Shutdown) -> io::Result<Drained> {
        let listener = TcpListener::from_std(listener)?;
        let permits = Arc::new(Semaphore::new(self.limits.connections));
        let connections = TaskTracker::new();
        let hall = Arc::new(Hall {
            stage: StageCell::default(),
            close_now: CancellationToken::new(),
            protocol: protocol(&self.limits),
            server: self,
        });
        {
            let mut leaving = pin!(leave(&shutdown, &hall.server.drain, &hall.stage, &connections));
            let mut backoff = Backoff::default();
            loop {
                tokio::select! {
                    biased;
                    () = &mut leaving => break,
                    (tcp, permit) = next_connection(&listener, &permits, &mut backoff, &hall.server.metrics) => {
                        connections.spawn(Arc::clone(&hall).host(tcp, permit));
                    }
                }
            }
        }
        // Whoever was in the kernel's queue still gets an answer.
        while let Some(Ok((tcp, _))) = listener.accept().now_or_never() {
            let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
                break;
            };
            connections.spawn(Arc::clone(&hall).host(tcp, permit));
        }
        drop(listener);
        hall.close_now.cancel();
        connections.close();
        let _late = tokio::time::timeout(hall.server.drain.finish, connections.wait()).await;
        Ok(Drained {
            cut: connections.len(),
        })
    }
}

/// Accepts when there is room: until then the kernel queues. Errors of the process (no descriptors left) make a
/// pause instead of a spinning core; errors of one connection do not.
async fn next_connection(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
    backoff: &mut Backoff,
    metrics: &ConnectionMetrics,
) -> (TcpStream, OwnedSemaphorePermit) {
    loop {
        let permit = Arc::clone(permits)
            .acquire_owned()
            .await
            .expect("the semaphore is never closed");
        match listener.accept().await {
            Ok((tcp, _)) => {
                backoff.reset();
                return (tcp, permit);
            }
            Err(error) => {
                metrics.accept_errors.inc();
                let of_one_connection = matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionAborted
                        | io::ErrorKind::ConnectionReset
                        | io::ErrorKind::ConnectionRefused
                        | io::ErrorKind::Interrupted
                );
                if !of_one_connection {
                    if backoff.is_first() {
                        tracing::warn!(%error, "cannot accept connections; trying again");
                    }
                    tokio::time::sleep(backoff.next()).await;
                }
            }
        }
    }
}

/// 5 ms, doubled up to half a second.
#[derive(Debug, Default)]
struct Backoff(u32);

impl Backoff {
    fn is_first(&self) -> bool {
        self.0 == 0
    }

    fn next(&mut self) -> Duration {
        let wait = Duration::from_millis(5 << self.0.min(7)).min(Duration::from_millis(500));
        self.0 += 1;
        wait
    }

    fn reset(&mut self) {
        self.0 = 0;
    }
}

fn protocol(limits: &Limits) -> http1::Builder {
    let mut protocol = http1::Builder::new();
    protocol
        .keep_alive(true)
        .max_header_size(limits.header_bytes)
        .header_read_timeout(None);
    protocol
}

/// What all connections of a listener share.
struct Hall<D, X> {
    server: Server<D, X>,
    protocol: http1::Builder,
    stage: StageCell,
    /// The listener is closed: finish and go.
    close_now: CancellationToken,
}

impl<D: Door, X: Exchange> Hall<D, X> {
    /// One connection from its first byte to its last.
    async fn host(self: Arc<Self>, tcp: TcpStream, _permit: OwnedSemaphorePermit) {
        let _open = self.server.metrics.opened();
        // A failure here costs speed at most, and a dead socket shows itself at the first read.
        let _slower = tcp.set_nodelay(true);
        let opening = self.server.door.open(tcp, self.server.limits.handshake);
        let stream = tokio::select! {
            stream = opening => stream,
            () = self.close_now.cancelled() => None,
        };
        if let Some(stream) = stream {
            self.converse(stream).await;
        }
    }

    async fn converse(&self, stream: D::Stream) {
        let watch = Watch::new();
        let service = service_fn(|request| {
            watch.request();
            let watch = &watch;
            async move {
                let Reply { response, measured } = self.answer(request).await;
                watch.answered(measured);
                Ok::<_, std::convert::Infallible>(response)
            }
        });
        let stream = TokioIo::new(Watched::new(stream, Arc::clone(&watch)));
        let mut connection = pin!(self.protocol.serve_connection(stream, service));
        let mut overdue = Overdue::new(Arc::clone(&watch), self.server.limits);
        let mut closing = pin!(self.close_now.cancelled());
        let mut told_to_close = false;
        std::future::poll_fn(|cx| {
            use std::task::Poll;
            // How a connection ended is the client's affair; a broken one is closed like any other.
            if connection.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            if let Poll::Ready(phase) = overdue.poll(cx) {
                self.server.metrics.cut(phase.name()).inc();
                return Poll::Ready(());
            }
            if !told_to_close && closing.as_mut().poll(cx).is_ready() {
                told_to_close = true;
                if watch.phase().is_quiet() {
                    return Poll::Ready(());
                }
                connection.as_mut().graceful_shutdown();
                cx.waker().wake_by_ref();
            }
            Poll::Pending
        })
        .await;
    }

    async fn answer(&self, request: Request<Incoming>) -> Reply {
        let stage = self.stage.get();
        let limits = &self.server.limits;
        if stage == Stage::Refusing {
            return Reply::text(StatusCode::SERVICE_UNAVAILABLE, "leaving: ask another replica\n")
                .with(RETRY_AFTER, "0")
                .closing();
        }
        let length = request.uri().path_and_query().map_or(0, |uri| uri.as_str().len());
        if length > limits.uri_bytes {
            return Reply::text(StatusCode::URI_TOO_LONG, "the request line is too long\n").closing();
        }
        if request.headers().len() > limits.headers {
            let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
            return Reply::text(status, "too many header lines\n").closing();
        }
        let reply = self.server.exchange.answer(request).await;
        // Asked again: the signal may have come while the answer was made.
        match self.stage.get() {
            Stage::Serving => reply,
            Stage::Leaving | Stage::Refusing => reply.closing(),
        }
    }
}
