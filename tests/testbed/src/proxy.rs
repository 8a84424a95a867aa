//! A TCP proxy on loopback between portcullis and a worker's API server, for network faults.
//!
//! It lives on a thread of its own, so it serves tests with any runtime. TLS passes through: the
//! server's certificate names 127.0.0.1, and no name holds a port.

mod carry;
mod tls_records;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};

use crate::ports::{Port, free_port};

/// What the proxy does with bytes, from now on and on all connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    Pass,
    /// Connections are accepted and stay open, nothing moves. What was on its way arrives after the heal.
    Pause,
    /// Existing connections are reset, new ones at once.
    Cut,
    /// Every chunk, in both directions, comes so much later.
    Slow(Duration),
    /// The next requests (as many as [`Proxy::lose_answers`] said) reach the server, take effect, and their
    /// connection is reset before a byte of the answer is delivered. Watches that are open go on.
    LoseAnswers,
}

/// A running proxy. Ends when dropped.
#[derive(Debug)]
pub struct Proxy {
    port: Port,
    shared: Arc<Shared>,
    /// Dropped first: ends the thread.
    _end: oneshot::Sender<()>,
}

/// What the thread and the handle both see.
#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    traffic: watch::Sender<Traffic>,
    to_lose: AtomicU32,
    lost: AtomicU64,
    connections: AtomicU64,
}

impl Shared {
    /// Takes one of the answers that are to be lost.
    fn claim_loss(&self) -> bool {
        let taken = self
            .to_lose
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        taken.is_ok()
    }
}

impl Proxy {
    /// Listens on a free port of 127.0.0.1 and passes everything to `target`, which need not exist yet.
    ///
    /// # Errors
    /// No port, or no thread.
    pub fn start(target: SocketAddr) -> Result<Self> {
        let port = free_port()?;
        let listener =
            std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port.number())).context("bind the proxy")?;
        listener.set_nonblocking(true)?;
        let shared = Arc::new(Shared {
            target,
            traffic: watch::Sender::new(Traffic::Pass),
            to_lose: AtomicU32::new(0),
            lost: AtomicU64::new(0),
            connections: AtomicU64::new(0),
        });
        let (end, ended) = oneshot::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let seen = Arc::clone(&shared);
        std::thread::Builder::new()
            .name(format!("proxy-{}", port.number()))
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        _ = ended => {}
                        () = accept(listener, seen) => {}
                    }
                });
            })?;
        Ok(Self {
            port,
            shared,
            _end: end,
        })
    }

    /// Where it listens: for [`crate::Kubeconfig::via`].
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Heals everything.
    pub fn pass(&self) {
        self.set(Traffic::Pass);
    }

    pub fn pause(&self) {
        self.set(Traffic::Pause);
    }

    pub fn cut(&self) {
        self.set(Traffic::Cut);
    }

    pub fn slow(&self, by: Duration) {
        self.set(Traffic::Slow(by));
    }

    /// Loses the answers of the next `count` requests, then passes. See [`Traffic::LoseAnswers`].
    pub fn lose_answers(&self, count: u32) {
        self.shared.to_lose.store(count, Ordering::SeqCst);
        self.set(Traffic::LoseAnswers);
    }

    pub fn set(&self, traffic: Traffic) {
        self.shared.traffic.send_replace(traffic);
    }

    #[must_use]
    pub fn traffic(&self) -> Traffic {
        *self.shared.traffic.borrow()
    }

    /// How many answers were lost since the start.
    #[must_use]
    pub fn lost_answers(&self) -> u64 {
        self.shared.lost.load(Ordering::SeqCst)
    }

    /// How many connections were made since the start.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

async fn accept(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let listener = TcpListener::from_std(listener).expect("a bound listener in non-blocking mode");
    loop {
        match listener.accept().await {
            Ok((client, _)) => drop(tokio::spawn(connection(client, Arc::clone(&shared)))),
            // Out of file descriptors, most likely: others will close.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// One connection from the client's first byte to the end of both sides.
async fn connection(client: TcpStream, shared: Arc<Shared>) {
    shared.connections.fetch_add(1, Ordering::SeqCst);
    if *shared.traffic.borrow() == Traffic::Cut {
        let _ = client.set_zero_linger();
        return;
    }
    match TcpStream::connect(shared.target).await {
        Ok(server) => carry::carry(client, server, &shared).await,
        Err(_) => drop(client.set_zero_linger()),
    }
}
