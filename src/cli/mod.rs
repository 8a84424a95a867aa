//! Commands for people.

pub mod crds;
pub mod documents;
mod install;
pub mod manifests;
pub mod podgroup;
pub mod preview_admission;
pub mod preview_remote;
pub mod preview_status;
pub mod schema;
pub mod status;
pub mod subject;
mod table;

/// The time as the API writes it.
pub fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
