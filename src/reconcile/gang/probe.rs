//! Whether pods can really be in native groups: the API may be served while the feature gate is off, and then the field
//! of a pod is dropped without a word (seen on 1.37.2).

use super::cluster::NATIVE_WORKLOAD;
use crate::cluster::api::{CallError, ClusterApi};
use crate::cluster::discovery::Served;
use crate::gang::{NativeVersion, native};

/// What a try showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Native {
    /// No version is served, and pods do not keep the field.
    Off,
    /// Pods can be in groups.
    On(NativeVersion),
    /// The API is served, but pods lose the field.
    GateOff,
    /// Pods keep the field, but no PodGroup can be made: a scheduler with the gate then schedules no pod at all.
    ApiOff,
}

impl Native {
    /// What is wrong with the cluster, and what to do; none if nothing is, also where native groups are simply off.
    #[must_use]
    pub fn problem(self) -> Option<&'static str> {
        match self {
            Self::Off | Self::On(_) => None,
            Self::GateOff => Some(
                "scheduling.k8s.io is served, but pods lose their group: the feature gate GenericWorkload is off in the API \
                 server; native gangs do not work",
            ),
            Self::ApiOff => Some(
                "pods may name a scheduling group, but scheduling.k8s.io serves no PodGroup: a scheduler with the feature \
                 gate GenericWorkload schedules no pod at all until --runtime-config=scheduling.k8s.io/v1beta1=true is set",
            ),
        }
    }
}

/// Tries it with a pod in our own namespace that is not stored.
///
/// # Errors
/// If the cluster does not answer.
pub async fn native(api: &ClusterApi, own_namespace: &str, served: &Served) -> Result<Native, CallError> {
    let best = NativeVersion::ALL.into_iter().find(|version| {
        let (group, version) = version.api_version().split_once('/').unwrap_or_default();
        served.has(group, version, NATIVE_WORKLOAD.plural)
    });
    let tried = best.unwrap_or(NativeVersion::V1beta1);
    let path = format!("/api/v1/namespaces/{own_namespace}/pods");
    let kept = match api.try_create(&path, &native::probe(tried)).await {
        Ok(answer) => {
            serde_json::from_str(answer.json()).is_ok_and(|answer| native::is_enabled(tried, &answer))
        }
        // Unknown fields are refused where validation is strict; other refusals say nothing, so nothing is believed.
        Err(CallError::Answered { .. }) => false,
        Err(error) => return Err(error),
    };
    Ok(match (best, kept) {
        (Some(version), true) => Native::On(version),
        (Some(_), false) => Native::GateOff,
        (None, true) => Native::ApiOff,
        (None, false) => Native::Off,
    })
}
