//! The pair of a local and a remote object: prepare, commit, open, and what follows.

pub mod gangs;
pub mod hearing;
mod job;
pub mod key;
pub mod local;
mod manner;
pub mod memory;
pub mod metrics;
pub mod observed;
pub mod plan;
pub mod remote;
mod text;
pub mod turn;
pub mod vain;
pub mod waits;
pub mod world;
