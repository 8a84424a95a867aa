//! One scripted interleaving per cell "without it" of `docs/protocol.md`, on real API servers. Each runs twice: with
//! the precondition dropped the judge must see the violation, with it kept the same script must end well.

use std::pin::Pin;

use anyhow::Result;
use kube::ResourceExt;
use portcullis_testbed::chaos::check::Kind;
use serde_json::json;

use crate::stage::{A, B, FIRST, SECOND, Stage, Who, phase};

pub type Running<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

pub struct Script {
    pub name: &'static str,
    pub fault: &'static str,
    pub who: Who,
    pub shows: &'static [Kind],
    pub run: for<'a> fn(&'a mut Stage) -> Running<'a>,
}

macro_rules! script {
    ($run:ident, $fault:ident, $who:ident, $($kind:ident)|+) => {
        Script {
            name: stringify!($run),
            fault: stringify!($fault),
            who: $who,
            shows: &[$(Kind::$kind),+],
            run: |stage| Box::pin($run(stage)),
        }
    };
}

pub const SCRIPTS: [Script; 16] = [
    script!(
        rule_1_proof_that_the_local_pod_is_gone,
        LocalProof,
        B,
        FailedWithoutCause
    ),
    script!(rule_3_version_in_the_commit, CommitVersion, A, BoundTwice),
    script!(rule_3_finalizer_in_the_same_patch, FinalizerApart, A, LeftOver),
    script!(rule_3b_source_of_the_copy, Source, A, StaleCopy),
    script!(
        rule_3c_end_of_the_attempt_before_the_delete,
        GiveUp,
        B,
        FailedWithoutCause
    ),
    script!(
        rule_4_an_opened_copy_is_never_a_stray,
        OpenedCopy,
        B,
        KilledHealthy
    ),
    script!(rule_5_uid_in_the_delete, DeleteUid, A, ForeignTouched),
    script!(rule_7_uid_in_the_opening, OpenUid, A, OpenedUncommitted),
    script!(rule_8_version_in_the_take_back, TakeBackVersion, A, BoundTwice),
    script!(rule_9_version_in_the_clearing, ClearVersion, A, StatusUntrue),
    script!(rule_10_uid_in_the_status, StatusPreconditions, A, StatusUntrue),
    script!(
        rule_11_proof_that_the_remote_pod_is_gone,
        RemoteProof,
        B,
        FailedWithoutCause
    ),
    script!(
        rule_11_version_in_the_failure,
        StatusVersion,
        A,
        FailedWithoutCause
    ),
    script!(rule_12_attempt_of_the_copy, Attempt, B, KilledHealthy),
    script!(
        rule_14_proof_that_the_remote_pod_is_gone,
        RemoteProof,
        B,
        TwoAtOnce
    ),
    script!(rule_17_a_name_is_held_everywhere, HeldName, A, TwoAtOnce),
];

/// B does not see the local pod yet, but its copy.
async fn rule_1_proof_that_the_local_pod_is_gone(stage: &mut Stage) -> Result<()> {
    stage.start(A).await?;
    stage.start(B).await?;
    stage.blind(B, "manager")?;
    stage.hold(A, "commit")?;
    stage.create(json!({})).await?;
    stage.must_be_held(A, "commit").await?;
    stage
        .perhaps(async || Ok(stage.remote(FIRST).await?.is_none()))
        .await;
    stage.release(A, "commit")
}

/// A commits on an old view, after B placed the pod elsewhere.
async fn rule_3_version_in_the_commit(stage: &mut Stage) -> Result<()> {
    stage.start(A).await?;
    stage.hold(A, "commit")?;
    stage.create(json!({})).await?;
    stage.must_be_held(A, "commit").await?;
    stage.cut(FIRST);
    stage.hold(B, "open")?;
    stage.start(B).await?;
    stage.must_be_held(B, "open").await?;
    stage.hold(B, "mirror")?; // else the pod would show that it was open before, and fail as rolled back
    stage.release(B, "open")?;
    stage
        .until("B's copy to run", async || stage.copy_runs(SECOND).await)
        .await?;
    stage.release(A, "commit")?;
    let by_a = |cluster: &String| cluster == "worker-a";
    stage
        .perhaps(async || {
            Ok(stage
                .local()
                .await?
                .is_some_and(|pod| pod.annotations().get("portcullis.dev/cluster").is_some_and(by_a)))
        })
        .await;
    stage.heal(FIRST);
    stage.perhaps(async || stage.is_open(FIRST).await).await;
    stage.release(B, "mirror")
}

/// The process dies between commit and finalizer; the pod is deleted while its copy runs.
async fn rule_3_finalizer_in_the_same_patch(stage: &mut Stage) -> Result<()> {
    stage.start(A).await?;
    stage.hold(A, "finalizer")?;
    stage.create(json!({})).await?;
    stage.held_soon(A, "finalizer").await;
    stage.kill(A);
    stage.start(B).await?;
    stage.until_runs().await?;
    stage.kill(B);
    stage.delete_local().await?;
    stage.start(B).await?;
    stage.until_gone().await
}

