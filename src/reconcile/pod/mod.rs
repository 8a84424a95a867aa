//! The pod pair: prepare, commit, open, and what follows.

pub mod local;
pub mod observed;
pub mod plan;
