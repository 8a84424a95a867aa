//! A local job -> its remote copy: suspended, marked, without what is only true on the manager; and the hash that says
//! whether it still fits.
//!
//! Raw JSON in and out, as for pods: of the metadata only what is listed is copied, of the spec all but what is named here
//! or by the kind.

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::gang::birth::{Birth, Maker};
use crate::gang::{Notice, Reason};
use crate::names;
use crate::pod::sanitize::change::Log;
use crate::pod::sanitize::local::LocalObject;
use crate::pod::sanitize::{marks, metadata};
use crate::workload::jobs::{JobKind, gang_kind_of, remove};

mod templates;

pub use crate::pod::sanitize::{Change, CopyMarks, NamespaceOwner, UnreadableLocal, What};

/// Part of every `source` hash. Grows whenever the same local job would give another copy than before.
const VERSION: &str = "job 1";

/// The job to create on the worker: suspended, uncommitted, with all our marks.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteCopy {
    /// The object.
    pub object: Value,
    /// Hash of the copy without our marks, and of the sanitiser's version; also an annotation of `object`. It does not
    /// depend on the local job's own suspend, which is forwarded.
    pub source: String,
    /// Every difference between the local job and the copy.
    pub changes: Vec<Change>,
}

/// The copy of `local` for a worker. `local` is the whole job as the manager's API server gives it.
///
/// # Errors
/// If a field that counts is not what it should be.
pub fn sanitize(
    kind: &dyn JobKind,
    local: &Value,
    marks: &CopyMarks<'_>,
) -> Result<RemoteCopy, UnreadableLocal> {
    sanitize_for(kind, local, marks, None)
}

/// The same for a worker that has this gang scheduler.
///
/// # Errors
/// As [`sanitize`].
pub fn sanitize_for(
    kind: &dyn JobKind,
    local: &Value,
    marks: &CopyMarks<'_>,
    gangs: Option<&Maker>,
) -> Result<RemoteCopy, UnreadableLocal> {
    let mut log = Log::on();
    let whole = local;
    let local = LocalObject::read(local)?;
    let mut object = copy(kind, &local, &mut log)?;
    let born = born(&object, whole, gangs)?;
    let source = hash(&object, born.as_ref().map(|(_, from)| from.as_str()));
    if let Some((marked, _)) = born {
        object = marked;
        let words = "tie the pods to their PodGroup on the worker, and name its scheduler";
        log.added(
            format_args!("labels, annotations and schedulerName of templates"),
            words,
        );
    }
    marks::put(&mut object, &local, marks, &source, &mut log)?;
    object["metadata"]["annotations"][names::UNCOMMITTED] = names::TRUE.into();
    log.added(
        format_args!("metadata.annotations[{}]", names::UNCOMMITTED),
        "says that the local job has not recorded it",
    );
    Ok(RemoteCopy {
        object,
        source,
        changes: log.into_changes(),
    })
}

/// The `source` that [`sanitize`] would give.
///
/// # Errors
/// As [`sanitize`].
pub fn source(kind: &dyn JobKind, local: &Value) -> Result<String, UnreadableLocal> {
    source_for(kind, local, None)
}

/// The `source` that [`sanitize_for`] would give.
///
/// # Errors
/// As [`sanitize`].
pub fn source_for(
    kind: &dyn JobKind,
    local: &Value,
    gangs: Option<&Maker>,
) -> Result<String, UnreadableLocal> {
    let copy = copy(kind, &LocalObject::read(local)?, &mut Log::off())?;
    let born = born(&copy, local, gangs)?;
    Ok(hash(&copy, born.as_ref().map(|(_, from)| from.as_str())))
}

