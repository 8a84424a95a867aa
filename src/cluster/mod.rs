//! Module cluster.
