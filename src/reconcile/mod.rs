//! The controller's edge: what is seen becomes a plan (pure), a plan becomes writes.

pub mod cluster;
pub mod conditions;
pub mod controller;
pub mod events;
pub mod execute;
pub mod faults;
pub mod gang;
pub mod kinds;
pub mod manager;
pub mod pair;
pub mod policy;
pub mod queue;
pub mod step;
pub mod turns;
pub mod webhook_config;
