//! Events that users see with `kubectl describe`: sent beside the work, each once in a while, never in its way.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::mpsc;

use super::pod::local::LocalPod;
use crate::names;
use crate::words::chain;

/// An Event that waits is dropped when this many wait already.
const WAITING: usize = 1024;
/// The same words on the same object are told again after this time.
const AGAIN_AFTER: Duration = Duration::from_secs(300);
/// Events are news, not the work: at most this many a second on average.
const PER_SECOND: f64 = 10.0;
const BURST: f64 = 50.0;

/// What an Event says.
#[derive(Clone, Debug)]
pub struct Note {
    warning: bool,
    reason: String,
    message: String,
}

impl Note {
    /// Nothing to worry about.
    pub fn normal(reason: &str, message: impl Into<String>) -> Self {
        Self {
            warning: false,
            reason: reason.to_owned(),
            message: message.into(),
        }
    }

    /// Something a user may have to do about.
    pub fn warning(reason: &str, message: impl Into<String>) -> Self {
        Self {
            warning: true,
            reason: reason.to_owned(),
            message: message.into(),
        }
    }
}

/// Where Events are handed in.
#[derive(Clone)]
pub struct Notes(mpsc::Sender<(ObjectReference, Note)>);

impl Notes {
    /// The way in, and the task that sends.
    pub fn new(client: Client) -> (Self, impl Future<Output = ()> + Send) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self(sender), send_all(client, receiver))
    }

    /// About a local pod.
    pub fn send(&self, local: &LocalPod, note: Note) {
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(local.key.namespace.to_string()),
            name: Some(local.key.name.to_string()),
            uid: Some(local.uid.to_string()),
            ..ObjectReference::default()
        };
        self.about(about, note);
    }

    /// About any object.
    pub fn about(&self, object: ObjectReference, note: Note) {
        // A full channel means that events come faster than they may be sent: this one is news no more.
        let _dropped = self.0.try_send((object, note));
    }

    /// A warning about a local pod.
    pub fn warn(&self, local: &LocalPod, reason: &str, message: &str) {
        self.send(local, Note::warning(reason, message));
    }
}

async fn send_all(client: Client, mut waiting: mpsc::Receiver<(ObjectReference, Note)>) {
    let recorder = Recorder::new(
        client,
        Reporter {
            controller: names::PORTCULLIS.to_owned(),
            instance: None,
        },
    );
    let mut told: HashMap<(String, String), Instant> = HashMap::new();
    let mut tokens = BURST;
    let mut filled = Instant::now();
    while let Some((object, note)) = waiting.recv().await {
        let now = Instant::now();
        tokens = (tokens + now.duration_since(filled).as_secs_f64() * PER_SECOND).min(BURST);
        filled = now;
        told.retain(|_, at| now.duration_since(*at) < AGAIN_AFTER);
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        let about = [&object.kind, &object.namespace, &object.name, &object.uid]
            .map(part)
            .join("/");
        let topic = (about, format!("{}: {}", note.reason, note.message));
        if told.contains_key(&topic) || (tokens < 1.0 && !note.warning) {
            continue;
        }
        tokens -= 1.0;
        told.insert(topic, now);
        let event = Event {
            type_: if note.warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            action: note.reason.clone(),
            reason: note.reason,
            note: Some(shortened(note.message)),
            secondary: None,
        };
        if let Err(error) = recorder.publish(&event, &object).await {
            tracing::debug!(
                about = object.name,
                reason = event.reason,
                error = chain(&error),
                "event not sent"
            );
        }
    }
}

/// The API takes at most 1024 bytes.
fn shortened(mut message: String) -> String {
    let mut end = 1000.min(message.len());
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message.truncate(end);
    message
}
