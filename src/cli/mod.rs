//! Commands for people.

pub mod documents;
pub mod preview_remote;
pub mod preview_status;
