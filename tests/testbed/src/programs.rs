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
        PROGRAMS
            .get_or_init(|| Self::build().map_err(|error| format!("{error:#}")))
            .as_ref()
            .map_err(|error| anyhow::anyhow!("{error}"))
    }

    fn build() -> Result<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("build.sh");
        let output = Command::new("bash")
            .arg(&script)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("run {}", script.display()))?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let folder = match (output.status.success(), printed.lines().last()) {
            (true, Some(folder)) => PathBuf::from(folder),
            (true, None) | (false, _) => bail!("{} failed: {}", script.display(), output.status),
        };
        Ok(Self {
            kube: folder.join("kube"),
            kwok: folder.join("kwok"),
            babysit: folder.join("babysit"),
        })
    }
}
