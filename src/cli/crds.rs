//! `portcullis crds`: prints the CustomResourceDefinitions.

use kube::CustomResourceExt;
use serde_json::Value;

use super::manifests::yaml;
use crate::api::{DispatchPolicy, WorkerCluster};

/// Prints them as YAML.
///
/// # Errors
/// If an object cannot be written as YAML.
pub fn run() -> anyhow::Result<()> {
    print!("{}", yaml(&crds())?);
    Ok(())
}

/// WorkerCluster and DispatchPolicy.
#[must_use]
pub fn crds() -> Vec<Value> {
    [DispatchPolicy::crd(), WorkerCluster::crd()]
        .map(|crd| serde_json::to_value(crd).expect("a derived CRD is plain data"))
        .into()
}
