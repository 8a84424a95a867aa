//! One worker cluster: its link, its objects of ours, its namespaces.

pub mod connect;
pub mod events;
pub mod line;
pub mod rights;
pub mod space;
mod watches;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::Notify;

use self::line::Line;
use self::space::Spaces;
use super::client::Clients;
use super::store::ObjectStore;
use crate::placement::Rejection;
use crate::reconcile::pair::local::{RemoteObject, Subject};

/// For so long after it became known, a worker that is not connected yet keeps its place in the order of a policy.
const SETTLING: Duration = Duration::from_secs(3);

/// A registered worker cluster.
pub struct Worker {
    /// Name of its WorkerCluster.
    pub name: Arc<str>,
    /// Objects there that carry our origin label.
    pub store: ObjectStore<RemoteObject>,
    /// Its namespaces, as last read.
    pub spaces: Spaces,
    known_since: Instant,
    /// It left the last ping unanswered: calls are not tried, so that they do not hold up those of others (R44).
    suspect: AtomicBool,
    /// Who calls it, and who waits to.
    pub line: Line,
    /// UID of the cluster that what is stored is of.
    seen_of: ArcSwapOption<String>,
    link: ArcSwap<Link>,
    /// Why it counts as lost: it has not answered for longer than the detection time.
    lost: ArcSwapOption<String>,
    /// Lists that are complete.
    synced: Mutex<HashSet<Listing>>,
    /// Lists that are not permitted, in the API server's words.
    forbidden: Mutex<BTreeMap<Listing, String>>,
    /// Kinds of jobs that it serves; none: it has not said yet.
    serves: ArcSwapOption<BTreeSet<Subject>>,
    /// Told when that, or what the manager serves, changed.
    pub serves_changed: Notify,
    /// Whoever notes that it serves something else than it said, tells here.
    pub ask_again: Notify,
}

/// Objects of a kind in a namespace; the empty name stands for all.
type Listing = (Subject, Arc<str>);

/// The state of the connection.
#[derive(Clone)]
pub enum Link {
    /// No usable connection.
    Down(Problem),
    /// Connected.
    Up(Arc<Connection>),
}

/// A connection whose cluster was identified.
pub struct Connection {
    /// Its clients.
    pub clients: Clients,
    /// UID of its kube-system namespace.
    pub cluster_uid: Arc<str>,
    /// Version of its API server.
    pub version: String,
    /// Whether pods may be watched in all namespaces at once.
    pub cluster_wide: bool,
    /// Rights that are missing, in words.
    pub missing_rights: Vec<String>,
}

/// Why there is no usable connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// In CamelCase, for conditions and metrics.
    pub reason: &'static str,
    /// A sentence that says what to do.
    pub message: String,
    /// The problem is the credential, not the network.
    pub credential: bool,
}

impl Worker {
    /// A worker that has not connected yet.
    pub fn new(name: &str) -> Self {
        let connecting = Problem {
            reason: "Connecting",
            message: "not connected yet".to_owned(),
            credential: false,
        };
        Self {
            name: name.into(),
            store: ObjectStore::default(),
            spaces: Spaces::default(),
            known_since: Instant::now(),
            suspect: AtomicBool::new(false),
            line: Line::default(),
            seen_of: ArcSwapOption::empty(),
            link: ArcSwap::from_pointee(Link::Down(connecting)),
            lost: ArcSwapOption::empty(),
            synced: Mutex::default(),
            forbidden: Mutex::default(),
            serves: ArcSwapOption::empty(),
            serves_changed: Notify::new(),
            ask_again: Notify::new(),
        }
    }

    /// The state of the connection.
    pub fn link(&self) -> Arc<Link> {
        self.link.load_full()
    }

    /// The connection, if there is one.
    pub fn connection(&self) -> Option<Arc<Connection>> {
        match &**self.link.load() {
            Link::Up(connection) => Some(connection.clone()),
            Link::Down(_) => None,
        }
    }

    /// Why the worker counts as lost, if it does.
    pub fn lost(&self) -> Option<Arc<String>> {
        self.lost.load_full()
    }

