//! Gangs of jobs that run whole on a worker: a manager and two workers, of which one has coscheduling. One set of clusters
//! for all tests, which run one by one: some four minutes. Run some of them: `cargo test --test worker_gang -- <part of a name>`.

mod crash;
mod kinds;
mod rig;
mod starts;
mod workers;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};

use rig::{Case, Rig};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    let cases: Vec<Case> = [starts::cases(), kinds::cases(), workers::cases(), crash::cases()]
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
    arguments.test_threads = Some(1);
    let run = libtest_mimic::run(
        &arguments,
        trials(cases, Some((rig.clone(), runtime.handle().clone()))),
    );
    if run.has_failed() {
        eprintln!("logs are in {}", rig.world.folder().display());
    }
    println!(
        "worker_gang tests: {} passed, {} failed",
        run.num_passed, run.num_failed
    );
    drop(rig);
    run.exit_code()
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
                    rig.recover().await?;
                    tokio::time::timeout(rig::LIMIT, (case.run)(rig.clone()))
                        .await
                        .map_err(|_| anyhow::anyhow!("not done in {:?}", rig::LIMIT))?
                });
                result.map_err(|error| format!("{error:#}").into())
            })
        })
        .collect()
}
