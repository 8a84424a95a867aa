//! Audit logs -> what each pod and each whole job went through, by UID.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde_json::Value;

use crate::World;
use crate::ledger::{GATE, LOCAL_UID};

/// Annotation of a local pod: `<local uid>/<remote uid>`.
pub const REMOTE_UID: &str = "portcullis.dev/remote-uid";
/// The user that the process is.
pub const ACCOUNT: &str = "system:serviceaccount:portcullis-system:portcullis";

/// What has copies: pods, and whole jobs of the kinds that the load makes.
const RESOURCES: [&str; 3] = ["pods", "jobs", "mpijobs"];
/// How a finished job says so.
const ENDS: [(&str, &str); 3] = [
    ("Complete", "Succeeded"),
    ("Succeeded", "Succeeded"),
    ("Failed", "Failed"),
];

/// One answered request about a pod or a job.
#[derive(Clone, Debug)]
pub struct Event {
    pub cluster: String,
    /// When the request came.
    pub received: Timestamp,
    /// When the answer was complete.
    pub answered: Timestamp,
    pub user: String,
    pub verb: String,
    /// With the subresource.
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub code: u64,
    pub request: Value,
    pub answer: Value,
}

impl Event {
    /// Whether the write took effect.
    #[must_use]
    pub fn took_effect(&self) -> bool {
        matches!(self.code, 200..=202)
    }

    /// Without the subresource.
    #[must_use]
    pub fn subject(&self) -> &str {
        self.resource.split('/').next().unwrap_or_default()
    }

    #[must_use]
    pub fn is_job(&self) -> bool {
        self.subject() != "pods"
    }

    /// UID of the object, from the answer only.
    #[must_use]
    pub fn uid(&self) -> &str {
        let uid = text(&self.answer, "/metadata/uid");
        if uid.is_empty() {
            text(&self.answer, "/details/uid")
        } else {
            uid
        }
    }

    #[must_use]
    pub fn annotation(&self, key: &str) -> &str {
        self.answer
            .pointer("/metadata/annotations")
            .and_then(|all| all.get(key)?.as_str())
            .unwrap_or_default()
    }

    /// Whether it is kept from running: a pod by its gate, a job by being suspended.
    #[must_use]
    pub fn held(&self) -> bool {
        let suspended = |path| self.answer.pointer(path) == Some(&Value::Bool(true));
        match self.subject() {
            "pods" => self.gated(),
            "mpijobs" => suspended("/spec/runPolicy/suspend"),
            _ => suspended("/spec/suspend"),
        }
    }

    fn gated(&self) -> bool {
        let gates = self
            .answer
            .pointer("/spec/schedulingGates")
            .and_then(Value::as_array);
        gates
            .into_iter()
            .flatten()
            .any(|gate| text(gate, "/name") == GATE)
    }

    /// Of a job: empty until it ends.
    #[must_use]
    pub fn phase(&self) -> &str {
        match self.end() {
            Some((phase, _)) => phase,
            None if self.is_job() => "",
            None => text(&self.answer, "/status/phase"),
        }
    }

    /// How it ended, and the reason that it gives.
    fn end(&self) -> Option<(&str, &str)> {
        if !self.is_job() {
            let phase = text(&self.answer, "/status/phase");
            return matches!(phase, "Succeeded" | "Failed")
                .then(|| (phase, text(&self.answer, "/status/reason")));
        }
        let conditions = self.answer.pointer("/status/conditions")?.as_array()?;
        ENDS.iter().find_map(|(kind, phase)| {
            let end = conditions.iter().find(|condition| {
                text(condition, "/type") == *kind && text(condition, "/status") == "True"
            })?;
            Some((*phase, text(end, "/reason")))
        })
    }

    /// For people.
    #[must_use]
    pub fn line(&self) -> String {
        let Self {
            cluster,
            answered,
            user,
            verb,
            resource,
            name,
            code,
            ..
        } = self;
        let user = user.rsplit(':').next().unwrap_or_default();
        let uid = self.uid();
        let mut line =
            format!("  {answered:.3} {cluster:9} {user:18} {verb:6} {resource} {name} {code} {uid:.8}");
        if self.took_effect() {
            let commit = self.annotation(REMOTE_UID);
            let gate = match (self.held(), self.is_job()) {
                (true, false) => " gated",
                (true, true) => " suspended",
                (false, _) => "",
            };
            let going = if self.answer.pointer("/metadata/deletionTimestamp").is_some() {
                " terminating"
            } else {
                ""
            };
            line.push_str(&format!(" {}{gate}{going}", self.phase()));
            if !commit.is_empty() {
                line.push_str(&format!(" commit {commit}"));
            }
        } else {
            line.push_str(&format!(" {:.160}", text(&self.answer, "/message")));
        }
        line
    }
}

/// All requests about pods and jobs on all clusters, in order of their answers.
///
/// # Errors
/// A log is unreadable.
pub fn read(world: &World) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    for cluster in world.clusters() {
        let path = cluster.folder().join("audit.log");
        let log = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        for line in log
            .split_inclusive('\n')
            .filter_map(|line| line.strip_suffix('\n'))
        {
            events.extend(event(cluster.name(), line)?);
        }
    }
    events.sort_by_key(|event: &Event| event.answered);
    Ok(events)
}