    /// Whether it left the last ping unanswered.
    pub fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::Acquire)
    }

    fn set_suspect(&self, suspect: bool) {
        self.suspect.store(suspect, Ordering::Release);
    }

    /// Whether the initial list of this kind in this namespace is complete, and the worker is connected (rule 0).
    pub fn synced(&self, subject: Subject, namespace: &str) -> bool {
        let synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        let complete = |namespace: &str| synced.contains(&(subject, namespace.into()));
        self.connection().is_some() && (complete("") || complete(namespace))
    }

    /// Whether it serves this kind; none: it has not said yet.
    pub fn serves(&self, subject: Subject) -> Option<bool> {
        match subject {
            Subject::Pod => Some(true),
            Subject::Job(_) => self
                .serves
                .load()
                .as_ref()
                .map(|serves| serves.contains(&subject)),
        }
    }

    /// What it said that it serves. True if that is news.
    fn set_serves(&self, subjects: BTreeSet<Subject>) -> bool {
        let before = self.serves.swap(Some(Arc::new(subjects.clone())));
        let news = before.is_none_or(|before| *before != subjects);
        if news {
            self.serves_changed.notify_one();
        }
        news
    }

    /// Why nothing new may be placed here now, as far as the connection tells.
    pub fn rejection(&self, subject: Subject, namespace: &str) -> Option<Rejection> {
        let because = |reason: &str, message: String| {
            let settling =
                matches!(reason, "Connecting" | "Syncing") && self.known_since.elapsed() < SETTLING;
            Some(Rejection {
                reason: reason.to_owned(),
                message,
                retry_in: None,
                settling,
            })
        };
        match &**self.link.load() {
            Link::Down(problem) => because(problem.reason, problem.message.clone()),
            Link::Up(_) if self.lost().is_some() => because(
                "Unreachable",
                self.lost().map(|words| words.to_string()).unwrap_or_default(),
            ),
            Link::Up(connection) if !connection.missing_rights.is_empty() => {
                because("NotPermitted", missing(&connection.missing_rights))
            }
            Link::Up(_) if self.serves(subject) == Some(false) => {
                because("KindNotServed", not_served(subject))
            }
            Link::Up(connection) if !self.synced(subject, namespace) => {
                match self.forbidden(subject, namespace) {
                    Some(words) if connection.cluster_wide => because(
                        "NotPermitted",
                        format!(
                            "{words}; apply `portcullis manifests rbac-worker` there, with the --gang and --config of before"
                        ),
                    ),
                    Some(words) => because(
                        "NotPermitted",
                        format!(
                            "{words}; apply `portcullis manifests rbac-worker-namespaced --worker-namespace {namespace}` there"
                        ),
                    ),
                    None => because(
                        "Syncing",
                        format!("its {} are being listed", subject.resource().plural),
                    ),
                }
            }
            Link::Up(_) => None,
        }
    }

    /// Whether what is stored is of another cluster than this one; from now on it is of this one.
    fn is_another(&self, cluster_uid: &str) -> bool {
        let before = self.seen_of.swap(Some(Arc::new(cluster_uid.to_owned())));
        before.is_none_or(|before| *before != cluster_uid)
    }

    fn set_link(&self, link: Link) {
        self.link.store(Arc::new(link));
    }

    fn set_lost(&self, lost: Option<String>) -> bool {
        let changed = self.lost.load().as_deref() != lost.as_ref();
        self.lost.store(lost.map(Arc::new));
        changed
    }

    fn set_synced(&self, subject: Subject, namespace: &str) {
        let listing = (subject, Arc::from(namespace));
        self.forbidden
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&listing);
        self.synced
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(listing);
    }

    /// Why objects of this kind in this namespace may not be listed, if they may not.
    pub fn forbidden(&self, subject: Subject, namespace: &str) -> Option<String> {
        let forbidden = self.forbidden.lock().unwrap_or_else(PoisonError::into_inner);
        let everywhere = forbidden.get(&(subject, "".into()));
        everywhere
            .or_else(|| forbidden.get(&(subject, namespace.into())))
            .cloned()
    }

    /// The list is not followed any more.
    fn set_unsynced(&self, subject: Subject, namespace: &Arc<str>) {
        self.synced
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&(subject, namespace.clone()));
    }

    /// True if that is news.
    fn set_forbidden(&self, subject: Subject, namespace: &str, words: &str) -> bool {
        let mut forbidden = self.forbidden.lock().unwrap_or_else(PoisonError::into_inner);
        let listing = (subject, namespace.into());
        forbidden.insert(listing, words.to_owned()).is_none()
    }

    fn unsync(&self) {
        self.synced.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.forbidden
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}

/// The sentence for a kind that a worker does not serve.
pub fn not_served(subject: Subject) -> String {
    let names = subject.resource();
    format!(
        "it does not serve {}.{} in version {}; install that kind there",
        names.plural, names.group, names.version
    )
}

/// The sentence for missing rights.
pub fn missing(rights: &[String]) -> String {
    format!(
        "the ServiceAccount of the kubeconfig lacks: {}; apply `portcullis manifests rbac-worker` there, with the --gang and --config of before",
        rights.join(", ")
    )
}
