//! A decision -> the bytes of the answer, after the patch has been tried.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::Value;

use crate::admission::decide::{Decision, Denial, Edit, Warning};
use crate::admission::review::{API_VERSION, KIND, Review, UnreadableReview};
use crate::pod::narrow::ReadError;
use crate::pod::read::PodView;
use crate::workload;
use crate::workload::jobs::JobKinds;

/// What goes back to the API server, and what is counted and logged about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status: 200 also for a refusal, 400 for a body that is no review, 500 for a fault of ours.
    pub status: u16,
    /// The JSON body.
    pub body: Vec<u8>,
    /// Metric label: `allowed`, `patched`, `denied` or `error`.
    pub decision: &'static str,
    /// Metric label: why.
    pub reason: &'static str,
    /// Metric label: the plural of a kind of ours, or `other`.
    pub resource: &'static str,
    /// Metric label: the operation.
    pub operation: &'static str,
    /// For the log: UID of the request, empty if it could not be read.
    pub uid: String,
    /// For the log: namespace of the request.
    pub namespace: String,
    /// For the log: name of the object, empty if it is yet to be made.
    pub name: String,
    /// The sentence of a refusal or an error; otherwise empty. It can quote what the user sent.
    pub detail: String,
}

/// Longest sentence of a refusal in bytes; names in it come from the caller.
const LONGEST_SENTENCE: usize = 1024;
/// All warnings of one answer together, in bytes.
const WARNINGS_LIMIT: usize = 1024;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReviewAnswer<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
    audit_annotations: AuditAnnotations,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<&'a str>,
}

/// Keys without `/`: the API server puts the webhook's name before them, and drops those that have one.
#[derive(Serialize)]
struct AuditAnnotations {
    decision: &'static str,
    reason: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    status: &'static str,
    code: u16,
    reason: &'static str,
    message: &'a str,
}

/// Writes the answer. A patch that does not leave a readable object is not sent: the object is allowed as it came, which
/// the guard and the reconciler can mend, while a patch that fails in the API server fails the user.
#[must_use]
pub fn respond(review: &Review<'_>, decision: Decision) -> Answer {
    match decision {
        Decision::Leave(reason, warnings) => allow(review, "allowed", reason.name(), None, &warnings),
        Decision::Edit(reason, edit, warnings) => match tried(edit) {
            Ok(patch) => allow(review, "patched", reason.name(), Some(patch), &warnings),
            Err(error) => {
                let warning = Warning::new(
                    "Portcullis could not edit this object and left it as it is; please report this",
                );
                let mut answer = allow(review, "error", "patch-rejected", None, &[warning]);
                answer.detail = error.to_string();
                answer
            }
        },
        Decision::Deny(denial) => deny(review, denial),
    }
}

/// Why a patch of ours was not sent.
#[derive(Debug, thiserror::Error)]
enum RejectedPatch {
    #[error("apply the patch to the received object: {0}")]
    Apply(json_patch::PatchError),
    #[error("read the patched object: {0}")]
    Read(ReadError),
    #[error("write the patch: {0}")]
    Write(serde_json::Error),
}

/// The patch as text, if it applies and leaves a pod that can be read.
fn tried(edit: Edit) -> Result<Vec<u8>, RejectedPatch> {
    let Edit {
        patch,
        mut touched,
        at,
    } = edit;
    json_patch::patch(&mut touched, &patch).map_err(RejectedPatch::Apply)?;
    if let Some(at) = at {
        let pod = at.keys().iter().try_fold(&touched, |object, key| object.get(key));
        let pod = pod.map(Value::to_string).unwrap_or_default();
        PodView::read(&pod).map_err(RejectedPatch::Read)?;
    }
    serde_json::to_vec(&patch).map_err(RejectedPatch::Write)
}

fn allow(
    review: &Review<'_>,
    decision: &'static str,
    reason: &'static str,
    patch: Option<Vec<u8>>,
    warnings: &[Warning],
) -> Answer {
    let response = Response {
        uid: review.uid(),
        allowed: true,
        status: None,
        patch_type: patch.is_some().then_some("JSONPatch"),
        patch: patch.map(|patch| STANDARD.encode(patch)),
        audit_annotations: AuditAnnotations { decision, reason },
        warnings: that_fit(warnings),
    };
    answer(review, 200, decision, reason, response)
}

