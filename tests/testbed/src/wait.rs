//! Waiting for a state, never for a time.

use std::fmt::Display;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

const PAUSE: Duration = Duration::from_millis(50);

/// Asks `probe` until it answers `Some`. `None` and errors mean "not yet"; the last error is told when
/// the time is over. A probe that hangs counts as "not yet" too.
///
/// # Errors
/// The state did not come within `timeout`.
pub async fn wait_for<T, E: Display>(
    what: &str,
    timeout: Duration,
    mut probe: impl AsyncFnMut() -> Result<Option<T>, E>,
) -> Result<T> {
    let began = Instant::now();
    let mut last = String::from("not there");
    loop {
        let left = timeout.saturating_sub(began.elapsed());
        if left.is_zero() {
            bail!("waited {timeout:?} for {what}: {last}");
        }
        match tokio::time::timeout(left, probe()).await {
            Ok(Ok(Some(found))) => return Ok(found),
            Ok(Ok(None)) => {}
            Ok(Err(error)) => last = error.to_string(),
            Err(_) => last = format!("no answer; before: {last}"),
        }
        tokio::time::sleep(PAUSE.min(left)).await;
    }
}
