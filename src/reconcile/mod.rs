//! Module reconcile.

pub mod webhook_config;
