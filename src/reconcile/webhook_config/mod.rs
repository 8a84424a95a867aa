//! Keeps the three installed layers as they were rendered, and the CA bundle in the webhooks current.
//!
//! Each object is watched by its name. Drift is undone at once; who fights with us is answered ever more slowly. A
//! deleted object is reported and not made again: we have no right to.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::runtime::events::{Event as News, EventType, Recorder, Reporter};
use kube::runtime::watcher::{self, Event};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::admission::policies::{Layer, LayerKind, Rendered};
use crate::cluster::watch::{Watched, Watching, follow};
use crate::names::PORTCULLIS;
use crate::words::chain;

mod pace;
pub mod plan;
mod report;

use pace::Pace;
use plan::{content, differs_in_bundle_only, plan};
pub use report::{ConfigReport, ConfigState, missing};

/// How long one call may take.
const CALL: Duration = Duration::from_secs(10);

/// Watches all objects of `desired` until `shutdown`. `ca_bundle` is PEM; empty means that there is none yet.
/// `client` must be one for watches, without a read timeout; the calls made here have their own.
///
/// `report` is called at every change of state, and once for each object as soon as it was looked for.
pub async fn keep(
    client: kube::Client,
    desired: Rendered,
    ca_bundle: watch::Receiver<Vec<u8>>,
    report: impl Fn(ConfigReport) + Send + Sync + 'static,
    shutdown: CancellationToken,
) {
    let report: Report = Arc::new(report);
    let reporter = Reporter {
        controller: PORTCULLIS.to_owned(),
        instance: None,
    };
    let recorder = Recorder::new(client.clone(), reporter);
    let keepers = desired.into_iter().map(|layer| {
        let resource = resource(layer.kind);
        let keeper = Keeper {
            api: Api::all_with(client.clone(), &resource),
            layer,
            recorder: recorder.clone(),
            report: report.clone(),
            seen: Seen::NotYet,
            listed: None,
            blind: false,
            accepted: None,
            told: None,
            pace: Pace::default(),
        };
        keeper.run(ca_bundle.clone(), shutdown.clone())
    });
    join_all(keepers).await;
}

type Report = Arc<dyn Fn(ConfigReport) + Send + Sync>;

fn resource(kind: LayerKind) -> ApiResource {
    let kind_of = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind.kind());
    ApiResource::from_gvk_with_plural(&kind_of, kind.resource())
}

/// One object and what is known of it.
struct Keeper {
    layer: Layer,
    api: Api<DynamicObject>,
    recorder: Recorder,
    report: Report,
    seen: Seen,
    /// What a list has shown so far; counts when the list is complete.
    listed: Option<Value>,
    /// The watch did not start: what was seen may be old, and the object is read.
    blind: bool,
    /// What the API server made of our write, if it is not what we wrote.
    accepted: Option<Value>,
    told: Option<ConfigState>,
    pace: Pace,
}

/// The object as the watch showed it last, or as the last call answered.
enum Seen {
    /// Not looked for yet.
    NotYet,
    /// It is not there.
    Absent,
    /// It is there.
    Present(Value),
}

impl Seen {
    fn of(object: Option<Value>) -> Self {
        object.map_or(Self::Absent, Self::Present)
    }
}

/// What to do after a look.
enum Next {
    /// Wait for news.
    Rest,
    /// Look again then.
    At(Instant),
}

impl Keeper {
    async fn run(self, ca_bundle: watch::Receiver<Vec<u8>>, shutdown: CancellationToken) {
        let (sender, news) = mpsc::unbounded_channel();
        let only = watcher::Config::default().fields(&format!("metadata.name={}", self.layer.name));
        let what = Watching::on_manager(&format!("{}/{}", self.layer.kind.resource(), self.layer.name));
        let watch = follow(what, self.api.clone(), only, shutdown.clone(), move |watched| {
            let _ = sender.send(watched); // who no longer listens is at the end, too
        });
        tokio::join!(watch, self.react(news, ca_bundle, shutdown));
    }

    /// Looks at the object whenever it, the bundle or the time says so.
    async fn react(
        mut self,
        mut news: mpsc::UnboundedReceiver<Watched<DynamicObject>>,
        mut ca_bundle: watch::Receiver<Vec<u8>>,
        shutdown: CancellationToken,
    ) {
        let mut next = Next::Rest;
        let mut bundle_is_final = false;
        loop {
            let alarm = match next {
                Next::Rest => None,
                Next::At(time) => Some(time),
            };
            tokio::select! {
                () = shutdown.cancelled() => return,
                watched = news.recv() => match watched {
                    Some(watched) => if !self.take(watched).await { continue },
                    None => return,
                },
                changed = ca_bundle.changed(), if !bundle_is_final => bundle_is_final = changed.is_err(),
                () = tokio::time::sleep_until(alarm.unwrap_or_else(Instant::now)), if alarm.is_some() => {}
            }
            let bundle = ca_bundle.borrow_and_update().clone();
            next = tokio::select! {
                () = shutdown.cancelled() => return,
                next = self.look(&bundle) => next,
            };
        }
    }