/// The user edits the pod between prepare and commit.
async fn rule_3b_source_of_the_copy(stage: &mut Stage) -> Result<()> {
    stage.start(A).await?;
    stage.hold(A, "commit")?;
    stage.create(json!({})).await?;
    stage.must_be_held(A, "commit").await?;
    stage.patch_image("app:2").await?;
    stage.release(A, "commit")?;
    stage.until_runs().await
}

/// B still sees the pod waiting for a gate that is off, and its copy ready; the pod is committed by A.
async fn rule_3c_end_of_the_attempt_before_the_delete(stage: &mut Stage) -> Result<()> {
    stage.start(A).await?;
    stage.start(B).await?;
    stage.hold(A, "open")?;
    stage.hold(A, "mirror")?; // so it is B who says that the pod waits, and has seen it
    stage.create_waiting().await?;
    stage.blind(B, "manager")?;
    stage.release(A, "mirror")?;
    stage.remove_other_gates().await?;
    stage
        .perhaps(async || Ok(stage.remote(FIRST).await?.is_none() && stage.held_now(A, "open")))
        .await;
    stage.release(A, "open")
}

/// B still sees the pod uncommitted, and its copy open.
async fn rule_4_an_opened_copy_is_never_a_stray(stage: &mut Stage) -> Result<()> {
    stage.start(A).await?;
    stage.start(B).await?;
    stage.hold(A, "prepare")?;
    stage.hold(B, "prepare")?;
    stage.create(json!({})).await?;
    stage.must_be_held(A, "prepare").await?;
    stage.must_be_held(B, "prepare").await?;
    stage.blind(B, "manager")?;
    stage.release(A, "prepare")?;
    stage.until_runs().await?;
    stage.release(B, "prepare")?;
    stage.perhaps(async || Ok(!stage.is_open(FIRST).await?)).await;
    Ok(())
}

/// Between view and delete the copy was replaced by a stranger of the same name.
async fn rule_5_uid_in_the_delete(stage: &mut Stage) -> Result<()> {
    stage.start(A).await?;
    stage.create(json!({})).await?;
    stage.until_runs().await?;
    stage.hold(A, "delete")?;
    stage.delete_local().await?;
    stage.must_be_held(A, "delete").await?;
    stage.delete_remote(FIRST).await?;
    stage.foreign(FIRST).await?;
    stage.release(A, "delete")?;
    stage.until_gone().await
}

/// Between view and opening the copy was replaced by that of the next pod of the name, which is not committed yet.
async fn rule_7_uid_in_the_opening(stage: &mut Stage) -> Result<()> {
    stage.start(A).await?;
    stage.hold(A, "open")?;
    stage.create(json!({})).await?;
    stage.must_be_held(A, "open").await?;
    stage.delete_local().await?;
    stage.hold(B, "commit")?;
    stage.start(B).await?;
    stage.until_gone().await?;
    stage.create(json!({})).await?;
    stage.must_be_held(B, "commit").await?;
    stage.release(A, "open")?;
    stage.perhaps(async || stage.is_open(FIRST).await).await;
    stage.release(B, "commit")
}

/// The scheduler finds a node between view and take-back.
async fn rule_8_version_in_the_take_back(stage: &mut Stage) -> Result<()> {
    stage.cordon_nodes(FIRST, true).await?;
    stage.start(A).await?;
    stage.hold(A, "take-back")?;
    stage.create(json!({})).await?;
    stage.must_be_held(A, "take-back").await?;
    stage.cordon_nodes(FIRST, false).await?;
    stage
        .until("the copy to run", async || stage.copy_runs(FIRST).await)
        .await?;
    stage.release(A, "take-back")?;
    stage
        .perhaps(async || Ok(stage.remote(SECOND).await?.is_some()))
        .await;
    Ok(())
}

/// The first clearing took effect and its answer was lost; the second comes when the pod is placed again.
async fn rule_9_version_in_the_clearing(stage: &mut Stage) -> Result<()> {
    stage.cordon_nodes(FIRST, true).await?;
    stage.start(A).await?;
    stage.hold(A, "clear-commit")?;
    stage.create(json!({})).await?;
    stage.must_be_held(A, "clear-commit").await?;
    let cleared = json!({"metadata": {"finalizers": [], "annotations": {
        "portcullis.dev/cluster": null,
        "portcullis.dev/cluster-uid": null,
        "portcullis.dev/remote-uid": null,
        "portcullis.dev/attempt": "1",
    }}});
    stage.patch_local_as_portcullis(&cleared).await?;
    stage.cordon_nodes(FIRST, false).await?;
    stage.start(B).await?;
    stage.until_runs().await?;
    stage.release(A, "clear-commit")
}

