//! Test-only: drops one precondition or proof of the protocol, so that the chaos checker is seen to turn red.
//! Without the feature `faults` nothing is ever dropped, and the compiler removes the question.

/// A precondition or proof that can be dropped; each is a cell "without it" of `docs/protocol.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Rule 3: the commit without resourceVersion.
    CommitVersion,
    /// Rule 3: the commit without the finalizer in the same patch.
    FinalizerApart,
    /// Rule 1: a local pod counts as gone without a live read.
    LocalProof,
    /// Rules 1, 5, 12: deletes without a UID.
    DeleteUid,
    /// Rule 7: open without testing the UID.
    OpenUid,
    /// Rule 8: take-back without resourceVersion.
    TakeBackVersion,
    /// Rule 9: clear without resourceVersion.
    ClearVersion,
    /// Rules 10, 11: status writes without UID and resourceVersion.
    StatusPreconditions,
    /// Rules 11, 14: absence from a cache counts as proof.
    RemoteProof,
}

/// Whether this process was told to drop it (`PORTCULLIS_FAULT`, feature `faults` only).
#[cfg(feature = "faults")]
pub fn dropped(fault: Fault) -> bool {
    static NAMED: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| std::env::var("PORTCULLIS_FAULT").unwrap_or_default());
    *NAMED == format!("{fault:?}")
}

/// Never.
#[cfg(not(feature = "faults"))]
pub const fn dropped(_fault: Fault) -> bool {
    false
}
