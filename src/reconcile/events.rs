//! Events that users see with `kubectl describe`: sent beside the work, reasons once in a while, never in its way.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::mpsc;

use super::pair::local::LocalObject;
use crate::names;
use crate::words::chain;

/// An Event that waits is dropped when this many wait already.
const WAITING: usize = 1024;
/// The same words on the same object are told again after this time; what was done, each time.
const AGAIN_AFTER: Duration = Duration::from_secs(300);
/// An Event is called by its object and a time.
const LONGEST_NAME: usize = 230;
/// Events are news, not the work: at most this many a second on average.
const PER_SECOND: f64 = 10.0;
const BURST: f64 = 50.0;
/// What was done leaves so much of it to what people wait for.
const FOR_REASONS: f64 = 20.0;

/// What an Event says.
#[derive(Clone, Debug)]
pub struct Note {
    weight: Weight,
    reason: String,
    message: String,
}

/// How much it matters that an Event is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weight {
    /// Something was done. Each time counts, though the words are the same.
    Act,
    /// All that people see of why something waits.
    Reason,
    /// Something a user may have to do about.
    Warning,
}

impl Weight {
    /// It is dropped while fewer Events than this may be sent at once.
    fn at_least(self) -> f64 {
        match self {
            Self::Act => FOR_REASONS,
            Self::Reason => 1.0,
            Self::Warning => f64::NEG_INFINITY,
        }
    }
}

impl Note {
    /// Nothing to worry about: something was done. What is done again is told again.
    pub fn normal(reason: &str, message: impl Into<String>) -> Self {
        Self::new(Weight::Act, reason, message)
    }

    /// Nothing to worry about, but all that people see of why something waits.
    pub fn reason(reason: &str, message: impl Into<String>) -> Self {
        Self::new(Weight::Reason, reason, message)
    }

    /// Something a user may have to do about.
    pub fn warning(reason: &str, message: impl Into<String>) -> Self {
        Self::new(Weight::Warning, reason, message)
    }

