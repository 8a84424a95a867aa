//! Portcullis on real clusters: one world for all tests, started once.
//!
//! Tests that only use their own namespace run side by side; then those that stop, freeze or cut something, one by
//! one. Run some of them: `cargo test --test cluster -- <part of a name>`.

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
mod cases_jobs_kinds;
mod cases_jobs_many;
mod cases_jobs_pure;
mod cases_jobs_real;
mod cases_jobs_status;
mod cases_kuberay;
mod cases_mirror;
mod cases_names;
mod cases_operators;
mod cases_placement;
mod cases_sets;
mod cases_status;
mod cases_third;
mod dispatch;
mod guard;
mod jobs;
mod objects;
mod rig;
mod sides;
mod third;
mod whole;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use libtest_mimic::{Arguments, Conclusion, Trial};

use rig::{Case, Rig};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    let cases: Vec<Case> = [
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
        cases_mirror::cases(),
        cases_names::cases(),
        cases_placement::cases(),
        cases_sets::cases(),
        cases_status::cases(),
        cases_third::cases(),
        dispatch::cases(),
        guard::cases(),
        cases_kuberay::cases(),   // at the end, as:
        cases_operators::cases(), // at the end: what they start on the manager stays
    ]
    .into_iter()
    .flatten()
    .collect();
    if arguments.list {
        return libtest_mimic::run(&arguments, trials(cases, None)).exit_code();
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let rig = match runtime.block_on(Rig::start()) {
        Ok(rig) => Arc::new(rig),
        Err(error) => {
            eprintln!("the clusters did not start: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    let (together, alone): (Vec<Case>, Vec<Case>) = cases.into_iter().partition(|case| !case.alone);
    let world = Some((rig.clone(), runtime.handle().clone()));
    arguments.test_threads = arguments.test_threads.or(Some(6));
    let first = libtest_mimic::run(&arguments, trials(together, world.clone()));
    arguments.test_threads = Some(1);
    let second = libtest_mimic::run(&arguments, trials(alone, world));
    let failed = first.has_failed() || second.has_failed();
    if failed {
        eprintln!("logs are in {}", rig.world.folder().display());
    }
    print_sum(&first, &second);
    drop(rig);
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn print_sum(first: &Conclusion, second: &Conclusion) {
    println!(
        "cluster tests: {} passed, {} failed",
        first.num_passed + second.num_passed,
        first.num_failed + second.num_failed
    );
}

type World = Option<(Arc<Rig>, tokio::runtime::Handle)>;

fn trials(cases: Vec<Case>, world: World) -> Vec<Trial> {
    cases
        .into_iter()
        .map(|case| {
            let world = world.clone();
            Trial::test(case.name, move || {
                let (rig, handle) = world.expect("a run has a world; a listing runs nothing");
                let result = handle.block_on(async {
                    if case.alone {
                        rig.recover().await.context("recover from the case before")?;
                    }
                    tokio::time::timeout(case.limit, (case.run)(rig))
                        .await
                        .map_err(|_| anyhow::anyhow!("not done in {:?}", case.limit))?
                });
                result.map_err(|error| format!("{error:#}").into())
            })
        })
        .collect()
}
