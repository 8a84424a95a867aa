//! In-process tests: router, laws, tidy.

mod pod_laws;
