//! Where the programs of a cluster are; builds them when they are missing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

/// The programs that `build.sh` makes, once per machine.
#[derive(Clone, Debug)]
pub struct Programs {
    /// etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl: the first argument says which.
    pub kube: PathBuf,
    pub kwok: PathBuf,
    /// Keeps a program and ends it when its parent is gone.
    pub babysit: PathBuf,
}

impl Programs {
    /// Finds them, or builds them: minutes the first time, with progress on stderr. Blocks.
    ///
    /// # Errors
    /// The build failed; its own words were on stderr.
    pub fn ready() -> Result<&'static Self> {
        static PROGRAMS: OnceLock<Result<Programs, String>> = OnceLock::new();
        once(&PROGRAMS, || {
            let folder = build(&[])?;
            Ok(Self {
                kube: folder.join("kube"),
                kwok: folder.join("kwok"),
                babysit: folder.join("babysit"),
            })
        })
    }
}

/// What `build.sh --gang` makes: a gang scheduler, operators of jobs, and their manifests.
#[derive(Clone, Debug)]
pub struct GangPrograms {
    pub coscheduler: PathBuf,
    pub mpi_operator: PathBuf,
    pub training_operator: PathBuf,
    pub jobset: PathBuf,
    folder: PathBuf,
}

impl GangPrograms {
    /// As [`Programs::ready`], for the second set.
    ///
    /// # Errors
    /// The build failed; its own words were on stderr.
    pub fn ready() -> Result<&'static Self> {
        static PROGRAMS: OnceLock<Result<GangPrograms, String>> = OnceLock::new();
        once(&PROGRAMS, || {
            let folder = build(&["--gang"])?;
            Ok(Self {
                coscheduler: folder.join("coscheduler"),
                mpi_operator: folder.join("mpi-operator"),
                training_operator: folder.join("training-operator"),
                jobset: folder.join("jobset"),
                folder,
            })
        })
    }

    /// Custom resource definitions that come with a program, as YAML.
    pub(crate) fn crds(&self, of: &str) -> Result<String> {
        self.read(&format!("crds/{of}.yaml"))
    }

    /// What the authors of an operator have people apply, without definitions and Deployment.
    pub(crate) fn installation(&self, of: &str) -> Result<String> {
        self.read(&format!("install/{of}.yaml"))
    }

    fn read(&self, name: &str) -> Result<String> {
        let path = self.folder.join(name);
        std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
    }
}

fn once<T>(
    cell: &'static OnceLock<Result<T, String>>,
    make: impl FnOnce() -> Result<T>,
) -> Result<&'static T> {
    cell.get_or_init(|| make().map_err(|error| format!("{error:#}")))
        .as_ref()
        .map_err(|error| anyhow::anyhow!("{error}"))
}

/// Runs `build.sh`; answers the folder that it names.
fn build(args: &[&str]) -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("build.sh");
    let output = Command::new("bash")
        .arg(&script)
        .args(args)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("run {}", script.display()))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    match (output.status.success(), printed.lines().last()) {
        (true, Some(folder)) => Ok(PathBuf::from(folder)),
        (true, None) | (false, _) => bail!("{} failed: {}", script.display(), output.status),
    }
}
