//! What the process says about itself: logs, metrics, health.

pub mod health;
pub mod logs;
pub mod metrics;
pub mod probes;
mod process;
