//! Facts that parts of the program state about themselves -> live? ready? and why not.
//!
//! Nothing here calls anything: a probe reads what was stated before, so it never depends on an API server.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// `Ok` and `Err` both carry the words shown in the readiness answer.
pub type Stated = Result<String, String>;

/// What probes ask.
#[derive(Default)]
pub struct Health {
    lines: Mutex<Vec<Line>>,
    hearts: Mutex<Vec<Heart>>,
}

struct Line {
    name: &'static str,
    /// Without it the process is not ready.
    required: bool,
    stated: Box<dyn Fn() -> Stated + Send + Sync>,
}

/// One part's statement, changed whenever its truth changes.
#[derive(Debug, Clone)]
pub struct Check(Arc<Mutex<Stated>>);

impl Check {
    pub fn met(&self, words: impl Into<String>) {
        *lock(&self.0) = Ok(words.into());
    }

    pub fn unmet(&self, words: impl Into<String>) {
        *lock(&self.0) = Err(words.into());
    }
}

/// Readiness in words, one line per check, as the API server's own `/readyz?verbose`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readiness {
    pub ready: bool,
    pub text: String,
}

impl Health {
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// A check that must be met before the process is ready; unmet at first.
    #[must_use]
    pub fn require(&self, name: &'static str) -> Check {
        let check = Check(Arc::new(Mutex::new(Err("not yet".to_owned()))));
        let read = check.clone();
        self.require_fn(name, move || lock(&read.0).clone());
        check
    }

    /// As [`Health::require`], computed at each probe. The function must be quick and call nobody.
    pub fn require_fn(&self, name: &'static str, stated: impl Fn() -> Stated + Send + Sync + 'static) {
        lock(&self.lines).push(Line {
            name,
            required: true,
            stated: Box::new(stated),
        });
    }

    /// A line that people see and that decides nothing; met at first.
    #[must_use]
    pub fn note(&self, name: &'static str) -> Check {
        let check = Check(Arc::new(Mutex::new(Ok(String::new()))));
        let read = check.clone();
        let stated = Box::new(move || lock(&read.0).clone());
        lock(&self.lines).push(Line {
            name,
            required: false,
            stated,
        });
        check
    }

    /// Whether requests should be sent here.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        let mut readiness = Readiness {
            ready: true,
            text: String::new(),
        };
        for Line {
            name,
            required,
            stated,
        } in lock(&self.lines).iter()
        {
            let (sign, words) = match (stated(), required) {
                (Ok(words), _) => ("[+]", words),
                (Err(words), true) => {
                    readiness.ready = false;
                    ("[-]", words)
                }
                (Err(words), false) => ("[!]", words),
            };
            let text = &mut readiness.text;
            write!(text, "{sign}{name}").expect("writing into a String does not fail");
            if !words.is_empty() {
                write!(text, ": {words}").expect("writing into a String does not fail");
            }
            text.push('\n');
        }
        readiness
            .text
            .push_str(if readiness.ready { "ready\n" } else { "not ready\n" });
        readiness
    }

    /// A heart for a runtime; the runtime runs [`Beat::run`].
    #[must_use]
    pub fn beat(&self, name: &'static str) -> Beat {
        let beats = Arc::new(AtomicU64::new(0));
        lock(&self.hearts).push(Heart {
            name,
            beats: Arc::clone(&beats),
            last: 0,
            silent: 0,
        });
        Beat(beats)
    }

    /// The runtime that has not beaten for long, if there is one: the process should be restarted.
    ///
    /// # Errors
    /// The name of that runtime.
    pub fn liveness(&self) -> Result<(), &'static str> {
        match lock(&self.hearts)
            .iter()
            .find(|heart| heart.silent >= SILENT_TURNS)
        {
            Some(heart) => Err(heart.name),
            None => Ok(()),
        }
    }

    /// Looks at all hearts, once per turn, for ever. Run by the thread that answers probes.
    pub async fn watch_hearts(&self) {
        loop {
            tokio::time::sleep(TURN).await;
            self.look_at_hearts();
        }
    }

    /// One turn. Counts turns of our own and never elapsed time: a process that was stopped for minutes (SIGSTOP,
    /// a suspended machine) has missed nothing.
    fn look_at_hearts(&self) {
        for Heart {
            name: _,
            beats,
            last,
            silent,
        } in lock(&self.hearts).iter_mut()
        {
            let now = beats.load(Ordering::Relaxed);
            *silent = if now == *last { *silent + 1 } else { 0 };
            *last = now;
        }
    }
}

/// A beat and a look per turn.
const TURN: Duration = Duration::from_millis(500);
/// Ten seconds without a beat while we ourselves were running.
const SILENT_TURNS: u32 = 20;

struct Heart {
    name: &'static str,
    beats: Arc<AtomicU64>,
    last: u64,
    silent: u32,
}

/// Shows that a runtime still runs its tasks.
#[derive(Debug)]
pub struct Beat(Arc<AtomicU64>);

impl Beat {
    /// Beats for ever; to be run beside the work of the watched runtime.
    pub async fn run(self) {
        loop {
            self.0.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(TURN / 2).await;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_ready_once_every_required_check_is_met() {
        let health = Health::new();
        let snapshot = health.require("snapshot");
        let policies = health.note("policies");
        assert_eq!(
            health.readiness().text,
            "[-]snapshot: not yet\n[+]policies\nnot ready\n"
        );
        snapshot.met("3 namespaces");
        policies.unmet("portcullis-guard is deleted");
        let text = "[+]snapshot: 3 namespaces\n[!]policies: portcullis-guard is deleted\nready\n";
        assert_eq!(
            health.readiness(),
            Readiness {
                ready: true,
                text: text.to_owned()
            }
        );
        snapshot.unmet("lost");
        assert!(!health.readiness().ready);
    }

    #[test]
    fn a_silent_heart_ends_liveness_and_a_beat_restores_it() {
        let health = Health::new();
        let beat = health.beat("admission");
        for _ in 0..SILENT_TURNS {
            assert_eq!(health.liveness(), Ok(()));
            health.look_at_hearts();
        }
        assert_eq!(health.liveness(), Err("admission"));
        beat.0.fetch_add(1, Ordering::Relaxed);
        health.look_at_hearts();
        assert_eq!(health.liveness(), Ok(()));
    }
}