    fn new(weight: Weight, reason: &str, message: impl Into<String>) -> Self {
        Self {
            weight,
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

    /// About a local object.
    pub fn send(&self, local: &LocalObject, note: Note) {
        let names = local.key.subject.resource();
        let about = ObjectReference {
            api_version: Some(names.api_version()),
            kind: Some(names.kind.to_owned()),
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

    /// A warning about a local object.
    pub fn warn(&self, local: &LocalObject, reason: &str, message: &str) {
        self.send(local, Note::warning(reason, message));
    }
}

async fn send_all(client: Client, mut waiting: mpsc::Receiver<(ObjectReference, Note)>) {
    let mut told: HashMap<(String, String), Instant> = HashMap::new();
    let mut tokens = BURST;
    let mut filled = Instant::now();
    while let Some((object, mut note)) = waiting.recv().await {
        shorten(&mut note.message);
        let now = Instant::now();
        tokens = (tokens + now.duration_since(filled).as_secs_f64() * PER_SECOND).min(BURST);
        filled = now;
        told.retain(|_, at| now.duration_since(*at) < AGAIN_AFTER);
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        let about = [&object.kind, &object.namespace, &object.name, &object.uid]
            .map(part)
            .join("/");
        let topic = (about, format!("{}: {}", note.reason, note.message));
        let is_act = note.weight == Weight::Act;
        if !is_act && told.contains_key(&topic) || tokens < note.weight.at_least() {
            continue;
        }
        tokens = (tokens - 1.0).max(0.0); // warnings are told even then
        let event = event(object, note, Timestamp::now());
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        let events = Api::<Event>::namespaced(client.clone(), &namespace);
        match create(&events, &event).await {
            Ok(()) if is_act => {} // told each time
            Ok(()) => {
                told.insert(topic, now);
            }
            // What is told of a namespace that goes is missed by nobody.
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {
                tracing::debug!(
                    about = topic.0,
                    reason = event.reason,
                    words = status.message,
                    "event not sent"
                );
            }
            Err(error) => tracing::warn!(
                about = topic.0,
                reason = event.reason,
                error = chain(&error),
                "event not sent"
            ),
        }
    }
}

/// Much is told only once, such as that a pod was taken back: what a busy API server did not take is tried again.
async fn create(events: &Api<Event>, event: &Event) -> Result<(), kube::Error> {
    let mut pauses = [500, 2000].map(Duration::from_millis).into_iter();
    loop {
        let error = match events.create(&PostParams::default(), event).await {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        let passes = match &error {
            // Its name has the time in it, so it was this one, and its answer was lost.
            kube::Error::Api(status) if status.code == 409 => return Ok(()),
            kube::Error::Api(status) => status.code == 429 || status.code >= 500,
            _ => true,
        };
        match pauses.next().filter(|_| passes) {
            Some(pause) => tokio::time::sleep(pause).await,
            None => return Err(error),
        }
    }
}

/// One object for each sentence. kube's recorder counts up the first Event of a reason instead, whatever the next one says,
/// so people would read the first reason for ever.
fn event(about: ObjectReference, note: Note, now: Timestamp) -> Event {
    let name: String = about
        .name
        .as_deref()
        .unwrap_or_default()
        .chars()
        .take(LONGEST_NAME)
        .collect();
    // A name that is cut may end in what cannot stand before a dot.
    let name = name.trim_end_matches(['-', '.']);
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{name}.{:x}", now.as_nanosecond())),
            namespace: Some(about.namespace.clone().unwrap_or_else(|| "default".to_owned())),
            ..ObjectMeta::default()
        },
        type_: Some(
            if note.weight == Weight::Warning {
                "Warning"
            } else {
                "Normal"
            }
            .to_owned(),
        ),
        action: Some(note.reason.clone()),
        reason: Some(note.reason),
        note: Some(note.message),
        regarding: Some(about),
        event_time: Some(MicroTime(now)),
        reporting_controller: Some(names::PORTCULLIS.to_owned()),
        reporting_instance: Some(names::PORTCULLIS.to_owned()),
        ..Event::default()
    }
}

/// The API takes at most 1024 bytes.
fn shorten(message: &mut String) {
    message.truncate(message.floor_char_boundary(1000));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_leaves_room_for_what_is_waited_for() {
        let left_by = |note: &Note| {
            (0..50)
                .rev()
                .map(f64::from)
                .find(|tokens| *tokens < note.weight.at_least())
        };
        let (done, waits) = (Note::normal("Done", ""), Note::reason("Waits", ""));
        assert!(left_by(&done).is_some_and(|left| left >= waits.weight.at_least() + 10.0));
        assert!(left_by(&waits).is_some());
        assert_eq!(left_by(&Note::warning("Wrong", "")), None);
    }

    #[test]
    fn each_sentence_is_an_event_of_its_own() {
        let about = |namespace: Option<&str>| ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: namespace.map(str::to_owned),
            name: Some("p".repeat(253)),
            ..ObjectReference::default()
        };
        let at = |nanos: i128| Timestamp::from_nanosecond(nanos).unwrap();
        let first = event(about(Some("shop")), Note::warning("Waits", "for a"), at(1));
        let second = event(about(Some("shop")), Note::warning("Waits", "for b"), at(2));
        assert_ne!(first.metadata.name, second.metadata.name);
        assert!(first.metadata.name.as_ref().is_some_and(|name| name.len() <= 253));
        assert_eq!(
            (first.note.as_deref(), second.note.as_deref()),
            (Some("for a"), Some("for b"))
        );
        assert_eq!(first.metadata.namespace.as_deref(), Some("shop"));
        let mut cut = about(None);
        cut.name = Some(format!("{}-.-{}", "p".repeat(227), "q".repeat(20)));
        let cut = event(cut, Note::normal("Ready", "x"), at(1)).metadata.name;
        assert!(cut.is_some_and(|name| name.starts_with(&format!("{}.", "p".repeat(227)))));
        let cluster = event(about(None), Note::normal("Ready", "x"), at(1));
        assert_eq!(
            cluster.metadata.namespace.as_deref(),
            Some("default"),
            "of what is in no namespace"
        );
        assert_eq!(cluster.type_.as_deref(), Some("Normal"));
    }

    #[tokio::test]
    async fn what_was_done_is_told_each_time_and_reasons_once_in_a_while() {
        use std::convert::Infallible;
        use std::sync::Arc;
        use std::sync::atomic::{AtomicUsize, Ordering};

        use kube::client::Body;

        for (note, events) in [
            (Note::normal("PodGroupCreated", "made PodGroup train"), 2),
            (Note::reason("WaitingForGang", "for pods"), 1),
            (Note::warning("NoPods", "no pod"), 1),
        ] {
            let sent = Arc::new(AtomicUsize::new(0));
            let count = sent.clone();
            let answer = move |_: http::Request<Body>| {
                count.fetch_add(1, Ordering::Relaxed);
                let body = Body::from(serde_json::to_vec(&Event::default()).unwrap());
                async move { Ok::<_, Infallible>(http::Response::builder().status(201).body(body).unwrap()) }
            };
            let (notes, send) = Notes::new(Client::new(tower::service_fn(answer), "default"));
            for _ in 0..2 {
                notes.about(ObjectReference::default(), note.clone());
            }
            drop(notes);
            send.await;
            assert_eq!(sent.load(Ordering::Relaxed), events, "{note:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_busy_api_server_does_not_take_is_tried_again() {
        use std::convert::Infallible;
        use std::sync::{Arc, Mutex};

        use kube::client::Body;
        use serde_json::json;

        for (codes, tries) in [
            (&[201][..], 1),
            (&[429, 500, 201], 3),
            (&[503, 409], 2),
            (&[403], 1),
            (&[500, 500, 500], 3),
        ] {
            let answers = Arc::new(Mutex::new(codes.to_vec()));
            let left = answers.clone();
            let answer = move |_: http::Request<Body>| {
                let code = left.lock().unwrap().remove(0);
                let event = event(
                    ObjectReference::default(),
                    Note::normal("Ready", "x"),
                    Timestamp::now(),
                );
                let body = match code {
                    201 => serde_json::to_value(event).unwrap(),
                    code => json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}),
                };
                let body = Body::from(body.to_string().into_bytes());
                async move { Ok::<_, Infallible>(http::Response::builder().status(code).body(body).unwrap()) }
            };
            let client = Client::new(tower::service_fn(answer), "default");
            let (notes, send) = Notes::new(client);
            notes.about(ObjectReference::default(), Note::warning("TakenBack", "x"));
            drop(notes);
            send.await;
            assert_eq!(codes.len() - answers.lock().unwrap().len(), tries, "{codes:?}");
        }
    }
}
