//! The manager's watches of whole jobs: one for each kind that it serves; they come and go with the kind's CRD.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use kube::runtime::watcher;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::manager::objects_sink;
use super::pair::local::Subject;
use super::pair::world::World;
use crate::cluster::client::Clients;
use crate::cluster::definitions::Definitions;
use crate::cluster::discovery::Served;
use crate::cluster::raw::RawObject;
use crate::cluster::watch::{Watching, follow};
use crate::workload::jobs::JobKinds;

/// After a change of a CRD the API server needs a moment to serve it, and changes come in flocks.
const SETTLE: Duration = Duration::from_millis(300);
/// What is built in changes only when the API server is started anew; nobody tells.
const ASK_AGAIN: Duration = Duration::from_secs(600);
const ASK_AFTER_FAILURE: Duration = Duration::from_secs(2);

/// Keeps the watches until `stop`.
pub async fn keep(
    clients: Clients,
    world: Arc<World>,
    mut definitions: Definitions,
    stop: CancellationToken,
) {
    let groups = groups(world.kinds);
    let mut tasks = JoinSet::new();
    let mut running: BTreeMap<Subject, CancellationToken> = BTreeMap::new();
    let mut known = definitions.borrow().clone();
    while !stop.is_cancelled() {
        let pause = match Served::ask(clients.calls.client(), &groups).await {
            Ok(served) => {
                let wanted = served_of(world.kinds, &served);
                running.retain(|subject, token| {
                    let stays = wanted.contains(subject);
                    if !stays {
                        token.cancel();
                    }
                    stays
                });
                world.serve(&wanted);
                for subject in wanted {
                    running.entry(subject).or_insert_with(|| {
                        let token = stop.child_token();
                        tasks.spawn(watch(&clients, subject, world.clone(), token.clone()));
                        token
                    });
                }
                ASK_AGAIN
            }
            Err(error) => {
                tracing::warn!(
                    words = error.words(),
                    "the manager does not say which kinds of jobs it serves; it is asked again"
                );
                ASK_AFTER_FAILURE
            }
        };
        tokio::select! {
            () = stop.cancelled() => break,
            Ok(()) = definitions.changed() => {
                tokio::time::sleep(SETTLE).await;
                let now = definitions.borrow_and_update().clone();
                let is_new = |name: &str| known.get(name) != now.get(name);
                for key in world.memories.forget_statuses(|subject| is_new(&subject.argument())) {
                    world.queue.add(key);
                }
                known = now;
            }
            () = tokio::time::sleep(pause) => {}
        }
    }
    while tasks.join_next().await.is_some() {}
}

fn watch(
    clients: &Clients,
    subject: Subject,
    world: Arc<World>,
    stop: CancellationToken,
) -> impl Future<Output = ()> + Send + use<> {
    let api: Api<RawObject> = Api::all_with(clients.watches.clone(), &subject.api_resource());
    let listed = {
        let world = world.clone();
        move || world.listed(subject)
    };
    follow(
        Watching::on_manager(subject.resource().plural),
        api,
        watcher::Config::default(),
        stop,
        objects_sink(subject, world, listed),
    )
}

/// Their API groups, each once.
pub fn groups(kinds: JobKinds) -> Vec<&'static str> {
    let groups: BTreeSet<&str> = kinds.iter().map(|kind| kind.resource().group).collect();
    groups.into_iter().collect()
}

/// Those that a cluster serves. Of one that is served in several versions only the first counts: the objects are the same.
pub fn served_of(kinds: JobKinds, served: &Served) -> BTreeSet<Subject> {
    let mut seen = BTreeSet::new();
    kinds
        .iter()
        .filter(|kind| {
            let names = kind.resource();
            served.has(names.group, names.version, names.plural) && seen.insert((names.group, names.plural))
        })
        .map(Subject::Job)
        .collect()
}
