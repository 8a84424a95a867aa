//! `manifests/` is what the code renders. `UPDATE=1 cargo test --test it manifests` writes it anew.

use std::path::Path;

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
