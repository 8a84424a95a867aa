//! Clusters that go on after the command: up, down, and what to print about them.

use std::future::Future;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail};
use portcullis_testbed::detached::{end_all, running, state_folder};
use portcullis_testbed::{Programs, World};

pub(crate) const CLUSTERS: &str = "clusters";
pub(crate) const DEMO: &str = "demo";
const NAMES: [&str; 3] = ["manager", "worker-a", "worker-b"];
const PROGRAMS: usize = 15;

pub(crate) async fn build() -> Result<()> {
    tokio::task::spawn_blocking(Programs::ready).await??;
    Ok(())
}

pub(crate) async fn up() -> Result<()> {
    if running(&state_folder(CLUSTERS)).len() == PROGRAMS {
        eprintln!("testbed: they run already");
    } else {
        refuse_if_running(CLUSTERS)?;
        let began = Instant::now();
        eprintln!("testbed: starting a manager and two workers");
        undone_on_failure(CLUSTERS, start_detached(CLUSTERS)).await?;
        let seconds = began.elapsed().as_secs_f64();
        eprintln!("testbed: ready after {seconds:.1} s; `make clusters-down` ends them");
    }
    print_kubeconfigs(CLUSTERS);
    Ok(())
}

pub(crate) fn down(what: &str) {
    let folder = state_folder(what);
    let ended = end_all(&folder);
    for name in NAMES {
        let _ = std::fs::remove_dir_all(folder.join(name).join("etcd"));
    }
    eprintln!(
        "testbed: ended {ended} programs; their logs are in {}",
        folder.display()
    );
}

/// Before anything is started, or its failure would end what runs.
pub(crate) fn refuse_if_running(what: &str) -> Result<()> {
    match running(&state_folder(what)).len() {
        0 => Ok(()),
        some => bail!("{some} programs of {what} run: `make {what}-down` first"),
    }
}

/// A manager and two workers that outlive this process.
pub(crate) async fn start_detached(what: &str) -> Result<World> {
    let folder = state_folder(what);
    // Logs and data of the last time.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    World::start_in(folder, 2, |options| options.detached = true).await
}

/// Runs something that leaves programs behind; after an error or Ctrl-C it leaves none.
pub(crate) async fn undone_on_failure<T>(what: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
    let done = tokio::select! {
        done = work => done,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    if done.is_err() {
        down(what);
    }
    done
}

/// One line per cluster, for people and for scripts: `manager=PATH`.
pub(crate) fn print_kubeconfigs(what: &str) {
    for name in NAMES {
        let path: PathBuf = state_folder(what).join(name).join("admin.kubeconfig");
        println!("{name}={}", path.display());
    }
}
