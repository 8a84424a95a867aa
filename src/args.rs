//! Module args.
