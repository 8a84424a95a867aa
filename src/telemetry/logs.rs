//! Events -> lines on stderr, as text or JSON, written by a thread of their own.
//!
//! A full pipe or a slow disk behind stderr must not delay an admission call: lines wait in a bounded queue, and
//! what does not fit is dropped and counted. Bodies, keys and tokens are never given to the log by anybody.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// How a line looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// Logging that could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error(
        "{found:?} is no log level: write error, warn, info, debug or trace, or a list such as info,kube=debug"
    )]
    Level {
        found: String,
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    #[error("start the thread that writes the log")]
    Thread(#[source] io::Error),
    #[error("logging is set up already")]
    Twice,
}

/// Sets up logging for the process, and makes panics say no data.
///
/// # Errors
/// If the level cannot be read, or logging was set up before.
pub fn init(format: LogFormat, level: &str) -> Result<Flush, LogError> {
    let filter = filter(level)?;
    let (queue, flush) = Queue::start(io::stderr()).map_err(LogError::Thread)?;
    tracing::subscriber::set_global_default(subscriber(format, filter, queue))
        .map_err(|_| LogError::Twice)?;
    std::panic::set_hook(Box::new(tell_panic));
    Ok(flush)
}

const KUBE_OFF: &str = "kube_client=off,kube_runtime=off";

/// A level for everything of ours; what others say is heard from `warn` on, unless the text names a target. Kube is not
/// heard unless it is named: its lines tell neither the cluster nor what was asked, and ours say the same with both.
///
/// # Errors
/// If the text is neither a level nor a list of directives.
pub fn filter(level: &str) -> Result<EnvFilter, LogError> {
    let is_plain = level.parse::<tracing::Level>().is_ok();
    let directives = match (is_plain, level.contains("kube")) {
        (true, _) => format!("warn,{KUBE_OFF},portcullis={level}"),
        (false, false) => format!("{KUBE_OFF},{level}"),
        (false, true) => level.to_owned(),
    };
    EnvFilter::try_new(directives).map_err(|source| LogError::Level {
        found: level.to_owned(),
        source,
    })
}

/// The subscriber, for [`init`] and for tests that read what it writes.
pub fn subscriber<W>(format: LogFormat, filter: EnvFilter, writer: W) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(false);
    match format {
        LogFormat::Text => Box::new(builder.finish()),
        LogFormat::Json => Box::new(builder.json().flatten_event(true).finish()),
    }
}

/// Says where a panic was. Its message only if it is a literal, or off the admission thread: a formatted one can
/// quote what a user sent (a slice error prints the string).
fn tell_panic(info: &std::panic::PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("unnamed");
    let payload = info.payload();
    let literal = payload.downcast_ref::<&'static str>().copied();
    let formatted = payload.downcast_ref::<String>().map(String::as_str);
    let words = match (literal, formatted) {
        (Some(literal), _) => literal,
        (None, Some(formatted)) if thread != ADMISSION_THREAD => formatted,
        (None, _) => "(its message is not shown)",
    };
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    tracing::error!(thread, place, words, "panic: a bug in portcullis");
}

/// The name of the thread that reads what users send.
pub const ADMISSION_THREAD: &str = "admission";

/// Lines that may wait.
const QUEUE: usize = 4096;

enum Message {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

#[derive(Clone)]
struct Queue {
    lines: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

impl Queue {
    fn start(out: impl Write + Send + 'static) -> io::Result<(Self, Flush)> {
        let (lines, received) = sync_channel(QUEUE);
        let dropped = Arc::new(AtomicU64::new(0));
        let queue = Self {
            lines: lines.clone(),
            dropped: Arc::clone(&dropped),
        };
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || write_lines(&received, &dropped, out))?;
        Ok((queue, Flush(lines)))
    }
}

fn write_lines(received: &Receiver<Message>, dropped: &AtomicU64, mut out: impl Write) {
    while let Ok(message) = received.recv() {
        // Nobody is left to tell that stderr is gone; the program goes on without it.
        let _gone = match message {
            Message::Line(line) => out.write_all(&line),
            Message::Flush(done) => {
                let flushed = out.flush();
                let _nobody_waits = done.send(());
                flushed
            }
        };
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _gone = writeln!(out, "{lost} log lines were dropped: stderr was too slow");
        }
    }
}

impl<'w> MakeWriter<'w> for Queue {
    type Writer = Self;

    fn make_writer(&'w self) -> Self {
        self.clone()
    }
}

/// One call is one line: that is how the formatter writes.
impl Write for Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match self.lines.try_send(Message::Line(line.to_vec())) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            Err(TrySendError::Full(_)) => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes what waits when dropped, for a second at most. Held by `main`.
#[must_use = "lines that wait are lost unless this is dropped at the end of main"]
pub struct Flush(SyncSender<Message>);

impl Drop for Flush {
    fn drop(&mut self) {
        let (done, wait) = sync_channel(1);
        if self.0.try_send(Message::Flush(done)).is_ok() {
            let _too_slow = wait.recv_timeout(Duration::from_secs(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn reads_levels_and_directives() {
        for good in ["info", "debug", "TRACE", "info,kube=debug", "portcullis=trace"] {
            assert!(filter(good).is_ok(), "{good}");
        }
        assert!(matches!(filter("portcullis=loud"), Err(LogError::Level { .. })));
    }

    #[test]
    fn kube_is_heard_only_if_it_is_named() {
        let said = |level: &str| filter(level).expect("a level").to_string();
        for quiet in ["info", "portcullis=debug,info"] {
            assert!(said(quiet).contains("kube_client=off"), "{quiet}");
        }
        assert!(!said("info,kube_client=warn").contains("off"));
    }

    /// A pipe that nobody reads.
    struct Stuck(Arc<Mutex<()>>);

    impl Write for Stuck {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            drop(self.0.lock());
            Ok(line.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_stuck_stderr_drops_lines_and_delays_nobody() {
        let gate = Arc::new(Mutex::new(()));
        let held = gate.lock();
        let (mut queue, flush) = Queue::start(Stuck(Arc::clone(&gate))).expect("a thread");
        for _ in 0..QUEUE + 100 {
            queue.write_all(b"line\n").expect("never fails");
        }
        assert!(queue.dropped.load(Ordering::Relaxed) >= 98);
        drop(held);
        drop(flush);
    }
}
