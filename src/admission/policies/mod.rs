//! Options -> the three layers that stand in the API server: inject, guard, enrich.
//!
//! One function renders them from one list of kinds. They are installed by manifest; the running process only
//! keeps them as they are (`reconcile::webhook_config`).

mod cel;
mod enrich;
mod gangs;
mod guard;
mod inject;
mod job_guard;
mod jobs;

use serde_json::{Value, json};

pub use enrich::{GANGS_PATH, JOBS_PATH, MUTATE_PATH};

use crate::names::{DISPATCH, GANG, NAMESPACE, PORTCULLIS};
use crate::workload::jobs::JobKinds;
use crate::workload::{Resource, Treatment, WORKLOAD_KINDS};

/// How the layers are rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Our own namespace: the ServiceAccount is there, and no layer touches it.
    pub namespace: String,
    /// How the API server reaches the webhook.
    pub webhook: WebhookAddress,
    /// Whether the API server serves MutatingAdmissionPolicy v1 (1.36 and later). Without, the webhook is all
    /// that puts the gate on, so it fails closed.
    pub inject: bool,
    /// The kinds of jobs that are dispatched whole.
    pub kinds: JobKinds,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            namespace: NAMESPACE.to_owned(),
            webhook: WebhookAddress::Service {
                namespace: NAMESPACE.to_owned(),
                name: PORTCULLIS.to_owned(),
                port: 443,
            },
            inject: true,
            kinds: JobKinds::BUILT_IN,
        }
    }
}

impl Layout {
    /// The user name of our ServiceAccount: the guard's only exception.
    #[must_use]
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{PORTCULLIS}", self.namespace)
    }

    /// Namespaces that no layer touches, whatever their labels.
    fn protected(&self) -> [&str; 3] {
        ["kube-system", "kube-node-lease", &self.namespace]
    }

    /// Namespaces that are opted in to dispatch.
    fn opted_in(&self) -> Value {
        self.labelled(DISPATCH)
    }

    /// Namespaces whose jobs get PodGroups here: where pods are dispatched, a PodGroup of this cluster holds nothing.
    fn ganged(&self) -> Value {
        let mut selector = self.labelled(GANG);
        if let Some(expressions) = selector["matchExpressions"].as_array_mut() {
            expressions.push(json!({"key": DISPATCH, "operator": "DoesNotExist"}));
        }
        selector
    }

    fn labelled(&self, key: &str) -> Value {
        json!({"matchExpressions": [
            {"key": key, "operator": "Exists"},
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": self.protected()},
        ]})
    }
}

/// Where the webhook's server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookAddress {
    /// Outside of the cluster: `https://host:port`, the path is ours.
    Url(String),
    /// A Service of the cluster.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port.
        port: u16,
    },
}

/// The kind of one installed object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LayerKind {
    /// Inject.
    MutatingAdmissionPolicy,
    /// Inject.
    MutatingAdmissionPolicyBinding,
    /// Guard.
    ValidatingAdmissionPolicy,
    /// Guard.
    ValidatingAdmissionPolicyBinding,
    /// Enrich.
    MutatingWebhookConfiguration,
}

impl LayerKind {
    /// All kinds, in the order in which manifests hold them.
    pub const ALL: [Self; 5] = [
        Self::MutatingAdmissionPolicy,
        Self::MutatingAdmissionPolicyBinding,
        Self::ValidatingAdmissionPolicy,
        Self::ValidatingAdmissionPolicyBinding,
        Self::MutatingWebhookConfiguration,
    ];

    /// Singular, CamelCase.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::MutatingAdmissionPolicy => "MutatingAdmissionPolicy",
            Self::MutatingAdmissionPolicyBinding => "MutatingAdmissionPolicyBinding",
            Self::ValidatingAdmissionPolicy => "ValidatingAdmissionPolicy",
            Self::ValidatingAdmissionPolicyBinding => "ValidatingAdmissionPolicyBinding",
            Self::MutatingWebhookConfiguration => "MutatingWebhookConfiguration",
        }
    }

    /// Plural, lower case.
    #[must_use]
    pub fn resource(self) -> &'static str {
        match self {
            Self::MutatingAdmissionPolicy => "mutatingadmissionpolicies",
            Self::MutatingAdmissionPolicyBinding => "mutatingadmissionpolicybindings",
            Self::ValidatingAdmissionPolicy => "validatingadmissionpolicies",
            Self::ValidatingAdmissionPolicyBinding => "validatingadmissionpolicybindings",
            Self::MutatingWebhookConfiguration => "mutatingwebhookconfigurations",
        }
    }
}

/// One object of a layer, as it is installed.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Its kind.
    pub kind: LayerKind,
    /// Its name.
    pub name: String,
    /// The whole object, with every field the API server would default.
    pub object: Value,
}

