//! One connection: which stage it is in, and when that stage has taken too long.
//!
//! hyper drives the protocol; a wrapper around the stream sees bytes come and answers go, and so knows the stage.
//! Everything happens in the connection's own task, so the relaxed atomics are never contended.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::Limits;
use super::serve::Measured;

/// The stage of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    /// Nothing was ever sent.
    Fresh,
    /// Between two requests.
    Idle,
    /// A request has begun to arrive.
    Header,
    /// The header is complete; body and answer are under way.
    Request,
    /// The answer is being written.
    Writing,
    /// Our side is closed.
    Lingering,
}

impl Phase {
    pub(super) const ALL: [Self; 6] = [
        Self::Fresh,
        Self::Idle,
        Self::Header,
        Self::Request,
        Self::Writing,
        Self::Lingering,
    ];

    /// The label value of a connection that was cut in this stage.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Fresh => "first_byte",
            Self::Idle => "idle",
            Self::Header => "header",
            Self::Request => "request",
            Self::Writing => "write",
            Self::Lingering => "linger",
        }
    }

    fn limit(self, limits: &Limits) -> Duration {
        match self {
            Self::Fresh => limits.first_byte,
            Self::Idle => limits.idle,
            Self::Header => limits.header,
            Self::Request => limits.request,
            Self::Writing => limits.write,
            Self::Lingering => limits.linger,
        }
    }

    /// Nothing is lost if the connection is closed now.
    pub(super) fn is_quiet(self) -> bool {
        match self {
            Self::Fresh | Self::Idle | Self::Lingering => true,
            Self::Header | Self::Request | Self::Writing => false,
        }
    }
}

/// The stages in which a connection can be cut: label values.
pub const CUT_STAGES: [&str; Phase::ALL.len()] = {
    let mut names = [""; Phase::ALL.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = Phase::ALL[i].name();
        i += 1;
    }
    names
};

/// What stream and service tell each other.
#[derive(Debug)]
pub(super) struct Watch {
    /// The phase in the low byte, above it the number of changes: two requests in one poll are told apart.
    state: AtomicU32,
    /// Bytes of the next request came before this answer was written.
    early: AtomicBool,
    measured: Mutex<Option<Measured>>,
}

impl Watch {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: AtomicU32::new(Phase::Fresh as u32),
            early: AtomicBool::new(false),
            measured: Mutex::new(None),
        })
    }

    pub(super) fn phase(&self) -> Phase {
        Phase::ALL[(self.state.load(Ordering::Relaxed) & 0xff) as usize]
    }

    /// The header of a request is complete.
    pub(super) fn request(&self) {
        self.enter(Phase::Request);
    }

    /// The answer is known; `measured` ends when it is written.
    pub(super) fn answered(&self, measured: Option<Measured>) {
        *self.measured.lock().unwrap_or_else(PoisonError::into_inner) = measured;
        self.enter(Phase::Writing);
    }

    fn enter(&self, phase: Phase) {
        let changes = (self.state.load(Ordering::Relaxed) >> 8).wrapping_add(1);
        self.state.store((changes << 8) | phase as u32, Ordering::Relaxed);
    }

    fn bytes_came(&self) {
        match self.phase() {
            Phase::Fresh | Phase::Idle => self.enter(Phase::Header),
            Phase::Writing => self.early.store(true, Ordering::Relaxed),
            Phase::Header | Phase::Request | Phase::Lingering => {}
        }
    }

    fn flushed(&self) {
        if self.phase() != Phase::Writing {
            return;
        }
        if let Some(measured) = self
            .measured
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
        {
            measured.end();
        }
        let early = self.early.swap(false, Ordering::Relaxed);
        self.enter(if early { Phase::Header } else { Phase::Idle });
    }
}

/// The stream as hyper sees it.
pub(super) struct Watched<S> {
    stream: S,
    watch: Arc<Watch>,
    closed: bool,
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S, watch: Arc<Watch>) -> Self {
        Self {
            stream,
            watch,
            closed: false,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        if buf.filled().len() > before {
            self.watch.bytes_came();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.watch.flushed();
        Poll::Ready(Ok(()))
    }

    /// Closes our side, then reads until the peer closes its own: bytes left unread would make the kernel send a
    /// reset, which can overtake the answer.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.closed {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            self.closed = true;
            self.watch.enter(Phase::Lingering);
        }
        let mut scratch = [0_u8; 4096];
        loop {
            let mut buf = ReadBuf::new(&mut scratch);
            match ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buf)) {
                Ok(()) if !buf.filled().is_empty() => {}
                // The peer is gone one way or the other, and that was the aim.
                Ok(()) | Err(_) => return Poll::Ready(Ok(())),
            }
        }
    }
}

/// Ends when a phase has lasted longer than its limit.
pub(super) struct Overdue {
    watch: Arc<Watch>,
    limits: Limits,
    seen: u32,
    deadline: Instant,
    sleep: Pin<Box<Sleep>>,
}

impl Overdue {
    pub(super) fn new(watch: Arc<Watch>, limits: Limits) -> Self {
        let deadline = Instant::now() + watch.phase().limit(&limits);
        let seen = watch.state.load(Ordering::Relaxed);
        Self {
            watch,
            limits,
            seen,
            deadline,
            sleep: Box::pin(tokio::time::sleep_until(deadline)),
        }
    }

    /// To be polled after each poll of the connection. The timer is only moved when the deadline comes nearer, so
    /// a request that is read, answered and written in one poll costs no timer.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Phase> {
        let state = self.watch.state.load(Ordering::Relaxed);
        let phase = self.watch.phase();
        if state != self.seen {
            self.seen = state;
            self.deadline = Instant::now() + phase.limit(&self.limits);
            if self.deadline < self.sleep.deadline() {
                self.sleep.as_mut().reset(self.deadline);
            }
        }
        loop {
            ready!(self.sleep.as_mut().poll(cx));
            if Instant::now() >= self.deadline {
                return Poll::Ready(phase);
            }
            self.sleep.as_mut().reset(self.deadline);
        }
    }
}
