//! An installed object as it should be and as it is -> the patch that undoes the drift (pure).

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation, TestOperation};
use serde_json::{Value, json};

use crate::admission::policies::{Layer, LayerKind};

/// The patch that makes `live` what `desired` says, with this CA bundle (PEM) in each webhook; nothing if it is so.
///
/// Only what decides is compared and written: `spec`, or `webhooks`. Metadata is anyone's. An empty bundle is one
/// that is not known yet: what stands in the object stays. The patch tests the version it was made for.
#[must_use]
pub fn plan(desired: &Layer, live: &Value, ca_bundle: &[u8]) -> Option<Patch> {
    let field = content_field(desired.kind);
    let wanted = wanted(desired, live, ca_bundle);
    if live[field] == wanted {
        return None;
    }
    let at = |path: &[&str]| PointerBuf::from_tokens(path.iter().copied());
    Some(Patch(vec![
        PatchOperation::Test(TestOperation {
            path: at(&["metadata", "resourceVersion"]),
            value: live["metadata"]["resourceVersion"].clone(),
        }),
        PatchOperation::Add(AddOperation {
            path: at(&[field]),
            value: wanted,
        }),
    ]))
}

/// The part of the object that decides.
#[must_use]
pub fn content(kind: LayerKind, object: &Value) -> &Value {
    &object[content_field(kind)]
}

/// Whether the two differ in nothing but the CA bundle: then it is news of ours, not drift.
#[must_use]
pub fn differs_in_bundle_only(desired: &Layer, live: &Value) -> bool {
    desired.kind == LayerKind::MutatingWebhookConfiguration && plan(desired, live, &[]).is_none()
}

fn content_field(kind: LayerKind) -> &'static str {
    match kind {
        LayerKind::MutatingWebhookConfiguration => "webhooks",
        LayerKind::MutatingAdmissionPolicy
        | LayerKind::MutatingAdmissionPolicyBinding
        | LayerKind::ValidatingAdmissionPolicy
        | LayerKind::ValidatingAdmissionPolicyBinding => "spec",
    }
}

fn wanted(desired: &Layer, live: &Value, ca_bundle: &[u8]) -> Value {
    let mut wanted = content(desired.kind, &desired.object).clone();
    for webhook in wanted.as_array_mut().into_iter().flatten() {
        let bundle = if ca_bundle.is_empty() {
            bundle_of(live, &webhook["name"])
        } else {
            json!(BASE64_STANDARD.encode(ca_bundle))
        };
        if !bundle.is_null() {
            webhook["clientConfig"]["caBundle"] = bundle;
        }
    }
    wanted
}

fn bundle_of(live: &Value, name: &Value) -> Value {
    let webhooks = live["webhooks"].as_array().into_iter().flatten();
    webhooks
        .filter(|webhook| webhook["name"] == *name)
        .map(|webhook| webhook["clientConfig"]["caBundle"].clone())
        .next()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::policies::{Layout, render};

    #[test]
    fn an_object_as_rendered_needs_nothing() {
        for layer in render(&Layout::default()) {
            let live = stored(&layer);
            assert_eq!(plan(&layer, &live, &[]), None, "{}", layer.name);
        }
    }

    #[test]
    fn every_change_of_what_decides_is_undone() {
        for layer in render(&Layout::default()) {
            let mut live = stored(&layer);
            let content = &mut live[content_field(layer.kind)];
            match content {
                Value::Array(webhooks) => webhooks[0]["failurePolicy"] = json!("Fail"),
                spec => spec["matchConditions"] = json!([{"name": "never", "expression": "false"}]),
            }
            repairs(&layer, live, &[]);
        }
    }

    #[test]
    fn an_added_field_is_drift_too() {
        for layer in render(&Layout::default()) {
            let mut live = stored(&layer);
            match &mut live[content_field(layer.kind)] {
                Value::Array(webhooks) => webhooks.push(json!({"name": "foreign"})),
                spec => spec["paramRef"] = json!({"name": "foreign"}),
            }
            repairs(&layer, live, &[]);
        }
    }

    #[test]
    fn metadata_is_anyones() {
        for layer in render(&Layout::default()) {
            let mut live = stored(&layer);
            live["metadata"]["labels"] = json!({"helm": "yes"});
            assert_eq!(plan(&layer, &live, &[]), None, "{}", layer.name);
        }
    }

    #[test]
    fn the_bundle_is_written_and_kept() {
        let layer = webhooks();
        let live = stored(&layer);
        assert!(differs_in_bundle_only(&layer, &live));
        let live = repairs(&layer, live, b"one");
        assert_eq!(
            live["webhooks"][1]["clientConfig"]["caBundle"],
            BASE64_STANDARD.encode("one")
        );
        assert_eq!(plan(&layer, &live, b"one"), None);
        let live = repairs(&layer, live, b"two");
        assert_eq!(
            live["webhooks"][0]["clientConfig"]["caBundle"],
            BASE64_STANDARD.encode("two")
        );
    }

    #[test]
    fn an_unknown_bundle_leaves_the_one_that_stands_there() {
        let layer = webhooks();
        let live = repairs(&layer, stored(&layer), b"one");
        assert_eq!(plan(&layer, &live, &[]), None);
        let mut drifted = live;
        drifted["webhooks"][0]["timeoutSeconds"] = json!(30);
        let live = repairs(&layer, drifted, &[]);
        assert_eq!(
            live["webhooks"][0]["clientConfig"]["caBundle"],
            BASE64_STANDARD.encode("one")
        );
    }

    #[test]
    fn a_patch_is_for_the_version_it_was_made_for() {
        let layer = webhooks();
        let mut newer = stored(&layer);
        let patch = plan(&layer, &newer, b"one").unwrap();
        newer["metadata"]["resourceVersion"] = json!("8");
        assert!(json_patch::patch(&mut newer, &patch).is_err());
    }

    fn webhooks() -> Layer {
        render(&Layout::default())
            .pop()
            .filter(|layer| layer.kind == LayerKind::MutatingWebhookConfiguration)
            .unwrap()
    }

    fn stored(layer: &Layer) -> Value {
        let mut live = layer.object.clone();
        live["metadata"]["resourceVersion"] = json!("7");
        live
    }

    /// Plans, applies, and finds nothing left to do.
    #[track_caller]
    fn repairs(layer: &Layer, mut live: Value, ca_bundle: &[u8]) -> Value {
        let patch = plan(layer, &live, ca_bundle).expect("drift is seen");
        json_patch::patch(&mut live, &patch).unwrap();
        assert_eq!(plan(layer, &live, ca_bundle), None, "{}", layer.name);
        live
    }
}
