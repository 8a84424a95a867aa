//! `testbed`: clusters for people.
fn main() {}
