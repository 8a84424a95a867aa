//! The writes of the gang reconciler, each with its preconditions.

use json_patch::Patch;
use serde_json::{Value, json};

use super::plan::compare::{changes, whose};
use super::store::{GroupKey, JobKey, Seen, controller};
use crate::cluster::api::{CallError, ClusterApi, PatchKind, Preconditions, object_path};
use crate::gang::{coscheduling, volcano};
use crate::names::GANG_SCHEDULER;

/// One API call.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A Workload or PodGroup is made: server-side apply after a live look that the name is free.
    Create {
        /// Where.
        key: GroupKey,
        /// The fields that are ours.
        object: Box<Value>,
    },
    /// Server-side apply of the fields that are ours, without force: a field of somebody else's stays his.
    Update {
        /// Where.
        key: GroupKey,
        /// The fields that are ours.
        object: Box<Value>,
    },
    /// A live look: the answer is the proof that the group stands in the API.
    Look {
        /// Where.
        key: GroupKey,
        /// Its apiVersion.
        api_version: String,
    },
    /// Precondition: the group's UID.
    Delete {
        /// Where.
        key: GroupKey,
        /// Its apiVersion.
        api_version: String,
        /// The UID it must have.
        uid: Box<str>,
    },
    /// One JSON patch of the job. Preconditions: its UID and resourceVersion.
    PatchJob {
        /// Which.
        key: JobKey,
        /// UID and resourceVersion as they were seen.
        seen: Box<(String, String)>,
        /// What for.
        why: Why,
        /// The edits, without the preconditions.
        operations: Patch,
    },
    /// The launcher Job that the operator made while its MPIJob was suspended: if it is not as it must be, it is deleted,
    /// and made anew from the template. Preconditions: it is suspended, and its UID.
    Launcher {
        /// The MPIJob.
        job: JobKey,
        /// Its UID.
        uid: Box<str>,
        /// What it must be like.
        must: LauncherMust,
    },
}

/// What is asked of a launcher: its operator copies labels and annotations of a changed template to it, but takes none away,
/// and nothing of the template's spec that matters here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LauncherMust {
    /// `spec.schedulerName` of its template.
    pub scheduler: Option<String>,
    /// `spec.priorityClassName` of its template.
    pub class: Option<String>,
    /// Its template has no mark of any gang scheduler.
    pub be_unmarked: bool,
}

/// What a patch of a job is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The hold ends.
    Release,
    /// Its templates get the marks of the group, while it is suspended, or lose those of one that it will not have.
    Mark,
    /// Somebody else manages its PodGroup.
    StandDown,
    /// It is not suspended, so our claim to a suspend means nothing, and must not be taken for one later.
    DropClaim,
}

/// What a call brought.
#[derive(Debug)]
pub enum Done {
    /// The group as it stands.
    Group(GroupKey, Seen),
    /// There is none of this name.
    NoGroup(GroupKey),
    /// The job as it stands.
    Job(JobKey, Seen),
    /// There is none of this name.
    NoJob(JobKey),
    /// No launcher without marks is there.
    LauncherGood,
    /// There is none at all.
    LauncherAbsent,
    /// One without marks was deleted.
    LauncherDeleted,
}

/// Why a step did not bring what it should.
#[derive(Debug)]
pub enum Failure {
    /// The view was old; this is what stands there now.
    Stale(Box<Done>),
    /// A field that we write is owned by somebody else.
    Owned {
        /// Which, and by whom.
        message: String,
    },
    /// The API server refuses the content.
    Refused {
        /// Its words.
        message: String,
    },
    /// The namespace is being deleted, so nothing can be made in it; the job goes too.
    Ending,
    /// No answer that tells anything.
    Unavailable {
        /// What happened.
        words: String,
    },
}

impl Failure {
    /// A fixed name, for metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Stale(_) => "Stale",
            Self::Owned { .. } => "Owned",
            Self::Refused { .. } => "Refused",
            Self::Ending => "Ending",
            Self::Unavailable { .. } => "Unavailable",
        }
    }
}

impl Step {
    /// The group that it is about.
    pub fn group(&self) -> Option<&GroupKey> {
        match self {
            Self::Create { key, .. }
            | Self::Update { key, .. }
            | Self::Look { key, .. }
            | Self::Delete { key, .. } => Some(key),
            Self::PatchJob { .. } | Self::Launcher { .. } => None,
        }
    }

