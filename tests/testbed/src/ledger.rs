//! What really happened on a cluster: its audit log -> writes of pods, openings, bindings.
//!
//! The judge of the chaos test, so it shares no code with the product. It believes the API server only:
//! a write counts if the answer was 200 or 201, and identities come from the answer's object.

mod line;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use jiff::Timestamp;

/// The gate that keeps a remote pod from running until its commit.
pub const GATE: &str = "portcullis.dev/uncommitted";
/// Annotation of a remote pod: the UID of its local pod.
pub const LOCAL_UID: &str = "portcullis.dev/local-uid";

/// All writes of one audit log, in the order of the log.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    pub writes: Vec<Write>,
}

/// One write that took effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// When the answer was complete.
    pub time: Timestamp,
    /// Who asked (who was impersonated, if somebody was).
    pub user: String,
    pub user_agent: String,
    pub verb: String,
    pub group: String,
    /// With the subresource: `pods`, `pods/status`, `pods/binding`, `deployments/scale`.
    pub resource: String,
    pub namespace: String,
    pub name: String,
    /// The pod in the answer; `None` for other kinds and where the answer is a Status.
    pub pod: Option<PodState>,
    /// `pods/binding` only.
    pub binding: Option<(String, String)>,
}

/// A pod as the API server answered it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodState {
    pub uid: String,
    pub resource_version: u64,
    /// Has [`GATE`].
    pub gated: bool,
    pub local_uid: Option<String>,
    pub deleting: bool,
    pub phase: String,
}

/// A pod lost the gate, or never had it though it has a local UID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    pub time: Timestamp,
    pub user: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub local_uid: Option<String>,
}

/// The scheduler gave a pod a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    pub time: Timestamp,
    pub user: String,
    pub namespace: String,
    pub name: String,
    /// Empty if the caller of `pods/binding` sent none.
    pub uid: String,
    pub node: String,
    /// Of the pod with this UID, from its other writes.
    pub local_uid: Option<String>,
}

impl Ledger {
    /// What was written in one namespace.
    #[must_use]
    pub fn of_namespace(mut self, namespace: &str) -> Self {
        self.writes.retain(|write| write.namespace == namespace);
        self
    }

