//! Module cli.

pub mod crds;
pub mod documents;
mod install;
pub mod manifests;
pub mod preview_admission;