    /// A fixed name, for logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Update { .. } => "update",
            Self::Look { .. } => "look",
            Self::Delete { .. } => "delete",
            Self::PatchJob {
                why: Why::Release, ..
            } => "release",
            Self::PatchJob { why: Why::Mark, .. } => "mark",
            Self::PatchJob {
                why: Why::StandDown, ..
            } => "stand-down",
            Self::PatchJob {
                why: Why::DropClaim, ..
            } => "drop-claim",
            Self::Launcher { .. } => "launcher",
        }
    }
}

/// Makes one step.
///
/// # Errors
/// [`Failure`]: what it means for the plan.
pub async fn execute(api: &ClusterApi, step: &Step) -> Result<Done, Failure> {
    match step {
        Step::Create { key, object } => create(api, key, object).await,
        Step::Update { key, object } => update(api, key, object).await,
        Step::Look { key, api_version } => look(api, key, api_version).await,
        Step::Delete {
            key,
            api_version,
            uid,
        } => delete(api, key, api_version, uid).await,
        Step::PatchJob {
            key,
            seen,
            operations,
            ..
        } => patch_job(api, key, seen, operations).await,
        Step::Launcher { job, uid, must } => launcher(api, job, uid, must).await,
    }
}

async fn create(api: &ClusterApi, key: &GroupKey, object: &Value) -> Result<Done, Failure> {
    match look(api, key, version_of(object)).await? {
        Done::NoGroup(_) => apply(api, key, object).await,
        found => Err(Failure::Stale(Box::new(found))),
    }
}

/// Where a field that we want gone is still there, somebody else owns it: an apply without force removes only what nobody
/// else wrote.
async fn update(api: &ClusterApi, key: &GroupKey, object: &Value) -> Result<Done, Failure> {
    let done = apply(api, key, object).await?;
    match &done {
        Done::Group(_, seen) => match &changes(&seen.object, object)[..] {
            [] => Ok(done),
            left => Err(owned(api, key, object, left).await),
        },
        _ => Ok(done),
    }
}

async fn apply(api: &ClusterApi, key: &GroupKey, object: &Value) -> Result<Done, Failure> {
    match api.apply(&path(key, version_of(object)), object).await {
        Ok(answer) => Ok(Done::Group(key.clone(), read(answer.json())?)),
        Err(CallError::Answered { code: 409, .. }) => match look(api, key, version_of(object)).await? {
            Done::Group(_, seen) => Err(owned(api, key, object, &changes(&seen.object, object)).await),
            gone => Err(Failure::Stale(Box::new(gone))),
        },
        // The admission of namespaces says so (NamespaceTerminating).
        Err(CallError::Answered {
            code: 403, message, ..
        }) if message.ends_with("because it is being terminated") => Err(Failure::Ending),
        Err(CallError::Answered {
            code: 400 | 403 | 404 | 422,
            message,
            ..
        }) => Err(Failure::Refused { message }),
        Err(error) => Err(unavailable(&error)),
    }
}

/// These fields are somebody else's: whose, as far as can be seen.
async fn owned(api: &ClusterApi, key: &GroupKey, object: &Value, fields: &[String]) -> Failure {
    match api.managed_fields(&path(key, version_of(object))).await {
        Ok(managed) => Failure::Owned {
            message: whose(fields, &managed),
        },
        Err(error) => unavailable(&error),
    }
}

async fn look(api: &ClusterApi, key: &GroupKey, api_version: &str) -> Result<Done, Failure> {
    match api.get(&path(key, api_version)).await {
        Ok(answer) => Ok(Done::Group(key.clone(), read(answer.json())?)),
        Err(CallError::Answered { code: 404, .. }) => Ok(Done::NoGroup(key.clone())),
        Err(error) => Err(unavailable(&error)),
    }
}

async fn delete(api: &ClusterApi, key: &GroupKey, api_version: &str, uid: &str) -> Result<Done, Failure> {
    let only = Preconditions {
        uid,
        resource_version: None,
    };
    match api.delete(&path(key, api_version), only).await {
        // With a finalizer it stays for a while: the watch tells.
        Ok(_) => look(api, key, api_version).await,
        Err(CallError::Answered { code: 404, .. }) => Ok(Done::NoGroup(key.clone())),
        Err(CallError::Answered { code: 409, .. }) => {
            Err(Failure::Stale(Box::new(look(api, key, api_version).await?)))
        }
        Err(CallError::Answered {
            code: 403, message, ..
        }) => Err(Failure::Refused { message }),
        Err(error) => Err(unavailable(&error)),
    }
}

