//! Gangs of whole jobs on their workers, as pairs see them: what a worker's gang scheduler speaks against, what a copy is
//! born with, and whether its PodGroup stands.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::Notify;

use super::key::{PairKey, Subject};
use super::local::LocalObject;
use super::manner::json;
use super::observed::{GangSeen, GangsThere};
use super::remote::RemoteObject;
use crate::cluster::fleet::{GangSetting, Member};
use crate::cluster::worker::Worker;
use crate::gang::birth::{Maker, NO_NATIVE, asks, keeps_group, left_behind};
use crate::gang::{BackEnd, Family, GangSettings, NativeVersion, marked};
use crate::placement::Rejection;
use crate::reconcile::gang::answers::Answer;
use crate::reconcile::gang::cluster::GangCluster;
use crate::reconcile::gang::pod_policy::PodPolicy;
use crate::reconcile::gang::scope::apis_of;
use crate::reconcile::gang::store::{JobKey, Seen};
use crate::workload::jobs::{GangKind, gang_kind};

/// For so long a worker whose gang scheduler is not known yet keeps its place in the order of a policy.
const SETTLING: Duration = Duration::from_secs(3);

/// The workers with a gang scheduler.
#[derive(Default)]
pub struct Gangs {
    settings: OnceLock<GangSettings>,
    clusters: RwLock<BTreeMap<Arc<str>, Arc<GangCluster>>>,
    /// Told when a worker, its connection or its gang scheduler changed.
    pub changed: Notify,
}

impl Gangs {
    /// How PodGroups are made; said once, before anything is looked at.
    pub fn configure(&self, settings: GangSettings) {
        let _is_first = self.settings.set(settings);
    }

    /// Gangs are made there from now on. What is there already is looked at.
    pub fn begin(&self, worker: &Worker, cluster: Arc<GangCluster>) {
        self.write().insert(worker.name.clone(), cluster);
        self.relist(worker);
    }

    /// And no longer.
    pub fn end(&self, worker: &str) {
        self.write().remove(worker);
    }

    /// What is there under this key has changed.
    pub fn changed(&self, worker: &Worker, key: &PairKey) {
        if let Some(cluster) = self.of(&worker.name) {
            look(worker, &cluster, key);
        }
    }

    /// Anything there may have changed.
    pub fn relist(&self, worker: &Worker) {
        let Some(cluster) = self.of(&worker.name) else {
            return;
        };
        for key in worker.store.keys() {
            look(worker, &cluster, &key);
        }
        for job in cluster.store.jobs(|_, _| true) {
            let kind = gang_kind(&job.resource.api_version(), job.resource.kind);
            if let Some(kind) = kind {
                look(worker, &cluster, &pair(&job, kind));
            }
        }
    }

    /// Whether the job asks for a gang, wherever it runs.
    pub(super) fn asks(&self, local: &LocalObject) -> bool {
        kind_of(local.key.subject).is_some_and(|kind| asks(kind, &json(&local.json), self.settings()))
    }

    /// The gang scheduler of a worker.
    pub(super) fn there(&self, member: &Member) -> GangsThere {
        let Some(setting) = &member.gang else {
            return GangsThere::None;
        };
        match self.of(&member.worker.name) {
            Some(cluster) if cluster.is_asked() => {
                maker(&cluster, setting).map_or(GangsThere::NotServed, GangsThere::Made)
            }
            Some(_) | None => GangsThere::NotKnown,
        }
    }

    /// Why a job that asks for a gang cannot go there.
    pub(super) fn rejection(&self, member: &Member, subject: Subject) -> Option<Rejection> {
        let setting = member.gang.as_ref()?;
        let because = |reason: &str, message: String, settling: bool| {
            Some(Rejection {
                reason: reason.to_owned(),
                message,
                retry_in: None,
                settling,
            })
        };
        let names: Vec<String> = apis_of(setting.family)
            .iter()
            .map(|api| format!("{}.{}", api.plural, api.group))
            .collect();
        let names = names.join(" and ");
        let connection = member.worker.connection()?; // without one, that is the reason
        if !connection.cluster_wide {
            let words = format!(
                "its gangs need the role for all namespaces; apply `portcullis manifests rbac-worker --gang {}` there, or take spec.gang off its WorkerCluster",
                setting.family
            );
            return because("GangUnsupported", words, false);
        }
        let asking = |settling| {
            because(
                "Syncing",
                format!("it is asked whether it serves {names}"),
                settling,
            )
        };
        let Some(cluster) = self.of(&member.worker.name) else {
            return asking(true);
        };
        let settling = cluster.since().elapsed() < SETTLING;
        if !cluster.is_asked() {
            return asking(settling);
        }
        let lacks = cluster.lacks();
        if !lacks.is_empty() {
            let words = format!(
                "the ServiceAccount of the kubeconfig lacks: {}; apply `portcullis manifests rbac-worker --gang {}` there",
                lacks.join(", "),
                setting.family
            );
            return because("NotPermitted", words, false);
        }
        if cluster.served().back_end(setting.family).is_none() {
            let words = format!(
                "it does not serve {names}, or its pods cannot be in them, for which spec.gang of its WorkerCluster asks; install that gang scheduler there, or correct the field"
            );
            return because("GangUnsupported", words, false);
        }
        if cluster.served().back_end(setting.family) == Some(BackEnd::Native(NativeVersion::V1alpha1)) {
            return because("GangUnsupported", NO_NATIVE.to_owned(), false);
        }
        if let Some(words) = kind_of(subject).and_then(|kind| no_group(&cluster, setting.family, kind)) {
            return because("GangUnsupported", words, false);
        }
        if !cluster.is_listed() {
            return because("Syncing", format!("its {names} are being listed"), settling);
        }
        None
    }

