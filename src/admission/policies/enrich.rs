//! The layer enrich: the MutatingWebhookConfiguration, for what CEL cannot express.

use serde_json::{Value, json};

use super::{
    Layer, LayerKind, Layout, WebhookAddress, cel, condition, rules, template_conditions, template_rules,
};
use crate::names::{GATED, PORTCULLIS, TRUE};
use crate::workload::Treatment;

/// Where the server answers reviews.
pub const MUTATE_PATH: &str = "/mutate";

/// Seconds the API server waits (A2).
const TIMEOUT_SECONDS: u8 = 2;

pub(super) fn render(layout: &Layout) -> Layer {
    let not_us = condition(
        "not-us",
        &format!("request.userInfo.username != {}", cel::text(&layout.user())),
    );
    let pods = webhook(
        layout,
        "pods.portcullis.dev",
        &rules(Treatment::GatePod, &["CREATE"]),
        &[
            not_us.clone(),
            condition("no-node-name", "object.?spec.?nodeName.orValue('') == ''"),
            condition("not-of-this-cluster", &cel::not(&cel::made_for_this_cluster())),
            condition("not-born-gated", &cel::not(&born_gated())),
        ],
    );
    let templates = webhook(
        layout,
        "templates.portcullis.dev",
        &template_rules(),
        &[vec![not_us], template_conditions()].concat(),
    );
    Layer::new(
        LayerKind::MutatingWebhookConfiguration,
        PORTCULLIS,
        ("webhooks", json!([pods, templates])),
    )
}

/// A controller's pod that already carries gate and label and is none of Kueue's: nothing is left to do, and no
/// person would read a warning.
fn born_gated() -> String {
    cel::all(&[
        format!("{} == {}", cel::label("object", GATED), cel::text(TRUE)),
        cel::has_gate("object"),
        cel::has_controller(),
        format!(
            "!{}.exists(key, key.startsWith('kueue.x-k8s.io/'))",
            cel::labels("object")
        ),
    ])
}

fn webhook(layout: &Layout, name: &str, rules: &[Value], conditions: &[Value]) -> Value {
    json!({
        "name": name,
        "clientConfig": client_config(&layout.webhook),
        "rules": rules,
        "failurePolicy": if layout.inject { "Ignore" } else { "Fail" },
        "matchPolicy": "Equivalent",
        "namespaceSelector": layout.opted_in(),
        "objectSelector": {},
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_SECONDS,
        "admissionReviewVersions": ["v1"],
        "reinvocationPolicy": "IfNeeded",
        "matchConditions": conditions,
    })
}

/// Without `caBundle`: the running process writes it.
fn client_config(address: &WebhookAddress) -> Value {
    match address {
        WebhookAddress::Url(base) => json!({"url": format!("{}{MUTATE_PATH}", base.trim_end_matches('/'))}),
        WebhookAddress::Service {
            namespace,
            name,
            port,
        } => {
            json!({"service": {"namespace": namespace, "name": name, "port": port, "path": MUTATE_PATH}})
        }
    }
}
