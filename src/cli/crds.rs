//! `portcullis crds`: prints the CustomResourceDefinitions.

use kube::CustomResourceExt;
use serde_json::Value;

use super::manifests::print_yaml;
use crate::api::{DispatchPolicy, WorkerCluster};

/// Prints them as YAML.
///
/// # Errors
/// If they cannot be written.
pub fn run() -> anyhow::Result<()> {
    print_yaml(&crds())
}

/// WorkerCluster and DispatchPolicy.
#[must_use]
pub fn crds() -> Vec<Value> {
    [DispatchPolicy::crd(), WorkerCluster::crd()]
        .map(|crd| serde_json::to_value(crd).expect("a derived CRD is plain data"))
        .into()
}