/// What speaks against a gang of this job on a worker with this gang scheduler; none if it is one.
///
/// # Errors
/// As [`sanitize`].
pub fn alone(kind: &dyn JobKind, local: &Value, gangs: &Maker) -> Result<Option<Notice>, UnreadableLocal> {
    let copy = copy(kind, &LocalObject::read(local)?, &mut Log::off())?;
    Ok(
        gang_kind_of(&copy).and_then(|kind| match gangs.born(kind, &copy, local) {
            Birth::Marked { .. } => None,
            Birth::Alone(notice) => Some(notice),
            Birth::Refused(sentence) => Some(Notice::new(Reason::InvalidJob, sentence)),
        }),
    )
}

/// The copy with the marks of its gang, and what these depend on; none if it is no gang there.
fn born(
    copy: &Value,
    local: &Value,
    gangs: Option<&Maker>,
) -> Result<Option<(Value, String)>, UnreadableLocal> {
    let (Some(kind), Some(gangs)) = (gang_kind_of(copy), gangs) else {
        return Ok(None);
    };
    match gangs.born(kind, copy, local) {
        Birth::Marked { copy, from } => Ok(Some((copy, from))),
        Birth::Alone(_) => Ok(None),
        Birth::Refused(sentence) => Err(UnreadableLocal::Gang(sentence)),
    }
}

/// The copy without our marks: what the hash is about.
fn copy(kind: &dyn JobKind, local: &LocalObject<'_>, log: &mut Log) -> Result<Value, UnreadableLocal> {
    let names = kind.resource();
    let mut copy = json!({
        "apiVersion": names.api_version(),
        "kind": names.kind,
        "metadata": metadata::copy(local, log)?,
        "spec": local.spec,
    });
    let dropped = &mut |path: String, reason| log.dropped(format_args!("{path}"), reason);
    let reason = "the worker's own operator runs the copy";
    remove(&mut copy, kind.managed_by().path, reason, dropped);
    if let Some(ttl) = kind.dispatch().ttl {
        let reason = "the copy stays until its end is told here; then the local job keeps it";
        remove(&mut copy, ttl, reason, dropped);
    }
    kind.clean(&mut copy, local.metadata, dropped);
    templates::clean(&mut copy["spec"], log);
    suspend(kind, &mut copy, log)?;
    Ok(copy)
}

/// Whatever the user says: nothing runs before the commit.
fn suspend(kind: &dyn JobKind, copy: &mut Value, log: &mut Log) -> Result<(), UnreadableLocal> {
    let reason = "holds the copy until the local job has recorded it; then it follows the local job";
    make_true(kind.suspend(), copy, reason, log)?;
    if let Some(flag) = kind.flag_of_suspended() {
        let reason =
            "without it the worker's operator refuses the suspended copy; then it follows the local job";
        make_true(flag, copy, reason, log)?;
    }
    Ok(())
}

fn make_true(
    path: &[&str],
    copy: &mut Value,
    reason: &'static str,
    log: &mut Log,
) -> Result<(), UnreadableLocal> {
    let mut place = copy;
    for (depth, key) in path.iter().enumerate() {
        let parent = match place {
            Value::Object(parent) => parent,
            other => {
                return Err(UnreadableLocal::Wrong {
                    path: path[..depth].join("."),
                    found: other.to_string().chars().take(40).collect(),
                    expected: "an object",
                });
            }
        };
        place = parent.entry(*key).or_insert(Value::Null);
        if place.is_null() && depth + 1 < path.len() {
            *place = Value::Object(Map::new());
        }
    }
    if *place != Value::Bool(true) {
        *place = Value::Bool(true);
        log.rewritten(format_args!("{}", path.join(".")), reason);
    }
    Ok(())
}

/// SHA-256 in hex. serde_json keeps the keys of an object sorted, so the order of the input does not matter.
fn hash(copy: &Value, gang: Option<&str>) -> String {
    let mut digest = Sha256::new_with_prefix(VERSION);
    if let Some(gang) = gang {
        digest.update(gang); // the marks themselves follow from it and from the job
    }
    serde_json::to_writer(&mut digest, copy)
        .expect("a Value always serialises, and a digest takes every byte");
    format!("{:x}", digest.finalize())
}

#[cfg(test)]
mod tests;
