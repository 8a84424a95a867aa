//! The manager's namespaces as the watch shows them: their labels of ours, in memory, without a lock for readers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use tokio::sync::Notify;

use crate::admission::AllowExempt;
use crate::names;

/// The labels of a namespace that matter to us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptIn {
    /// Value of the label `dispatch`: the DispatchPolicy's name.
    pub dispatch: Option<Arc<str>>,
    /// What `allow-exempt` says.
    pub allow_exempt: AllowExempt,
    /// Value of the label `gang`: the back end of its PodGroups, or `auto`.
    pub gang: Option<Arc<str>>,
}

/// Namespaces that carry one of our labels.
#[derive(Default)]
pub struct Namespaces {
    labels: ArcSwap<BTreeMap<Arc<str>, OptIn>>,
    /// Told when the label `gang` of a namespace changed, and when all are known.
    pub gangs_changed: Notify,
    listed: AtomicBool,
}

impl Namespaces {
    /// What the namespace says; none: nothing, or it is not known yet.
    pub fn get(&self, name: &str) -> Option<OptIn> {
        self.labels.load().get(name).cloned()
    }

    /// Whether single objects of the namespace may be exempted; none: nothing is known of it. Neither waits nor allocates.
    pub fn allow_exempt(&self, name: &str) -> Option<AllowExempt> {
        self.labels
            .load()
            .get(name)
            .map(|opt_in| opt_in.allow_exempt.clone())
    }

    /// Its label `gang`; none: it has none, or nothing is known of it.
    pub fn gang(&self, name: &str) -> Option<Arc<str>> {
        self.labels
            .load()
            .get(name)
            .and_then(|opt_in| opt_in.gang.clone())
    }

    /// Names of the namespaces with a label `gang`.
    pub fn ganged(&self) -> Vec<Arc<str>> {
        let labels = self.labels.load();
        labels
            .iter()
            .filter(|(_, opt_in)| opt_in.gang.is_some())
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Names of the namespaces that are opted in to dispatch.
    pub fn opted_in(&self) -> Vec<Arc<str>> {
        let labels = self.labels.load();
        labels
            .iter()
            .filter(|(_, opt_in)| opt_in.dispatch.is_some())
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Names of the namespaces that carry one of our labels.
    pub fn labelled(&self) -> Vec<Arc<str>> {
        self.labels.load().keys().cloned().collect()
    }

    /// The watch delivered this namespace. True if its labels of ours changed.
    pub fn watched(&self, namespace: &PartialObjectMeta<Namespace>) -> bool {
        let name = namespace.metadata.name.as_deref().unwrap_or_default();
        self.set(name, opt_in(namespace))
    }

    /// The watch delivered all there are.
    pub fn all_watched(&self) {
        if !self.listed.swap(true, Ordering::AcqRel) {
            self.gangs_changed.notify_one();
        }
    }

    /// Whether all are known, so that a namespace without labels means something.
    pub fn are_listed(&self) -> bool {
        self.listed.load(Ordering::Acquire)
    }

    /// The watch delivered its end. True if it was opted in.
    pub fn removed(&self, name: &str) -> bool {
        self.set(name, OptIn::default())
    }

    fn set(&self, name: &str, opt_in: OptIn) -> bool {
        let current = self.labels.load();
        let held = current.get(name);
        if held.unwrap_or(&OptIn::default()) == &opt_in {
            return false;
        }
        let gang_differs = held.and_then(|held| held.gang.as_ref()) != opt_in.gang.as_ref();
        let mut next = BTreeMap::clone(&current);
        if opt_in == OptIn::default() {
            next.remove(name);
        } else {
            next.insert(name.into(), opt_in);
        }
        self.labels.store(Arc::new(next));
        if gang_differs {
            self.gangs_changed.notify_one();
        }
        true
    }
}

fn opt_in(namespace: &PartialObjectMeta<Namespace>) -> OptIn {
    let labels = namespace.metadata.labels.as_ref();
    let get = |key: &str| labels.and_then(|labels| labels.get(key)).map(String::as_str);
    OptIn {
        dispatch: get(names::DISPATCH).map(Into::into),
        allow_exempt: AllowExempt::of(get(names::ALLOW_EXEMPT)),
        gang: get(names::GANG).map(Into::into),
    }
}
