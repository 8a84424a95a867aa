//! What happens to the process and to its ways to the workers.

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::dice::Dice;
use crate::{Portcullis, World};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Kills, freezes, cuts, slows, pauses, loses answers.
pub struct Storm<'a> {
    world: &'a World,
    portcullis: &'a Mutex<Portcullis>,
    rival: &'a Mutex<Portcullis>,
    dice: Dice,
    kills: u32,
    freezes: u32,
    faults: u32,
    rivals: u32,
}

impl<'a> Storm<'a> {
    #[must_use]
    pub fn new(
        world: &'a World,
        portcullis: &'a Mutex<Portcullis>,
        rival: &'a Mutex<Portcullis>,
        dice: Dice,
    ) -> Self {
        Self {
            world,
            portcullis,
            rival,
            dice,
            kills: 0,
            freezes: 0,
            faults: 0,
            rivals: 0,
        }
    }

    /// Until then.
    pub async fn rage(&mut self, until: Instant) {
        let Self {
            world,
            portcullis,
            rival,
            dice,
            kills,
            freezes,
            faults,
            rivals,
        } = self;
        let mut another = || Dice::new(u64::try_from(dice.roll(usize::MAX)).unwrap_or(1));
        let [mut first, mut second, mut third, mut fourth] = [another(), another(), another(), another()];
        tokio::join!(
            kill(portcullis, &mut first, until, kills),
            freeze(portcullis, &mut second, until, freezes),
            spoil(world, &mut third, until, faults),
            compete(rival, &mut fourth, until, rivals),
        );
    }

    /// Every way passes, the process runs and is ready.
    ///
    /// # Errors
    /// It does not become ready.
    pub async fn heal(&mut self) -> Result<()> {
        self.world.heal();
        self.rival.lock().await.kill9();
        let mut portcullis = self.portcullis.lock().await;
        portcullis.sigcont();
        if !portcullis.is_running() {
            portcullis.spawn()?;
        }
        portcullis.await_ready(60 * SECOND).await
    }

    #[must_use]
    pub fn summary(&self) -> String {
        let lost: u64 = self
            .world
            .workers
            .iter()
            .map(|worker| worker.proxy.lost_answers())
            .sum();
        let Self {
            kills,
            freezes,
            faults,
            rivals,
            ..
        } = self;
        format!(
            "{kills} kills, {freezes} freezes, {rivals} rivals, {faults} network faults, {lost} lost answers"
        )
    }
}

/// Twelve times a minute; it is down for a moment or for seconds.
async fn kill(portcullis: &Mutex<Portcullis>, dice: &mut Dice, until: Instant, count: &mut u32) {
    while wait(dice.between(1500 * MILLISECOND, 6 * SECOND), until).await {
        portcullis.lock().await.kill9();
        *count += 1;
        let down = if dice.happens(50) {
            MILLISECOND
        } else {
            dice.between(200 * MILLISECOND, 4 * SECOND)
        };
        wait(down, until).await;
        if let Err(error) = portcullis.lock().await.spawn() {
            println!("chaos: portcullis does not start: {error:#}");
        }
    }
}

/// Between any two writes: no step of the process knows when.
async fn freeze(portcullis: &Mutex<Portcullis>, dice: &mut Dice, until: Instant, count: &mut u32) {
    while wait(dice.between(100 * MILLISECOND, 3 * SECOND), until).await {
        portcullis.lock().await.sigstop();
        *count += 1;
        let still = if dice.happens(80) {
            400 * MILLISECOND
        } else {
            6 * SECOND
        };
        wait(dice.between(10 * MILLISECOND, still), until).await;
        portcullis.lock().await.sigcont();
    }
}

/// A second process that acts at the same time, as after a lease that two believe in.
async fn compete(rival: &Mutex<Portcullis>, dice: &mut Dice, until: Instant, count: &mut u32) {
    while wait(dice.between(2 * SECOND, 12 * SECOND), until).await {
        let mut rival = rival.lock().await;
        if let Err(error) = rival.spawn() {
            println!("chaos: the rival does not start: {error:#}");
        }
        *count += 1;
        wait(dice.between(SECOND, 6 * SECOND), until).await;
        if dice.happens(50) {
            rival.sigstop();
            wait(dice.between(100 * MILLISECOND, 3 * SECOND), until).await;
            rival.sigcont();
            wait(dice.between(SECOND, 3 * SECOND), until).await;
        }
        rival.kill9();
    }
}

async fn spoil(world: &World, dice: &mut Dice, until: Instant, count: &mut u32) {
    while wait(dice.between(300 * MILLISECOND, 4 * SECOND), until).await {
        let Some(worker) = dice.pick(&world.workers) else {
            return;
        };
        let proxy = &worker.proxy;
        *count += 1;
        match dice.roll(6) {
            0 => proxy.cut(),
            1 => proxy.pause(),
            2 => proxy.slow(dice.between(20 * MILLISECOND, 700 * MILLISECOND)),
            3 | 4 => proxy.lose_answers(u32::try_from(1 + dice.roll(5)).unwrap_or(1)),
            _ => proxy.pass(),
        }
        if dice.happens(60) {
            // The other faults are shorter than what the process calls lost; some last longer.
            wait(dice.between(100 * MILLISECOND, 2 * SECOND), until).await;
            proxy.pass();
        }
    }
}

/// Whether there is time left afterwards.
async fn wait(time: Duration, until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now());
    sleep(time.min(left)).await;
    Instant::now() < until
}
