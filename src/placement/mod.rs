//! Which cluster (pure): candidates of a policy, their order, and what the clusters said so far.

mod candidates;

pub use candidates::{Candidate, Choice, Rejection, RootState, choose};
