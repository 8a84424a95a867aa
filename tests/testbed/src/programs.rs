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

/// The Kubernetes of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KubeVersion {
    /// 1.35.4: no MutatingAdmissionPolicy of v1; a native group is a part of a Workload.
    V1_35,
    /// 1.36.3: native groups of v1alpha2.
    V1_36,
    /// 1.37.2, what all other tests run on.
    #[default]
    V1_37,
}

impl KubeVersion {
    /// Its program, see [`Programs::kube`]; built when it is missing, as in [`Programs::ready`].
    ///
    /// # Errors
    /// The build failed; its own words were on stderr.
    pub fn kube(self) -> Result<&'static Path> {
        static V1_35: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        static V1_36: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        let older = |cell, version| {
            once(cell, || Ok(build(&["--version", version])?.join("kube"))).map(PathBuf::as_path)
        };
        match self {
            Self::V1_35 => older(&V1_35, "1.35"),
            Self::V1_36 => older(&V1_36, "1.36"),
            Self::V1_37 => Ok(&Programs::ready()?.kube),
        }
    }

    /// The best version of `scheduling.k8s.io` with native groups.
    #[must_use]
    pub fn native_api(self) -> &'static str {
        match self {
            Self::V1_35 => "v1alpha1",
            Self::V1_36 => "v1alpha2",
            Self::V1_37 => "v1beta1",
        }
    }

    /// The feature gates of native groups.
    #[must_use]
    pub fn native_gates(self) -> &'static [&'static str] {
        match self {
            Self::V1_35 | Self::V1_36 => &["GenericWorkload=true", "GangScheduling=true"],
            Self::V1_37 => &["GenericWorkload=true"],
        }
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
        read(&self.folder, &format!("crds/{of}.yaml"))
    }

    /// What the authors of an operator have people apply, without definitions and Deployment.
    pub(crate) fn installation(&self, of: &str) -> Result<String> {
        read(&self.folder, &format!("install/{of}.yaml"))
    }
}

/// What `build.sh --kinds` makes: the definitions of more kinds of jobs, and one operator.
#[derive(Clone, Debug)]
pub struct KindPrograms {
    pub kuberay: PathBuf,
    folder: PathBuf,
}

impl KindPrograms {
    /// As [`Programs::ready`], for the third set.
    ///
    /// # Errors
    /// The build failed; its own words were on stderr.
    pub fn ready() -> Result<&'static Self> {
        static PROGRAMS: OnceLock<Result<KindPrograms, String>> = OnceLock::new();
        once(&PROGRAMS, || {
            let folder = build(&["--kinds"])?;
            Ok(Self {
                kuberay: folder.join("kuberay"),
                folder,
            })
        })
    }

    /// As [`GangPrograms::crds`].
    pub(crate) fn crds(&self, of: &str) -> Result<String> {
        read(&self.folder, &format!("crds/{of}.yaml"))
    }

    /// As [`GangPrograms::installation`].
    pub(crate) fn installation(&self, of: &str) -> Result<String> {
        read(&self.folder, &format!("install/{of}.yaml"))
    }
}

fn read(folder: &Path, name: &str) -> Result<String> {
    let path = folder.join(name);
    std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
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
