//! Leaving without breaking a call: a signal, then three stages.
//!
//! 1. *Leaving*: connections and requests are still accepted and served; each answer closes its connection, so the
//!    client dials anew, elsewhere. Ends when no connection is left and the endpoint lag is over.
//! 2. *Refusing*, for what is left near the end of the budget: 503 with `Retry-After: 0` and `Connection: close`,
//!    which makes the API server retry at once on a new connection.
//! 3. The listener closes and what is in flight is finished.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// When to leave, told from outside.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    /// Leave within the budget.
    pub begin: CancellationToken,
    /// Leave now: go to the last stage at once.
    pub hurry: CancellationToken,
}

impl Shutdown {
    /// The first SIGTERM or SIGINT begins, the second hurries. Needs a runtime.
    ///
    /// # Errors
    /// If the process cannot listen to signals.
    pub fn on_signals() -> std::io::Result<Self> {
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let shutdown = Self::default();
        let told = shutdown.clone();
        tokio::spawn(async move {
            for token in [told.begin, told.hurry] {
                tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
                token.cancel();
            }
        });
        Ok(shutdown)
    }
}

/// How long leaving may take.
#[derive(Debug, Clone, Copy)]
pub struct DrainBudget {
    /// All of it. Below the client's idle limit (90 s) plus the lag, a connection can be idle to the end, and a
    /// request that crosses its closing is lost to the user.
    pub total: Duration,
    /// How long endpoints may still name us after readiness is gone.
    pub endpoint_lag: Duration,
    /// The last part of `total`, in which requests are refused.
    pub refuse: Duration,
    /// After the listener is closed: for what is in flight.
    pub finish: Duration,
}

impl Default for DrainBudget {
    fn default() -> Self {
        Self {
            total: Duration::from_secs(100),
            endpoint_lag: Duration::from_secs(5),
            refuse: Duration::from_secs(5),
            finish: Duration::from_secs(2),
        }
    }
}

/// How requests are met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Serving,
    Leaving,
    Refusing,
}

/// The stage, read by every connection at every request.
#[derive(Debug, Clone, Default)]
pub(super) struct StageCell(Arc<AtomicU8>);

impl StageCell {
    pub(super) fn get(&self) -> Stage {
        match self.0.load(Ordering::Relaxed) {
            0 => Stage::Serving,
            1 => Stage::Leaving,
            _ => Stage::Refusing,
        }
    }

    fn set(&self, stage: Stage) {
        let value = match stage {
            Stage::Serving => 0,
            Stage::Leaving => 1,
            Stage::Refusing => 2,
        };
        self.0.store(value, Ordering::Relaxed);
    }
}

/// Waits for the signal, goes through the first two stages, and ends when the listener may be closed.
pub(super) async fn leave(
    shutdown: &Shutdown,
    budget: &DrainBudget,
    stage: &StageCell,
    connections: &TaskTracker,
) {
    tokio::select! { () = shutdown.begin.cancelled() => {}, () = shutdown.hurry.cancelled() => {} }
    stage.set(Stage::Leaving);
    connections.close();
    let begun = Instant::now();
    let empty = async {
        sleep_until(begun + budget.endpoint_lag).await;
        connections.wait().await;
    };
    tokio::select! {
        biased;
        () = shutdown.hurry.cancelled() => {}
        () = empty => return,
        () = sleep_until(begun + budget.total.saturating_sub(budget.refuse)) => {}
    }
    stage.set(Stage::Refusing);
    let hurried = async {
        shutdown.hurry.cancelled().await;
        sleep(budget.refuse.min(HURRIED)).await;
    };
    tokio::select! { () = connections.wait() => {}, () = sleep(budget.refuse) => {}, () = hurried => {} }
}

/// How long requests are refused when somebody is in a hurry.
const HURRIED: Duration = Duration::from_secs(1);
