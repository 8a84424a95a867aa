//! `manifests/` is what the code renders. `UPDATE=1 cargo test --test it manifests` writes it anew.

use std::path::Path;

use portcullis::cli::crds::crds;
use portcullis::cli::manifests::{ManifestsArgs, Part, objects, yaml};
use portcullis::names::NAMESPACE;
use serde_json::Value;

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

fn args() -> ManifestsArgs {
    ManifestsArgs {
        part: Part::All,
        namespace: NAMESPACE.to_owned(),
        webhook_url: None,
        webhook_service: None,
        without_inject: false,
        worker_namespace: vec!["default".to_owned()],
        kinds: None,
    }
}
