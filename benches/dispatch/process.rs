//! What a process says of itself: memory, CPU time, counters.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use portcullis_testbed::{Cluster, Portcullis, World};

/// KiB that are resident.
pub(crate) fn rss(portcullis: &Portcullis) -> Result<f64> {
    let pid = portcullis.pid().context("it does not run")?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let words = line.context("no VmRSS")?.trim().trim_end_matches(" kB");
    Ok(words.parse()?)
}

/// CPU time so far.
pub(crate) fn cpu(portcullis: &Portcullis) -> Result<Duration> {
    cpu_of(portcullis.pid().context("it does not run")?)
}

/// CPU time so far of all clusters and of this process.
pub(crate) fn cpu_of_all(world: &World) -> Result<Duration> {
    let programs = world.clusters().flat_map(Cluster::process_ids);
    let programs = programs.map(|program| program.pid);
    programs.chain([std::process::id()]).map(cpu_of).sum()
}

fn cpu_of(pid: u32) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = stat.rsplit_once(") ").context("no name")?.1;
    let fields = after_name.split(' ').skip(11).take(2);
    let ticks = fields.map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(Duration::from_millis(ticks * 10))
}

/// The steps of the pod pairs so far: by name, how many and how long in all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps(BTreeMap<String, (f64, f64)>);

impl Steps {
    pub(crate) async fn of(portcullis: &Portcullis) -> Result<Self> {
        let (_, text) = portcullis.get("/metrics").await?;
        let mut steps = Self::default();
        for line in text.lines() {
            let Some((name, rest)) = line.split_once("{step=\"") else {
                continue;
            };
            let (step, rest) = rest.split_once('"').context("an open quote in /metrics")?;
            let value = || -> Result<f64> { Ok(rest.rsplit_once(' ').context("no value")?.1.parse()?) };
            let entry = steps.0.entry(step.to_owned()).or_default();
            match name {
                "portcullis_step_seconds_count" => entry.0 += value()?,
                "portcullis_step_seconds_sum" => entry.1 += value()?,
                _ => {}
            }
        }
        Ok(steps)
    }

    pub(crate) fn since(&self, before: &Self) -> Self {
        let minus = |(name, (count, seconds)): (&String, &(f64, f64))| {
            let (counted, took) = before.0.get(name).copied().unwrap_or_default();
            (name.clone(), (count - counted, seconds - took))
        };
        Self(self.0.iter().map(minus).collect())
    }

    pub(crate) fn count(&self, step: &str) -> f64 {
        self.0.get(step).map_or(0.0, |(count, _)| *count)
    }

    pub(crate) fn all(&self) -> f64 {
        self.0.values().map(|(count, _)| count).sum()
    }

    /// `prepare 1.00 x 5.1 ms, …` for so many pods.
    pub(crate) fn per_pod(&self, pods: f64) -> String {
        let words = |(name, (count, seconds)): (&String, &(f64, f64))| {
            format!(
                "{name} {:.2} x {:.1} ms",
                count / pods,
                1000.0 * seconds / count.max(1.0)
            )
        };
        let taken = self.0.iter().filter(|(_, (count, _))| *count > 0.0).map(words);
        taken.collect::<Vec<_>>().join(", ")
    }
}
