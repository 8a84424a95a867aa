//! The guard's sentences about whole jobs, and its answer to the creation of one.

use serde_json::Value;

use super::{Denial, refuse_keys};

/// Keys that only the reconciler writes, in a new job or its pod template; `{}` are the keys.
pub(crate) const JOB_KEYS: &str = "only portcullis itself writes {}: remove it from metadata and from the metadata of the \
    pod template, for a dispatched job is not created again from its own manifest";
/// Keys that only the reconciler writes, changed on a job; `{}` are the keys.
pub(crate) const JOB_KEYS_CHANGED: &str = "only portcullis itself changes {}: leave it as it is; to end the remote copy, \
    delete this job";
/// The finalizer of a job that is not being deleted.
pub(crate) const JOB_FINALIZER_CHANGED: &str = "only portcullis itself adds or removes the finalizer \
    portcullis.dev/remote-copy of a job that is not being deleted; delete the job, then anyone may remove it";
/// The annotation beside Kueue's value.
pub(crate) const DISPATCHED_BY_CHANGED: &str = "the annotation portcullis.dev/dispatched-by of a job is never changed \
    after its creation, since it says who runs the job; delete the job and create it as it should be";
/// The label of a job that exists.
pub(crate) const JOB_EXEMPT_CHANGED: &str = "the label portcullis.dev/exempt of a job is never changed after its creation; \
    delete the job and create it as it should be";
/// `managedBy` of a job that is ours, or would become ours.
pub(crate) const MANAGED_BY_CHANGED: &str = "managedBy of a job is never changed from or to portcullis after its creation, \
    or two clusters could run the job; to run it on this cluster, delete it and create it with the label \
    portcullis.dev/exempt=true where the namespace allows it";
/// The spec of a committed job; `{}` is the cluster.
pub(crate) const JOB_SPEC_CHANGED: &str = "this job was handed to the worker cluster {}, so of its spec only suspend, the TTL \
    and, in a Job, parallelism and completions can still be changed here; delete it and create it anew";

/// The guard's answer to the creation of a job of a kind that is dispatched whole.
pub(super) fn guard_job(job: &Value) -> Result<(), Denial> {
    refuse_keys(job, "metadata", JOB_KEYS)?;
    refuse_keys(&job["spec"]["template"], "spec.template.metadata", JOB_KEYS)
}
