//! Gangs on a real cluster: the gang schedulers, the operators of jobs, and portcullis. One cluster for all tests, which
//! run one by one, since they fill its nodes: some seven minutes. Run some of them: `cargo test --test gang -- <part of a name>`.

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
        rigs: 1,
    };
    // They fill the nodes.
    let alone = |case| Case { alone: true, ..case };
    suite.run(cases.into_iter().flatten().map(alone).collect())
}
