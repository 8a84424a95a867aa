//! The layer enrich: the MutatingWebhookConfiguration, for what CEL cannot express.

use serde_json::{Value, json};

use super::{
    Layer, LayerKind, Layout, WebhookAddress, cel, condition, gangs, jobs, rules, template_conditions,
    template_rules,
};
use crate::names::{GATED, POD_GROUP, PORTCULLIS, TRUE};
use crate::workload::Treatment;

/// Where the server answers reviews.
pub const MUTATE_PATH: &str = "/mutate";

/// Where the server answers reviews of jobs that are dispatched whole.
pub const JOBS_PATH: &str = "/jobs";

/// Where the server answers reviews of jobs that are gangs of this cluster.
pub const GANGS_PATH: &str = "/gangs";

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
        &[vec![not_us.clone()], template_conditions()].concat(),
    );
    let mut webhooks = vec![
        pods,
        templates,
        dispatched_jobs(layout, &not_us),
        gang_jobs(layout, &not_us),
    ];
    if !layout.inject {
        webhooks.push(gang_pods(layout, &not_us));
    }
    Layer::new(
        LayerKind::MutatingWebhookConfiguration,
        PORTCULLIS,
        ("webhooks", json!(webhooks)),
    )
}

/// Jobs that are dispatched whole, also where the policy did everything: their makers may need a warning.
fn dispatched_jobs(layout: &Layout, not_us: &Value) -> Value {
    let mut webhook = webhook(
        layout,
        "dispatched-jobs.portcullis.dev",
        &jobs::job_rules(layout.kinds, &[""], &["CREATE"]),
        &[not_us.clone(), condition("top", &cel::top())],
    );
    webhook["clientConfig"] = client_config(&layout.webhook, JOBS_PATH);
    webhook
}

/// Jobs of gang namespaces. An API server without policies cannot hold a job while nothing of ours runs, so there the
/// webhook fails closed.
fn gang_jobs(layout: &Layout, not_us: &Value) -> Value {
    let top = condition("top", &cel::top());
    let mut webhook = webhook(
        layout,
        "jobs.portcullis.dev",
        &gangs::job_rules(&["CREATE", "UPDATE"]),
        &[not_us.clone(), top],
    );
    webhook["namespaceSelector"] = layout.ganged();
    webhook["clientConfig"] = client_config(&layout.webhook, GANGS_PATH);
    webhook
}

/// Pods of native groups, where no policy can put them in.
fn gang_pods(layout: &Layout, not_us: &Value) -> Value {
    let mut webhook = webhook(
        layout,
        "gang-pods.portcullis.dev",
        &rules(Treatment::GatePod, &["CREATE"]),
        std::slice::from_ref(not_us),
    );
    webhook["namespaceSelector"] = layout.ganged();
    webhook["objectSelector"] = json!({"matchExpressions": [{"key": POD_GROUP, "operator": "Exists"}]});
    webhook["clientConfig"] = client_config(&layout.webhook, GANGS_PATH);
    webhook
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
        "clientConfig": client_config(&layout.webhook, MUTATE_PATH),
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
fn client_config(address: &WebhookAddress, path: &str) -> Value {
    match address {
        WebhookAddress::Url(base) => json!({"url": format!("{}{path}", base.trim_end_matches('/'))}),
        WebhookAddress::Service {
            namespace,
            name,
            port,
        } => {
            json!({"service": {"namespace": namespace, "name": name, "port": port, "path": path}})
        }
    }
}