    /// What the copy of a job waits for.
    pub(super) fn of_copy(&self, member: &Member, key: &PairKey, remote: Option<&RemoteObject>) -> GangSeen {
        let held = remote.filter(|remote| remote.gate.is_some());
        let (Some(remote), Some(kind)) = (held, kind_of(key.subject)) else {
            return GangSeen::NotAsked;
        };
        let Some(seen) = seen(kind, remote).filter(|seen| marked(kind, &seen.object).is_some()) else {
            return GangSeen::NotAsked;
        };
        let worker = &member.worker.name;
        if let Some(was) = self.left_behind(member, kind, &seen) {
            return GangSeen::Awaited(Some(format!(
                "spec.gang of WorkerCluster {worker} changed since this copy was made for {was}, so nobody makes its PodGroup; set it back, or delete the job"
            )));
        }
        if member.gang.is_none() {
            return GangSeen::NotAsked;
        }
        let Some(cluster) = self.of(worker) else {
            return GangSeen::Awaited(None);
        };
        let job = job(key, kind);
        cluster.copy_seen(job.clone(), seen);
        let family = member.gang.as_ref().map(|setting| setting.family);
        if let Some(words) = family.and_then(|family| no_group(&cluster, family, kind)) {
            return GangSeen::Awaited(Some(words)); // its pods would be born without a group, for good
        }
        match cluster.answer(&job, &remote.uid) {
            Some(Answer::Stands) => GangSeen::Stands,
            Some(Answer::Awaited(words)) => GangSeen::Awaited(words),
            None => GangSeen::Awaited(None),
        }
    }

    /// What this copy was made for, if its worker has another gang scheduler by now, or none.
    fn left_behind(&self, member: &Member, kind: &dyn GangKind, copy: &Seen) -> Option<String> {
        let settings = self.settings();
        let now = member.gang.as_ref().map(|setting| {
            let scheduler = settings.scheduler(setting.family); // none: its pods keep theirs
            let own = setting.scheduler_name.as_deref();
            (setting.family, scheduler.map(|usual| own.unwrap_or(usual)))
        });
        left_behind(kind, &copy.object, now)
    }

    fn settings(&self) -> &GangSettings {
        self.settings.get_or_init(GangSettings::default)
    }

    fn of(&self, worker: &str) -> Option<Arc<GangCluster>> {
        let clusters = self.clusters.read().unwrap_or_else(PoisonError::into_inner);
        clusters.get(worker).cloned()
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, BTreeMap<Arc<str>, Arc<GangCluster>>> {
        self.clusters.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The key of the pair that this copy is part of.
pub fn pair(job: &JobKey, kind: &'static dyn GangKind) -> PairKey {
    PairKey {
        subject: Subject::Job(kind),
        namespace: job.namespace.clone(),
        name: job.name.clone(),
    }
}

/// Its facts are not known before it has said what it serves.
fn maker(cluster: &GangCluster, setting: &GangSetting) -> Option<Arc<Maker>> {
    let back_end = cluster.served().back_end(setting.family)?;
    Some(Arc::new(Maker {
        back_end,
        facts: cluster.facts(),
    }))
}

/// Why pods of this kind would be born without their native group there.
fn no_group(cluster: &GangCluster, family: Family, kind: &dyn GangKind) -> Option<String> {
    match &*cluster.pod_policy() {
        PodPolicy::Wanting(words) if family == Family::Native && !keeps_group(kind) => Some(words.clone()),
        PodPolicy::Wanting(_) | PodPolicy::Works | PodPolicy::NotLookedAt => None,
    }
}

fn look(worker: &Worker, cluster: &GangCluster, key: &PairKey) {
    let Some(kind) = kind_of(key.subject) else {
        return;
    };
    let there = worker.store.get(key).and_then(|remote| seen(kind, &remote));
    match there.filter(|seen| marked(kind, &seen.object).is_some()) {
        Some(seen) => cluster.copy_seen(job(key, kind), seen),
        None => cluster.copy_gone(&job(key, kind)),
    }
}

fn kind_of(subject: Subject) -> Option<&'static dyn GangKind> {
    match subject {
        Subject::Pod => None,
        Subject::Job(kind) => gang_kind(&kind.resource().api_version(), kind.resource().kind),
    }
}

fn job(key: &PairKey, kind: &dyn GangKind) -> JobKey {
    JobKey {
        resource: kind.resource(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
    }
}

fn seen(kind: &dyn GangKind, remote: &RemoteObject) -> Option<Seen> {
    let names = kind.resource();
    Seen::listed(json(&remote.json), &names.api_version(), names.kind)
}
