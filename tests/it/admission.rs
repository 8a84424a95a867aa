//! Admission as the API server sees it: reviews in, answers out, every patch applied as RFC 6902 says.
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed, in its helpers too

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis::admission::{AllowExempt, Answer, NamespaceFacts, NamespaceLabels, admit};
use serde_json::{Value, json};

mod hostile;
mod jobs;
mod laws;
mod pods;
mod preview;
mod protocol;
mod refusals;
mod templates;

/// An ordinary user of a namespace.
pub(crate) const USER: &str = "jane";
pub(crate) const UID: &str = "705ab4f5-6393-11e8-b7cc-42010a800002";

/// Namespaces in memory, for tests: all alike.
pub(crate) enum Namespaces {
    /// Not seen yet.
    Unseen,
    /// Opted in, nothing may be exempted.
    OptedIn,
    /// Opted in, `allow-exempt`.
    AllowExempt,
    /// Opted in, `allow-exempt: "TRUE"`.
    Misspelt,
}

impl NamespaceFacts for Namespaces {
    fn namespace(&self, _: &str) -> Option<NamespaceLabels> {
        match self {
            Self::Unseen => None,
            Self::OptedIn => Some(NamespaceLabels::default()),
            Self::AllowExempt => Some(NamespaceLabels {
                allow_exempt: AllowExempt::Yes,
            }),
            Self::Misspelt => Some(NamespaceLabels {
                allow_exempt: AllowExempt::of(Some("TRUE")),
            }),
        }
    }
}

/// The review that an API server sends for a plural of `apps/v1`, or for pods.
pub(crate) fn review(plural: &str, operation: &str, object: &Value, old: &Value) -> Value {
    let (group, version, kind) = match plural {
        "pods" => ("", "v1", "Pod"),
        "deployments" => ("apps", "v1", "Deployment"),
        "statefulsets" => ("apps", "v1", "StatefulSet"),
        "replicasets" => ("apps", "v1", "ReplicaSet"),
        "daemonsets" => ("apps", "v1", "DaemonSet"),
        other => ("example.com", "v1", other),
    };
    json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": UID,
            "kind": {"group": group, "version": version, "kind": kind},
            "resource": {"group": group, "version": version, "resource": plural},
            "requestKind": {"group": group, "version": version, "kind": kind},
            "requestResource": {"group": group, "version": version, "resource": plural},
            "name": object["metadata"]["name"],
            "namespace": "team-a",
            "operation": operation,
            "userInfo": {"username": USER, "uid": "u-1", "groups": ["system:authenticated"]},
            "object": object,
            "oldObject": old,
            "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    })
}

/// A review in which one more thing is said.
pub(crate) fn with(mut review: Value, pointer: &str, value: Value) -> Value {
    *at(&mut review, pointer) = value;
    review
}

/// The place of a pointer, made if it is not there.
pub(crate) fn at<'v>(value: &'v mut Value, pointer: &str) -> &'v mut Value {
    pointer.split('/').skip(1).fold(value, |value, token| {
        let token = token.replace("~1", "/").replace("~0", "~");
        match value {
            Value::Array(list) => &mut list[token.parse::<usize>().unwrap()],
            _ => &mut value[token],
        }
    })
}

/// An answer, read.
pub(crate) struct Reply {
    pub(crate) answer: Answer,
    pub(crate) body: Value,
}

/// Asks twice, with the fields in two orders: that must not matter.
#[track_caller]
pub(crate) fn ask(review: &Value, namespaces: &Namespaces) -> Reply {
    let reply = ask_bytes(review.to_string().as_bytes(), namespaces);
    let other = ask_bytes(as_go_writes(review).as_bytes(), namespaces);
    match other.answer.status {
        // It names a position.
        400 => assert_eq!(reply.answer.status, 400),
        _ => assert_eq!(other.answer, reply.answer),
    }
    reply
}

/// The review with the fields of its request in the order in which API servers write them.
pub(crate) fn as_go_writes(review: &Value) -> String {
    const FIRST: [&str; 9] = [
        "uid",
        "kind",
        "resource",
        "subResource",
        "name",
        "namespace",
        "operation",
        "userInfo",
        "object",
    ];
    let Some(request) = review["request"].as_object() else {
        return review.to_string();
    };
    let rest = request
        .keys()
        .map(String::as_str)
        .filter(|key| !FIRST.contains(key));
    let fields: Vec<String> = FIRST
        .into_iter()
        .filter(|key| request.contains_key(*key))
        .chain(rest)
        .map(|key| format!("{}:{}", json!(key), request[key]))
        .collect();
    let mut envelope = review.clone();
    envelope["request"] = json!("the request");
    envelope
        .to_string()
        .replace("\"the request\"", &format!("{{{}}}", fields.join(",")))
}

/// Asks, and checks the answer.
#[track_caller]
pub(crate) fn ask_bytes(body: &[u8], namespaces: &dyn NamespaceFacts) -> Reply {
    checked(admit(body, namespaces), is_allowed)
}

