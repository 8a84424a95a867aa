//! Chaos: everything that goes wrong at once, and a judge who believes audit logs only.
//!
//! [`storm`] kills and freezes the process and spoils the ways to the workers, [`load`] plays the users, [`check`]
//! judges. Nothing here knows the product's code.

pub mod audit;
pub mod check;
pub mod dice;
mod history;
pub mod load;
mod pods;
pub mod storm;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::sync::Mutex;

use crate::{Portcullis, World, wait_for};
use check::{Checker, Violation};
use dice::Dice;
use load::Load;
use storm::Storm;

/// How long a healed world may take until everything that should run runs.
const PATIENCE: Duration = Duration::from_secs(180);
/// Counts and conditions of WorkerClusters follow what happened within this time.
const SETTLE: Duration = Duration::from_secs(5);

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Everything random follows from it (the order of events does not: clusters have their own time).
    pub seed: u64,
    /// How long the storm lasts.
    pub storm: Duration,
    /// How long nobody may write at the end.
    pub quiet: Duration,
}

impl Options {
    /// `CHAOS_SEED` (else from the clock), `CHAOS_SECONDS` (else `seconds`).
    ///
    /// # Errors
    /// A variable is no number.
    pub fn from_env(seconds: u64) -> Result<Self> {
        let number = |name: &str| -> Result<Option<u64>> {
            match std::env::var(name) {
                Ok(text) => match text.parse() {
                    Ok(number) => Ok(Some(number)),
                    Err(_) => bail!("{name}={text:?}: a number is expected"),
                },
                Err(_) => Ok(None),
            }
        };
        let clock = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(1);
        Ok(Self {
            seed: number("CHAOS_SEED")?.unwrap_or(clock),
            storm: Duration::from_secs(number("CHAOS_SECONDS")?.unwrap_or(seconds)),
            quiet: Duration::from_secs(15),
        })
    }
}

/// `rival` is a second process, not started. Storms, heals, waits for rest, judges; then deletes everything and judges again.
///
/// # Errors
/// Violations, each with the history of its pods; or the world itself failed.
pub async fn run(
    world: &World,
    portcullis: &Mutex<Portcullis>,
    rival: &Mutex<Portcullis>,
    options: Options,
) -> Result<String> {
    let Options {
        seed,
        storm: duration,
        quiet,
    } = options;
    println!("chaos: CHAOS_SEED={seed} CHAOS_SECONDS={}", duration.as_secs());
    let mut load = Load::prepare(world, Dice::new(seed)).await?;
    let mut storm = Storm::new(world, portcullis, rival, Dice::new(seed.wrapping_add(1)));
    let until = Instant::now() + duration;
    tokio::join!(load.play(until), storm.rage(until));
    storm.heal().await?;
    load.heal().await?;
    println!(
        "chaos: {} and {}; healed, waiting for rest",
        load.summary(),
        storm.summary()
    );
    let mut checker = Checker::new(world, load.namespaces(), load.foreign());
    let mut violations = Vec::new();
    if let Err(error) = wait_for("everything to run", PATIENCE, async || checker.rest(true).await).await {
        println!("chaos: no rest: {error:#}");
    }
    violations.extend(checker.judge().await?);
    tokio::time::sleep(SETTLE).await;
    violations.extend(checker.quiet(quiet).await?);
    load.delete_everything().await?;
    if let Err(error) = wait_for("nothing to be left", PATIENCE, async || {
        checker.nothing_left().await
    })
    .await
    {
        println!("chaos: {error:#}");
    }
    violations.extend(checker.left_over().await?);
    violations.extend(checker.judge_history()?);
    let summary = format!(
        "seed {seed}: {}, {}, {}",
        load.summary(),
        storm.summary(),
        checker.summary()?
    );
    verdict(&checker, violations)?;
    Ok(summary)
}

/// # Errors
/// There are violations.
pub fn verdict(checker: &Checker<'_>, mut violations: Vec<Violation>) -> Result<()> {
    violations.sort_by(|left, right| (left.kind, &left.what).cmp(&(right.kind, &right.what)));
    violations.dedup_by(|left, right| left.kind == right.kind && left.what == right.what);
    if violations.is_empty() {
        return Ok(());
    }
    let mut text = format!("{} violations", violations.len());
    for violation in &violations {
        text.push_str(&format!("\n{violation}\n{}", checker.history(violation)?));
    }
    bail!(text)
}
