//! A job -> the name of its PodGroup.
//!
//! The name stands in a label of the pods, so it has at most 63 characters; a longer one ends in a hash of itself. The
//! hash does not use the job's UID: the name is written to templates at admission, before the job has one. Whose group
//! it is, owner references say.

use sha2::{Digest, Sha256};

use super::facts::NameStyle;
use super::pod_group::JobRef;

/// The most characters of a label's value.
const LABEL: usize = 63;
/// What a hash takes, with its hyphen.
const HASH: usize = 9;

/// The name of the PodGroup of coscheduling and Volcano: the job's.
#[must_use]
pub fn pod_group_name(job: &JobRef, style: NameStyle) -> String {
    let full = match style {
        NameStyle::Job => job.name.clone(),
        NameStyle::Kind => format!("{}-{}", job.name, job.kind.to_ascii_lowercase()),
    };
    if full.len() <= LABEL {
        return full;
    }
    hashed(&full, LABEL, &format!("{}/{}/{full}", job.api_version, job.kind))
}

/// The name of a native PodGroup, which is another for every attempt: one that is being deleted is still honoured by
/// the scheduler and keeps its name, and most of its fields never change.
#[must_use]
pub fn native_name(job: &JobRef, attempt: u32) -> String {
    hashed(&job.name, LABEL, &format!("{}/{attempt}", job.uid))
}

/// The name of the native PodGroup of a copy, which has no UID yet: another for every copy of every job.
#[must_use]
pub fn copy_name(job: &JobRef, local_uid: &str, attempt: &str) -> String {
    hashed(&job.name, LABEL, &format!("{local_uid}/{attempt}"))
}

/// The name of the PodGroup of a job that has only a `generateName` when its templates are marked.
#[must_use]
pub fn generated_name(prefix: &str, seed: &str) -> String {
    hashed(prefix, LABEL, seed)
}

/// Whether [`generated_name`] made this name from this prefix.
#[must_use]
pub fn is_generated(prefix: &str, name: &str) -> bool {
    let like = generated_name(prefix, "");
    let split = like.len() - (HASH - 1);
    let is_hash = |hash: &str| hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.len() == like.len()
        && name.get(..split) == like.get(..split)
        && name.get(split..).is_some_and(is_hash)
}

/// The name, cut so that a hyphen and 8 digits of the hash of `of` fit into `most` characters.
fn hashed(name: &str, most: usize, of: &str) -> String {
    let head: String = name.chars().take(most - HASH).collect();
    let head = head.trim_end_matches(['-', '.']);
    let digest = Sha256::digest(of.as_bytes());
    let hash = digest
        .iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>();
    format!("{head}-{hash}")
}