/// Checks what must be true of every answer, with the paths that its patch may touch.
#[track_caller]
pub(crate) fn checked(answer: Answer, is_allowed: impl Fn(&str) -> bool) -> Reply {
    let body: Value = serde_json::from_slice(&answer.body).expect("every answer is JSON");
    let reply = Reply { answer, body };
    let response = &reply.body["response"];
    assert_eq!(
        response.get("patch").is_some(),
        response.get("patchType").is_some(),
        "P6"
    );
    for operation in reply.patch() {
        let (name, path) = (
            operation["op"].as_str().unwrap(),
            operation["path"].as_str().unwrap(),
        );
        assert!(
            ["add", "remove"].contains(&name),
            "P11: no test, no replace, no move: {operation}"
        );
        assert!(is_allowed(path), "{path} is not a path that admission may touch");
    }
    for warning in reply.warnings() {
        assert!(
            warning.chars().count() <= 120 && !warning.contains(char::is_control),
            "O9: {warning:?}"
        );
    }
    assert!(
        reply
            .warnings()
            .iter()
            .map(|warning| warning.len())
            .sum::<usize>()
            <= 1024,
        "O9"
    );
    reply
}

/// The paths that admission may touch, of pods and of templates (P12, P16).
fn is_allowed(path: &str) -> bool {
    let path = path.strip_prefix("/spec/template").unwrap_or(path);
    let in_gates = path.strip_prefix("/spec/schedulingGates/");
    [
        "/metadata",
        "/metadata/labels",
        "/metadata/labels/portcullis.dev~1gated",
        "/metadata/annotations",
        "/metadata/annotations/portcullis.dev~1root",
        "/metadata/annotations/portcullis.dev~1submitted",
        "/spec/schedulingGates",
    ]
    .contains(&path)
        || in_gates.is_some_and(|place| place == "-" || place.parse::<usize>().is_ok())
}

impl Reply {
    pub(crate) fn allowed(&self) -> bool {
        self.body["response"]["allowed"] == json!(true)
    }

    /// The operations of the patch; none if there is no patch.
    pub(crate) fn patch(&self) -> Vec<Value> {
        let Some(patch) = self.body["response"]["patch"].as_str() else {
            return Vec::new();
        };
        serde_json::from_slice(&STANDARD.decode(patch).expect("P5: base64")).expect("P5: a JSON patch")
    }

    pub(crate) fn warnings(&self) -> Vec<&str> {
        let list = self.body["response"]["warnings"].as_array();
        list.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    pub(crate) fn message(&self) -> &str {
        self.body["response"]["status"]["message"]
            .as_str()
            .unwrap_or_default()
    }

    /// The object as the API server would go on with it.
    #[track_caller]
    pub(crate) fn applied_to(&self, object: &Value) -> Value {
        assert!(self.allowed(), "{}", self.body);
        let patch: json_patch::Patch = serde_json::from_value(self.patch().into()).unwrap();
        let mut object = object.clone();
        json_patch::patch(&mut object, &patch).expect("the patch applies to what was sent");
        object
    }
}

/// What admission makes of an object that an ordinary user creates.
#[track_caller]
pub(crate) fn created(plural: &str, object: &Value) -> Value {
    ask(
        &review(plural, "CREATE", object, &Value::Null),
        &Namespaces::OptedIn,
    )
    .applied_to(object)
}

/// What admission makes of an update by an ordinary user.
#[track_caller]
pub(crate) fn updated(plural: &str, new: &Value, old: &Value) -> Value {
    ask(&review(plural, "UPDATE", new, old), &Namespaces::OptedIn).applied_to(new)
}

/// A pod as the API server sends it: defaulted, with its managed fields.
pub(crate) fn pod() -> Value {
    json!({
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": "one",
            "namespace": "team-a",
            "creationTimestamp": null,
            "labels": {"app": "one"},
            "managedFields": [{"manager": "kubectl-create", "operation": "Update", "fieldsV1": {"f:spec": {}}}],
        },
        "spec": {
            "containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": "10m"}}}],
            "restartPolicy": "Always",
            "tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 300}],
        },
        "status": {},
    })
}

/// A Deployment (or another kind of `apps/v1`) of that name, with one label on its template.
pub(crate) fn workload(kind: &str, name: &str) -> Value {
    json!({
        "kind": kind,
        "apiVersion": "apps/v1",
        "metadata": {"name": name, "namespace": "team-a", "creationTimestamp": null},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"creationTimestamp": null, "labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "pause:1"}], "restartPolicy": "Always"},
            },
        },
        "status": {},
    })
}

/// Sets a key, or takes it away.
pub(crate) fn replace(object: &mut Value, key: &str, value: Option<&Value>) {
    match value {
        Some(value) => object[key] = value.clone(),
        None => drop(object.as_object_mut().unwrap().remove(key)),
    }
}
