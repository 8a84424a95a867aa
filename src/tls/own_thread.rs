//! A future on a thread and a runtime of its own, so that nothing else can delay it.

use std::io;

use tokio::sync::oneshot;

/// The end of a future that runs elsewhere.
#[derive(Debug)]
pub struct OwnThread<T> {
    result: oneshot::Receiver<T>,
}

/// Runs `make()` on a new thread with a single-threaded runtime. One thread was measured to serve more reviews
/// than two, and reconcilers on another runtime cannot delay it.
///
/// # Errors
/// If the thread or its runtime cannot be made.
pub fn spawn<F, Fut>(name: &str, make: F) -> io::Result<OwnThread<Fut::Output>>
where
    F: FnOnce() -> Fut + Send + 'static,
    Fut: Future,
    Fut::Output: Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (report, result) = oneshot::channel();
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let output = runtime.block_on(async { make().await });
        // Nobody may be waiting any more; then the output is not wanted.
        let _unwanted = report.send(output);
    })?;
    Ok(OwnThread { result })
}

/// The thread died of a panic.
#[derive(Debug, thiserror::Error)]
#[error("the thread ended by a panic")]
pub struct Died;

impl<T> OwnThread<T> {
    /// Waits for the future's end.
    ///
    /// # Errors
    /// If it panicked.
    pub async fn join(self) -> Result<T, Died> {
        self.result.await.map_err(|_| Died)
    }
}