fn deny(review: &Review<'_>, denial: Denial) -> Answer {
    let Denial { rule, sentence } = denial;
    let message = shorten(&sentence);
    let (code, status_reason) = rule.status();
    let response = Response {
        uid: review.uid(),
        allowed: false,
        status: Some(Status::failure(code, status_reason, &message)),
        patch_type: None,
        patch: None,
        audit_annotations: AuditAnnotations {
            decision: "denied",
            reason: rule.name(),
        },
        warnings: Vec::new(),
    };
    let mut answer = answer(review, 200, "denied", rule.name(), response);
    answer.detail = message;
    answer
}

/// A fault of ours, after the UID was known: 500, so that `failurePolicy` decides.
#[must_use]
pub fn fault(review: &Review<'_>) -> Answer {
    let message =
        "Portcullis failed to look at this object; this is a fault of Portcullis, not of the object";
    let response = Response {
        uid: review.uid(),
        allowed: false,
        status: Some(Status::failure(500, "InternalError", message)),
        patch_type: None,
        patch: None,
        audit_annotations: AuditAnnotations {
            decision: "error",
            reason: "fault",
        },
        warnings: Vec::new(),
    };
    let mut answer = answer(review, 500, "error", "fault", response);
    answer.detail = message.to_owned();
    answer
}

/// A body that cannot be answered by UID: 400 and a Status, never a review with an empty UID.
#[must_use]
pub fn bad_review(error: &UnreadableReview) -> Answer {
    let detail = match error {
        UnreadableReview::Json(source) => format!("{error}: {source}"),
        UnreadableReview::Version { .. } | UnreadableReview::NoUid => error.to_string(),
    };
    let message = shorten(&detail);
    let status = Status {
        api_version: Some("v1"),
        kind: Some("Status"),
        ..Status::failure(400, "BadRequest", &message)
    };
    Answer {
        status: 400,
        body: json(&status),
        decision: "error",
        reason: error.name(),
        resource: "other",
        operation: "unknown",
        uid: String::new(),
        namespace: String::new(),
        name: String::new(),
        detail: message,
    }
}

impl<'a> Status<'a> {
    fn failure(code: u16, reason: &'static str, message: &'a str) -> Self {
        Self {
            api_version: None,
            kind: None,
            status: "Failure",
            code,
            reason,
            message,
        }
    }
}

