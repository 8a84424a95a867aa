//! As [`crate::without`], with a whole job in place of the pod: the calls whose bodies are other ones.

use anyhow::Result;
use portcullis_testbed::chaos::check::Kind;
use portcullis_testbed::chaos::load::jobs::JOB;

use crate::stage::{A, B, FIRST, POD, SECOND, Stage};
use crate::without::Script;

macro_rules! script {
    ($run:ident, $fault:ident, $kind:ident) => {
        Script {
            name: stringify!($run),
            fault: stringify!($fault),
            who: A,
            shows: &[Kind::$kind],
            run: |stage| Box::pin($run(stage)),
        }
    };
}

pub const SCRIPTS: [Script; 3] = [
    script!(jobs_rule_3_version_in_the_commit, CommitVersion, BoundTwice),
    script!(jobs_rule_5_uid_in_the_delete, DeleteUid, ForeignTouched),
    script!(jobs_rule_7_uid_in_the_opening, OpenUid, OpenedUncommitted),
];

/// A commits on an old view, after B placed the job elsewhere.
async fn jobs_rule_3_version_in_the_commit(stage: &mut Stage) -> Result<()> {
    stage.start(A).await?;
    stage.hold(A, "commit")?;
    stage.create_job(JOB, POD).await?;
    stage.must_be_held(A, "commit").await?;
    stage.cut(FIRST);
    // B never comes to show that the job was open: else it would fail as rolled back.
    stage.hold(B, "open")?;
    stage.start(B).await?;
    stage.must_be_held(B, "open").await?;
    stage.open_as_portcullis(POD, SECOND).await?;
    stage.release(A, "commit")?;
    stage
        .perhaps(async || {
            let job = stage.job(JOB, POD, None).await?.unwrap_or_default();
            Ok(job["metadata"]["annotations"]["portcullis.dev/cluster"] == "worker-a")
        })
        .await;
    stage.heal(FIRST);
    stage
        .perhaps(async || stage.job_is_open(JOB, POD, FIRST).await)
        .await;
    stage.release(B, "open")
}

/// Between view and delete the copy was replaced by a stranger of the same name.
async fn jobs_rule_5_uid_in_the_delete(stage: &mut Stage) -> Result<()> {
    stage.start(A).await?;
    stage.create_job(JOB, POD).await?;
    stage.until_job_runs(JOB, POD).await?;
    stage.hold(A, "delete")?;
    stage.delete_job(JOB, POD).await?;
    stage.must_be_held(A, "delete").await?;
    stage.delete_copy(JOB, POD, FIRST).await?;
    stage.foreign_job(POD, FIRST).await?;
    stage.release(A, "delete")?;
    stage.until_job_gone(JOB, POD).await
}

/// Between view and opening the copy was replaced by that of the next job of the name, which is not committed yet.
async fn jobs_rule_7_uid_in_the_opening(stage: &mut Stage) -> Result<()> {
    stage.start(A).await?;
    stage.hold(A, "open")?;
    stage.create_job(JOB, POD).await?;
    stage.must_be_held(A, "open").await?;
    stage.delete_job(JOB, POD).await?;
    stage.hold(B, "commit")?;
    stage.start(B).await?;
    stage.until_job_gone(JOB, POD).await?;
    stage.create_job(JOB, POD).await?;
    stage.must_be_held(B, "commit").await?;
    stage.release(A, "open")?;
    stage
        .perhaps(async || stage.job_is_open(JOB, POD, FIRST).await)
        .await;
    stage.release(B, "commit")
}
