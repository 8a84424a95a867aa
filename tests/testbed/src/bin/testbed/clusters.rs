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
    let folder = state_folder(CLUSTERS);
    match running(&folder).len() {
        PROGRAMS => eprintln!("testbed: they run already"),
        0 => {
            let began = Instant::now();
            undone_on_failure(CLUSTERS, start_detached(CLUSTERS)).await?;
            eprintln!(
                "testbed: ready after {:.1} s; `make clusters-down` ends them",
                began.elapsed().as_secs_f64()
            );
        }
        some => bail!(
            "{some} of {PROGRAMS} programs run in {}: `make clusters-down` first",
            folder.display()
        ),
    }
    print_kubeconfigs(CLUSTERS);
    Ok(())
}

pub(crate) fn down(what: &str) -> Result<()> {
    let ended = end_all(&state_folder(what))?;
    eprintln!("testbed: ended {ended} programs of {what}");
    Ok(())
}

/// A manager and two workers that outlive this process.
pub(crate) async fn start_detached(what: &str) -> Result<World> {
    let folder = state_folder(what);
    end_all(&folder)?;
    std::fs::create_dir_all(&folder)?;
    eprintln!("testbed: starting a manager and two workers");
    World::start_in(folder, 2, |options| options.detached = true).await
}

/// Runs something that leaves programs behind; after an error or Ctrl-C it leaves none.
pub(crate) async fn undone_on_failure<T>(what: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
    let done = tokio::select! {
        done = work => done,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    if done.is_err() {
        down(what)?;
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
