//! Module app.
