//! Gangs of jobs that run whole on a worker: a manager and two workers, of which one has coscheduling. One set of clusters
//! for all tests, which run one by one: some four minutes. Run some of them: `cargo test --test worker_gang -- <part of a name>`.

mod crash;
mod kinds;
mod native;
mod rig;
mod starts;
mod workers;

use std::process::ExitCode;

use portcullis_testbed::suite::Suite;

use rig::Case;

fn main() -> ExitCode {
    let cases = [
        starts::cases(),
        kinds::cases(),
        native::cases(),
        workers::cases(),
        crash::cases(),
    ];
    let suite = Suite {
        name: "worker_gang tests",
        beside: 1,
        rigs: 1,
    };
    // They fill the nodes.
    let alone = |case| Case { alone: true, ..case };
    suite.run(cases.into_iter().flatten().map(alone).collect())
}
