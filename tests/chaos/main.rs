//! `make chaos`: everything goes wrong at once, and in the end the audit logs say that nothing ran twice.
//!
//! Then the other way round: each precondition of `docs/protocol.md` is dropped once, and the judge must see it.
//! And we are killed, or overtaken, at each step of a whole job. `cargo test --test chaos -- storm` runs the storm alone,
//! `-- without` and `-- killed` the rest.

mod ending;
mod killed;
mod play;
mod rig;
mod stage;
mod without;
mod without_jobs;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};
use portcullis_testbed::chaos::{self, Options};

use rig::Rig;

/// Seconds of storm within `make test`.
const SECONDS: u64 = 60;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1); // they share the workers
    let runtime = Arc::new(tokio::runtime::Runtime::new().expect("a runtime starts"));
    let rig: Arc<std::sync::OnceLock<Rig>> = Arc::default();
    let mut trials = vec![Trial::test(
        "a_build_without_the_feature_knows_no_faults",
        rig::no_faults,
    )];
    trials.push({
        let (runtime, rig) = (runtime.clone(), rig.clone());
        Trial::test("storm", move || {
            let rig = rig::shared(&runtime, &rig)?;
            let run = runtime.block_on(async {
                let summary = chaos::run(
                    &rig.world,
                    &rig.portcullis,
                    &rig.rival,
                    Options::from_env(SECONDS)?,
                )
                .await?;
                rig.portcullis.lock().await.kill9();
                Ok::<_, anyhow::Error>(summary)
            });
            println!("chaos: {}", run.map_err(|error| format!("{error:#}"))?);
            Ok(())
        })
    });
    trials.extend(play::trials(&runtime, &rig));
    let conclusion = libtest_mimic::run(&arguments, trials);
    if let Some(rig) = rig.get() {
        if conclusion.has_failed() {
            eprintln!("logs are in {}", rig.world.folder().display());
        }
        println!(
            "chaos: {} passed, {} failed",
            conclusion.num_passed, conclusion.num_failed
        );
    }
    // The runtime's tasks hold nothing of the world; it ends first.
    drop(Arc::into_inner(rig));
    conclusion.exit_code()
}
