//! Jobs in short notation -> what becomes of them, in one line. One table per subject; rows are named by their ids.

mod bad_input;
mod fields;
mod generic;
mod laws;
mod lifecycle;
mod members;
mod native_groups;
mod pods;
mod resources;
mod words;
