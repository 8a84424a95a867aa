//! Module admission.

pub mod policies;
pub mod validate;
pub mod server;
mod subject;

/// What the pipeline answers: HTTP status, body, and the words of its metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
    pub decision: &'static str,
    pub reason: &'static str,
    pub resource: &'static str,
    pub operation: &'static str,
}
