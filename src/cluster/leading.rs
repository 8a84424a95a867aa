//! Proof that this process may write.

/// Whoever holds one may write. Writers take it by value, so none can be built without it.
///
/// Today one process runs, and the proof is given at start. The pod pair stays safe with two processes
/// (`docs/protocol.md`), so the lease of a later version only saves work.
#[derive(Clone, Debug)]
pub struct Leading(());

impl Leading {
    /// This process is the only one by installation.
    pub fn alone() -> Self {
        Self(())
    }
}
