//! One running program: started, signalled, ended by its own process id, its output in a log file.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;

use crate::detached::Record;
use crate::process_id::ProcessId;
use crate::programs::Programs;

/// How long a program may take to end after SIGTERM (the babysitter waits as long).
const GRACE: Duration = Duration::from_secs(5);

/// What to start, and where its log goes.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) name: String,
    /// Log, process id file and working directory.
    pub(crate) folder: PathBuf,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) life: Life,
}

/// When a program ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// With this value, at the latest with this process.
    Ours,
    /// Goes on until somebody ends it.
    Detached,
}

/// Signals that a test sends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    Term,
    Kill,
    Stop,
    Cont,
}

#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) id: ProcessId,
    name: String,
    log: PathBuf,
    keeper: Keeper,
}

#[derive(Debug)]
enum Keeper {
    /// `orders` is the pipe whose end ends the program.
    Babysitter {
        child: Child,
        orders: Option<ChildStdin>,
    },
    Nobody,
}

impl Program {
    /// Starts it; returns as soon as it has a process id.
    pub(crate) fn start(launch: &Launch) -> Result<Self> {
        let log = launch.folder.join(format!("{}.log", launch.name));
        let started = match launch.life {
            Life::Ours => Self::babysit(launch, &log),
            Life::Detached => Self::detach(launch, &log),
        };
        let (id, keeper) = started.with_context(|| format!("start {}", launch.name))?;
        Ok(Self {
            id,
            name: launch.name.clone(),
            log,
            keeper,
        })
    }

    fn babysit(launch: &Launch, log: &Path) -> Result<(ProcessId, Keeper)> {
        let pid_file = launch.folder.join(format!("{}.pid", launch.name));
        let _ = std::fs::remove_file(&pid_file);
        let output = append(log)?;
        let mut child = Command::new(&Programs::ready()?.babysit)
            .arg("run")
            .arg(&pid_file)
            .arg(&launch.program)
            .args(&launch.args)
            .envs(launch.env.iter().cloned())
            .current_dir(&launch.folder)
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        let orders = child.stdin.take();
        let began = Instant::now();
        loop {
            let pid = std::fs::read_to_string(&pid_file)
                .ok()
                .and_then(|text| text.trim().parse().ok());
            if let Some(id) = pid.and_then(ProcessId::of) {
                return Ok((id, Keeper::Babysitter { child, orders }));
            }
            if let Some(status) = child.try_wait()? {
                bail!("it ended at once ({status}):\n{}", tail(log, 20));
            }
            if began.elapsed() > GRACE {
                bail!("no process id after {GRACE:?}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn detach(launch: &Launch, log: &Path) -> Result<(ProcessId, Keeper)> {
        let output = Command::new(&Programs::ready()?.babysit)
            .arg("detach")
            .arg(log)
            .arg(&launch.program)
            .args(&launch.args)
            .envs(launch.env.iter().cloned())
            .current_dir(&launch.folder)
            .stdin(Stdio::null())
            .output()?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let pid: u32 = String::from_utf8_lossy(&output.stdout)
            .trim()
            .parse()
            .context("read the process id")?;
        let id = ProcessId::of(pid).with_context(|| format!("it ended at once:\n{}", tail(log, 20)))?;
        let program = launch.program.display().to_string();
        let command = std::iter::once(program)
            .chain(launch.args.iter().cloned())
            .collect();
        Record {
            name: launch.name.clone(),
            id,
            command,
        }
        .write(&launch.folder)?;
        Ok((id, Keeper::Nobody))
    }

    /// Sends a signal. Nothing happens if the program has ended.
    pub(crate) fn order(&mut self, order: Order) {
        match &mut self.keeper {
            Keeper::Babysitter {
                orders: Some(pipe), ..
            } => {
                let word = match order {
                    Order::Term => "TERM\n",
                    Order::Kill => "KILL\n",
                    Order::Stop => "STOP\n",
                    Order::Cont => "CONT\n",
                };
                // A broken pipe: the program has ended and its babysitter with it.
                let _ = pipe.write_all(word.as_bytes());
            }
            Keeper::Babysitter { orders: None, .. } => {}
            Keeper::Nobody => self.id.send(match order {
                Order::Term => Signal::TERM,
                Order::Kill => Signal::KILL,
                Order::Stop => Signal::STOP,
                Order::Cont => Signal::CONT,
            }),
        }
    }

    /// Begins the end: SIGTERM, and SIGKILL if it takes longer than five seconds. Does not wait.
    pub(crate) fn begin_end(&mut self) {
        match &mut self.keeper {
            Keeper::Babysitter { orders, .. } => drop(orders.take()),
            Keeper::Nobody => {}
        }
    }

    /// Begins the end and waits for it. Blocks.
    pub(crate) fn end(&mut self) {
        self.begin_end();
        match &mut self.keeper {
            Keeper::Babysitter { child, .. } => drop(child.wait()),
            Keeper::Nobody => self.id.end(GRACE),
        }
    }

    /// Waits until it has ended by itself or by a signal. Blocks.
    pub(crate) fn await_exit(&mut self, timeout: Duration) {
        let began = Instant::now();
        while self.is_running() && began.elapsed() < timeout {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// How it ended; `None` while it runs, and for ever if it is not our child. Its keeper, who passes the status on, ends a
    /// moment later.
    pub(crate) fn exit_status(&mut self, timeout: Duration) -> Option<ExitStatus> {
        let Keeper::Babysitter { child, .. } = &mut self.keeper else {
            return None;
        };
        let began = Instant::now();
        loop {
            let status = child.try_wait().ok().flatten();
            if status.is_some() || began.elapsed() >= timeout {
                return status;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.id.is_running()
    }

    /// The last lines of its log under a heading.
    pub(crate) fn log_tail(&self, lines: usize) -> String {
        format!(
            "--- {} ({})\n{}",
            self.name,
            self.log.display(),
            tail(&self.log, lines)
        )
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if matches!(self.keeper, Keeper::Babysitter { .. }) {
            self.end();
        }
    }
}

fn append(path: &Path) -> Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("open {}", path.display()))
}

/// The last lines of a file; empty if it cannot be read.
pub(crate) fn tail(path: &Path, lines: usize) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    let last = &all[all.len().saturating_sub(lines)..];
    last.iter()
        .map(|line| clip(line, 400))
        .collect::<Vec<_>>()
        .join("\n")
}

fn clip(line: &str, at: usize) -> &str {
    line.char_indices().nth(at).map_or(line, |(end, _)| &line[..end])
}
