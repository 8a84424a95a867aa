//! Scripts -> trials: each with its fault, and without.

use std::sync::{Arc, OnceLock};

use anyhow::Result;
use libtest_mimic::{Failed, Trial};
use tokio::runtime::Runtime;

use crate::rig::{self, Rig};
use crate::stage::Stage;
use crate::without::{SCRIPTS, Script};
use crate::{killed, without_jobs};

/// Twice as many as there are scripts, and those of the killed.
pub fn trials(runtime: &Arc<Runtime>, shared: &Arc<OnceLock<Rig>>) -> Vec<Trial> {
    let mut trials = Vec::new();
    for script in SCRIPTS.into_iter().chain(without_jobs::SCRIPTS) {
        let script = Arc::new(script);
        for faulty in [true, false] {
            let (runtime, shared, script) = (runtime.clone(), shared.clone(), script.clone());
            let name = format!("{}::{}", if faulty { "without" } else { "with" }, script.name);
            trials.push(Trial::test(name, move || {
                rig::shared(&runtime, &shared)?;
                runtime
                    .block_on(play(&shared, &script, faulty))
                    .map_err(|error| Failed::from(format!("{error:#}")))
            }));
        }
    }
    for case in killed::CASES {
        let (runtime, shared) = (runtime.clone(), shared.clone());
        trials.push(Trial::test(
            format!("killed::{}::{}", case.name, case.step),
            move || {
                rig::shared(&runtime, &shared)?;
                runtime
                    .block_on(play_killed(&shared, case))
                    .map_err(|error| Failed::from(format!("{error:#}")))
            },
        ));
    }
    trials
}

async fn play_killed(rig: &Arc<OnceLock<Rig>>, case: killed::Case) -> Result<()> {
    let namespace = format!("{}-{}", case.name.replace('_', "-"), case.step);
    let mut stage = Stage::new(rig, &namespace, None).await?;
    let judged = match (case.run)(&mut stage, case.step).await {
        Ok(()) => stage.judge(None).await,
        Err(error) => Err(error.context("the script")),
    };
    stage.clear().await?;
    judged
}

async fn play(rig: &Arc<OnceLock<Rig>>, script: &Script, faulty: bool) -> Result<()> {
    let namespace = format!(
        "{}-{}",
        script.name.replace('_', "-"),
        if faulty { "without" } else { "with" }
    );
    let mut stage = Stage::new(rig, &namespace, faulty.then_some((script.fault, script.who))).await?;
    let played = (script.run)(&mut stage).await;
    let judged = match played {
        Ok(()) => stage.judge(faulty.then_some(script.shows)).await,
        Err(error) => Err(error.context("the script")),
    };
    stage.clear().await?;
    judged
}
