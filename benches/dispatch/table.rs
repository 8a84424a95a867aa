//! Measurements -> lines for people.

use std::time::Duration;

/// One run of a number of pods.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// All opened, by portcullis and by the bare client.
    pub(crate) opened: [f64; 2],
    /// All shown as ready on the manager, and as many status writes of the bare client.
    pub(crate) shown: [f64; 2],
    /// CPU of portcullis for one pod, in milliseconds.
    pub(crate) cpu: f64,
    /// Writes on pods for one pod.
    pub(crate) writes: f64,
    /// KiB after the run, and KiB that each pair added.
    pub(crate) rss: [f64; 2],
}

pub(crate) const HEAD: &str = "in flight  round   opened/s     bare  ratio    shown/s  bare+st  ratio  writes/pod  CPU ms/pod  RSS MiB  KiB/pair";

impl Figures {
    pub(crate) fn line(&self, lanes: usize, round: &str) -> String {
        let Self {
            opened,
            shown,
            cpu,
            writes,
            rss,
        } = self;
        let percent = |[ours, bare]: &[f64; 2]| format!("{:.0}%", 100.0 * ours / bare);
        format!(
            "{lanes:>9}  {round:>5}  {:>9.1} {:>8.1} {:>6}  {:>9.1} {:>8.1} {:>6}  {writes:>10.2}  {cpu:>10.1}  {:>7.1}  {:>8.1}",
            opened[0],
            opened[1],
            percent(opened),
            shown[0],
            shown[1],
            percent(shown),
            rss[0] / 1024.0,
            rss[1],
        )
    }

    /// Each figure's median by itself.
    pub(crate) fn median(rounds: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| median(rounds.iter().map(figure).collect());
        Self {
            opened: [of(|f| f.opened[0]), of(|f| f.opened[1])],
            shown: [of(|f| f.shown[0]), of(|f| f.shown[1])],
            cpu: of(|f| f.cpu),
            writes: of(|f| f.writes),
            rss: [of(|f| f.rss[0]), of(|f| f.rss[1])],
        }
    }
}

/// The value in the middle, or between the two in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        0 => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

/// `p50 21.0 ms, p99 44.2 ms, longest 60.1 ms`.
pub(crate) fn percentiles(mut values: Vec<Duration>) -> String {
    values.sort_unstable();
    let at = |percent: usize| {
        let place = (values.len() * percent).div_ceil(100).clamp(1, values.len());
        values[place - 1].as_secs_f64() * 1000.0
    };
    format!(
        "p50 {:.1} ms, p99 {:.1} ms, longest {:.1} ms",
        at(50),
        at(99),
        at(100)
    )
}

/// Of the whole machine: who else was busy.
pub(crate) fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}
