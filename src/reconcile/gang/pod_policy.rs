//! Whether the pods of a copy on a worker are put into the native group that only their marks name: by the policy that
//! `manifests rbac-worker --gang native` prints. An old or a changed one would let a job run without its gang, so it is
//! compared whole, and then tried, for an API server follows its policies a little later.

use serde_json::Value;

use super::cluster::GangCluster;
use crate::admission::policies::{Layer, on_native_worker};
use crate::cluster::api::{CallError, ClusterApi};
use crate::gang::{NativeVersion, native};
use crate::names::NAMESPACE;
use crate::reconcile::webhook_config::plan::content;

/// What a look showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PodPolicy {
    /// Nobody looked, or it does not matter: there are no native groups.
    #[default]
    NotLookedAt,
    /// It stands as this version prints it, and pods get their group.
    Works,
    /// What is wrong, and what to do.
    Wanting(String),
}

/// What became of reading one of the objects.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Found<'v> {
    Absent,
    Forbidden,
    Object(&'v Value),
}

/// Looks at it on a worker whose native groups are of this version.
pub(super) async fn of(
    cluster: &GangCluster,
    version: Option<NativeVersion>,
) -> Result<PodPolicy, CallError> {
    match version {
        None | Some(NativeVersion::V1alpha1) => Ok(PodPolicy::NotLookedAt), // older than policies
        Some(NativeVersion::V1alpha2 | NativeVersion::V1alpha3 | NativeVersion::V1beta1) => {
            look(&cluster.clients.calls, &cluster.own_namespace).await
        }
    }
}

async fn look(api: &ClusterApi, own_namespace: &str) -> Result<PodPolicy, CallError> {
    for layer in on_native_worker(own_namespace) {
        let path = format!(
            "/apis/admissionregistration.k8s.io/v1/{}/{}",
            layer.kind.resource(),
            layer.name
        );
        let read = api.get(&path).await;
        let live: Value;
        let found = match read {
            Ok(object) => {
                live = serde_json::from_str(object.json()).map_err(CallError::Unreadable)?;
                Found::Object(&live)
            }
            Err(CallError::Answered { code: 404, .. }) => Found::Absent,
            Err(CallError::Answered { code: 403, .. }) => Found::Forbidden,
            Err(error) => return Err(error),
        };
        if let Some(words) = problem(&layer, found, own_namespace) {
            return Ok(PodPolicy::Wanting(words));
        }
    }
    let path = format!("/api/v1/namespaces/{own_namespace}/pods");
    let answer = match api.try_create(&path, &native::marked_probe()).await {
        Ok(answer) => serde_json::from_str(answer.json()).map_err(CallError::Unreadable)?,
        Err(CallError::Answered { code, message, .. }) if code < 500 && code != 429 => {
            return Ok(PodPolicy::Wanting(tried(&format!("is refused there: {message}"))));
        }
        Err(error) => return Err(error),
    };
    Ok(match native::is_grouped(&answer) {
        true => PodPolicy::Works,
        false => PodPolicy::Wanting(tried(
            "got no group, for the API server does not follow the policy, or not yet; it is tried again",
        )),
    })
}

/// What is wrong with one of the objects, and what to do; none if it is as this version prints it. Metadata is anyone's.
fn problem(layer: &Layer, found: Found<'_>, own_namespace: &str) -> Option<String> {
    let what = match found {
        Found::Object(live) if content(layer.kind, live) == content(layer.kind, &layer.object) => {
            return None;
        }
        Found::Object(_) => "which stands there in another version",
        Found::Absent => "which is not there",
        Found::Forbidden => "which the ServiceAccount of the kubeconfig may not read",
    };
    let option = match own_namespace {
        NAMESPACE => String::new(),
        other => format!(" --namespace {other}"),
    };
    Some(format!(
        "{NEEDED} {} {}, {what}; apply `portcullis manifests rbac-worker --gang native{option}` there",
        layer.kind.kind(),
        layer.name
    ))
}

const NEEDED: &str =
    "templates of other kinds than Job do not keep schedulingGroup, so native gangs of them need the";

fn tried(what: &str) -> String {
    let [policy, _] = on_native_worker(NAMESPACE);
    format!(
        "{NEEDED} {} {}: a pod that was tried {what}",
        policy.kind.kind(),
        policy.name
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judge(change: impl Fn(&mut Value)) -> [Option<String>; 2] {
        on_native_worker(NAMESPACE).map(|layer| {
            let mut live = layer.object.clone();
            change(&mut live);
            problem(&layer, Found::Object(&live), NAMESPACE)
        })
    }

    #[test]
    fn what_is_printed_is_right_whatever_its_metadata() {
        let stored = |live: &mut Value| {
            live["metadata"]["resourceVersion"] = "7".into();
            live["metadata"]["labels"] = json!({"team": "a"});
        };
        assert_eq!(judge(stored), [None, None]);
    }

    #[test]
    fn an_old_an_emptied_and_a_bent_one_are_told_with_the_command() {
        let command = "; apply `portcullis manifests rbac-worker --gang native` there";
        let elsewhere = json!({"namespaceSelector": {"matchLabels": {"a": "b"}}});
        for (field, value) in [
            ("failurePolicy", json!("Ignore")),
            ("matchResources", elsewhere),
            ("mutations", json!([])),
        ] {
            for words in judge(|live| live["spec"][field] = value.clone()) {
                let words = words.unwrap_or_else(|| panic!("{field} is another"));
                assert!(
                    words.contains("in another version") && words.ends_with(command),
                    "{words}"
                );
            }
        }
    }

    #[test]
    fn what_is_not_there_or_not_readable_is_named() {
        let [policy, binding] = on_native_worker(NAMESPACE);
        let absent = problem(&policy, Found::Absent, NAMESPACE).unwrap();
        assert_eq!(
            absent,
            "templates of other kinds than Job do not keep schedulingGroup, so native gangs of them need the \
             MutatingAdmissionPolicy portcullis-worker-gang-pods, which is not there; apply `portcullis manifests rbac-worker \
             --gang native` there"
        );
        let forbidden = problem(&binding, Found::Forbidden, "elsewhere").unwrap();
        assert!(
            forbidden.contains(
                "MutatingAdmissionPolicyBinding portcullis-worker-gang-pods, which the ServiceAccount"
            ) && forbidden.ends_with("--gang native --namespace elsewhere` there"),
            "{forbidden}"
        );
    }

    /// Our own namespace is in it: that of another installation would not let the try work.
    #[test]
    fn the_policy_of_another_namespace_is_another() {
        let [policy, _] = on_native_worker(NAMESPACE);
        let [other, _] = on_native_worker("elsewhere");
        assert!(problem(&policy, Found::Object(&other.object), NAMESPACE).is_some());
    }
}
