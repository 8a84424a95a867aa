//! HTTP request -> the pipeline's answer -> HTTP response: the edge of the webhook.
//!
//! The pipeline takes microseconds and calls nobody, so it runs inline in the connection's task, on a thread that
//! does nothing else.

mod body;
mod refused;

use std::io;
use std::net::TcpListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, StatusCode};
use hyper::body::{Body, Incoming};
use tokio::time::Instant;

use self::body::{announced, collect, is_plain_json};
use self::refused::Refused;
use super::gang::GangFacts;
use super::policies::{GANGS_PATH, JOBS_PATH, MUTATE_PATH};
use super::{Answer, JobFacts, NamespaceFacts, admit, admit_gang, admit_job};
use crate::clock::parse_duration;
use crate::telemetry::health::Beat;
use crate::telemetry::logs::ADMISSION_THREAD;
use crate::telemetry::metrics::{AdmissionMetrics, CountedWhileHeld, DurationLabels, Metrics, RequestLabels};
use crate::tls::own_thread::{self, OwnThread};
use crate::tls::{DrainBudget, Drained, Exchange, Limits, Measured, Reply, Resolver, Server, Shutdown, Tls};

/// The pipeline, with its facts inside.
pub type Admit = Box<dyn Fn(&[u8]) -> Answer + Send + Sync>;

/// A path of the webhook.
pub struct Route {
    pub path: &'static str,
    /// The label `webhook` of its metrics.
    pub webhook: &'static str,
    pub admit: Admit,
}

impl Route {
    /// The mutating webhook, as the rendered configuration names it.
    #[must_use]
    pub fn enrich(facts: Arc<dyn NamespaceFacts>) -> Self {
        Self {
            path: MUTATE_PATH,
            webhook: "enrich",
            admit: Box::new(move |body| admit(body, &*facts)),
        }
    }

    /// The mutating webhook for jobs that are dispatched whole.
    #[must_use]
    pub fn jobs(facts: Arc<dyn JobFacts>) -> Self {
        Self {
            path: JOBS_PATH,
            webhook: "jobs",
            admit: Box::new(move |body| admit_job(body, &*facts)),
        }
    }

    /// The mutating webhook for gangs.
    #[must_use]
    pub fn gangs(facts: Arc<dyn GangFacts>) -> Self {
        Self {
            path: GANGS_PATH,
            webhook: "gangs",
            admit: Box::new(move |body| admit_gang(body, &*facts)),
        }
    }
}

/// How much a request may be, and how long it may take.
#[derive(Debug, Clone, Copy)]
pub struct RequestLimits {
    /// A review holds two objects of at most 3 MiB, and an envelope.
    pub body_bytes: usize,
    /// The longest time for a request, whatever its `timeout` says.
    pub deadline: Duration,
    /// A body that is not wanted is read away up to this size, to keep the connection usable.
    pub unwanted_bytes: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            body_bytes: 8 * 1024 * 1024,
            deadline: Duration::from_secs(10),
            unwanted_bytes: 64 * 1024,
        }
    }
}

/// Everything the webhook needs.
pub struct Webhook {
    pub routes: Vec<Route>,
    pub resolver: Arc<Resolver>,
    pub metrics: Arc<Metrics>,
    pub limits: Limits,
    pub requests: RequestLimits,
    pub drain: DrainBudget,
}

/// Serves on a thread of its own until told to leave, then drains.
///
/// # Errors
/// If the thread cannot be made.
pub fn spawn(
    webhook: Webhook,
    listener: TcpListener,
    beat: Beat,
    shutdown: Shutdown,
) -> io::Result<OwnThread<io::Result<Drained>>> {
    own_thread::spawn(ADMISSION_THREAD, move || async move {
        tokio::select! {
            ended = serve(webhook, listener, shutdown) => ended,
            () = beat.run() => unreachable!("a heart beats for ever"),
        }
    })
}

/// Serves on the current runtime until told to leave, then drains.
///
/// # Errors
/// If the listener cannot be used by this runtime.
pub async fn serve(webhook: Webhook, listener: TcpListener, shutdown: Shutdown) -> io::Result<Drained> {
    let Webhook {
        routes,
        resolver,
        metrics,
        limits,
        requests,
        drain,
    } = webhook;
    let server = Server {
        door: Tls::new(resolver, Arc::clone(&metrics.tls)),
        exchange: Edge {
            routes,
            limits: requests,
            metrics: Arc::clone(&metrics.admission),
        },
        limits,
        drain,
        metrics: Arc::clone(&metrics.webhook),
    };
    server.run(listener, shutdown).await
}

/// The router: a request in, a reply out, measured.
pub struct Edge {
    pub routes: Vec<Route>,
    pub limits: RequestLimits,
    pub metrics: Arc<AdmissionMetrics>,
}

