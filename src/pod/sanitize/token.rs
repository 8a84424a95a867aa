//! The service account token that the manager mounted -> gone, so that the worker mounts its own (R31).

use serde_json::{Map, Value};

use super::change::Log;
use super::list::{self, elements};
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
    let tokens: Vec<String> = volumes
        .filter(|volume| is_token(volume))
        .filter_map(|volume| volume["name"].as_str())
        .filter(|name| only_mounted_as_token(spec, name))
        .map(str::to_owned)
        .collect();
    for token in &tokens {
        drop_volume(spec, token, log);
    }
}

fn drop_volume(spec: &mut Map<String, Value>, name: &str, log: &mut Log) {
    list::drop(
        spec,
        "volumes",
        |volume| volume["name"] == name,
        |index| {
            log.dropped(format_args!("spec.volumes[{index}]"), REASON);
        },
    );
    for list in CONTAINER_LISTS {
        let Some(Value::Array(containers)) = spec.get_mut(list) else {
            continue;
        };
        for (at, container) in containers.iter_mut().enumerate() {
            let Some(container) = container.as_object_mut() else {
                continue;
            };
            list::drop(
                container,
                "volumeMounts",
                |mount| mount["name"] == name,
                |index| {
                    log.dropped(format_args!("spec.{list}[{at}].volumeMounts[{index}]"), REASON);
                },
            );
        }
    }
}

/// A projection of exactly token, root CA and namespace, under the generated name.
fn is_token(volume: &Value) -> bool {
    let named = volume["name"]
        .as_str()
        .is_some_and(|name| name.starts_with(NAME_PREFIX));
    let sources = &volume["projected"]["sources"];
    let has = |test: fn(&Value) -> bool| elements(&volume["projected"], "sources").any(test);
    named
        && length(sources) == 3
        && has(|source| source["serviceAccountToken"]["path"] == "token")
        && has(|source| source["configMap"]["name"] == "kube-root-ca.crt")
        && has(|source| {
            let items = &source["downwardAPI"]["items"];
            length(items) == 1 && items[0]["fieldRef"]["fieldPath"] == "metadata.namespace"
        })
}

fn length(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}

fn only_mounted_as_token(spec: &Map<String, Value>, volume: &str) -> bool {
    CONTAINER_LISTS
        .iter()
        .flat_map(|list| spec.get(*list).and_then(Value::as_array).into_iter().flatten())
        .flat_map(|container| elements(container, "volumeMounts"))
        .filter(|mount| mount["name"] == volume)
        .all(|mount| mount["mountPath"] == MOUNT_PATH)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::super::testing::{assert_kept, check_spec, token_volume};
    use super::*;

    fn mount(name: &str, path: &str) -> Value {
        json!({"name": name, "mountPath": path, "readOnly": true})
    }

    #[test]
    fn the_mounted_token_goes_from_containers_init_containers_and_sidecars() {
        let token = mount("kube-api-access-x", MOUNT_PATH);
        check_spec(
            json!({
                "volumes": [token_volume("kube-api-access-x"), {"name": "data", "emptyDir": {}}],
                "initContainers": [
                    {"name": "prepare", "volumeMounts": [token]},
                    {"name": "sidecar", "restartPolicy": "Always", "volumeMounts": [mount("data", "/data"), token]},
                ],
                "containers": [{"name": "app", "volumeMounts": [token, mount("data", "/data")]}, {"name": "second"}],
            }),
            expect![[r#"
                containers: [{"name":"app","volumeMounts":[{"mountPath":"/data","name":"data","readOnly":true}]},{"name":"second"}]
                initContainers: [{"name":"prepare"},{"name":"sidecar","restartPolicy":"Always","volumeMounts":[{"mountPath":"/data","name":"data","readOnly":true}]}]
                volumes: [{"emptyDir":{},"name":"data"}]
                dropped spec.volumes[0]: token and CA of the manager; the worker mounts its own
                dropped spec.initContainers[0].volumeMounts[0]: token and CA of the manager; the worker mounts its own
                dropped spec.initContainers[1].volumeMounts[1]: token and CA of the manager; the worker mounts its own
                dropped spec.containers[0].volumeMounts[0]: token and CA of the manager; the worker mounts its own
            "#]],
        );
    }

    #[test]
    fn a_token_that_the_user_projects_stays() {
        let vault = json!({"name": "vault", "projected": {"sources": [
            {"serviceAccountToken": {"audience": "vault", "path": "token"}},
        ]}});
        check_spec(
            json!({"volumes": [vault], "containers": [{"name": "app", "volumeMounts": [mount("vault", "/vault")]}]}),
            expect![[r#"
                containers: [{"name":"app","volumeMounts":[{"mountPath":"/vault","name":"vault","readOnly":true}]}]
                volumes: [{"name":"vault","projected":{"sources":[{"serviceAccountToken":{"audience":"vault","path":"token"}}]}}]
            "#]],
        );
    }

    #[test]
    fn what_only_looks_like_a_mounted_token_stays() {
        let mut other_source = token_volume("kube-api-access-x");
        other_source["projected"]["sources"][1]["configMap"]["name"] = "my-ca.crt".into();
        let mut other_path = token_volume("kube-api-access-x");
        other_path["projected"]["sources"][0]["serviceAccountToken"]["path"] = "jwt".into();
        let mut more_sources = token_volume("kube-api-access-x");
        more_sources["projected"]["sources"]
            .as_array_mut()
            .unwrap()
            .push(json!({"secret": {"name": "s"}}));
        let mut more_items = token_volume("kube-api-access-x");
        let items = &mut more_items["projected"]["sources"][2]["downwardAPI"]["items"];
        items
            .as_array_mut()
            .unwrap()
            .push(json!({"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}));
        let other_name = token_volume("api-access");
        let secret = json!({"name": "kube-api-access-x", "secret": {"secretName": "s"}});
        for volume in [
            other_path,
            other_source,
            more_sources,
            more_items,
            other_name,
            secret,
        ] {
            let mounts = [mount(volume["name"].as_str().unwrap(), MOUNT_PATH)];
            let spec = json!({"volumes": [volume], "containers": [{"name": "app", "volumeMounts": mounts}]});
            assert_kept(spec);
        }
    }

    #[test]
    fn a_token_volume_that_is_mounted_elsewhere_stays() {
        let mounts = [
            mount("kube-api-access-x", MOUNT_PATH),
            mount("kube-api-access-x", "/tokens"),
        ];
        assert_kept(json!({
            "volumes": [token_volume("kube-api-access-x")], "containers": [{"name": "app", "volumeMounts": mounts}],
        }));
    }

    #[test]
    fn a_token_mounted_by_hand_stays_where_the_server_mounts_none() {
        assert_kept(json!({
            "automountServiceAccountToken": false,
            "volumes": [token_volume("kube-api-access-x")],
            "containers": [{"name": "app", "volumeMounts": [mount("kube-api-access-x", MOUNT_PATH)]}],
        }));
    }
}
