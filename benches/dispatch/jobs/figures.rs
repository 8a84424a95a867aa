//! Measurements of whole jobs -> lines for people.

use crate::table;

/// One run of a number of jobs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    /// Jobs a second from the first create until all copies are open, and of the bare client without and with as many
    /// writes of the status as were made meanwhile.
    pub(super) rates: [f64; 3],
    /// CPU of everything that runs for one job in these three, in milliseconds: on a machine that others use too it says
    /// more than the rates.
    pub(super) load: [f64; 3],
    /// Writes for one job in its life: on the manager, of its status, on the workers, others.
    pub(super) writes: [f64; 4],
    /// CPU of portcullis for one job of its whole life, in milliseconds.
    pub(super) cpu: f64,
    /// MiB.
    pub(super) rss: f64,
}

pub(super) const HEAD: &str = " round   opened/s     bare  ratio  bare+st  ratio  all CPU ms/job: ours  bare  bare+st  writes/job: manager  status  workers  other  CPU ms/job  RSS MiB";

impl Figures {
    pub(super) fn line(&self, round: &str) -> String {
        let [ours, bare, with_status] = self.rates;
        let [all, bare_all, status_all] = self.load;
        let [manager, status, workers, other] = self.writes;
        format!(
            "{round:>6}  {ours:>9.1} {bare:>8.1} {:>5.0}% {with_status:>8.1} {:>5.0}%  {all:>20.0} {bare_all:>5.0} {status_all:>8.0}  {manager:>19.2} {status:>7.2} {workers:>8.2} {other:>6.2}  {:>10.1}  {:>7.1}",
            100.0 * ours / bare,
            100.0 * ours / with_status,
            self.cpu,
            self.rss,
        )
    }

    pub(super) fn median(all: &[Self]) -> Self {
        let of = |figure: &dyn Fn(&Self) -> f64| table::median(all.iter().map(figure).collect());
        Self {
            rates: [0, 1, 2].map(|place| of(&|figures| figures.rates[place])),
            load: [0, 1, 2].map(|place| of(&|figures| figures.load[place])),
            writes: [0, 1, 2, 3].map(|place| of(&|figures| figures.writes[place])),
            cpu: of(&|figures| figures.cpu),
            rss: of(&|figures| figures.rss),
        }
    }
}
