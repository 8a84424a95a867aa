//! Module reconcile.
