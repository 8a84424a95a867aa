//! Programs that outlive the command that started them: each leaves a record, by which they are ended.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::process_id::ProcessId;
use crate::run_folder::cache_folder;

const EXTENSION: &str = "process";
const GRACE: Duration = Duration::from_secs(10);

/// A program that was started to go on by itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    pub name: String,
    pub id: ProcessId,
    /// Its command line, to find what a person started again by the printed command.
    pub command: Vec<String>,
}

impl Record {
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(format!("{}.{EXTENSION}", self.name));
        std::fs::write(&path, serde_json::to_vec(self)?).with_context(|| format!("write {}", path.display()))
    }
}

/// Where such programs keep everything: not in `target/`, or `cargo clean` would forget what runs.
/// One folder for each checkout and each `what`.
#[must_use]
pub fn state_folder(what: &str) -> PathBuf {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR"))
        .display()
        .to_string()
        .replace('/', "-");
    cache_folder()
        .join("run")
        .join(checkout.trim_matches('-'))
        .join(what)
}

/// The programs recorded in a folder and in its folders that still run.
#[must_use]
pub fn running(folder: &Path) -> Vec<Record> {
    records(folder)
        .into_iter()
        .filter(|record| record.id.is_running())
        .collect()
}

/// Ends the programs recorded in a folder, the control planes' stores last. Logs stay. Answers how many there were.
pub fn end_all(folder: &Path) -> usize {
    let mut records = running(folder);
    records.sort_by_key(|record| match record.name.as_str() {
        "etcd" => 2,
        "kube-apiserver" => 1,
        _ => 0,
    });
    for record in &records {
        record.id.end(GRACE);
    }
    for again in restarted(folder) {
        again.end(GRACE);
    }
    records.len()
}

/// What was started again by hand, with the exact command of a record.
fn restarted(folder: &Path) -> Vec<ProcessId> {
    records(folder)
        .iter()
        .flat_map(|record| twins(&record.command))
        .collect()
}

/// Processes with exactly this command line. It names files of this folder, so nobody else has it.
fn twins(command: &[String]) -> Vec<ProcessId> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| command_line(*pid).is_some_and(|words| words == command))
        .filter_map(ProcessId::of)
        .collect()
}

fn command_line(pid: u32) -> Option<Vec<String>> {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    Some(
        text.trim_end_matches('\0')
            .split('\0')
            .map(str::to_owned)
            .collect(),
    )
}

fn records(folder: &Path) -> Vec<Record> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(records(&path));
        } else if path.extension().is_some_and(|extension| extension == EXTENSION) {
            let record = std::fs::read(&path)
                .ok()
                .and_then(|bytes| serde_json::from_slice(&bytes).ok());
            found.extend(record);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_its_own_twin() {
        let own = command_line(std::process::id()).expect("we run");
        assert!(twins(&own).iter().any(|id| id.pid == std::process::id()));
        assert!(twins(&["no such command".to_owned()]).is_empty());
    }
}
