//! `cargo bench --bench wrk`: reviews per second over TLS with keep-alive, beside a bare hyper + rustls server.
//!
//! Each server is a process of its own on core 0, `wrk` runs on core 1, rounds are interleaved, medians printed.
//! `ROUNDS` and `SECONDS` (of one measurement) may be set in the environment.
#![allow(clippy::unwrap_used)] // a bench may stop where it stands

mod servers;
mod table;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Instant;

use servers::Kind;
use table::{Figures, Row};

/// What is asked of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    /// Connections that are kept.
    Kept(u32),
    /// A connection, and so a handshake, per request.
    Fresh(u32),
}

const LOADS: [Load; 3] = [Load::Kept(8), Load::Kept(25), Load::Fresh(8)];

fn main() {
    if let Some(kind) = std::env::args().skip_while(|word| word != "serve").nth(1) {
        return servers::serve(kind.parse().unwrap());
    }
    if !std::env::args().any(|word| word == "--bench") {
        println!("a measurement, not a test: cargo bench --bench wrk");
        return;
    }
    if Command::new("wrk").arg("-v").output().is_err() {
        eprintln!("wrk is not installed: apt-get install wrk");
        std::process::exit(1);
    }
    let dir = tempfile::tempdir().unwrap();
    let rounds = setting("ROUNDS", 3);
    let mut rows = Vec::new();
    for load in LOADS {
        let running = Kind::ALL.map(|kind| (kind, Running::start(kind)));
        let mut figures = Kind::ALL.map(|_| Vec::new());
        for _ in 0..rounds {
            for ((_, server), figures) in running.iter().zip(&mut figures) {
                figures.push(measure(server, load, dir.path()));
            }
        }
        for ((kind, server), figures) in running.iter().zip(figures) {
            rows.push(Row {
                load: load.name(),
                server: kind.name(),
                figures: table::median(figures),
                rss: server.rss(),
            });
        }
    }
    let review = servers::review();
    println!(
        "review of {} bytes, {} rounds of {} s",
        review.len(),
        rounds,
        setting("SECONDS", 5)
    );
    print!("{}", table::render(&rows));
}

fn setting(name: &str, default: u32) -> u32 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

impl Load {
    fn name(self) -> String {
        match self {
            Self::Kept(n) => format!("{n} kept"),
            Self::Fresh(n) => format!("{n} fresh"),
        }
    }

    /// What wrk sends.
    fn script(self) -> String {
        let close = match self {
            Self::Kept(_) => "",
            Self::Fresh(_) => "wrk.headers['Connection'] = 'close'\n",
        };
        let review = String::from_utf8(servers::review()).unwrap();
        format!(
            "wrk.method = 'POST'\nwrk.headers['Content-Type'] = 'application/json'\n{close}wrk.body = [==[{review}]==]\n"
        )
    }
}

/// A server in a process of its own; it ends with its stdin.
struct Running {
    child: Child,
    _stdin: ChildStdin,
    port: u16,
}

impl Running {
    fn start(kind: Kind) -> Self {
        let mut child = Command::new("taskset")
            .args(["-c", "0"])
            .arg(std::env::current_exe().unwrap())
            .args(["serve", kind.name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        Self {
            _stdin: child.stdin.take().unwrap(),
            child,
            port: line.trim().parse().unwrap(),
        }
    }

    /// CPU time of the process so far, in microseconds.
    fn cpu(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let after_name = stat.rsplit_once(") ").unwrap().1;
        let ticks: f64 = after_name
            .split(' ')
            .skip(11)
            .take(2)
            .map(|ticks| ticks.parse::<f64>().unwrap())
            .sum();
        ticks * 10_000.0
    }

    fn rss(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .unwrap();
        line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn measure(server: &Running, load: Load, dir: &Path) -> Figures {
    let script = dir.join("review.lua");
    std::fs::write(&script, load.script()).unwrap();
    let (Load::Kept(connections) | Load::Fresh(connections)) = load;
    let (before, begun) = (server.cpu(), Instant::now());
    let output = Command::new("taskset")
        .args(["-c", "1", "wrk", "--latency", "-t1"])
        .arg(format!("-c{connections}"))
        .arg(format!("-d{}s", setting("SECONDS", 5)))
        .arg("-s")
        .arg(&script)
        .arg(format!("https://127.0.0.1:{}/mutate?timeout=2s", server.port))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let (cpu, wall) = (server.cpu() - before, begun.elapsed());
    Figures::read(&said, cpu, wall).unwrap_or_else(|| panic!("wrk said: {said}"))
}
