//! What is logged, and what never is.

use std::io::Write;
use std::process::Command;
use std::sync::{Arc, Mutex};

use portcullis::admission::server::{self, Route};
use portcullis::admission::{NamespaceFacts, NamespaceLabels};
use portcullis::telemetry::logs::{self, LogFormat};
use portcullis::tls::Shutdown;
use tracing_subscriber::fmt::MakeWriter;

use crate::server_rig::{Setup, allowed, dial, within};

#[derive(Clone, Default)]
pub struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for Captured {
    type Writer = Self;
    fn make_writer(&'w self) -> Self {
        self.clone()
    }
}

/// Everything that is said on this thread, of every crate, at every level.
pub fn capture(level: &str) -> (Captured, tracing::subscriber::DefaultGuard) {
    let captured = Captured::default();
    let filter = logs::filter(level).unwrap();
    let subscriber = logs::subscriber(LogFormat::Json, filter, captured.clone());
    (captured, tracing::subscriber::set_default(subscriber))
}

const SECRET: &str = "hunter2-swordfish";

/// A review of a new pod.
fn review(name: &str, pod: &str) -> String {
    format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u-{name}",
        "kind":{{"group":"","version":"v1","kind":"Pod"}},"resource":{{"group":"","version":"v1","resource":"pods"}},
        "namespace":"team-a","name":"{name}","operation":"CREATE","userInfo":{{"username":"u"}},"object":{pod}}}}}"#
    )
}

fn pod(metadata: &str, spec: &str) -> String {
    format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{{metadata}}},"spec":{{{spec}}}}}"#)
}

/// Everything that the real pipeline and its server say while they answer these bodies; and the answers.
async fn said_about(bodies: Vec<String>) -> (String, Vec<String>) {
    let (captured, _guard) = capture("trace");
    let (mut webhook, issued) = Setup::new().webhook(Box::new(|_| allowed()));
    webhook.routes = vec![Route::enrich(Arc::new(OptedIn))];
    let listener = portcullis::tls::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = Shutdown::default();
    let served = tokio::spawn(server::serve(webhook, listener, shutdown.clone()));
    let mut wire = dial(address, &issued.ca).await.unwrap();
    let mut answers = Vec::new();
    for body in bodies {
        answers.push(String::from_utf8(wire.post(body).await.unwrap().body).unwrap());
    }
    drop(wire);
    shutdown.begin.cancel();
    within(served).await.unwrap().unwrap();
    (captured.text(), answers)
}

/// A cluster whose namespaces are all opted in.
struct OptedIn;

impl NamespaceFacts for OptedIn {
    fn namespace(&self, _: &str) -> Option<NamespaceLabels> {
        Some(NamespaceLabels::default())
    }
}

/// O5
#[tokio::test]
async fn a_denied_review_is_one_line_of_identities_and_no_content() {
    let secret = format!(r#""containers":[{{"env":[{{"name":"PASSWORD","value":"{SECRET}"}}]}}]"#);
    let good = pod("", &secret);
    let bad = pod(r#""labels":"none""#, &secret);
    let (text, _) = said_about(vec![
        review("good", &good),
        review("bad", &bad),
        review("good", &good),
        review("evil\\u000a\\u001b[31mname", &bad),
        format!("{SECRET} is no JSON"),
    ])
    .await;
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let reviews: Vec<_> = lines.iter().filter(|line| line["message"] == "review").collect();
    let [denied, evil, broken] = reviews[..] else {
        panic!("{text}");
    };
    for (field, value) in [
        ("webhook", "enrich"),
        ("uid", "u-bad"),
        ("namespace", "team-a"),
        ("name", "bad"),
        ("resource", "pods"),
        ("operation", "CREATE"),
        ("decision", "denied"),
        ("reason", "unreadable"),
        ("level", "INFO"),
    ] {
        assert_eq!(denied[field], value, "{denied}");
    }
    assert!(denied["micros"].is_u64());
    assert_eq!(evil["name"], "evil  [31mname");
    assert_eq!(broken["status"], 400);
    assert!(!text.contains(SECRET), "{text}");
}

/// O5: through the real pipeline, whose sentences to the user may quote what he wrote.
#[tokio::test]
async fn what_the_pipeline_tells_the_user_is_not_logged() {
    let (text, answers) = said_about(vec![
        review("a", &pod("", &format!(r#""schedulingGates":"{SECRET}""#))),
        review("a", &pod(&format!(r#""labels":"{SECRET}""#), "")),
        review("a", &pod("", &format!(r#""nodeName":"{SECRET}""#))),
        review("a", &format!("\"{SECRET}\"")),
        format!("\"{SECRET}\""),
        format!(r#"{{"request":"{SECRET}"}}"#),
    ])
    .await;
    assert!(
        answers.iter().any(|answer| answer.contains(SECRET)),
        "the test would show nothing"
    );
    assert!(
        text.contains("\"denied\"") && text.contains("\"error\""),
        "{text}"
    );
    assert!(!text.contains(SECRET), "{text}");
}

/// O5, S5: a panic's message can quote a body, so it is not shown; its place is.
#[tokio::test]
async fn a_panic_is_logged_without_what_the_user_sent() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "server_logs::child_that_panics",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .output()
        .unwrap();
    assert!(output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("server_logs.rs:"), "{said}");
    assert!(said.contains("its message is not shown"), "{said}");
    assert!(said.contains("\"a review was not answered\""), "{said}");
    assert!(!said.contains(SECRET), "{said}");
}

#[tokio::test]
#[ignore = "started by a_panic_is_logged_without_what_the_user_sent"]
async fn child_that_panics() {
    let flush = logs::init(LogFormat::Json, "trace").unwrap();
    let rig = Setup::new().start(|body| panic!("cannot read {}", String::from_utf8_lossy(body)));
    assert_eq!(
        rig.dial()
            .await
            .post(review("pod", &pod("", &format!(r#""nodeName":"{SECRET}""#))))
            .await
            .unwrap()
            .status,
        500
    );
    rig.end().await;
    drop(flush);
}