fn event(cluster: &str, line: &str) -> Result<Option<Event>> {
    let event: Value = serde_json::from_str(line).context("a line of an audit log")?;
    let subject = text(&event, "/objectRef/resource");
    if !RESOURCES.contains(&subject)
        || text(&event, "/stage") != "ResponseComplete"
        || text(&event, "/verb") == "list"
        || text(&event, "/requestURI").contains("dryRun=")
    {
        return Ok(None);
    }
    let resource = match text(&event, "/objectRef/subresource") {
        "" => subject.to_owned(),
        subresource => format!("{subject}/{subresource}"),
    };
    let user = match text(&event, "/impersonatedUser/username") {
        "" => text(&event, "/user/username"),
        user => user,
    };
    let answer = event.get("responseObject").cloned().unwrap_or_default();
    let name = match text(&event, "/objectRef/name") {
        "" => text(&answer, "/metadata/name"),
        name => name,
    };
    Ok(Some(Event {
        cluster: cluster.to_owned(),
        received: text(&event, "/requestReceivedTimestamp").parse()?,
        answered: text(&event, "/stageTimestamp").parse()?,
        user: user.to_owned(),
        verb: text(&event, "/verb").to_owned(),
        resource,
        namespace: text(&event, "/objectRef/namespace").to_owned(),
        name: name.to_owned(),
        code: event
            .pointer("/responseStatus/code")
            .and_then(Value::as_u64)
            .unwrap_or(0),
        request: event.get("requestObject").cloned().unwrap_or_default(),
        answer,
    }))
}

/// A remote pod or job from its creation to its end.
#[derive(Clone, Debug, Default)]
pub struct Life {
    /// `pods`, `jobs`, `mpijobs`.
    pub subject: String,
    pub cluster: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub local_uid: String,
    /// Seen without the gate, or not suspended, for the first time.
    pub opened: Option<Timestamp>,
    /// Got a node. A job that was opened may have pods at any time: it counts at once.
    pub bound: Option<Timestamp>,
    /// Asked for by whom; the last one is its end, if it is gone.
    pub deletes: Vec<(Timestamp, String)>,
    /// The last one's answer.
    pub last_delete: Option<Timestamp>,
}

/// Remote pods and jobs by UID.
#[must_use]
pub fn lives(events: &[Event], manager: &str) -> BTreeMap<String, Life> {
    let mut lives: BTreeMap<String, Life> = BTreeMap::new();
    for event in events
        .iter()
        .filter(|event| event.cluster != manager && event.took_effect())
    {
        if event.resource == "pods/binding" {
            if let Some(life) = lives.get_mut(text(&event.request, "/metadata/uid")) {
                life.bound.get_or_insert(event.answered);
            }
            continue;
        }
        let local_uid = event.annotation(LOCAL_UID);
        if !local_uid.is_empty() {
            let life = lives.entry(event.uid().to_owned()).or_insert_with(|| Life {
                subject: event.subject().to_owned(),
                cluster: event.cluster.clone(),
                namespace: event.namespace.clone(),
                name: event.name.clone(),
                uid: event.uid().to_owned(),
                local_uid: local_uid.to_owned(),
                ..Life::default()
            });
            if !event.held() {
                life.opened.get_or_insert(event.answered);
                if event.is_job() {
                    life.bound.get_or_insert(event.answered);
                }
            }
            if !text(&event.answer, "/spec/nodeName").is_empty() {
                life.bound.get_or_insert(event.answered);
            }
        }
        if event.verb == "delete"
            && let Some(life) = lives.get_mut(event.uid())
        {
            life.deletes.push((event.received, event.user.clone()));
            life.last_delete = Some(event.answered);
        }
    }
    lives
}

/// What the manager knows of one local UID.
#[derive(Clone, Debug, Default)]
pub struct Local {
    /// `pods`, `jobs`, `mpijobs`.
    pub subject: String,
    pub name: String,
    pub namespace: String,
    /// Remote UIDs and when the request that committed them came.
    pub commits: BTreeMap<String, Timestamp>,
    /// When its deletion was asked for first.
    pub deleted: Option<Timestamp>,
    /// By whom.
    pub deleted_by: String,
    /// When it ended, by whom, with which reason.
    pub ended: Option<(Timestamp, String, String)>,
}

/// Local pods and jobs by UID.
#[must_use]
pub fn locals(events: &[Event], manager: &str) -> BTreeMap<String, Local> {
    let mut locals: BTreeMap<String, Local> = BTreeMap::new();
    for event in events
        .iter()
        .filter(|event| event.cluster == manager && event.took_effect() && !event.uid().is_empty())
    {
        let local = locals.entry(event.uid().to_owned()).or_default();
        local.subject = event.subject().to_owned();
        (local.name, local.namespace) = (event.name.clone(), event.namespace.clone());
        if let Some((_, remote)) = event.annotation(REMOTE_UID).split_once('/') {
            local.commits.entry(remote.to_owned()).or_insert(event.received);
        }
        if event.verb == "delete" && local.deleted.is_none() {
            local.deleted = Some(event.received);
            local.deleted_by.clone_from(&event.user);
        }
        if let Some((_, reason)) = event.end() {
            local
                .ended
                .get_or_insert((event.received, event.user.clone(), reason.to_owned()));
        }
    }
    locals
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