    /// # Errors
    /// The file is unreadable or holds something that is no audit event.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("read {}", path.display()))
    }

    /// Reads JSON lines. A last line without its end is still being written and is left out.
    ///
    /// # Errors
    /// A line is no audit event.
    pub fn parse(text: &str) -> Result<Self> {
        let mut writes = Vec::new();
        for (number, line) in text.split_inclusive('\n').enumerate() {
            if let Some(line) = line.strip_suffix('\n') {
                writes.extend(line::read(line).with_context(|| format!("line {}", number + 1))?);
            }
        }
        Ok(Self { writes })
    }

    /// Each removal of the gate, once per pod UID however often it was seen open afterwards.
    #[must_use]
    pub fn openings(&self) -> Vec<Opening> {
        let mut openings: Vec<Opening> = self
            .by_pod()
            .into_values()
            .filter_map(|states| opening(&states))
            .collect();
        openings.sort_by_key(|opening| opening.time);
        openings
    }

    /// Each pod that got a node.
    #[must_use]
    pub fn bindings(&self) -> Vec<Binding> {
        let pods = self.by_pod();
        let local_uid = |uid: &String| {
            pods.get(uid)
                .and_then(|states| states.last())
                .and_then(|(_, pod)| pod.local_uid.clone())
        };
        let bound = self
            .writes
            .iter()
            .filter_map(|write| write.binding.as_ref().map(|binding| (write, binding)));
        bound
            .map(|(write, (uid, node))| Binding {
                time: write.time,
                user: write.user.clone(),
                namespace: write.namespace.clone(),
                name: write.name.clone(),
                uid: uid.clone(),
                node: node.clone(),
                local_uid: local_uid(uid),
            })
            .collect()
    }

    /// Writes of pods and their subresources by one user (`system:serviceaccount:NAMESPACE:NAME` for accounts).
    #[must_use]
    pub fn pod_writes_by(&self, user: &str) -> Vec<&Write> {
        let is_pod =
            |write: &&Write| write.group.is_empty() && write.resource.split('/').next() == Some("pods");
        self.writes_by(user).into_iter().filter(is_pod).collect()
    }

    /// Pod writes by one user to pods that carry no local UID: not his to touch.
    #[must_use]
    pub fn foreign_pod_writes_by(&self, user: &str) -> Vec<&Write> {
        let is_foreign = |write: &&Write| write.pod.as_ref().is_some_and(|pod| pod.local_uid.is_none());
        self.pod_writes_by(user).into_iter().filter(is_foreign).collect()
    }

    /// All writes by one user.
    #[must_use]
    pub fn writes_by(&self, user: &str) -> Vec<&Write> {
        self.writes.iter().filter(|write| write.user == user).collect()
    }

    /// Writes that ended after `time`.
    #[must_use]
    pub fn since(&self, time: Timestamp) -> Self {
        Self {
            writes: self
                .writes
                .iter()
                .filter(|write| write.time > time)
                .cloned()
                .collect(),
        }
    }

    /// The states of each pod UID, oldest first. The log is in the order of answers, so sort by resourceVersion.
    fn by_pod(&self) -> BTreeMap<String, Vec<(&Write, &PodState)>> {
        let mut pods: BTreeMap<String, Vec<(&Write, &PodState)>> = BTreeMap::new();
        for write in &self.writes {
            if let Some(pod) = &write.pod {
                pods.entry(pod.uid.clone()).or_default().push((write, pod));
            }
        }
        for states in pods.values_mut() {
            states.sort_by_key(|(_, pod)| pod.resource_version);
        }
        pods
    }
}

fn opening(states: &[(&Write, &PodState)]) -> Option<Opening> {
    let (was_gated, is_ours) = (
        states.iter().any(|(_, pod)| pod.gated),
        states.iter().any(|(_, pod)| pod.local_uid.is_some()),
    );
    if !was_gated && !is_ours {
        return None;
    }
    let (write, pod) = states.iter().find(|(_, pod)| !pod.gated)?;
    Some(Opening {
        time: write.time,
        user: write.user.clone(),
        namespace: write.namespace.clone(),
        name: write.name.clone(),
        uid: pod.uid.clone(),
        local_uid: pod.local_uid.clone(),
    })
}

/// Local UIDs of which more than one remote pod was opened, on any of the clusters, with all openings.
#[must_use]
pub fn opened_more_than_once(workers: &[Ledger]) -> BTreeMap<String, Vec<Opening>> {
    let openings = workers.iter().flat_map(Ledger::openings);
    repeated(openings, |opening| {
        (opening.local_uid.clone(), opening.uid.clone())
    })
}

/// Local UIDs of which more than one remote pod got a node: the promise itself. (Opened twice but bound once
/// is what taking back looks like.)
#[must_use]
pub fn bound_more_than_once(workers: &[Ledger]) -> BTreeMap<String, Vec<Binding>> {
    let bindings = workers.iter().flat_map(Ledger::bindings);
    repeated(bindings, |binding| {
        (binding.local_uid.clone(), binding.uid.clone())
    })
}

fn repeated<T>(
    events: impl Iterator<Item = T>,
    key: impl Fn(&T) -> (Option<String>, String),
) -> BTreeMap<String, Vec<T>> {
    let mut groups: BTreeMap<String, Vec<T>> = BTreeMap::new();
    for event in events {
        if let (Some(local), _) = key(&event) {
            groups.entry(local).or_default().push(event);
        }
    }
    groups.retain(|_, events| {
        events
            .iter()
            .map(|event| key(event).1)
            .collect::<BTreeSet<_>>()
            .len()
            > 1
    });
    groups
}

#[cfg(test)]
mod tests;
