//! Module admission.

pub mod policies;
pub mod validate;
