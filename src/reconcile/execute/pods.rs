//! What the pods of a copy wait for: asked, never watched, and never a reason for a turn to fail.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{Done, Executor, Failure, Way};
use crate::cluster::api::{CallError, ClusterApi};
use crate::cluster::worker::line::Stand;
use crate::job::owners::Owners;
use crate::job::pods::{self, Pending, PodsSeen};
use crate::reconcile::pair::local::Subject;
use crate::reconcile::step::RemoteTarget;
use crate::workload::jobs::JobKinds;

/// Lists of owners are read up to here.
const MOST_OWNERS: usize = 500;

impl Executor {
    pub(super) async fn ask_pods(
        &self,
        target: &RemoteTarget,
        selector: Option<&str>,
    ) -> Result<Done, Failure> {
        let Way {
            connection, _place, ..
        } = match self.worker(&target.worker, &target.key, Stand::Last) {
            Ok(way) => way,
            Err(Failure::Busy) => return Err(Failure::Busy),
            Err(_) => return Ok(Done::Pods(None)),
        };
        match read(&connection.clients.calls, self.kinds, target, selector).await {
            Ok(seen) => Ok(Done::Pods(Some(seen))),
            Err(error) => {
                tracing::debug!(worker = %target.worker, kind = target.key.subject.noun(), object = %target.key, error = error.words(), "its pods cannot be listed");
                Ok(Done::Pods(None))
            }
        }
    }
}

async fn read(
    api: &ClusterApi,
    kinds: JobKinds,
    target: &RemoteTarget,
    selector: Option<&str>,
) -> Result<PodsSeen, CallError> {
    let namespace = &target.key.namespace;
    let list = api.get(&pods::path(namespace, selector)).await?;
    let pending = Pending::parse(list.json()).map_err(CallError::Unreadable)?;
    if selector.is_some() {
        return Ok(pending.seen(Timestamp::now()));
    }
    let mut owners = pending.owners();
    read_owners(api, kinds, target, &mut owners).await;
    Ok(pending.below(&target.uid, &owners).seen(Timestamp::now()))
}

/// What stands between pods and copy, so far as it is of kinds that we may read.
async fn read_owners(api: &ClusterApi, kinds: JobKinds, target: &RemoteTarget, owners: &mut Owners) {
    let mut asked = BTreeSet::new();
    loop {
        let unknown = owners.unknown(&target.uid).into_iter();
        let new: Vec<_> = unknown
            .filter_map(|(api_version, kind)| kinds.named(&api_version, &kind))
            .filter(|kind| asked.insert(kind.resource()))
            .collect();
        if new.is_empty() {
            return;
        }
        for kind in new {
            let collection = Subject::Job(kind).collection(&target.key.namespace);
            let list = api.get(&format!("{collection}?limit={MOST_OWNERS}")).await;
            if let Ok(list) = list {
                let _ = pods::add_owners(owners, list.json()); // its pods are left out
            }
        }
    }
}