fn answer(
    review: &Review<'_>,
    status: u16,
    decision: &'static str,
    reason: &'static str,
    response: Response<'_>,
) -> Answer {
    let (group, version, plural) = review.resource();
    Answer {
        status,
        body: json(&ReviewAnswer {
            api_version: API_VERSION,
            kind: KIND,
            response,
        }),
        decision,
        reason,
        resource: workload::by_resource(group, version, plural)
            .map(|kind| kind.resource())
            .or_else(|| Some(JobKinds::BUILT_IN.by_resource(group, version, plural)?.resource()))
            .map_or("other", |names| names.plural),
        operation: review.operation().name(),
        uid: review.uid().to_owned(),
        namespace: review.namespace().to_owned(),
        name: review.name().to_owned(),
        detail: String::new(),
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("strings, numbers and booleans can always be written")
}

/// The warnings that fit into the headers of one answer.
fn that_fit(warnings: &[Warning]) -> Vec<&str> {
    let mut room = WARNINGS_LIMIT;
    let fits = |warning: &&str| {
        let fits = warning.len() <= room;
        room = room.saturating_sub(warning.len());
        fits
    };
    warnings.iter().map(Warning::as_str).take_while(fits).collect()
}

/// One line of bounded length.
fn shorten(sentence: &str) -> String {
    let mut line = sentence.replace(char::is_control, " ");
    if line.len() > LONGEST_SENTENCE {
        line.truncate(line.floor_char_boundary(LONGEST_SENTENCE - '…'.len_utf8()));
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::decide::{Decision, Reason, Rule};
    use crate::workload::PodPath;
    use serde_json::json;

    const BODY: &str = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u-1",
        "resource":{"group":"","version":"v1","resource":"pods"},"operation":"CREATE"}}"#;

    fn answered(decision: Decision) -> (Answer, Value) {
        let answer = respond(&Review::parse(BODY.as_bytes()).unwrap(), decision);
        let body = serde_json::from_slice(&answer.body).unwrap();
        (answer, body)
    }

    fn edit(patch: Value) -> Decision {
        let edit = Edit {
            patch: serde_json::from_value(patch).unwrap(),
            touched: json!({"metadata": {"labels": {}}, "spec": {"schedulingGates": [{"name": "a"}]}}),
            at: Some(PodPath::ITSELF),
        };
        Decision::Edit(Reason::Gated, edit, Vec::new())
    }

    /// P8: each of these breaks the user's request if it is sent, under `Ignore` too.
    #[test]
    fn a_patch_that_does_not_apply_or_leaves_no_pod_is_not_sent() {
        for operation in [
            json!({"op": "add", "path": "/metadata/annotations/a", "value": "b"}),
            json!({"op": "remove", "path": "/metadata/labels/absent"}),
            json!({"op": "test", "path": "/metadata/labels", "value": {"x": "y"}}),
            json!({"op": "add", "path": "/metadata/labels", "value": "no map"}),
            json!({"op": "add", "path": "/metadata/labels/a", "value": 5}),
            json!({"op": "add", "path": "/spec/schedulingGates/-", "value": {}}),
            json!({"op": "add", "path": "/spec/schedulingGates/-1", "value": {"name": "g"}}),
            json!({"op": "add", "path": "/spec/schedulingGates/2", "value": {"name": "g"}}),
            json!({"op": "remove", "path": "/spec"}),
            json!({"op": "add", "path": "", "value": []}),
        ] {
            let (answer, body) = answered(edit(json!([operation])));
            assert_eq!(
                (answer.status, answer.decision, answer.reason),
                (200, "error", "patch-rejected"),
                "{operation}"
            );
            assert_eq!(body["response"]["uid"], "u-1");
            assert_eq!(body["response"]["allowed"], true);
            assert_eq!(
                (body["response"].get("patch"), body["response"].get("patchType")),
                (None, None)
            );
            assert_eq!(body["response"]["warnings"].as_array().map(Vec::len), Some(1));
            assert!(!answer.detail.is_empty());
        }
        let (answer, body) = answered(edit(
            json!([{"op": "add", "path": "/metadata/labels/a", "value": "b"}]),
        ));
        assert_eq!(
            (answer.decision, body["response"]["patchType"].as_str()),
            ("patched", Some("JSONPatch"))
        );
    }

    /// O9
    #[test]
    fn warnings_fit_into_one_header_each_and_one_kilobyte_together() {
        let long = Warning::new(&"🦀\n\u{7f}".repeat(200));
        assert_eq!(
            (long.as_str().chars().count(), long.as_str().ends_with("🦀…")),
            (Warning::LONGEST, true)
        );
        let exact = "x".repeat(Warning::LONGEST);
        assert_eq!(Warning::new(&exact).as_str(), exact);
        let (_, body) = answered(Decision::Leave(Reason::Complete, vec![long.clone(); 9]));
        let sent = body["response"]["warnings"].as_array().unwrap();
        assert_eq!(sent.len(), WARNINGS_LIMIT / long.as_str().len());
    }

    #[test]
    fn a_sentence_ends_somewhere() {
        let denial = |sentence: String| {
            Decision::Deny(Denial {
                rule: Rule::GatedValue,
                sentence,
            })
        };
        for letter in ["x", "é", "🦀"] {
            let (answer, _) = answered(denial(letter.repeat(2000)));
            assert!(answer.detail.len() <= LONGEST_SENTENCE && answer.detail.ends_with('…'));
        }
        assert_eq!(answered(denial("a\nb".to_owned())).0.detail, "a b");
    }
}
