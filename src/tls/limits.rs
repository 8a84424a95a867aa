//! How long each stage of a connection may take, and how much it may send.

use std::time::Duration;

/// Limits of one listener. hyper and rustls have none of their own; hyper's header timeout is not used, because
/// it also closes idle connections, and a POST that meets a closing connection fails for the user.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at once; the kernel queues the rest.
    pub connections: usize,
    /// From accept to the end of the TLS handshake.
    pub handshake: Duration,
    /// From the handshake to the first byte of the first request.
    pub first_byte: Duration,
    /// From the first byte of a request to the end of its header.
    pub header: Duration,
    /// From the end of the header to the response being known: body and answer.
    pub request: Duration,
    /// From the response being known to its last byte handed to the kernel.
    pub write: Duration,
    /// Between two requests. Never below two minutes in production: the API server closes idle connections after
    /// 90 s, and must be the one to do it.
    pub idle: Duration,
    /// After our side is closed, how long we read on, so that the last answer is not lost to a reset.
    pub linger: Duration,
    /// Request line and header lines together; more is answered 431.
    pub header_bytes: usize,
    /// Header lines; more is answered 431.
    pub headers: usize,
    /// Path and query; more is answered 414.
    pub uri_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            handshake: Duration::from_secs(5),
            first_byte: Duration::from_secs(5),
            header: Duration::from_secs(5),
            request: Duration::from_secs(10),
            write: Duration::from_secs(10),
            idle: Duration::from_secs(180),
            linger: Duration::from_secs(1),
            header_bytes: 16 * 1024,
            headers: 64,
            uri_bytes: 2048,
        }
    }
}
