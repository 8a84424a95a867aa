//! A gang -> the Workload and the PodGroup of Kubernetes itself (`scheduling.k8s.io`, KEP-4671 and KEP-5832).
//!
//! Every release has another version of this API and none converts the one before. There is no minimum of resources, no
//! queue and no timeout in any of them.

use serde_json::{Map, Value, json};

use super::facts::GangSettings;
use super::marks::PodMark;
use super::name::native_name;
use super::pod_group::{PodGroup, metadata};
use crate::names::{GANG_SCHEDULER, POD_GROUP};

/// The name of the one template that all roles share: a Workload has at most 8.
pub const TEMPLATE: &str = "gang";

/// A version of `scheduling.k8s.io`; the first that is served is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NativeVersion {
    /// Kubernetes 1.37, beta.
    V1beta1,
    /// Kubernetes 1.37, alpha.
    V1alpha3,
    /// Kubernetes 1.36.
    V1alpha2,
    /// Kubernetes 1.35: no PodGroup, the Workload is the group.
    V1alpha1,
}

impl NativeVersion {
    /// All of them, the best first.
    pub const ALL: [Self; 4] = [Self::V1beta1, Self::V1alpha3, Self::V1alpha2, Self::V1alpha1];

    /// As in `apiVersion`.
    #[must_use]
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1beta1 => "scheduling.k8s.io/v1beta1",
            Self::V1alpha3 => "scheduling.k8s.io/v1alpha3",
            Self::V1alpha2 => "scheduling.k8s.io/v1alpha2",
            Self::V1alpha1 => "scheduling.k8s.io/v1alpha1",
        }
    }

    /// The version of Kubernetes 1.`minor`; none before 1.35.
    #[must_use]
    pub fn of_kubernetes(minor: u32) -> Option<Self> {
        match minor {
            0..=34 => None,
            35 => Some(Self::V1alpha1),
            36 => Some(Self::V1alpha2),
            37.. => Some(Self::V1beta1),
        }
    }

    /// Whether `gang.minCount` of a group that exists can be changed.
    #[must_use]
    pub fn can_resize(self) -> bool {
        matches!(self, Self::V1beta1 | Self::V1alpha3)
    }
}

/// The best of the versions of `scheduling.k8s.io` that a cluster serves, given as `v1beta1` and the like.
#[must_use]
pub fn best_of(served: &[impl AsRef<str>]) -> Option<NativeVersion> {
    let name = |version: NativeVersion| version.api_version().rsplit('/').next();
    let is_served = |version: &NativeVersion| {
        served
            .iter()
            .any(|served| Some(served.as_ref()) == name(*version))
    };
    NativeVersion::ALL.into_iter().find(is_served)
}

/// The names of a gang's objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// The Workload: as the job, or as the group where nothing of it can change.
    pub workload: String,
    /// The PodGroup; of 1.35, the group within the Workload.
    pub pod_group: String,
}

/// The names in an attempt to run the job, counted from 0. A new attempt has a new PodGroup.
#[must_use]
pub fn names(group: &PodGroup, version: NativeVersion, attempt: u32) -> Names {
    let fresh = group.born_in.clone();
    let fresh = fresh.unwrap_or_else(|| native_name(&group.job, attempt));
    let workload = match (version.can_resize(), attempt) {
        (true, _) | (false, 0) => group.job.name.clone(),
        (false, _) => fresh.clone(),
    };
    match version {
        NativeVersion::V1beta1 | NativeVersion::V1alpha3 | NativeVersion::V1alpha2 => Names {
            workload,
            pod_group: fresh,
        },
        NativeVersion::V1alpha1 => Names {
            workload,
            pod_group: TEMPLATE.to_owned(),
        },
    }
}

/// What pods of the gang carry.
#[must_use]
pub fn pod_mark(names: Names, version: NativeVersion) -> PodMark {
    let Names { workload, pod_group } = names;
    match version {
        NativeVersion::V1beta1 | NativeVersion::V1alpha3 | NativeVersion::V1alpha2 => {
            PodMark::SchedulingGroup { pod_group }
        }
        NativeVersion::V1alpha1 => PodMark::WorkloadRef { workload, pod_group },
    }
}

/// The Workload, which is made first.
#[must_use]
pub fn workload(group: &PodGroup, version: NativeVersion, names: &Names, settings: &GangSettings) -> Value {
    let metadata = metadata(group, &names.workload, settings);
    let (api_group, _) = group.job.api_version.split_once('/').unwrap_or(("", ""));
    let controller = json!({"apiGroup": api_group, "kind": group.job.kind, "name": group.job.name});
    let spec = match version {
        NativeVersion::V1alpha1 => json!({
            "controllerRef": controller,
            "podGroups": [{"name": TEMPLATE, "policy": {"gang": {"minCount": group.min_member}}}],
        }),
        NativeVersion::V1beta1 | NativeVersion::V1alpha3 | NativeVersion::V1alpha2 => {
            let mut template = scheduling(group, version);
            template.insert("name".to_owned(), json!(TEMPLATE));
            json!({"controllerRef": controller, "podGroupTemplates": [template]})
        }
    };
    json!({"apiVersion": version.api_version(), "kind": "Workload", "metadata": metadata, "spec": spec})
}

