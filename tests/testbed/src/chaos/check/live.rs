//! What stands on the clusters now -> violations.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::Result;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use super::super::audit::REMOTE_UID;
use super::super::pods::{condition, images, message, phase, without_node};
use super::{Checker, Foreign, Kind, ORIGIN, Violation};
use crate::ledger::LOCAL_UID;

/// A local pod and the remote pods that name it, as they are.
struct Pair {
    local: Pod,
    remotes: Vec<(String, Pod)>,
}

impl Checker<'_> {
    pub(super) async fn not_running(&self) -> Result<Vec<Violation>> {
        let client = self.world.manager.admin_client().await?;
        let mut violations = Vec::new();
        for namespace in &self.namespaces {
            let mut say = |what: String, pod: Option<&Pod>| {
                let pod = pod.map(|pod| (namespace.clone(), pod.name_any()));
                violations.push(Violation {
                    kind: Kind::NotRunning,
                    what,
                    pod,
                });
            };
            for set in list::<Deployment>(&client, namespace).await? {
                let wanted = set.spec.replicas.unwrap_or(1);
                let status = set.status.clone().unwrap_or_default();
                let (ready, updated) = (
                    status.ready_replicas.unwrap_or(0),
                    status.updated_replicas.unwrap_or(0),
                );
                let all = status.replicas.unwrap_or(0);
                if (ready, updated, all) != (wanted, wanted, wanted) {
                    say(
                        format!(
                            "Deployment {namespace}/{}: {ready} ready, {updated} updated, {all} in all of {wanted}",
                            set.name_any()
                        ),
                        None,
                    );
                }
            }
            for set in list::<StatefulSet>(&client, namespace).await? {
                let wanted = set.spec.replicas.unwrap_or(1);
                let status = set.status.clone().unwrap_or_default();
                let ready = status.ready_replicas.unwrap_or(0);
                if (ready, status.replicas) != (wanted, wanted) {
                    say(
                        format!(
                            "StatefulSet {namespace}/{}: {ready} ready, {} in all of {wanted}",
                            set.name_any(),
                            status.replicas
                        ),
                        None,
                    );
                }
            }
            for pod in list::<Pod>(&client, namespace).await? {
                let phase = phase(&pod);
                let ready = condition(&pod, "Ready").is_some_and(|status| status == "True");
                if pod.metadata.deletion_timestamp.is_some()
                    || !(phase == "Succeeded" || phase == "Failed" || phase == "Running" && ready)
                {
                    let said = message(&pod);
                    say(
                        format!(
                            "Pod {namespace}/{} is {phase}, ready {ready}, deleted {:?}: {said}",
                            pod.name_any(),
                            pod.metadata.deletion_timestamp
                        ),
                        Some(&pod),
                    );
                }
            }
        }
        Ok(violations)
    }

    /// Pairs that disagree.
    pub(super) async fn untrue(&self) -> Result<Vec<Violation>> {
        let (pairs, alone) = self.pairs().await?;
        let mut violations = Vec::new();
        for (worker, remote) in alone {
            violations.push(Violation {
                kind: Kind::LeftOver,
                what: format!(
                    "{}/{} on {worker} has no local pod",
                    remote.namespace().unwrap_or_default(),
                    remote.name_any()
                ),
                pod: Some((remote.namespace().unwrap_or_default(), remote.name_any())),
            });
        }
        for Pair { local, remotes } in pairs {
            let at = (local.namespace().unwrap_or_default(), local.name_any());
            let mut say = |kind, what: String| {
                violations.push(Violation {
                    kind,
                    what: format!("{}/{} {what}", at.0, at.1),
                    pod: Some(at.clone()),
                });
            };
            let committed = local
                .annotations()
                .get(REMOTE_UID)
                .and_then(|commit| commit.split_once('/'))
                .map(|(_, uid)| uid.to_owned());
            for (worker, remote) in remotes {
                if remote.uid() != committed {
                    say(
                        Kind::StatusUntrue,
                        format!(
                            "says commit {committed:?}, and on {worker} stands {:?}",
                            remote.uid()
                        ),
                    );
                    continue;
                }
                if phase(&local) != phase(&remote) && local.metadata.deletion_timestamp.is_none() {
                    say(
                        Kind::StatusUntrue,
                        format!(
                            "is {}, its remote pod on {worker} is {}",
                            phase(&local),
                            phase(&remote)
                        ),
                    );
                }
                if images(&local) != images(&remote) {
                    say(
                        Kind::StaleCopy,
                        format!(
                            "has {:?}, its remote pod on {worker} has {:?}",
                            images(&local),
                            images(&remote)
                        ),
                    );
                }
            }
        }
        Ok(violations)
    }

    /// Local pods with their remote pods, and remote pods without a local one.
    async fn pairs(&self) -> Result<(Vec<Pair>, Vec<(String, Pod)>)> {
        let manager = self.world.manager.admin_client().await?;
        let mut pairs = BTreeMap::new();
        for namespace in &self.namespaces {
            for local in list::<Pod>(&manager, namespace).await? {
                pairs.insert(
                    local.uid().unwrap_or_default(),
                    Pair {
                        local,
                        remotes: Vec::new(),
                    },
                );
            }
        }
        let mut alone = Vec::new();
        for (worker, remote) in self.remotes().await? {
            let local = remote.annotations().get(LOCAL_UID).cloned().unwrap_or_default();
            match pairs.get_mut(&local) {
                Some(pair) => pair.remotes.push((worker, remote)),
                None => alone.push((worker, remote)),
            }
        }
        Ok((pairs.into_values().collect(), alone))
    }

    pub(super) async fn remotes(&self) -> Result<Vec<(String, Pod)>> {
        let mut remotes = Vec::new();
        for worker in &self.world.workers {
            let client = worker.cluster.admin_client().await?;
            for namespace in &self.namespaces {
                let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
                let ours = pods.list(&ListParams::default().labels(ORIGIN)).await?;
                remotes.extend(
                    ours.into_iter()
                        .map(|pod| (worker.cluster.name().to_owned(), pod)),
                );
            }
        }
        Ok(remotes)
    }

    pub(super) async fn foreign_touched(&self) -> Result<Vec<Violation>> {
        let mut violations = Vec::new();
        for Foreign { worker, pod } in &self.foreign {
            let Some(worker) = self.world.workers.get(*worker) else {
                continue;
            };
            let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
            let pods: Api<Pod> = Api::namespaced(worker.cluster.admin_client().await?, &namespace);
            let found = pods.get_opt(&name).await?;
            let same = found.as_ref().is_some_and(|found| {
                found.uid() == pod.uid()
                    && found.metadata.deletion_timestamp.is_none()
                    && without_node(found) == without_node(pod)
                    && found.labels() == pod.labels()
                    && found.annotations() == pod.annotations()
            });
            if !same {
                let what = format!(
                    "{namespace}/{name} on {}: was {:?}, is {:?}",
                    worker.cluster.name(),
                    pod.uid(),
                    found.and_then(|found| found.uid())
                );
                violations.push(Violation {
                    kind: Kind::ForeignTouched,
                    what,
                    pod: Some((namespace, name)),
                });
            }
        }
        Ok(violations)
    }
}

pub(super) async fn list<K>(client: &Client, namespace: &str) -> Result<Vec<K>>
where
    K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + fmt::Debug
        + serde::de::DeserializeOwned,
{
    Ok(Api::<K>::namespaced(client.clone(), namespace)
        .list(&ListParams::default())
        .await?
        .items)
}
