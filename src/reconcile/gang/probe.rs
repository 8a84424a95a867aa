//! Whether pods can really be in native groups: the API may be served while the feature gate is off, and then the field
//! of a pod is dropped without a word (seen on 1.37.2).

use serde_json::Value;

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
    /// Pods keep the field, but no group can be made: a scheduler with the gate then schedules no pod at all.
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
                "pods may name a scheduling group, but scheduling.k8s.io serves no group: a scheduler with the feature \
                 gate GenericWorkload schedules no pod at all until the API server has \
                 --runtime-config=scheduling.k8s.io/v1beta1=true (1.36: scheduling.k8s.io/v1alpha2=true, \
                 1.35: scheduling.k8s.io/v1alpha1=true)",
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
    let path = format!("/api/v1/namespaces/{own_namespace}/pods");
    let answer = match api.try_create(&path, &native::probe()).await {
        Ok(answer) => serde_json::from_str(answer.json()).unwrap_or_default(),
        // Unknown fields are refused where validation is strict; other refusals say nothing, so nothing is believed.
        Err(CallError::Answered { .. }) => Value::Null,
        Err(error) => return Err(error),
    };
    let kept = |version| native::is_enabled(version, &answer);
    let kept = best.map_or_else(|| NativeVersion::ALL.into_iter().any(kept), kept);
    Ok(match (best, kept) {
        (Some(version), true) => Native::On(version),
        (Some(_), false) => Native::GateOff,
        (None, true) => Native::ApiOff,
        (None, false) => Native::Off,
    })
}
