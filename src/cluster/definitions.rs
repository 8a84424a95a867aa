//! The CRDs of a cluster that matter to us, followed by their metadata alone: one watch for all who ask.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::watch::{Watched, Watching, follow};

/// The CRDs, by name. A change is told also where only the status of one changed: that is when it is served.
pub type Definitions = watch::Receiver<Arc<BTreeMap<String, Generation>>>;

/// Which generation of a definition is stored; another one may have other schemas.
pub type Generation = i64;

/// Follows the definitions of these groups until `stop`: the receiver, and what has to run meanwhile.
pub fn definitions(
    client: Client,
    groups: BTreeSet<&'static str>,
    stop: CancellationToken,
) -> (Definitions, impl Future<Output = ()>) {
    let (publish, definitions) = watch::channel(Arc::default());
    let api = Api::<PartialObjectMeta<CustomResourceDefinition>>::all(client);
    let mut known: BTreeMap<String, Generation> = BTreeMap::new();
    let is_ours = move |name: &str| {
        name.split_once('.')
            .is_some_and(|(_, group)| groups.contains(group))
    };
    let following = follow(
        Watching::on_manager("customresourcedefinitions"),
        api,
        watcher::Config::default(),
        stop,
        move |watched| {
            let changed = match watched {
                Watched::Event(Event::Init) => {
                    known.clear();
                    false
                }
                Watched::Event(Event::InitApply(definition)) => {
                    take(&mut known, &definition, &is_ours);
                    false
                }
                Watched::Event(Event::InitDone) => true,
                Watched::Event(Event::Apply(definition)) => take(&mut known, &definition, &is_ours),
                Watched::Event(Event::Delete(definition)) => known.remove(&definition.name_any()).is_some(),
                Watched::Failed(_) => false,
            };
            if changed {
                publish.send_replace(Arc::new(known.clone()));
            }
        },
    );
    (definitions, following)
}

fn take(
    known: &mut BTreeMap<String, Generation>,
    definition: &PartialObjectMeta<CustomResourceDefinition>,
    is_ours: &impl Fn(&str) -> bool,
) -> bool {
    let name = definition.name_any();
    let is_ours = is_ours(&name);
    if is_ours {
        known.insert(name, definition.metadata.generation.unwrap_or_default());
    }
    is_ours
}
