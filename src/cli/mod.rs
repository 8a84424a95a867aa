//! Module cli.

pub mod crds;
mod install;
pub mod manifests;
