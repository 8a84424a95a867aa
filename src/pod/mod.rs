//! Pod in, pod out (pure): additive edits, the sanitised copy, the mirrored status.

pub mod edit;
pub mod mirror;
pub mod narrow;
pub mod read;
pub mod sanitize;
