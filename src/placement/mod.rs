//! Module placement.
