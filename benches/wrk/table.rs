//! What wrk says -> a table with ratios.

use std::fmt::Write;
use std::time::Duration;

/// One measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    pub(crate) per_second: f64,
    /// Microseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// Microseconds of the server's CPU for one request.
    pub(crate) cpu: f64,
    /// How busy its core was, as the server's CPU time by wall time.
    pub(crate) busy: f64,
}

pub(crate) struct Row {
    pub(crate) load: String,
    pub(crate) server: &'static str,
    pub(crate) figures: Figures,
    /// MiB.
    pub(crate) rss: f64,
}

impl Figures {
    /// `None` if wrk reports an error or an answer other than 2xx.
    pub(crate) fn read(said: &str, cpu: f64, wall: Duration) -> Option<Self> {
        if said.contains("Non-2xx")
            || said.contains("Socket errors: connect") && !said.contains("connect 0, read 0")
        {
            return None;
        }
        let after = |label: &str| said.lines().find_map(|line| line.trim().strip_prefix(label));
        let requests = said
            .lines()
            .find_map(|line| line.trim().split_once(" requests in "))?
            .0;
        let requests: f64 = requests.parse().ok()?;
        Some(Self {
            per_second: after("Requests/sec:")?.trim().parse().ok()?,
            p50: microseconds(after("50%")?)?,
            p99: microseconds(after("99%")?)?,
            cpu: cpu / requests,
            busy: cpu / 1e6 / wall.as_secs_f64(),
        })
    }
}

fn microseconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6)];
    let (number, factor) = units
        .into_iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    Some(number.parse::<f64>().ok()? * factor)
}

/// The round in the middle by rate.
pub(crate) fn median(mut rounds: Vec<Figures>) -> Figures {
    rounds.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
    rounds[rounds.len() / 2]
}

pub(crate) fn render(rows: &[Row]) -> String {
    let mut text = format!(
        "{:10} {:11} {:>9} {:>8} {:>8} {:>10} {:>10} {:>6} {:>8} {:>9} {:>9}\n",
        "load",
        "server",
        "req/s",
        "p50 us",
        "p99 us",
        "CPU us/req",
        "req/s core",
        "busy",
        "of bare",
        "CPU/bare",
        "RSS MiB"
    );
    for row in rows {
        let bare = rows
            .iter()
            .find(|bare| bare.load == row.load)
            .expect("the row itself at least");
        let Figures {
            per_second,
            p50,
            p99,
            cpu,
            busy,
        } = row.figures;
        writeln!(
            text,
            "{:10} {:11} {per_second:>9.0} {p50:>8.0} {p99:>8.0} {cpu:>10.1} {:>10.0} {:>5.0}% {:>7.0}% {:>9.2} {:>9.1}",
            row.load,
            row.server,
            1e6 / cpu,
            busy * 100.0,
            100.0 * per_second / bare.figures.per_second,
            cpu / bare.figures.cpu,
            row.rss,
        )
        .expect("writing into a String does not fail");
    }
    text
}
