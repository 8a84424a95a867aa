//! The service account token that the manager mounted -> gone, so that the worker mounts its own (R31).

use serde_json::{Map, Value};

use super::change::Log;
use super::spec::CONTAINER_LISTS;

/// Where the API server's ServiceAccount admission mounts the token.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const NAME_PREFIX: &str = "kube-api-access-";
const REASON: &str = "token and CA of the manager; the worker mounts its own";

/// Drops every volume that has name, shape and only such mounts as the ServiceAccount admission makes, with its mounts
/// in all containers. A user's own projected token stays, also one that is mounted by hand because
/// `automountServiceAccountToken` is false.
pub(super) fn drop_mounted(spec: &mut Map<String, Value>, log: &mut Log) {
    if spec.get("automountServiceAccountToken") == Some(&Value::Bool(false)) {
        return;
    }
    let volumes = spec
        .get("volumes")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let mounted: Vec<String> = volumes
        .filter(|volume| is_token_volume(volume))
        .filter_map(|volume| volume["name"].as_str())
        .filter(|name| only_mounted_as_token(spec, name))
        .map(str::to_owned)
        .collect();
    for volume in &mounted {
        drop_volume(spec, volume, REASON, log);
    }
}

/// Drops a volume and its mounts in all containers.
pub(super) fn drop_volume(spec: &mut Map<String, Value>, name: &str, reason: &'static str, log: &mut Log) {
    retain(spec, "volumes", |index, volume| {
        let dropped = volume["name"] == name;
        if dropped {
            log.dropped(format_args!("spec.volumes[{index}]"), reason);
        }
        !dropped
    });
    for list in CONTAINER_LISTS {
        let containers = spec
            .get_mut(list)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten();
        for (at, container) in containers
            .enumerate()
            .filter_map(|(at, c)| Some((at, c.as_object_mut()?)))
        {
            retain(container, "volumeMounts", |index, mount| {
                let dropped = mount["name"] == name;
                if dropped {
                    log.dropped(format_args!("spec.{list}[{at}].volumeMounts[{index}]"), reason);
                }
                !dropped
            });
        }
    }
}

/// Keeps the elements of a list that `keep` wants; an empty list goes. Indices are those before.
fn retain(parent: &mut Map<String, Value>, list: &str, mut keep: impl FnMut(usize, &Value) -> bool) {
    let Some(Value::Array(elements)) = parent.get_mut(list) else {
        return;
    };
    let mut index = 0;
    elements.retain(|element| {
        index += 1;
        keep(index - 1, element)
    });
    if elements.is_empty() {
        parent.remove(list);
    }
}

/// A projection of exactly token, root CA and namespace, under the generated name.
fn is_token_volume(volume: &Value) -> bool {
    let named = volume["name"]
        .as_str()
        .is_some_and(|name| name.starts_with(NAME_PREFIX));
    let Some(sources) = volume["projected"]["sources"].as_array() else {
        return false;
    };
    let has = |test: &dyn Fn(&Value) -> bool| sources.iter().any(test);
    named
        && sources.len() == 3
        && has(&|source| source["serviceAccountToken"]["path"] == "token")
        && has(&|source| source["configMap"]["name"] == "kube-root-ca.crt")
        && has(&|source| {
            source["downwardAPI"]["items"].as_array().is_some_and(|items| {
                items.len() == 1 && items[0]["fieldRef"]["fieldPath"] == "metadata.namespace"
            })
        })
}

fn only_mounted_as_token(spec: &Map<String, Value>, volume: &str) -> bool {
    CONTAINER_LISTS
        .iter()
        .flat_map(|list| spec.get(*list).and_then(Value::as_array).into_iter().flatten())
        .flat_map(|container| container["volumeMounts"].as_array().into_iter().flatten())
        .filter(|mount| mount["name"] == volume)
        .all(|mount| mount["mountPath"] == MOUNT_PATH)
}