    /// Takes in what the watch says; false if there is nothing to decide yet.
    async fn take(&mut self, watched: Watched<DynamicObject>) -> bool {
        match watched {
            Watched::Event(Event::Init) => self.listed = None,
            Watched::Event(Event::InitApply(object)) => self.listed = Some(value(&object)),
            Watched::Event(Event::InitDone) => {
                self.seen = Seen::of(self.listed.take());
                return true;
            }
            Watched::Event(Event::Apply(object)) => {
                self.seen = Seen::Present(value(&object));
                return true;
            }
            Watched::Event(Event::Delete(_)) => {
                self.seen = Seen::Absent;
                return true;
            }
            // An open watch that breaks goes on from where it was; only one that cannot start leaves us blind.
            Watched::Failed(watcher::Error::WatchFailed(_) | watcher::Error::WatchError(_)) => {}
            Watched::Failed(error) => {
                self.tell(ConfigState::Failed(format!("watch: {}", chain(&error))))
                    .await;
                self.blind = true;
                return true;
            }
        }
        false
    }

    /// Compares, and undoes what differs.
    async fn look(&mut self, ca_bundle: &[u8]) -> Next {
        if self.blind {
            if let Some(time) = self.pace.wait(Instant::now()) {
                return Next::At(time);
            }
            match self.read().await {
                Ok(()) => self.blind = false,
                Err(error) => return self.fail(error).await,
            }
        }
        let live = match &self.seen {
            Seen::NotYet => return Next::Rest,
            Seen::Absent => {
                self.accepted = None;
                self.tell(ConfigState::Missing).await;
                return Next::Rest;
            }
            Seen::Present(live) => live,
        };
        if plan(&self.layer, live, ca_bundle).is_none() {
            self.tell(ConfigState::Current).await;
            return Next::Rest;
        }
        if self.accepted.as_ref() == Some(content(self.layer.kind, live)) {
            self.tell(ConfigState::KeptOtherwise).await;
            return Next::Rest;
        }
        if let Some(time) = self.pace.wait(Instant::now()) {
            return Next::At(time);
        }
        match self.undo(ca_bundle).await {
            Ok(state) => {
                if matches!(state, ConfigState::BundleWritten | ConfigState::Repaired) {
                    self.pace.repaired(Instant::now());
                }
                self.tell(state).await;
                Next::Rest
            }
            Err(error) => self.fail(error).await,
        }
    }

    async fn fail(&mut self, error: String) -> Next {
        self.pace.failed(Instant::now());
        self.tell(ConfigState::Failed(error)).await;
        self.pace.wait(Instant::now()).map_or(Next::Rest, Next::At)
    }

    async fn read(&mut self) -> Result<(), String> {
        let object = in_time("read", self.api.get_opt(&self.layer.name)).await?;
        self.seen = Seen::of(object.as_ref().map(value));
        Ok(())
    }

    /// Reads the object again, since the watch may be behind our own last write, and patches it.
    async fn undo(&mut self, ca_bundle: &[u8]) -> Result<ConfigState, String> {
        self.read().await?;
        let live = match &self.seen {
            Seen::NotYet | Seen::Absent => return Ok(ConfigState::Missing),
            Seen::Present(live) => live,
        };
        let Some(patch) = plan(&self.layer, live, ca_bundle) else {
            return Ok(ConfigState::Current);
        };
        let ours = differs_in_bundle_only(&self.layer, live);
        let name = &self.layer.name;
        let params = PatchParams {
            field_manager: Some(PORTCULLIS.to_owned()),
            ..PatchParams::default()
        };
        let answer =
            value(&in_time("write", self.api.patch(name, &params, &Patch::Json::<()>(patch))).await?);
        let kept_otherwise = plan(&self.layer, &answer, ca_bundle).is_some();
        self.accepted = kept_otherwise.then(|| content(self.layer.kind, &answer).clone());
        self.seen = Seen::Present(answer);
        Ok(if ours {
            ConfigState::BundleWritten
        } else {
            ConfigState::Repaired
        })
    }

    /// Says what is the case, if it is new; each repair is.
    async fn tell(&mut self, state: ConfigState) {
        let counts = matches!(state, ConfigState::Repaired | ConfigState::BundleWritten);
        if self.told.as_ref() == Some(&state) && !counts {
            return;
        }
        self.told = Some(state.clone());
        if state == ConfigState::Missing {
            self.record_missing().await;
        }
        (self.report)(ConfigReport {
            kind: self.layer.kind,
            name: self.layer.name.clone(),
            state,
        });
    }

    /// An Event, as far as the API server takes it: the report says the same.
    async fn record_missing(&self) {
        let reference = ObjectReference {
            api_version: Some("admissionregistration.k8s.io/v1".to_owned()),
            kind: Some(self.layer.kind.kind().to_owned()),
            name: Some(self.layer.name.clone()),
            ..ObjectReference::default()
        };
        let event = News {
            type_: EventType::Warning,
            reason: "Missing".to_owned(),
            note: Some(missing(self.layer.kind)),
            action: "Watch".to_owned(),
            secondary: None,
        };
        if let Err(error) = in_time("publish", self.recorder.publish(&event, &reference)).await {
            tracing::warn!(name = self.layer.name, error, "no Event for the missing object");
        }
    }
}

/// The answer of the API server, or what went wrong, in one line.
async fn in_time<T>(act: &str, call: impl Future<Output = kube::Result<T>>) -> Result<T, String> {
    match tokio::time::timeout(CALL, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(format!("{act}: {}", chain(&error))),
        Err(_) => Err(format!("{act}: no answer in {CALL:?}")),
    }
}

fn value(object: &DynamicObject) -> Value {
    serde_json::to_value(object).expect("an object that came as JSON can be written as JSON")
}