async fn launcher(api: &ClusterApi, job: &JobKey, uid: &str, must: &LauncherMust) -> Result<Done, Failure> {
    let path = object_path(
        "batch/v1",
        &job.namespace,
        "jobs",
        &format!("{}-launcher", job.name),
    );
    let launcher = match api.get(&path).await {
        Ok(answer) => read(answer.json())?,
        Err(CallError::Answered { code: 404, .. }) => return Ok(Done::LauncherAbsent),
        Err(error) => return Err(unavailable(&error)),
    };
    let spec = &launcher.object["spec"];
    let template = &spec["template"];
    let has = |key: &str, wanted: &Option<String>| {
        wanted
            .as_ref()
            .is_none_or(|wanted| template["spec"][key] == **wanted)
    };
    let marks = [coscheduling::LABEL, volcano::GROUP_NAME, GANG_SCHEDULER];
    let is_marked = |key: &&str| {
        ["labels", "annotations"]
            .iter()
            .any(|map| template["metadata"][map].get(*key).is_some())
    };
    let is_good = has("schedulerName", &must.scheduler)
        && has("priorityClassName", &must.class)
        && !(must.be_unmarked && marks.iter().any(is_marked));
    let is_ours = controller(&launcher.object).is_some_and(|owner| owner.uid == uid);
    if is_good || !is_ours || spec["suspend"] != true {
        return Ok(Done::LauncherGood);
    }
    let only = Preconditions {
        uid: &launcher.uid,
        resource_version: Some(&launcher.resource_version),
    };
    match api.delete(&path, only).await {
        Ok(_) | Err(CallError::Answered { code: 404 | 409, .. }) => Ok(Done::LauncherDeleted),
        Err(CallError::Answered {
            code: 403, message, ..
        }) => Err(Failure::Refused { message }),
        Err(error) => Err(unavailable(&error)),
    }
}

async fn patch_job(
    api: &ClusterApi,
    key: &JobKey,
    (uid, version): &(String, String),
    operations: &Patch,
) -> Result<Done, Failure> {
    let mut patch = vec![
        json!({"op": "test", "path": "/metadata/uid", "value": uid}),
        json!({"op": "test", "path": "/metadata/resourceVersion", "value": version}),
    ];
    for operation in &operations.0 {
        patch.push(
            serde_json::to_value(operation).map_err(|error| Failure::Unavailable {
                words: error.to_string(),
            })?,
        );
    }
    let path = object_path(
        &key.resource.api_version(),
        &key.namespace,
        key.resource.plural,
        &key.name,
    );
    match api.patch(&path, PatchKind::Json, &patch.into()).await {
        Ok(answer) => Ok(Done::Job(key.clone(), read(answer.json())?)),
        Err(CallError::Answered {
            code: code @ (400 | 403 | 404 | 409 | 422),
            message,
            ..
        }) => {
            let now = match api.get(&path).await {
                Ok(answer) => Done::Job(key.clone(), read(answer.json())?),
                Err(CallError::Answered { code: 404, .. }) => Done::NoJob(key.clone()),
                Err(error) => return Err(unavailable(&error)),
            };
            let unchanged = matches!(&now, Done::Job(_, seen) if *seen.resource_version == **version && *seen.uid == **uid);
            match (unchanged, code) {
                (true, 400 | 403 | 422) => Err(Failure::Refused { message }),
                (true | false, _) => Err(Failure::Stale(Box::new(now))),
            }
        }
        Err(error) => Err(unavailable(&error)),
    }
}

fn path(key: &GroupKey, api_version: &str) -> String {
    object_path(api_version, &key.namespace, key.plural, &key.name)
}

fn version_of(object: &Value) -> &str {
    object["apiVersion"].as_str().unwrap_or_default()
}

fn read(json: &str) -> Result<Seen, Failure> {
    serde_json::from_str(json)
        .ok()
        .and_then(Seen::of)
        .ok_or_else(|| Failure::Unavailable {
            words: "an answer without an identity".to_owned(),
        })
}

fn unavailable(error: &CallError) -> Failure {
    Failure::Unavailable { words: error.words() }
}
