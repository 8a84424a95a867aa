//! Audit logs -> what each pod went through, by UID.

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

/// One answered request about a pod.
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

    /// UID of the pod, from the answer only.
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

    #[must_use]
    pub fn gated(&self) -> bool {
        let gates = self
            .answer
            .pointer("/spec/schedulingGates")
            .and_then(Value::as_array);
        gates
            .into_iter()
            .flatten()
            .any(|gate| text(gate, "/name") == GATE)
    }

    #[must_use]
    pub fn phase(&self) -> &str {
        text(&self.answer, "/status/phase")
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
            let gate = if self.gated() { " gated" } else { "" };
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

/// All requests about pods on all clusters, in order of their answers.
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
    if !line.contains("\"resource\":\"pods\"") {
        return Ok(None);
    }
    let event: Value = serde_json::from_str(line).context("a line of an audit log")?;
    if text(&event, "/stage") != "ResponseComplete" || text(&event, "/requestURI").contains("dryRun=") {
        return Ok(None);
    }
    let resource = match text(&event, "/objectRef/subresource") {
        "" => "pods".to_owned(),
        subresource => format!("pods/{subresource}"),
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

/// A remote pod from its creation to its end.
#[derive(Clone, Debug, Default)]
pub struct Life {
    pub cluster: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub local_uid: String,
    /// Seen without the gate for the first time.
    pub opened: Option<Timestamp>,
    /// Got a node.
    pub bound: Option<Timestamp>,
    /// Asked for by whom; the last one is its end, if it is gone.
    pub deletes: Vec<(Timestamp, String)>,
    /// The last one's answer.
    pub last_delete: Option<Timestamp>,
}

/// Remote pods by UID.
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
                cluster: event.cluster.clone(),
                namespace: event.namespace.clone(),
                name: event.name.clone(),
                uid: event.uid().to_owned(),
                local_uid: local_uid.to_owned(),
                ..Life::default()
            });
            if !event.gated() {
                life.opened.get_or_insert(event.answered);
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
    pub name: String,
    pub namespace: String,
    /// Remote UIDs and when the request that committed them came.
    pub commits: BTreeMap<String, Timestamp>,
    /// When its deletion was asked for first.
    pub deleted: Option<Timestamp>,
    /// When it ended, by whom, with which reason.
    pub ended: Option<(Timestamp, String, String)>,
}

/// Local pods by UID.
#[must_use]
pub fn locals(events: &[Event], manager: &str) -> BTreeMap<String, Local> {
    let mut locals: BTreeMap<String, Local> = BTreeMap::new();
    for event in events
        .iter()
        .filter(|event| event.cluster == manager && event.took_effect() && !event.uid().is_empty())
    {
        let local = locals.entry(event.uid().to_owned()).or_default();
        (local.name, local.namespace) = (event.name.clone(), event.namespace.clone());
        if let Some((_, remote)) = event.annotation(REMOTE_UID).split_once('/') {
            local.commits.entry(remote.to_owned()).or_insert(event.received);
        }
        if event.verb == "delete" {
            local.deleted.get_or_insert(event.received);
        }
        if matches!(event.phase(), "Succeeded" | "Failed") {
            let reason = text(&event.answer, "/status/reason").to_owned();
            local
                .ended
                .get_or_insert((event.received, event.user.clone(), reason));
        }
    }
    locals
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
