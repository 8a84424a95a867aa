//! Portcullis: pods of an opted-in namespace run on worker clusters, and the manager shows their true status.
//!
//! Two pipelines of four beats each: admission (`parse`, `gather`, `decide`, `respond`) and reconcile
//! (`event`, `observe`, `plan`, `execute`). Choosing is pure; only the first and the last beat touch the world.

pub mod admission;
pub mod api;
pub mod app;
pub mod args;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod config;
pub mod gang;
pub mod job;
pub mod names;
pub mod placement;
pub mod pod;
pub mod quantity;
pub mod reconcile;
pub mod telemetry;
pub mod tls;
pub mod words;
pub mod workload;
