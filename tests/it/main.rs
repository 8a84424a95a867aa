//! In-process tests: router, laws, tidy.
