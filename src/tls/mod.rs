//! Module tls.