/// The end of a copy is written when the next pod of the name stands there.
async fn rule_10_uid_in_the_status(stage: &mut Stage) -> Result<()> {
    stage.start(A).await?;
    stage.create(json!({})).await?;
    stage.until_runs().await?;
    stage.hold(A, "mirror")?;
    stage
        .patch_remote(
            FIRST,
            json!({"metadata": {"annotations": {"kwok.test/end": "complete"}}}),
        )
        .await?;
    stage.must_be_held(A, "mirror").await?;
    stage
        .until("the copy to end", async || {
            Ok(stage
                .remote(FIRST)
                .await?
                .is_some_and(|pod| phase(&pod) == "Succeeded"))
        })
        .await?;
    stage.delete_local().await?;
    stage.start(B).await?;
    stage.until_gone().await?;
    stage.create(json!({})).await?;
    stage.until_runs().await?;
    // The copy of a pod that ended here goes by rule 13b, and the evidence with it.
    stage.hold(A, "delete")?;
    stage.hold(B, "delete")?;
    stage.release(A, "mirror")?;
    stage
        .perhaps(async || Ok(stage.local().await?.is_some_and(|pod| phase(&pod) == "Succeeded")))
        .await;
    Ok(())
}

/// B sees the commit before it sees the copy.
async fn rule_11_proof_that_the_remote_pod_is_gone(stage: &mut Stage) -> Result<()> {
    only_a_places(stage, json!({})).await?;
    stage
        .patch_local(json!({"metadata": {"labels": {"touched": "true"}}}))
        .await?;
    stage
        .perhaps(async || Ok(stage.local().await?.is_some_and(|pod| phase(&pod) == "Failed")))
        .await;
    Ok(())
}

/// The pod runs by A's hand; B knows neither the pod nor its copy, and now sees the manager again.
async fn only_a_places(stage: &mut Stage, annotations: serde_json::Value) -> Result<()> {
    stage.start(A).await?;
    stage.start(B).await?;
    stage.blind(B, "manager")?;
    stage.blind(B, "worker-a")?;
    stage.create(annotations).await?;
    stage.until_runs().await?;
    stage.see(B, "manager")
}

/// B took the copy back and placed the pod again; A still wants to fail the pod of the first attempt.
async fn rule_11_version_in_the_failure(stage: &mut Stage) -> Result<()> {
    stage.cordon_nodes(FIRST, true).await?;
    stage.start(A).await?;
    stage.start(B).await?;
    stage.hold(A, "take-back")?;
    stage.hold(A, "fail")?;
    stage.hold(B, "clear-commit")?;
    stage.create(json!({})).await?;
    stage.must_be_held(B, "clear-commit").await?;
    stage.release(A, "take-back")?; // whether it came so far or saw B's delete first
    stage.must_be_held(A, "fail").await?;
    stage.release(B, "clear-commit")?;
    stage.until_runs().await?;
    stage.release(A, "fail")
}

/// B sees the pod committed to the first attempt's copy, and the second attempt's copy running.
async fn rule_12_attempt_of_the_copy(stage: &mut Stage) -> Result<()> {
    stage.cordon_nodes(FIRST, true).await?;
    stage.start(A).await?;
    stage.start(B).await?;
    stage.hold(A, "take-back")?;
    stage.hold(B, "take-back")?;
    stage.create(json!({})).await?;
    stage.must_be_held(A, "take-back").await?;
    stage.must_be_held(B, "take-back").await?;
    stage.blind(B, "manager")?;
    stage.release(A, "take-back")?;
    stage.until_runs().await?;
    stage.release(B, "take-back")?;
    stage.perhaps(async || Ok(!stage.is_open(SECOND).await?)).await;
    Ok(())
}

/// B lets the pod go while its copy, which B does not see, takes its time to end.
async fn rule_14_proof_that_the_remote_pod_is_gone(stage: &mut Stage) -> Result<()> {
    stage.hold(B, "fail")?;
    let long = stage.long();
    only_a_places(stage, json!({"kwok.test/terminate-after": long})).await?;
    stage
        .patch_local(json!({"metadata": {"labels": {"touched": "true"}}}))
        .await?;
    stage.held_soon(B, "fail").await;
    stage.cordon_cluster(FIRST, true).await?;
    stage.delete_local().await?;
    stage
        .until("the copy to be told", async || {
            Ok(stage
                .remote(FIRST)
                .await?
                .is_none_or(|pod| pod.metadata.deletion_timestamp.is_some()))
        })
        .await?;
    stage.release(B, "fail")?;
    stage.until_gone().await?;
    stage.create(json!({})).await?;
    stage.until_runs().await
}

/// A person takes the finalizer off while nobody of us runs; the next pod of the name may go to another worker.
async fn rule_17_a_name_is_held_everywhere(stage: &mut Stage) -> Result<()> {
    stage.start(A).await?;
    stage.create(json!({})).await?;
    stage.until_runs().await?;
    stage.kill(A);
    stage.delete_local().await?;
    stage
        .patch_local(json!({"metadata": {"finalizers": null}}))
        .await?;
    stage.until_gone().await?;
    stage.cordon_cluster(FIRST, true).await?;
    stage.create(json!({})).await?;
    stage.hold(A, "prepare")?; // until it has seen what stands on the other worker (`start`)
    stage.start(A).await?;
    stage.release(A, "prepare")?;
    stage.perhaps(async || stage.is_open(SECOND).await).await;
    stage.delete_remote(FIRST).await
}
