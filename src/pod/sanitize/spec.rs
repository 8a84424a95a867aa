//! The spec of a copy: the local pod's, field by field.

use serde_json::{Map, Value, json};

use super::change::Log;
use super::local::LocalObject;
use super::{label_keys, submitted, token};
use crate::names;

/// What happens to a field of the spec on its way to the worker.
#[derive(Debug, Clone, Copy)]
enum Action {
    Keep,
    /// With its reason.
    Drop(&'static str),
    /// One of the functions called in [`copy`] looks into it.
    Rewrite,
}

use Action::{Drop, Keep, Rewrite};

/// Every field of PodSpec in Kubernetes 1.37 (a test compares). A field that is not here is kept (R32).
///
/// Kept names of objects must exist on the worker; if they do not, the worker says so, and its words are shown.
const FIELDS: &[(&str, Action)] = &[
    ("activeDeadlineSeconds", Keep), // counts from the start on the worker
    ("affinity", Rewrite),           // label_keys
    ("automountServiceAccountToken", Keep),
    ("containers", Rewrite), // token
    ("dnsConfig", Keep),
    ("dnsPolicy", Keep),
    ("enableServiceLinks", Keep), // the environment shows the worker's Services
    ("ephemeralContainers", Drop("no pod can be created with them")),
    ("evictionResponders", Keep),
    ("hostAliases", Keep),
    ("hostIPC", Keep),     // host namespaces: the worker's pod security decides
    ("hostNetwork", Keep), // as hostIPC
    ("hostPID", Keep),     // as hostIPC
    ("hostUsers", Keep),
    ("hostname", Keep),
    ("hostnameOverride", Keep),
    ("imagePullSecrets", Keep),  // without one of them the kubelet goes on
    ("initContainers", Rewrite), // token
    ("nodeName", Drop("names a node of the manager")),
    ("nodeSelector", Rewrite), // submitted
    ("os", Keep),
    ("overhead", Drop("the worker's RuntimeClass writes its own")),
    (
        "preemptionPolicy",
        Drop("follows from the worker's PriorityClass"),
    ),
    ("priority", Drop("follows from the worker's PriorityClass")),
    ("priorityClassName", Keep),
    ("readinessGates", Keep), // their conditions come from controllers on the worker
    ("resourceClaims", Keep),
    ("resources", Keep),
    ("restartPolicy", Keep),
    ("runtimeClassName", Keep),
    ("schedulerName", Keep),
    ("schedulingGates", Rewrite), // gate
    ("schedulingGroup", Drop("names a group of the manager")),
    ("securityContext", Keep),
    ("serviceAccount", Keep), // an alias: kept or lost together with the next
    ("serviceAccountName", Keep),
    ("setHostnameAsFQDN", Keep),
    ("shareProcessNamespace", Keep),
    ("subdomain", Keep),
    ("terminationGracePeriodSeconds", Keep),
    ("tolerations", Rewrite),               // submitted
    ("topologySpreadConstraints", Rewrite), // label_keys
    ("volumes", Rewrite),                   // token; claims keep their names
];

/// The lists of containers in a copy.
pub(super) const CONTAINER_LISTS: [&str; 2] = ["initContainers", "containers"];

/// The local spec, sanitised.
pub(super) fn copy(local: &LocalObject<'_>, log: &mut Log) -> Map<String, Value> {
    let mut spec = Map::new();
    for (field, value) in local.spec {
        match action(field) {
            Drop(reason) => log.dropped(format_args!("spec.{field}"), reason),
            Keep | Rewrite => _ = spec.insert(field.clone(), value.clone()),
        }
    }
    submitted::subtract(&mut spec, local.annotation(names::SUBMITTED), log);
    label_keys::unmerge(&mut spec, local.metadata.get("labels"), log);
    token::drop_mounted(&mut spec, log);
    gate(&mut spec, log);
    spec
}

fn action(field: &str) -> Action {
    let known = FIELDS.binary_search_by(|(name, _)| (*name).cmp(field));
    known.map_or(Keep, |index| FIELDS[index].1)
}

/// Exactly one gate, `uncommitted`. Nobody on the worker would lift a copied one (R16).
fn gate(spec: &mut Map<String, Value>, log: &mut Log) {
    let ours = json!([{"name": names::UNCOMMITTED}]);
    let theirs = spec
        .insert("schedulingGates".to_owned(), ours)
        .unwrap_or_default();
    for gate in theirs.as_array().into_iter().flatten() {
        let name = gate["name"].as_str().unwrap_or_default();
        log.dropped(
            format_args!("spec.schedulingGates[{name}]"),
            "nobody on the worker would lift it",
        );
    }
    let reason = "holds the copy until the local pod has recorded it";
    log.added(
        format_args!("spec.schedulingGates[{}]", names::UNCOMMITTED),
        reason,
    );
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use k8s_openapi::api::core::v1::PodSpec;

    use super::super::testing::{assert_kept, check_spec};
    use super::*;

    /// Compiles as long as PodSpec has these fields and no other: a new one must be decided upon above.
    #[test]
    fn every_field_of_kubernetes_1_37_is_in_the_table() {
        let PodSpec {
            active_deadline_seconds: _,
            affinity: _,
            automount_service_account_token: _,
            containers: _,
            dns_config: _,
            dns_policy: _,
            enable_service_links: _,
            ephemeral_containers: _,
            eviction_responders: _,
            host_aliases: _,
            host_ipc: _,
            host_network: _,
            host_pid: _,
            host_users: _,
            hostname: _,
            hostname_override: _,
            image_pull_secrets: _,
            init_containers: _,
            node_name: _,
            node_selector: _,
            os: _,
            overhead: _,
            preemption_policy: _,
            priority: _,
            priority_class_name: _,
            readiness_gates: _,
            resource_claims: _,
            resources: _,
            restart_policy: _,
            runtime_class_name: _,
            scheduler_name: _,
            scheduling_gates: _,
            scheduling_group: _,
            security_context: _,
            service_account: _,
            service_account_name: _,
            set_hostname_as_fqdn: _,
            share_process_namespace: _,
            subdomain: _,
            termination_grace_period_seconds: _,
            tolerations: _,
            topology_spread_constraints: _,
            volumes: _,
        } = PodSpec::default();
        let schema = schemars::schema_for!(PodSpec);
        let mut fields: Vec<&String> = schema.as_value()["properties"]
            .as_object()
            .unwrap()
            .keys()
            .collect();
        fields.sort();
        assert_eq!(FIELDS.iter().map(|(field, _)| *field).collect::<Vec<_>>(), fields);
    }

    #[test]
    fn every_gate_is_dropped_and_ours_added() {
        let gates = [
            "portcullis.dev/multikueue",
            "kueue.x-k8s.io/admission",
            "kueue.x-k8s.io/topology",
        ];
        check_spec(
            json!({"schedulingGates": gates.map(|name| json!({"name": name}))}),
            expect![[r#"
                dropped spec.schedulingGates[portcullis.dev/multikueue]: nobody on the worker would lift it
                dropped spec.schedulingGates[kueue.x-k8s.io/admission]: nobody on the worker would lift it
                dropped spec.schedulingGates[kueue.x-k8s.io/topology]: nobody on the worker would lift it
            "#]],
        );
    }

    #[test]
    fn a_node_name_is_dropped() {
        check_spec(
            json!({"nodeName": "manager-node"}),
            expect![[r#"
            dropped spec.nodeName: names a node of the manager
        "#]],
        );
    }

    #[test]
    fn priority_and_preemption_follow_from_the_class_which_is_kept() {
        let priority = json!({"priority": 1000, "preemptionPolicy": "Never", "priorityClassName": "high"});
        check_spec(
            priority,
            expect![[r#"
            priorityClassName: "high"
            dropped spec.preemptionPolicy: follows from the worker's PriorityClass
            dropped spec.priority: follows from the worker's PriorityClass
        "#]],
        );
    }

    #[test]
    fn overhead_is_dropped_and_its_class_kept() {
        check_spec(
            json!({"overhead": {"cpu": "250m"}, "runtimeClassName": "kata"}),
            expect![[r#"
                runtimeClassName: "kata"
                dropped spec.overhead: the worker's RuntimeClass writes its own
            "#]],
        );
    }

    #[test]
    fn ephemeral_containers_are_dropped() {
        check_spec(
            json!({"ephemeralContainers": [{"name": "debug", "image": "busybox"}]}),
            expect![[r#"
                dropped spec.ephemeralContainers: no pod can be created with them
            "#]],
        );
    }

    #[test]
    fn a_scheduling_group_is_dropped() {
        check_spec(
            json!({"schedulingGroup": {"podGroupName": "g"}}),
            expect![[r#"
            dropped spec.schedulingGroup: names a group of the manager
        "#]],
        );
    }

    #[test]
    fn where_the_user_wants_to_run_is_kept() {
        assert_kept(json!({
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300}],
            "affinity": {"nodeAffinity": {}},
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone"}],
        }));
    }

    #[test]
    fn the_scheduler_is_kept() {
        assert_kept(json!({"schedulerName": "volcano"}));
    }

    #[test]
    fn both_spellings_of_the_service_account_are_kept_together() {
        assert_kept(json!({"serviceAccountName": "web", "serviceAccount": "web"}));
    }

    #[test]
    fn the_users_choice_about_tokens_is_kept() {
        assert_kept(json!({"automountServiceAccountToken": true}));
        assert_kept(json!({"automountServiceAccountToken": false}));
    }

    #[test]
    fn pull_secrets_are_kept() {
        assert_kept(json!({"imagePullSecrets": [{"name": "registry"}]}));
    }

    #[test]
    fn resource_claims_are_kept() {
        assert_kept(json!({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]}));
    }

    #[test]
    fn host_names_are_kept() {
        assert_kept(json!({
            "hostname": "web-0", "subdomain": "web", "setHostnameAsFQDN": true, "hostnameOverride": "x",
        }));
    }

    #[test]
    fn network_settings_are_kept() {
        assert_kept(json!({
            "enableServiceLinks": false, "dnsPolicy": "Default", "hostAliases": [{"ip": "10.0.0.1"}],
        }));
    }

    #[test]
    fn host_namespaces_and_paths_are_left_to_the_workers_pod_security() {
        let volumes = json!([{"name": "logs", "hostPath": {"path": "/var/log"}}]);
        assert_kept(json!({"hostNetwork": true, "hostPID": true, "hostIPC": true, "volumes": volumes}));
    }

    #[test]
    fn claims_are_kept_by_name() {
        assert_kept(
            json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}]}),
        );
    }

    #[test]
    fn grace_and_deadline_are_kept() {
        assert_kept(json!({"terminationGracePeriodSeconds": 60, "activeDeadlineSeconds": 600}));
    }

    #[test]
    fn readiness_gates_are_kept() {
        assert_kept(json!({"readinessGates": [{"conditionType": "example.com/ready"}]}));
    }

    #[test]
    fn resources_of_containers_are_kept() {
        let policy = json!([{"resourceName": "cpu", "restartPolicy": "NotRequired"}]);
        let app = json!({"name": "app", "resources": {"requests": {"cpu": "1"}}, "resizePolicy": policy});
        assert_kept(json!({"containers": [app], "resources": {"limits": {"cpu": "2"}}}));
    }

    #[test]
    fn fields_that_nobody_knows_are_kept() {
        let deep = json!({"deep": [1, 2.5, null, {"x": "y"}]});
        assert_kept(json!({"tomorrow": deep, "containers": [{"name": "app", "tomorrow": deep}]}));
    }

    /// An injector must not inject twice, by the rules of Kubernetes: the worker's finds its sidecar (R98).
    #[test]
    fn sidecars_and_cloud_identities_are_kept() {
        let token = json!({"serviceAccountToken": {"audience": "sts.amazonaws.com", "path": "token"}});
        assert_kept(json!({
            "containers": [{"name": "app"}, {"name": "istio-proxy", "image": "proxyv2"}],
            "volumes": [{"name": "aws-iam-token", "projected": {"sources": [token]}}],
        }));
    }
}
