//! Certificates in, served connections out.
//!
//! [`issue`] makes certificates and says when a new one is due (pure); [`secret`] and [`files`] keep a
//! [`Resolver`] supplied from a Secret or from a folder; [`serve`] answers on a listener with limits on every
//! stage of a connection and leaves without breaking a call.

mod connection;
pub mod drain;
pub mod files;
pub mod handshake;
pub mod issue;
pub mod limits;
pub mod own_thread;
mod pair;
mod resolver;
pub mod secret;
mod serve;

pub use connection::CUT_STAGES;
pub use drain::{DrainBudget, Shutdown};
pub use handshake::{Plain, Tls};
pub use limits::Limits;
pub use pair::{InvalidPair, Life, Served};
pub use resolver::Resolver;
pub use serve::{Drained, Exchange, Measured, Reply, Server, bind};

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

/// Makes ring the process-wide provider. Called first in `main` and by every test; later calls do nothing.
pub fn install_crypto() {
    // An error means that a provider is installed already, and only ring is compiled in (`cargo deny` sees to that).
    let _already = rustls::crypto::ring::default_provider().install_default();
}

/// The one crypto provider.
pub(crate) fn crypto() -> Arc<CryptoProvider> {
    install_crypto();
    Arc::clone(CryptoProvider::get_default().expect("installed in the line above"))
}

/// TLS 1.2 and 1.3, `http/1.1` alone in ALPN, no early data, no resumption.
///
/// The API server offers `http/1.1` alone to Services and other hosts, and `h2` beside it to loopback URLs; it
/// keeps no session cache, so tickets would be made and never used.
///
/// # Panics
/// Never: both versions are compiled in.
#[must_use]
pub fn server_config(resolver: Arc<Resolver>) -> Arc<rustls::ServerConfig> {
    let mut config = rustls::ServerConfig::builder_with_provider(crypto())
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .expect("ring serves both versions")
        .with_no_client_auth()
        .with_cert_resolver(resolver);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Arc::new(config)
}

/// Sets the limit of core dumps to zero, so that a crash writes no private key to a disk.
///
/// # Errors
/// If the kernel refuses.
pub fn forbid_core_dumps() -> std::io::Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Core, none).map_err(Into::into)
}
