//! Where a run keeps its logs: `target/testbed/runs/<time>-<process>-<number>`. Old ones are removed.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use anyhow::{Context, Result};

use crate::process_id::ProcessId;

const KEPT: usize = 20;

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

/// Removes all but the newest runs, none whose process still runs.
fn forget_old(runs: &Path) {
    let names = std::fs::read_dir(runs).into_iter().flatten().flatten();
    let mut names: Vec<String> = names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_unstable(); // begins with the time
    let old = names.len().saturating_sub(KEPT);
    for name in &names[..old] {
        let process = name
            .split('-')
            .nth(1)
            .and_then(|pid| pid.parse().ok())
            .and_then(ProcessId::of);
        if process.is_none() {
            let _ = std::fs::remove_dir_all(runs.join(name));
        }
    }
}
