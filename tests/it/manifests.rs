//! `manifests/` is what the code renders. `UPDATE=1 cargo test --test it manifests` writes it anew.

use std::path::Path;

use portcullis::admission::policies::on_native_worker;
use portcullis::cli::crds::crds;
use portcullis::cli::manifests::{ManifestsArgs, Part, configured, objects, run, yaml};
use portcullis::gang::Family;
use portcullis::names::NAMESPACE;
use serde_json::{Value, json};

const HEADER: &str = "# Generated from the code; `UPDATE=1 cargo test --test it manifests` writes it anew.\n";

#[test]
fn the_committed_manifests_are_what_the_code_renders() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests");
    let mut stale = Vec::new();
    for (file, objects) in files() {
        let text = format!("{HEADER}{}", yaml(&objects).unwrap());
        let path = root.join(file);
        if std::fs::read_to_string(&path).unwrap_or_default() == text {
            continue;
        }
        stale.push(file);
        if std::env::var_os("UPDATE").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
        }
    }
    assert!(
        stale.is_empty() || std::env::var_os("UPDATE").is_some(),
        "stale under manifests/: {stale:?}; UPDATE=1 cargo test --test it manifests writes them anew"
    );
}

/// Kinds of the configuration are in the roles, on the manager and on workers, and nowhere without it.
#[test]
fn roles_name_configured_kinds() {
    let config = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kinds.yaml");
    let text = "apiVersion: portcullis.dev/v1alpha1\nkind: PortcullisConfiguration\nkinds:\n\
        - {group: batch.example.com, version: v1, kind: Solver, plural: solvers, managedBy: {path: spec.managedBy}, suspend: spec.suspend}\n";
    std::fs::write(&config, text).unwrap();
    let kinds = configured(config.to_str().unwrap()).unwrap();
    let rules = |part, kinds| {
        let objects = objects(&ManifestsArgs {
            part,
            kinds,
            ..args()
        });
        let rules = objects.iter().filter_map(|object| object["rules"].as_array());
        let solvers = rules
            .flatten()
            .filter(|rule| rule["apiGroups"][0] == "batch.example.com");
        solvers
            .map(|rule| (rule["resources"].clone(), rule["verbs"].clone()))
            .collect::<Vec<_>>()
    };
    let remote = json!(["get", "list", "watch", "create", "patch", "delete"]);
    let local = json!(["get", "list", "watch", "patch", "delete"]);
    for (part, expected) in [
        (
            Part::RbacManager,
            vec![
                (json!(["solvers"]), local),
                (json!(["solvers/status"]), json!(["patch"])),
            ],
        ),
        (Part::RbacWorker, vec![(json!(["solvers"]), remote.clone())]),
        (Part::RbacWorkerNamespaced, vec![(json!(["solvers"]), remote)]),
    ] {
        assert_eq!(rules(part, Some(kinds)), expected, "{part:?}");
        assert_eq!(rules(part, None), [], "{part:?}");
    }
}

fn files() -> Vec<(&'static str, Vec<Value>)> {
    let part = |part| objects(&ManifestsArgs { part, ..args() });
    let without_inject = |part| {
        objects(&ManifestsArgs {
            part,
            without_inject: true,
            ..args()
        })
    };
    vec![
        ("crds.yaml", crds()),
        ("policies.yaml", part(Part::Policies)),
        ("webhooks.yaml", part(Part::Webhooks)),
        ("webhooks-without-inject.yaml", without_inject(Part::Webhooks)),
        ("rbac-manager.yaml", part(Part::RbacManager)),
        ("rbac-worker.yaml", part(Part::RbacWorker)),
        (
            "rbac-worker-gang-native.yaml",
            objects(&ManifestsArgs {
                part: Part::RbacWorker,
                gang: Some(Family::Native),
                ..args()
            }),
        ),
        ("rbac-worker-namespaced.yaml", part(Part::RbacWorkerNamespaced)),
        ("install/portcullis.yaml", part(Part::Install)),
    ]
}

#[test]
fn the_role_per_namespace_is_not_printed_for_gangs() {
    let asked = ManifestsArgs {
        part: Part::RbacWorkerNamespaced,
        gang: Some(Family::Coscheduling),
        ..args()
    };
    let refusal = run(&asked).unwrap_err().to_string();
    assert!(
        refusal.starts_with("--gang: ") && refusal.contains("print rbac-worker,"),
        "{refusal}"
    );
}

/// It may read these two by name, and write none: whoever writes a policy is cluster-admin in effect.
#[test]
fn a_worker_with_native_gangs_has_the_policy_of_their_pods_and_the_right_to_look_at_it() {
    let printed = |gang| {
        objects(&ManifestsArgs {
            part: Part::RbacWorker,
            gang,
            namespace: "elsewhere".to_owned(),
            ..args()
        })
    };
    let policies = |objects: &[Value]| -> Vec<Value> {
        let is_policy = |object: &&Value| object["apiVersion"] == "admissionregistration.k8s.io/v1";
        objects.iter().filter(is_policy).cloned().collect()
    };
    for gang in [None, Some(Family::Coscheduling), Some(Family::Volcano)] {
        assert_eq!(policies(&printed(gang)), Vec::<Value>::new(), "{gang:?}");
    }
    let native = printed(Some(Family::Native));
    let layers = on_native_worker("elsewhere").map(|layer| layer.object);
    assert_eq!(policies(&native), layers);
    let rules = native
        .iter()
        .filter_map(|object| object["rules"].as_array())
        .flatten();
    let rules: Vec<&Value> = rules
        .filter(|rule| rule["apiGroups"] == json!(["admissionregistration.k8s.io"]))
        .collect();
    let right = |plural: &str| {
        json!({
            "apiGroups": ["admissionregistration.k8s.io"], "resources": [plural],
            "resourceNames": ["portcullis-worker-gang-pods"], "verbs": ["get"],
        })
    };
    let wanted = [
        right("mutatingadmissionpolicies"),
        right("mutatingadmissionpolicybindings"),
    ];
    assert_eq!(rules, wanted.iter().collect::<Vec<_>>());
}

fn args() -> ManifestsArgs {
    ManifestsArgs {
        part: Part::All,
        namespace: NAMESPACE.to_owned(),
        webhook_url: None,
        webhook_service: None,
        without_inject: false,
        worker_namespace: vec!["default".to_owned()],
        kinds: None,
        gang: None,
    }
}
