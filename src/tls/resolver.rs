//! The pair served now: swapped by pointer, read once per handshake.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

use super::Served;

/// What every handshake asks for its certificate. Connections that stand keep theirs, no listener is restarted.
pub struct Resolver {
    current: ArcSwapOption<Served>,
    followers: watch::Sender<Option<Arc<Served>>>,
}

impl Resolver {
    /// Nothing to serve yet: handshakes fail until [`Resolver::install`].
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            current: ArcSwapOption::empty(),
            followers: watch::Sender::new(None),
        })
    }

    /// Serves this pair from the next handshake on.
    pub fn install(&self, served: Served) {
        let served = Arc::new(served);
        self.current.store(Some(Arc::clone(&served)));
        self.followers.send_replace(Some(served));
    }

    /// The pair served now.
    #[must_use]
    pub fn current(&self) -> Option<Arc<Served>> {
        self.current.load_full()
    }

    /// Tells of each new pair, for whoever publishes its CA.
    #[must_use]
    pub fn follow(&self) -> watch::Receiver<Option<Arc<Served>>> {
        self.followers.subscribe()
    }

    /// Whether a client with our clock accepts what is served; the sentence goes into the readiness answer.
    ///
    /// # Errors
    /// If there is no certificate, or the clock is outside of its life.
    pub fn ready(&self, now: Timestamp) -> Result<String, String> {
        match self.current() {
            None => Err("no certificate yet".to_owned()),
            Some(served) if now >= served.life().not_after => {
                Err(format!("expired at {}", served.life().not_after))
            }
            Some(served) if now < served.life().not_before => {
                Err(format!("not valid before {}", served.life().not_before))
            }
            Some(served) => Ok(format!("valid until {}", served.life().not_after)),
        }
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.load().as_ref().map(|served| served.certified_key())
    }
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resolver")
            .field("current", &self.current())
            .finish_non_exhaustive()
    }
}
