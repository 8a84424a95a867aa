//! Module cluster.

pub mod rbac;
