//! The guard and inject on a real API server: each refusal and each exception, by the right identity.
//!
//! A check is run twice: beside a working portcullis, and in [`down`] while it is stopped, when the API server
//! alone keeps the promise.

#![allow(
    clippy::needless_pass_by_value,
    reason = "json!(…) is handed over where it is made"
)]

use portcullis_testbed::suite::Running;

use crate::rig::Case;

mod actor;
mod calls;
mod changes;
mod committed;
mod crds;
mod creation;
mod down;
mod exceptions;
mod ground;
mod job_changes;
mod jobs;
mod keep;
mod leaving;
mod limits;
mod namespaces;
mod objects;
mod preview;
mod rollouts;
mod templates;
mod worker_rights;

use ground::Site;

/// A check and its name.
type Check = (&'static str, fn(Site) -> Running);

/// `checks![a, b];`: the functions of a module that are checks, as cases and as a list.
macro_rules! checks {
    ($($function:ident),* $(,)?) => {
        /// Each beside a working portcullis.
        pub fn cases() -> Vec<$crate::rig::Case> {
            vec![$($crate::rig::Case {
                name: concat!(module_path!(), "::", stringify!($function)),
                alone: false,
                limit: portcullis_testbed::suite::LIMIT,
                run: |rig| Box::pin($function($crate::guard::ground::Site::beside(rig))),
            }),*]
        }

        /// For where else they are to hold.
        pub fn checks() -> Vec<$crate::guard::Check> {
            vec![$((concat!(module_path!(), "::", stringify!($function)), |site| Box::pin($function(site)))),*]
        }
    };
}
use checks;

/// All cases of this folder.
pub fn cases() -> Vec<Case> {
    [
        creation::cases(),
        exceptions::cases(),
        changes::cases(),
        committed::cases(),
        templates::cases(),
        rollouts::cases(),
        namespaces::cases(),
        leaving::cases(),
        crds::cases(),
        jobs::cases(),
        jobs::alone(),
        job_changes::cases(),
        preview::cases(),
        limits::cases(),
        worker_rights::cases(),
        calls::cases(),
        keep::cases(),
        down::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
