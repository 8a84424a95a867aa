//! Free ports on 127.0.0.1 that stay ours while nobody listens on them.
//!
//! A port that the kernel hands out lies in the range it also uses for outgoing connections: between a
//! stop and a start of the same server it may be taken. So ports come from below that range, and a
//! lock file keeps other test processes of this machine away until the value is dropped.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Result, bail};

use crate::run_folder::cache_folder;

const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// A reserved port. Clones share the reservation.
#[derive(Clone, Debug)]
pub struct Port {
    number: u16,
    _reserved: Arc<File>,
}

impl Port {
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The port on 127.0.0.1.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }
}

/// Reserves a port that nobody listens on.
///
/// # Errors
/// All are taken, or the folder of the lock files cannot be written.
pub fn free_port() -> Result<Port> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let folder = cache_folder().join("ports");
    std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    // Processes begin at different places, so they rarely meet.
    let start = u32::from(FIRST) + std::process::id().wrapping_mul(97) % u32::from(COUNT);
    for _ in 0..COUNT {
        let step = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let offset = (start - u32::from(FIRST) + step) % u32::from(COUNT);
        let number = FIRST + u16::try_from(offset).expect("the remainder is below COUNT");
        let path = folder.join(number.to_string());
        let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
        if file.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
            return Ok(Port {
                number,
                _reserved: Arc::new(file),
            });
        }
    }
    bail!("no free port between {FIRST} and {}", FIRST + COUNT)
}