impl Exchange for Edge {
    async fn answer(&self, request: Request<Incoming>) -> Reply {
        let _in_flight = CountedWhileHeld::new(&self.metrics.in_flight);
        let deadline = Instant::now() + self.time_for(request.uri().query());
        let (head, body) = request.into_parts();
        let route = match self.route(&head) {
            Ok(route) => route,
            Err(refused) => return self.refuse_unread(refused, body, deadline).await,
        };
        if announced(&head.headers).is_some_and(|bytes| bytes > self.limits.body_bytes) {
            return self.refuse(Refused::TooLarge);
        }
        match tokio::time::timeout_at(deadline, collect(body, self.limits.body_bytes)).await {
            Err(_) => self.refuse(Refused::Late),
            Ok(Err(refused)) => self.refuse(refused),
            Ok(Ok(body)) => self.review(route, &body, deadline),
        }
    }
}

impl Edge {
    fn route(&self, head: &http::request::Parts) -> Result<&Route, Refused> {
        let path = head.uri.path();
        let route = self
            .routes
            .iter()
            .find(|route| route.path == path)
            .ok_or(Refused::NotFound)?;
        if head.method != Method::POST {
            return Err(Refused::Method);
        }
        if is_plain_json(&head.headers) {
            Ok(route)
        } else {
            Err(Refused::ContentType)
        }
    }

    /// Body complete -> answer.
    fn review(&self, route: &Route, body: &[u8], deadline: Instant) -> Reply {
        let since = std::time::Instant::now();
        // Nothing of the pipeline outlives the call, so nothing can be left half changed.
        let Ok(answer) = catch_unwind(AssertUnwindSafe(|| (route.admit)(body))) else {
            self.metrics.panics.inc();
            return self.refuse(Refused::Panic);
        };
        if Instant::now() >= deadline {
            return self.refuse(Refused::Late);
        }
        if answer.status == FAULT {
            self.metrics.panics.inc();
        }
        self.metrics.count(&RequestLabels {
            resource: answer.resource,
            operation: answer.operation,
            decision: answer.decision,
            reason: answer.reason,
        });
        if answer.status != 200 || answer.decision == DENIED {
            tell(route.webhook, &answer, since.elapsed());
        }
        let labels = DurationLabels {
            webhook: route.webhook,
            operation: answer.operation,
            decision: answer.decision,
        };
        let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut reply = Reply::new(status, "application/json", answer.body);
        reply.measured = Some(Measured {
            histogram: self.metrics.duration(&labels),
            since,
        });
        reply
    }

    fn refuse(&self, refused: Refused) -> Reply {
        let reason = refused.reason();
        self.metrics.count(&RequestLabels {
            resource: "unknown",
            operation: "unknown",
            decision: "error",
            reason,
        });
        match refused {
            Refused::Late => {
                self.metrics.deadline_exceeded.inc();
                tracing::warn!(reason, "a review was not answered in its time");
            }
            Refused::Panic => tracing::error!(reason, "a review was not answered"),
            Refused::NotFound
            | Refused::Method
            | Refused::ContentType
            | Refused::TooLarge
            | Refused::BrokenBody => tracing::debug!(reason, "a request that is no review"),
        }
        refused.reply()
    }

    /// Reads a small body away, so that the connection can go on.
    async fn refuse_unread(&self, refused: Refused, body: Incoming, deadline: Instant) -> Reply {
        let reply = self.refuse(refused);
        if body
            .size_hint()
            .upper()
            .is_none_or(|bytes| bytes > self.limits.unwanted_bytes as u64)
        {
            return reply.closing();
        }
        match tokio::time::timeout_at(deadline, collect(body, self.limits.unwanted_bytes)).await {
            Ok(Ok(_)) => reply,
            Ok(Err(_)) | Err(_) => reply.closing(),
        }
    }

    /// The caller's own deadline from `?timeout=2s`, less a tenth for the way back.
    fn time_for(&self, query: Option<&str>) -> Duration {
        let asked = query
            .and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("timeout=")))
            .and_then(|text| parse_duration(text).ok())
            .filter(|timeout| !timeout.is_zero());
        let time = asked.unwrap_or(self.limits.deadline).min(self.limits.deadline);
        time - (time / 10).min(Duration::from_millis(250))
    }
}

/// One line for a review that was denied or failed: identities only.
fn tell(webhook: &'static str, answer: &Answer, took: Duration) {
    let Answer {
        uid,
        namespace,
        name,
        resource,
        operation,
        decision,
        reason,
        status,
        // The sentence stays between us and the user: it can quote what he sent.
        detail: _,
        body: _,
    } = answer;
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    tracing::info!(
        webhook,
        uid = short(uid),
        namespace = short(namespace),
        name = short(name),
        resource,
        operation,
        decision,
        reason,
        status,
        micros,
        "review"
    );
}

/// At most 253 characters, the longest a name can be, and no control characters: anybody who reaches the port may
/// have made it up.
fn short(text: &str) -> String {
    text.chars()
        .take(253)
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect()
}

/// The pipeline met a bug of ours and caught it.
const FAULT: u16 = 500;

/// The pipeline's word for "the user was told no".
pub const DENIED: &str = "denied";
