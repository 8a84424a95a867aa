//! Portcullis on real clusters: one world for all tests that only use their own namespace, which run side by side; then
//! those that stop, freeze or cut something, one at a time on each of two worlds. Run some of them: `cargo test --test cluster -- <part of a name>`.

mod calls;
mod cases_bad_input;
mod cases_copies;
mod cases_deletion;
mod cases_failures;
mod cases_gates;
mod cases_injected;
mod cases_jobs;
mod cases_jobs_bad_input;
mod cases_jobs_edits;
mod cases_jobs_going;
mod cases_jobs_kinds;
mod cases_jobs_many;
mod cases_jobs_pure;
mod cases_jobs_real;
mod cases_jobs_status;
mod cases_kuberay;
mod cases_marks;
mod cases_mirror;
mod cases_names;
mod cases_operators;
mod cases_placement;
mod cases_sets;
mod cases_status;
mod cases_third;
mod cases_waits;
mod dispatch;
mod guard;
mod jobs;
mod objects;
mod rig;
mod sides;
mod third;
mod whole;

use std::process::ExitCode;

use portcullis_testbed::suite::Suite;

fn main() -> ExitCode {
    let cases = [
        cases_bad_input::cases(),
        cases_copies::cases(),
        cases_deletion::cases(),
        cases_failures::cases(),
        cases_gates::cases(),
        cases_injected::cases(),
        cases_jobs::cases(),
        cases_jobs_bad_input::cases(),
        cases_jobs_edits::cases(),
        cases_jobs_kinds::cases(),
        cases_jobs_many::cases(),
        cases_jobs_pure::cases(),
        cases_jobs_status::cases(),
        cases_jobs_real::cases(),
        cases_marks::cases(),
        cases_mirror::cases(),
        cases_names::cases(),
        cases_placement::cases(),
        cases_sets::cases(),
        cases_status::cases(),
        cases_third::cases(),
        cases_waits::cases(),
        cases_jobs_going::cases(),
        dispatch::cases(),
        guard::cases(),
        cases_kuberay::cases(),   // at the end, as:
        cases_operators::cases(), // at the end: what they start on the manager stays
    ];
    let suite = Suite {
        name: "cluster tests",
        beside: 6,
        rigs: 2, // those that run alone wait for a timeout more than they work
    };
    suite.run(cases.into_iter().flatten().collect())
}
