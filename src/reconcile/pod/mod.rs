//! The pod pair: prepare, commit, open, and what follows.

pub mod hearing;
pub mod local;
pub mod memory;
pub mod metrics;
pub mod observed;
pub mod plan;
pub mod remote;
mod text;
pub mod turn;
pub mod world;
