//! Test-only: drops one precondition or proof of the protocol, holds a step back, makes a watch blind; so that the
//! judge of the chaos test is seen to turn red. Without the feature `faults` none of it exists: the functions here
//! answer "no" and the compiler removes the question.
//!
//! * `PORTCULLIS_FAULT=<name>`: this one is dropped.
//! * `PORTCULLIS_FAULT_DIR=<folder>`: while the file `hold.<step>.<pod>` is there, that step of that pod waits before
//!   its call (and says so by the file `held.<step>.<pod>`); while `blind.<cluster>` is there, pod events of that
//!   cluster (`manager`, or a WorkerCluster's name) are lost.

use super::pair::local::PairKey;

/// A precondition or proof that can be dropped; each is a cell "without it" of `docs/protocol.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Rule 1: a local pod counts as gone without a live read.
    LocalProof,
    /// Rule 3: the commit without resourceVersion.
    CommitVersion,
    /// Rule 3: the finalizer in a second patch.
    FinalizerApart,
    /// Rule 3b: a copy of an older spec is committed.
    Source,
    /// Rule 3c: a ready copy that is not wanted is deleted while its attempt goes on.
    GiveUp,
    /// Rule 4: an opened copy of an uncommitted pod counts as a stray.
    OpenedCopy,
    /// Rules 1, 5, 12, 13, 15: deletes without a UID.
    DeleteUid,
    /// Rule 7: open without testing the UID.
    OpenUid,
    /// Rule 8: take-back without resourceVersion.
    TakeBackVersion,
    /// Rule 9: clear without resourceVersion.
    ClearVersion,
    /// Rule 10: status writes without UID and resourceVersion.
    StatusPreconditions,
    /// Rule 11: status writes with the UID only.
    StatusVersion,
    /// Rules 11, 14: absence from a cache counts as proof.
    RemoteProof,
    /// Rules 6, 12: copies of a later attempt are strays too.
    Attempt,
    /// Rule 17: a name that is held on one worker may be used on another.
    HeldName,
}

#[cfg(not(feature = "faults"))]
mod switches {
    use super::{Fault, PairKey};

    /// Never.
    pub const fn dropped(_fault: Fault) -> bool {
        false
    }

    /// Nothing waits.
    pub async fn hold(_step: &'static str, _pod: &PairKey) {}

    /// Nothing is lost.
    pub const fn blind(_cluster: &str) -> bool {
        false
    }
}

#[cfg(feature = "faults")]
mod switches {
    use std::path::PathBuf;
    use std::sync::LazyLock;
    use std::time::Duration;

    use super::{Fault, PairKey};

    static NAMED: LazyLock<String> = LazyLock::new(|| std::env::var("PORTCULLIS_FAULT").unwrap_or_default());
    static FOLDER: LazyLock<Option<PathBuf>> =
        LazyLock::new(|| std::env::var_os("PORTCULLIS_FAULT_DIR").map(PathBuf::from));

    /// Whether this process was told to drop it.
    pub fn dropped(fault: Fault) -> bool {
        *NAMED == format!("{fault:?}")
    }

    /// Returns when the step may go on.
    pub async fn hold(step: &'static str, pod: &PairKey) {
        let Some(folder) = &*FOLDER else { return };
        let asked = folder.join(format!("hold.{step}.{}", pod.name));
        while asked.exists() {
            let _told = std::fs::write(folder.join(format!("held.{step}.{}", pod.name)), "");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Whether pod events of this cluster are lost now.
    pub fn blind(cluster: &str) -> bool {
        FOLDER
            .as_ref()
            .is_some_and(|folder| folder.join(format!("blind.{cluster}")).exists())
    }
}

pub use switches::{blind, dropped, hold};
