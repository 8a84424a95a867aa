//! Commands for people.

pub mod crds;
pub mod documents;
mod install;
pub mod manifests;
pub mod preview_admission;
pub mod preview_remote;
pub mod preview_status;
pub mod sources;
