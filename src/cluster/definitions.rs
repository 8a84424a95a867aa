//! Which CRDs come, change and go on a cluster.

use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::watch::{Watched, Watching, follow};

/// Tells of every change of a CRD of these groups on the manager, until `stop`.
pub async fn definitions(
    client: Client,
    groups: Vec<&'static str>,
    changed: Arc<Notify>,
    stop: CancellationToken,
) {
    let api = Api::<PartialObjectMeta<CustomResourceDefinition>>::all(client);
    follow(
        Watching::on_manager("customresourcedefinitions"),
        api,
        watcher::Config::default(),
        stop,
        move |watched| match watched {
            Watched::Event(Event::Apply(definition) | Event::Delete(definition)) => {
                let name = definition.name_any();
                if groups.iter().any(|group| name.ends_with(&format!(".{group}"))) {
                    changed.notify_one();
                }
            }
            Watched::Event(Event::InitDone) => changed.notify_one(),
            Watched::Event(Event::Init | Event::InitApply(_)) | Watched::Failed(_) => {}
        },
    )
    .await;
}
