//! Gangs on a real cluster: the gang schedulers, the operators of jobs, and portcullis. One at a time on each of two
//! clusters, since they fill the nodes: some four minutes. Run some of them: `cargo test --test gang -- <part of a name>`.

mod conflicts;
mod coscheduling;
mod gates;
mod generic;
mod hands;
mod jobs;
mod kinds;
mod lifecycle;
mod native;
mod operators;
mod pairs;
mod refusals;
mod relabelled;
mod rig;
mod steady;
mod steps;
mod volcano;

use std::process::ExitCode;

use portcullis_testbed::suite::Suite;

use rig::Case;

fn main() -> ExitCode {
    let cases = [
        coscheduling::cases(),
        native::cases(),
        refusals::cases(),
        relabelled::cases(),
        lifecycle::cases(),
        conflicts::cases(),
        gates::cases(),
        generic::cases(),
        hands::cases(),
        pairs::cases(),
        operators::cases(),
        steady::cases(),
        kinds::cases(),
        volcano::cases(),
    ];
    let suite = Suite {
        name: "gang tests",
        beside: 1,
        rigs: 2, // these wait for a scheduler more than they work
    };
    // They fill the nodes.
    let alone = |case| Case { alone: true, ..case };
    suite.run(cases.into_iter().flatten().map(alone).collect())
}
