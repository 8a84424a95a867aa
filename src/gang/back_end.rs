//! Labels, annotations, and what a cluster serves -> which gang scheduler a job's group is for.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use super::facts::GangSettings;
use super::native::{self, NativeVersion};
use super::notice::Notice;
use super::pod_group::PodGroup;
use super::{coscheduling, opt_in, volcano};
use crate::names::{GANG, GANG_SCHEDULER};
use crate::workload::jobs::{Field, GangKind, InvalidField, Pods};

/// A gang scheduler, in the version that a cluster serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BackEnd {
    /// The plugin Coscheduling of kubernetes-sigs/scheduler-plugins.
    Coscheduling,
    /// Volcano.
    Volcano,
    /// Kubernetes itself.
    Native(NativeVersion),
}

impl BackEnd {
    /// Without the version.
    #[must_use]
    pub fn family(self) -> Family {
        match self {
            Self::Coscheduling => Family::Coscheduling,
            Self::Volcano => Family::Volcano,
            Self::Native(_) => Family::Native,
        }
    }

    /// The objects of the gang, in the order in which they are created; none if the group is somebody else's.
    ///
    /// `workload_uid` is the UID of the Workload, once it is there.
    #[must_use]
    pub fn objects(
        self,
        group: &PodGroup,
        attempt: u32,
        workload_uid: Option<&str>,
        settings: &GangSettings,
    ) -> Vec<Value> {
        if group.is_adopted {
            return Vec::new();
        }
        match self {
            Self::Coscheduling => vec![coscheduling::pod_group(group, settings)],
            Self::Volcano => vec![volcano::pod_group(group, settings)],
            Self::Native(version) => {
                let names = native::names(group, version, attempt);
                let workload = native::workload(group, version, &names, settings);
                let pod_group = native::pod_group(group, version, &names, workload_uid, settings);
                [Some(workload), pod_group].into_iter().flatten().collect()
            }
        }
    }
}

/// A gang scheduler, as labels and annotations name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// `coscheduling`.
    Coscheduling,
    /// `volcano`.
    Volcano,
    /// `native`.
    Native,
}

impl fmt::Display for Family {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Coscheduling => "coscheduling",
            Self::Volcano => "volcano",
            Self::Native => "native",
        })
    }
}

/// What a label or annotation asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// This one.
    One(Family),
    /// `auto`: the one whose scheduler the templates name, or the only one that the cluster serves.
    Auto,
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "coscheduling" => Ok(Self::One(Family::Coscheduling)),
            "volcano" => Ok(Self::One(Family::Volcano)),
            "native" => Ok(Self::One(Family::Native)),
            "auto" => Ok(Self::Auto),
            _ => Err(format!(
                "found {text:?}, expected coscheduling, volcano, native or auto"
            )),
        }
    }
}

/// The gang schedulers whose APIs a cluster serves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Served {
    /// `scheduling.x-k8s.io/v1alpha1`.
    pub coscheduling: bool,
    /// `scheduling.volcano.sh/v1beta1`.
    pub volcano: bool,
    /// The best version of `scheduling.k8s.io`.
    pub native: Option<NativeVersion>,
}

impl Served {
    /// The back end of this family, if it is served.
    #[must_use]
    pub fn back_end(&self, family: Family) -> Option<BackEnd> {
        match family {
            Family::Coscheduling => self.coscheduling.then_some(BackEnd::Coscheduling),
            Family::Volcano => self.volcano.then_some(BackEnd::Volcano),
            Family::Native => self.native.map(BackEnd::Native),
        }
    }
}

/// The back end of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// None: the job is no gang of ours, whoever the scheduler is, so what the label says does not matter.
    Alone(Notice),
    /// This one.
    Use(BackEnd),
    /// This one, but the cluster does not serve it (yet): the job is not held.
    NotServed(Family),
}

/// Chooses: the job's annotation, or else the namespace's label.
///
/// # Errors
/// If the job is a gang, and the value is none of the four, or `auto` finds none or several.
pub fn choose(
    kind: &dyn GangKind,
    job: &Value,
    label: &str,
    served: Served,
    settings: &GangSettings,
) -> Result<Choice, InvalidField> {
    let family = match wanted(kind, job, label, settings)? {
        Err(notice) => return Ok(Choice::Alone(notice)),
        Ok(Wanted::One(family)) => family,
        Ok(Wanted::Auto) => {
            let (_, path) = asked(job, label)?;
            automatic(kind, job, served, settings)?.map_err(|problem| InvalidField { path, problem })?
        }
    };
    Ok(served
        .back_end(family)
        .map_or(Choice::NotServed(family), Choice::Use))
}

/// What a job asks for, or why it is no gang of ours.
///
/// # Errors
/// As [`choose`], as far as the job and the label tell.
pub fn wanted(
    kind: &dyn GangKind,
    job: &Value,
    label: &str,
    settings: &GangSettings,
) -> Result<Result<Wanted, Notice>, InvalidField> {
    if let Some(notice) = opt_in::alone(kind, job, settings)? {
        return Ok(Err(notice));
    }
    let (text, path) = asked(job, label)?;
    let wanted = text.parse().map_err(|problem| InvalidField { path, problem })?;
    Ok(Ok(wanted))
}

/// The text that chooses, and where it stands.
fn asked<'t>(job: &'t Value, label: &'t str) -> Result<(&'t str, String), InvalidField> {
    let annotation = Field::root(job).at(&["metadata", "annotations", GANG_SCHEDULER]);
    Ok(match annotation.text()? {
        Some(text) => (text, annotation.path().to_string()),
        None => {
            let namespace = Field::root(job).at(&["metadata", "namespace"]);
            let namespace = namespace.text()?.unwrap_or_default();
            (label, format!("label {GANG} of namespace {namespace}"))
        }
    })
}

fn automatic(
    kind: &dyn GangKind,
    job: &Value,
    served: Served,
    settings: &GangSettings,
) -> Result<Result<Family, String>, InvalidField> {
    if let Pods::Sets(sets) = kind.pod_sets(job)? {
        for set in sets {
            let name = set
                .template
                .at(&["spec", "schedulerName"])
                .text()?
                .unwrap_or_default();
            if name == settings.volcano_scheduler {
                return Ok(Ok(Family::Volcano));
            }
            if name == settings.coscheduling_scheduler && name != super::DEFAULT_SCHEDULER {
                return Ok(Ok(Family::Coscheduling));
            }
        }
    }
    let all = [Family::Coscheduling, Family::Volcano, Family::Native];
    let found: Vec<Family> = all
        .into_iter()
        .filter(|family| served.back_end(*family).is_some())
        .collect();
    Ok(match found[..] {
        [one] => Ok(one),
        [] => Err("found auto, but this cluster serves no gang scheduler; install one".to_owned()),
        [_, ..] => {
            let found: Vec<String> = found.iter().map(Family::to_string).collect();
            Err(format!(
                "found auto, but this cluster serves {}; name one of them",
                found.join(" and ")
            ))
        }
    })
}
