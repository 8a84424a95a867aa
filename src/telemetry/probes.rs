//! The plain port: `/healthz`, `/readyz`, `/metrics`. Served by a thread of its own, so that load on the webhook
//! cannot fail a probe.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;

use super::health::Health;
use super::metrics::{Metrics, OPEN_METRICS};
use crate::tls::own_thread::{self, OwnThread};
use crate::tls::{DrainBudget, Exchange, Limits, Plain, Reply, Server, Shutdown};

/// Starts answering on a thread named `probes`, until the token is cancelled (after the webhook has drained:
/// probes are asked to the end).
///
/// # Errors
/// If the thread cannot be made.
pub fn spawn(
    listener: TcpListener,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    end: CancellationToken,
) -> io::Result<OwnThread<io::Result<()>>> {
    own_thread::spawn("probes", move || async move {
        let server = Server {
            door: Plain,
            metrics: Arc::clone(&metrics.probes),
            exchange: Probes {
                health: Arc::clone(&health),
                metrics,
            },
            limits: Limits {
                connections: 64,
                ..Limits::default()
            },
            drain: AT_ONCE,
        };
        let shutdown = Shutdown {
            begin: end,
            hurry: CancellationToken::new(),
        };
        tokio::select! {
            ended = server.run(listener, shutdown) => ended.map(|_| ()),
            () = health.watch_hearts() => Ok(()),
        }
    })
}

const AT_ONCE: DrainBudget = DrainBudget {
    total: Duration::ZERO,
    endpoint_lag: Duration::ZERO,
    refuse: Duration::ZERO,
    finish: Duration::from_millis(200),
};

struct Probes {
    health: Arc<Health>,
    metrics: Arc<Metrics>,
}

impl Exchange for Probes {
    async fn answer(&self, request: Request<Incoming>) -> Reply {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let reply = Reply::text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
            return reply.with(http::header::ALLOW, "GET, HEAD").closing();
        }
        match request.uri().path() {
            "/healthz" | "/livez" => match self.health.liveness() {
                Ok(()) => Reply::text(StatusCode::OK, "ok\n"),
                Err(name) => {
                    let words = format!("the runtime {name:?} does not run any more\n");
                    Reply::text(StatusCode::INTERNAL_SERVER_ERROR, words)
                }
            },
            "/readyz" => {
                let readiness = self.health.readiness();
                let status = if readiness.ready {
                    StatusCode::OK
                } else {
                    StatusCode::SERVICE_UNAVAILABLE
                };
                Reply::text(status, readiness.text)
            }
            "/metrics" => Reply::new(StatusCode::OK, OPEN_METRICS, self.metrics.scrape()),
            _ => Reply::text(StatusCode::NOT_FOUND, "there is /healthz, /readyz and /metrics\n"),
        }
    }
}
