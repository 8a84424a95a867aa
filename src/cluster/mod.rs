//! Clusters as we reach them: clients, stores, watches, connection health.

pub mod api;
pub mod client;
pub mod definitions;
pub mod discovery;
pub mod fleet;
pub mod kubeconfig;
pub mod leading;
pub mod namespaces;
pub mod owners;
pub mod raw;
pub mod rbac;
pub mod store;
pub mod survey;
pub mod watch;
pub mod worker;