impl Layer {
    fn new(kind: LayerKind, name: &str, (field, content): (&str, Value)) -> Self {
        let object = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind.kind(),
            "metadata": {"name": name, "labels": {"app.kubernetes.io/part-of": PORTCULLIS}},
            field: content,
        });
        Self {
            kind,
            name: name.to_owned(),
            object,
        }
    }

    /// A binding without a selection of its own.
    fn binding(kind: LayerKind, name: &str) -> Self {
        let mut spec = json!({"policyName": name});
        if kind == LayerKind::ValidatingAdmissionPolicyBinding {
            spec["validationActions"] = json!(["Deny"]);
        }
        Self::new(kind, name, ("spec", spec))
    }
}

/// All objects of the three layers, policies before their bindings.
pub type Rendered = Vec<Layer>;

/// The three layers.
#[must_use]
pub fn render(layout: &Layout) -> Rendered {
    let mut layers = Vec::new();
    if layout.inject {
        layers.extend(inject::render(layout));
        layers.extend(jobs::render(layout));
        layers.extend(gangs::render(layout));
    }
    layers.extend(guard::render(layout));
    layers.extend(job_guard::render(layout));
    layers.push(enrich::render(layout));
    layers.sort_by_key(|layer| layer.kind);
    layers
}

/// The policy that puts the pods of copies into their native groups, and its binding: what is installed on a worker whose gang
/// scheduler is that of Kubernetes. `namespace` is our own there.
#[must_use]
pub fn on_native_worker(namespace: &str) -> [Layer; 2] {
    gangs::on_worker(namespace)
}

/// The names that objects of `kind` can have, for RBAC by name.
#[must_use]
pub fn names(kind: LayerKind) -> Vec<String> {
    render(&Layout::default())
        .into_iter()
        .filter(|layer| layer.kind == kind)
        .map(|layer| layer.name)
        .collect()
}

/// `matchConstraints` of a policy, with the fields the API server would default.
fn constraints(namespaces: &Value, rules: &[Value]) -> Value {
    json!({
        "matchPolicy": "Equivalent",
        "namespaceSelector": namespaces,
        "objectSelector": {},
        "resourceRules": rules,
    })
}

/// One rule of exact groups, versions, resources (A3).
fn rule(group: &str, version: &str, resources: &[&str], operations: &[&str], scope: &str) -> Value {
    json!({
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": operations,
        "resources": resources,
        "scope": scope,
    })
}

/// One rule for each group and version of the kinds that admission treats so.
fn rules(treatment: Treatment, operations: &[&str]) -> Vec<Value> {
    let kinds = WORKLOAD_KINDS.iter().filter(|kind| kind.treatment() == treatment);
    rules_of(kinds.map(|kind| kind.resource()), &[""], operations)
}

/// One rule for each group and version of these kinds, and for these of their subresources; the empty one is the object.
fn rules_of(kinds: impl Iterator<Item = Resource>, subresources: &[&str], operations: &[&str]) -> Vec<Value> {
    let mut rules: Vec<(&str, &str, Vec<String>)> = Vec::new();
    for kind in kinds {
        let resources = subresources.iter().map(|subresource| match *subresource {
            "" => kind.plural.to_owned(),
            subresource => format!("{}/{subresource}", kind.plural),
        });
        match rules
            .iter_mut()
            .find(|(group, version, _)| (*group, *version) == (kind.group, kind.version))
        {
            Some((_, _, known)) => known.extend(resources),
            None => rules.push((kind.group, kind.version, resources.collect())),
        }
    }
    rules
        .iter()
        .map(|(group, version, resources)| {
            let resources: Vec<&str> = resources.iter().map(String::as_str).collect();
            rule(group, version, &resources, operations, "Namespaced")
        })
        .collect()
}

/// Kinds whose template is marked, when they are created and when they are changed.
fn template_rules() -> Vec<Value> {
    rules(Treatment::GateTemplate, &["CREATE", "UPDATE"])
}

/// When a template is looked at: never below another controller (a ReplicaSet that differs from its Deployment
/// makes the Deployment's controller create ReplicaSets without end), never while it goes, only if it is written.
fn template_conditions() -> Vec<Value> {
    vec![
        condition("no-controller", &cel::not(&cel::has_controller())),
        condition("not-terminating", "!has(object.metadata.deletionTimestamp)"),
        condition(
            "template-written",
            "request.operation == 'CREATE' || object.spec.template != oldObject.spec.template",
        ),
    ]
}

/// One match condition.
fn condition(name: &str, expression: &str) -> Value {
    json!({"name": name, "expression": expression})
}

/// One variable.
fn variable(name: &str, expression: &str) -> Value {
    json!({"name": name, "expression": expression})
}
