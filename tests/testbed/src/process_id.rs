//! A process id that cannot be mistaken for its number's next owner: id and start time.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// One process of this machine, running or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    pub pid: u32,
    /// In clock ticks since boot: field 22 of `/proc/PID/stat`.
    started: u64,
}

impl ProcessId {
    /// The process that has this number now; `None` if there is none.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        Some(Self {
            pid,
            started: Stat::read(pid)?.started,
        })
    }

    #[must_use]
    pub fn is_running(&self) -> bool {
        Stat::read(self.pid)
            .is_some_and(|stat| stat.started == self.started && !matches!(stat.state, 'Z' | 'X'))
    }

    /// True between SIGSTOP and SIGCONT.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        Stat::read(self.pid).is_some_and(|stat| stat.started == self.started && stat.state == 'T')
    }

    /// Asks to end, insists after `grace`, returns when it is gone. Blocks.
    pub fn end(&self, grace: Duration) {
        for (signal, patience) in [(Signal::TERM, grace), (Signal::KILL, Duration::from_secs(5))] {
            self.send(signal);
            self.send(Signal::CONT);
            let began = Instant::now();
            while self.is_running() && began.elapsed() < patience {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    pub(crate) fn send(&self, signal: Signal) {
        let raw = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let (true, Some(pid)) = (self.is_running(), raw) {
            // It may end between the look and the signal: then there is nothing to do.
            let _ = kill_process(pid, signal);
        }
    }
}

struct Stat {
    state: char,
    started: u64,
}

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The second field is the name in parentheses and may hold anything, so count from its end.
        let (_, rest) = text.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let started = fields.nth(18)?.parse().ok()?;
        Some(Self { state, started })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_runs() {
        let own = ProcessId::of(std::process::id()).expect("we run");
        assert!(own.is_running());
        assert!(!own.is_stopped());
    }

    #[test]
    fn the_same_number_with_another_start_time_is_somebody_else() {
        let own = ProcessId::of(std::process::id()).expect("we run");
        let before = ProcessId {
            started: own.started - 1,
            ..own
        };
        assert!(!before.is_running());
    }
}
