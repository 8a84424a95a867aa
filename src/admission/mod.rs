//! Module admission.
