//! Older releases of Kubernetes, each as manager and worker: the installation, and native gangs as that release has them.
//! Not a part of `make test`, since their control planes take minutes to build: `make test-versions`.

mod dispatching;
mod installed;
mod native;
mod rig;
mod unserved;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};
use portcullis_testbed::KubeVersion;
use tokio::sync::OnceCell;

use rig::{Case, LIMIT, Rig};

/// Releases, and what their tests are called.
const VERSIONS: [(KubeVersion, &str); 2] = [(KubeVersion::V1_36, "v1_36"), (KubeVersion::V1_35, "v1_35")];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1); // two clusters are enough at a time
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let mut trials = Vec::new();
    let mut worlds = Vec::new();
    for (version, name) in VERSIONS {
        let world: Arc<OnceCell<Arc<Rig>>> = Arc::default();
        worlds.push(world.clone());
        let cases = [
            installed::cases(),
            dispatching::cases(),
            native::cases(),
            unserved::cases(),
        ];
        for case in cases.into_iter().flatten().filter(|case| case.is_for(version)) {
            let (world, handle) = (world.clone(), runtime.handle().clone());
            trials.push(Trial::test(format!("{name}::{}", case.name), move || {
                handle
                    .block_on(run(case, version, &world))
                    .map_err(|error| format!("{error:#}").into())
            }));
        }
    }
    let run = libtest_mimic::run(&arguments, trials);
    for rig in worlds.iter().filter_map(|world| world.get()) {
        if run.has_failed() {
            eprintln!("logs are in {}", rig.world.folder().display());
        }
    }
    drop(worlds);
    run.exit_code()
}

async fn run(case: Case, version: KubeVersion, world: &OnceCell<Arc<Rig>>) -> anyhow::Result<()> {
    let rig = world.get_or_try_init(|| Rig::start(version)).await?;
    rig.recover().await?;
    tokio::time::timeout(LIMIT, (case.run)(rig.clone()))
        .await
        .map_err(|_| anyhow::anyhow!("not done in {LIMIT:?}"))?
}
