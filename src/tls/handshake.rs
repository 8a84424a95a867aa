//! A TCP stream -> the stream that HTTP is spoken on: TLS for admission, plain for probes.

use std::io;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustls::{AlertDescription, Error as TlsError, PeerIncompatible};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::Resolver;
use crate::telemetry::metrics::TlsMetrics;

/// What opens a connection before HTTP is spoken on it.
pub trait Door: Send + Sync + 'static {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Opens the connection, within `limit`. A failure is counted and told here; nobody else needs to know why.
    fn open(&self, tcp: TcpStream, limit: Duration) -> impl Future<Output = Option<Self::Stream>> + Send;
}

/// No TLS: for probes and metrics.
#[derive(Debug, Clone, Copy)]
pub struct Plain;

impl Door for Plain {
    type Stream = TcpStream;

    async fn open(&self, tcp: TcpStream, _limit: Duration) -> Option<TcpStream> {
        Some(tcp)
    }
}

/// TLS with the resolver's certificate.
pub struct Tls {
    acceptor: TlsAcceptor,
    metrics: Arc<TlsMetrics>,
    told: Told,
}

impl Tls {
    #[must_use]
    pub fn new(resolver: Arc<Resolver>, metrics: Arc<TlsMetrics>) -> Self {
        let acceptor = TlsAcceptor::from(super::server_config(resolver));
        Self {
            acceptor,
            metrics,
            told: Told::default(),
        }
    }
}

impl Door for Tls {
    type Stream = TlsStream<TcpStream>;

    async fn open(&self, tcp: TcpStream, limit: Duration) -> Option<Self::Stream> {
        let (outcome, stream) = match tokio::time::timeout(limit, self.acceptor.accept(tcp)).await {
            Ok(Ok(stream)) => (Handshake::Ok, Some(stream)),
            Ok(Err(error)) => (Handshake::of(&error), None),
            Err(_) => (Handshake::Timeout, None),
        };
        self.metrics.handshake(outcome).inc();
        if let Some(before) = self.told.may_tell(outcome) {
            tell(outcome, before);
        }
        stream
    }
}

/// How a handshake ended: the label `result`, few and fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Handshake {
    Ok,
    Timeout,
    /// The peer went away.
    Eof,
    /// No protocol version or cipher in common.
    Version,
    /// No `http/1.1` among what the peer speaks.
    NoAlpn,
    /// The peer does not trust our CA.
    UnknownCa,
    /// The peer refuses our certificate.
    BadCertificate,
    /// Not TLS at all.
    NotTls,
    /// We had no certificate to show.
    NoCertificate,
    Other,
}

impl Handshake {
    pub const ALL: [Self; 10] = [
        Self::Ok,
        Self::Timeout,
        Self::Eof,
        Self::Version,
        Self::NoAlpn,
        Self::UnknownCa,
        Self::BadCertificate,
        Self::NotTls,
        Self::NoCertificate,
        Self::Other,
    ];

    /// The label value.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Timeout => "timeout",
            Self::Eof => "eof",
            Self::Version => "version",
            Self::NoAlpn => "no_alpn",
            Self::UnknownCa => "unknown_ca",
            Self::BadCertificate => "bad_certificate",
            Self::NotTls => "not_tls",
            Self::NoCertificate => "no_certificate",
            Self::Other => "other",
        }
    }

    fn of(error: &io::Error) -> Self {
        use AlertDescription as Alert;
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>());
        match inner {
            Some(TlsError::AlertReceived(Alert::UnknownCA)) => Self::UnknownCa,
            Some(TlsError::AlertReceived(
                Alert::BadCertificate
                | Alert::UnsupportedCertificate
                | Alert::CertificateRevoked
                | Alert::CertificateExpired
                | Alert::CertificateUnknown
                // The signature is not by the CA it trusts, though the name is.
                | Alert::DecryptError,
            )) => Self::BadCertificate,
            Some(TlsError::AlertReceived(Alert::ProtocolVersion | Alert::HandshakeFailure)) => Self::Version,
            Some(TlsError::NoApplicationProtocol) => Self::NoAlpn,
            Some(TlsError::PeerIncompatible(PeerIncompatible::NoKxGroupsInCommon)) => Self::Version,
            Some(TlsError::PeerIncompatible(_)) => Self::Version,
            Some(TlsError::InvalidMessage(_) | TlsError::InappropriateMessage { .. }) => Self::NotTls,
            Some(TlsError::General(text)) if text.contains("no server certificate chain") => {
                Self::NoCertificate
            }
            Some(_) => Self::Other,
            None => match error.kind() {
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                    Self::Eof
                }
                _ => Self::Other,
            },
        }
    }
}

/// When each outcome was last told, and how often it was not since.
#[derive(Debug, Default)]
struct Told(Mutex<[Option<(Instant, u64)>; Handshake::ALL.len()]>);

impl Told {
    const EVERY: Duration = Duration::from_secs(60);

    /// The number of silent ones before, if this one may be told: once a minute per outcome.
    fn may_tell(&self, outcome: Handshake) -> Option<u64> {
        if outcome == Handshake::Ok {
            return None;
        }
        let mut told = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let entry = &mut told[outcome as usize];
        match entry {
            Some((when, silent)) if when.elapsed() < Self::EVERY => {
                *silent += 1;
                None
            }
            Some((_, silent)) => {
                let before = *silent;
                *entry = Some((Instant::now(), 0));
                Some(before)
            }
            None => {
                *entry = Some((Instant::now(), 0));
                Some(0)
            }
        }
    }
}

fn tell(outcome: Handshake, silent: u64) {
    let result = outcome.name();
    match outcome {
        Handshake::UnknownCa | Handshake::BadCertificate => tracing::error!(
            result,
            silent,
            "a client refuses our certificate: if it is the API server, the caBundle it holds is not our CA"
        ),
        Handshake::NoCertificate => {
            tracing::warn!(
                result,
                silent,
                "a client came before there is a certificate to serve"
            );
        }
        Handshake::Ok => {}
        Handshake::Timeout
        | Handshake::Eof
        | Handshake::Version
        | Handshake::NoAlpn
        | Handshake::NotTls
        | Handshake::Other => tracing::info!(result, silent, "TLS handshake failed"),
    }
}
