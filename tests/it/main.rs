//! In-process tests: router, laws, tidy.

mod admission;
mod manifests;
