//! Whole jobs at each step of their dispatch: we are killed there, or another process overtakes us. Whatever happens, one
//! copy of each runs.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use portcullis_testbed::chaos::audit;
use portcullis_testbed::chaos::load::jobs::{JOB, MPI_JOB};

use crate::stage::{A, B, FIRST, SECOND, Stage};
use crate::without::Running;

/// A script, and the step at which it plays. Before `mirror` is after `open`.
#[derive(Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    pub step: &'static str,
    pub run: for<'a> fn(&'a mut Stage, &'static str) -> Running<'a>,
}

macro_rules! at {
    ($run:ident, $step:literal) => {
        Case {
            name: stringify!($run),
            step: $step,
            run: |stage, step| Box::pin($run(stage, step)),
        }
    };
}

macro_rules! cases {
    ($($run:ident),+) => { [$(
        at!($run, "prepare"), at!($run, "commit"), at!($run, "open"), at!($run, "mirror"),
    )+] };
}

pub const CASES: [Case; 8] = cases!(
    jobs_run_once_though_we_are_killed_before_a_step,
    jobs_run_once_though_we_are_overtaken_before_a_step
);

const JOBS: [(&str, &str); 2] = [(JOB, "job"), (MPI_JOB, "mpi")];

/// Another process is started in its place.
async fn jobs_run_once_though_we_are_killed_before_a_step(
    stage: &mut Stage,
    step: &'static str,
) -> Result<()> {
    come_to(stage, step).await?;
    stage.kill(A);
    take_over(stage).await?;
    end(stage).await
}

/// Another process does all the work; then the first goes on.
async fn jobs_run_once_though_we_are_overtaken_before_a_step(
    stage: &mut Stage,
    step: &'static str,
) -> Result<()> {
    come_to(stage, step).await?;
    take_over(stage).await?;
    for (_, name) in JOBS {
        stage.release_of(A, step, name)?;
    }
    end(stage).await
}

/// A is about to make this step of each job: all before were made, and none after.
async fn come_to(stage: &mut Stage, step: &str) -> Result<()> {
    stage.start(A).await?;
    for (kind, name) in JOBS {
        stage.hold_of(A, step, name)?;
        stage.create_job(kind, name).await?;
    }
    for (kind, name) in JOBS {
        stage.must_be_held_of(A, step, name).await?;
        let open = stage.job_is_open(kind, name, FIRST).await?;
        ensure!(open == (step == "mirror"), "{name} is open: {open}");
    }
    Ok(())
}

async fn take_over(stage: &mut Stage) -> Result<()> {
    stage.start(B).await?;
    for (kind, name) in JOBS {
        stage.until_job_runs(kind, name).await?;
    }
    Ok(())
}

/// The user deletes them: nothing is left, and one copy of each ran.
async fn end(stage: &Stage) -> Result<()> {
    for (kind, name) in JOBS {
        stage.delete_job(kind, name).await?;
    }
    for (kind, name) in JOBS {
        stage.until_job_gone(kind, name).await?;
        for worker in [FIRST, SECOND] {
            let left = stage.job(kind, name, Some(worker)).await?;
            ensure!(left.is_none(), "{name} is left over: {left:?}");
        }
    }
    ran_once(stage)
}

/// By the audit logs of the workers.
fn ran_once(stage: &Stage) -> Result<()> {
    let world = &stage.rig().world;
    let mut events = audit::read(world)?;
    events.retain(|event| event.namespace == stage.namespace);
    let lives = audit::lives(&events, world.manager.name());
    let mut ran: BTreeMap<&str, usize> = BTreeMap::new();
    for life in lives.values().filter(|life| life.opened.is_some()) {
        *ran.entry(&life.local_uid).or_default() += 1;
    }
    ensure!(
        ran.len() == JOBS.len() && ran.values().all(|count| *count == 1),
        "copies that ever ran: {ran:?}"
    );
    Ok(())
}
