//! A [`GangCluster`] for each connection of a worker whose WorkerCluster names a gang scheduler.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::cluster::GangCluster;
use super::metrics::GangMetrics;
use super::scope::{Copies, Pairs, Scope};
use super::store::JobKey;
use crate::cluster::fleet::{GangSetting, Member};
use crate::cluster::leading::Leading;
use crate::cluster::worker::Connection;
use crate::config::Configuration;
use crate::gang::Family;
use crate::reconcile::events::Notes;
use crate::reconcile::pair::gangs::pair;
use crate::reconcile::pair::world::World;
use crate::workload::jobs::gang_kind;

/// Who changes something tells; this is for what was missed.
const BEAT: Duration = Duration::from_secs(5);

/// What all of them share.
pub struct Parts {
    /// What the process knows.
    pub world: Arc<World>,
    /// The configuration; the name of the scheduler may differ from worker to worker.
    pub configuration: Configuration,
    /// Our own namespace.
    pub own_namespace: String,
    /// Where people hear of it: on the manager.
    pub notes: Notes,
    /// What is counted.
    pub metrics: Arc<GangMetrics>,
    /// Turns at a time, on each worker.
    pub concurrency: usize,
}

struct Running {
    connection: Arc<Connection>,
    setting: GangSetting,
    stop: CancellationToken,
}

/// Keeps them until `stop`.
pub async fn keep(parts: Parts, stop: CancellationToken) {
    let mut running: BTreeMap<Arc<str>, Running> = BTreeMap::new();
    let mut tasks = JoinSet::new();
    while !stop.is_cancelled() {
        converge(&parts, &mut running, &mut tasks, &stop);
        tokio::select! {
            () = stop.cancelled() => {}
            () = parts.world.gangs.changed.notified() => {}
            Some(_ended) = tasks.join_next() => {}
            () = tokio::time::sleep(BEAT) => {}
        }
    }
    while tasks.join_next().await.is_some() {}
}

fn converge(
    parts: &Parts,
    running: &mut BTreeMap<Arc<str>, Running>,
    tasks: &mut JoinSet<()>,
    stop: &CancellationToken,
) {
    let wanted: BTreeMap<Arc<str>, (Member, Arc<Connection>, GangSetting)> = parts
        .world
        .fleet
        .all()
        .into_iter()
        .filter_map(|member| {
            let connection = member.worker.connection()?;
            let setting = member.gang.clone()?;
            // Its watches are those of all namespaces.
            connection.cluster_wide.then_some(())?;
            Some((member.worker.name.clone(), (member, connection, setting)))
        })
        .collect();
    running.retain(|name, held| {
        let stays = wanted.get(name).is_some_and(|(_, connection, setting)| {
            Arc::ptr_eq(connection, &held.connection) && *setting == held.setting
        });
        if !stays {
            parts.world.gangs.end(name);
            held.stop.cancel();
        }
        stays
    });
    for (name, (member, connection, setting)) in wanted {
        if running.contains_key(&name) {
            continue;
        }
        let cluster = Arc::new(cluster(parts, &name, &connection, &setting));
        let token = stop.child_token();
        tasks.spawn(super::run(
            cluster.clone(),
            parts.notes.clone(),
            parts.metrics.clone(),
            parts.concurrency,
            Leading::alone(),
            token.clone(),
        ));
        parts.world.gangs.begin(&member.worker, cluster);
        let held = Running {
            connection,
            setting,
            stop: token,
        };
        running.insert(name, held);
    }
}

fn cluster(parts: &Parts, name: &Arc<str>, connection: &Connection, setting: &GangSetting) -> GangCluster {
    let mut configuration = parts.configuration.clone();
    if let Some(scheduler) = &setting.scheduler_name {
        match setting.family {
            Family::Coscheduling => configuration.gang.coscheduling_scheduler.clone_from(scheduler),
            Family::Volcano => configuration.gang.volcano_scheduler.clone_from(scheduler),
            Family::Native => {}
        }
    }
    let (_, nobody_tells) = watch::channel(Arc::default());
    GangCluster::new(
        connection.clients.clone(),
        Scope::Copies(Copies {
            worker: name.clone(),
            family: setting.family,
            pairs: Arc::new(OfWorld {
                world: parts.world.clone(),
                worker: name.clone(),
            }),
        }),
        configuration,
        parts.own_namespace.clone(),
        nobody_tells,
    )
}

/// The pairs of the world with a copy on this worker.
struct OfWorld {
    world: Arc<World>,
    worker: Arc<str>,
}

impl Pairs for OfWorld {
    fn is_committed(&self, job: &JobKey, copy: &str) -> bool {
        let Some(kind) = gang_kind(&job.resource.api_version(), job.resource.kind) else {
            return false;
        };
        let local = self.world.locals.get(&pair(job, kind));
        local.is_some_and(|local| {
            let is_this = |committed: &crate::reconcile::pair::local::Committed| {
                *committed.cluster() == self.worker && **committed.remote_uid() == *copy
            };
            local.committed().is_some_and(is_this)
        })
    }

    fn look_at(&self, job: &JobKey) {
        if let Some(kind) = gang_kind(&job.resource.api_version(), job.resource.kind) {
            self.world.queue.add(pair(job, kind));
        }
    }

    fn changed(&self) {
        self.world.look_at_all();
    }
}
