//! Where a run keeps its logs: `target/testbed/runs/<time>-<process>-<number>`. Old ones are removed.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use anyhow::{Context, Result};

use crate::process_id::ProcessId;

const KEPT: usize = 10;

/// Of this machine, outside of the checkout: what `cargo clean` must not take.
pub(crate) fn cache_folder() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/tmp".into())).join(".cache");
    cache.unwrap_or_else(home).join("portcullis-testbed")
}

/// `target/testbed` of this checkout, or `$PORTCULLIS_TESTBED_DIR`.
pub(crate) fn testbed_folder() -> PathBuf {
    std::env::var_os("PORTCULLIS_TESTBED_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/testbed"),
        PathBuf::from,
    )
}

/// Makes a folder for this run.
pub(crate) fn new_run_folder() -> Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let runs = testbed_folder().join("runs");
    std::fs::create_dir_all(&runs).with_context(|| format!("create {}", runs.display()))?;
    let runs = runs.canonicalize()?;
    forget_old(&runs);
    let seconds = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)?
        .as_secs();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = runs.join(format!("{seconds}-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    Ok(folder)
}

/// Removes all but the newest runs, and the data of all that have ended. One whose process runs is left alone.
fn forget_old(runs: &Path) {
    let mut names = names_in(runs);
    names.sort_unstable(); // begins with the time
    let old = names.len().saturating_sub(KEPT);
    for (number, name) in names.iter().enumerate() {
        let process = name
            .split('-')
            .nth(1)
            .and_then(|pid| pid.parse().ok())
            .and_then(ProcessId::of);
        let run = runs.join(name);
        if process.is_some() {
            continue;
        }
        if number < old {
            let _ = std::fs::remove_dir_all(&run);
            continue;
        }
        for cluster in names_in(&run) {
            let _ = std::fs::remove_dir_all(run.join(cluster).join("etcd"));
        }
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}
