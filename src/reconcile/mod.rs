//! The controller's edge: what is seen becomes a plan (pure), a plan becomes writes.

pub mod pod;
pub mod queue;
pub mod step;
