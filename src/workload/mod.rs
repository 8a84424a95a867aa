//! Module workload.