/// The PodGroup, made after its Workload, whose UID it names as a second owner; none in 1.35.
#[must_use]
pub fn pod_group(
    group: &PodGroup,
    version: NativeVersion,
    names: &Names,
    workload_uid: Option<&str>,
    settings: &GangSettings,
) -> Option<Value> {
    let reference = match version {
        NativeVersion::V1alpha1 => return None,
        NativeVersion::V1alpha2 => (
            "podGroupTemplateRef",
            json!({"workload": {"workloadName": names.workload, "podGroupTemplateName": TEMPLATE}}),
        ),
        NativeVersion::V1beta1 | NativeVersion::V1alpha3 => (
            "workloadRef",
            json!({"workloadName": names.workload, "templateName": TEMPLATE}),
        ),
    };
    let mut metadata = metadata(group, &names.pod_group, settings);
    if let (Some(uid), Some(Value::Array(owners))) = (workload_uid, metadata.get_mut("ownerReferences")) {
        owners.push(json!({"apiVersion": version.api_version(), "kind": "Workload", "name": names.workload, "uid": uid}));
    }
    let mut spec = scheduling(group, version);
    spec.insert(reference.0.to_owned(), reference.1);
    Some(json!({"apiVersion": version.api_version(), "kind": "PodGroup", "metadata": metadata, "spec": spec}))
}

/// What a PodGroup and its template have in common. A `priority` is never written: admission fills it in, and refuses
/// one that is there.
fn scheduling(group: &PodGroup, version: NativeVersion) -> Map<String, Value> {
    let gang = json!({"gang": {"minCount": group.min_member}});
    let mut spec = Map::from_iter([("schedulingPolicy".to_owned(), gang)]);
    if let Some(class) = &group.priority_class {
        spec.insert("priorityClassName".to_owned(), json!(class));
    }
    if group.min_member == group.total {
        let mode = match version {
            NativeVersion::V1beta1 | NativeVersion::V1alpha3 => json!({"all": {}}),
            NativeVersion::V1alpha2 | NativeVersion::V1alpha1 => json!("PodGroup"),
        };
        spec.insert("disruptionMode".to_owned(), mode);
    }
    spec
}

/// An update of a Workload or PodGroup: of what was made, only `gang.minCount` can change, so the rest is as it stands. An
/// apply that leaves such a field out would remove it, and be refused.
#[must_use]
pub fn resized(live: &Value, mut wanted: Value) -> Value {
    for place in ["/spec", "/spec/podGroupTemplates/0"] {
        let stands = live.pointer(place);
        let Some(Value::Object(fields)) = wanted.pointer_mut(place) else {
            continue;
        };
        for key in ["disruptionMode", "priorityClassName"] {
            match stands.and_then(|stands| stands.get(key)) {
                Some(value) => fields.insert(key.to_owned(), value.clone()),
                None => fields.remove(key),
            };
        }
    }
    wanted
}

/// `gang.minCount` of a Workload or PodGroup.
#[must_use]
pub fn min_count(object: &Value) -> Option<u64> {
    let places = [
        "/spec/schedulingPolicy",
        "/spec/podGroupTemplates/0/schedulingPolicy",
        "/spec/podGroups/0/policy", // 1.35
    ];
    let count = |place: &&str| object.pointer(place)?.pointer("/gang/minCount")?.as_u64();
    places.iter().find_map(count)
}

/// `gang.minCount` of a group some of whose pods have ended: pods that ended do not count, so the full number would
/// keep a replacement waiting for ever (kubernetes/kubernetes#142330).
#[must_use]
pub fn min_count_for(min_member: u32, unfinished_and_coming: u32) -> u32 {
    min_member.min(unfinished_and_coming).max(1)
}

/// A pod that is only tried (`dryRun: All`), with the mark of every version. The API server drops marks that it does not
/// know, and those whose feature gate is off, though the API is served.
#[must_use]
pub fn probe() -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "portcullis-probe-"},
        "spec": {"containers": [{"name": "probe", "image": "probe"}]},
    });
    for version in NativeVersion::ALL {
        let (field, value) = probed(version).field();
        pod["spec"][field] = value;
    }
    pod
}

/// Whether the answer to [`probe`] shows that pods can be in groups of this version.
#[must_use]
pub fn is_enabled(version: NativeVersion, answer: &Value) -> bool {
    let (field, value) = probed(version).field();
    answer["spec"].get(field) == Some(&value)
}

/// A pod that is only tried, with the marks by which a policy puts it into its group.
#[must_use]
pub fn marked_probe() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "generateName": "portcullis-probe-",
            "labels": {POD_GROUP: PROBED},
            "annotations": {GANG_SCHEDULER: "native"},
        },
        "spec": {"containers": [{"name": "probe", "image": "probe"}]},
    })
}

/// Whether the answer to [`marked_probe`] shows that it got its group.
#[must_use]
pub fn is_grouped(answer: &Value) -> bool {
    is_enabled(NativeVersion::V1beta1, answer)
}

/// The group of pods that are only tried.
const PROBED: &str = "portcullis-probe";

fn probed(version: NativeVersion) -> PodMark {
    let name = || PROBED.to_owned();
    pod_mark(
        Names {
            workload: name(),
            pod_group: name(),
        },
        version,
    )
}
