//! The layer guard: ValidatingAdmissionPolicies that keep the promise against everyone but us.

use serde_json::{Value, json};

use super::{Layer, LayerKind, Layout, cel, condition, constraints, rule, rules, template_rules, variable};
use crate::admission::validate;
use crate::names::{
    ALLOW_EXEMPT, CLUSTER, DISPATCH, EXEMPT, GANG, GATED, GROUP, RECONCILER_KEYS, REMOTE_COPY, REMOTE_UID,
    TRUE,
};
use crate::workload::Treatment;

const CREATE: &str = "portcullis-guard-create";
const TEMPLATES: &str = "portcullis-guard-templates";
const PODS: &str = "portcullis-guard-pods";
/// Bindings of [`PODS`]. Deleting the first breaks the glass: then gates can be removed by anyone.
const GATED_PODS: &str = "portcullis-guard-gated-pods";
const EXEMPT_PODS: &str = "portcullis-guard-exempt-pods";
const NAMESPACES: &str = "portcullis-guard-namespaces";

pub(super) fn render(layout: &Layout) -> Vec<Layer> {
    let policy =
        |name: &str, spec: Value| Layer::new(LayerKind::ValidatingAdmissionPolicy, name, ("spec", spec));
    let binding = |name: &str| Layer::binding(LayerKind::ValidatingAdmissionPolicyBinding, name);
    vec![
        policy(CREATE, create(layout)),
        binding(CREATE),
        policy(TEMPLATES, templates(layout)),
        binding(TEMPLATES),
        policy(PODS, pods(layout)),
        labelled(GATED_PODS, GATED),
        labelled(EXEMPT_PODS, EXEMPT),
        policy(NAMESPACES, namespaces(layout)),
        binding(NAMESPACES),
    ]
}

/// What may come into being in an opted-in namespace.
fn create(layout: &Layout) -> Value {
    let gated = cel::all(&[
        cel::has_gate("dyn(object)"),
        format!("{} == {}", cel::label("object", GATED), cel::text(TRUE)),
    ]);
    let daemon_set_exempt = format!(
        "{} &&\n({} ||\n{})",
        cel::namespace_allows_exempt(),
        cel::asks_exempt("object"),
        cel::asks_exempt("object.spec.template")
    );
    let exempt = format!(
        "variables.pod ?\n({}) :\n({daemon_set_exempt})",
        cel::exempt_pod()
    );
    let is_pod = "request.resource.resource == 'pods'";
    // A DaemonSet from before the opt-in keeps its pods; another template would start others here.
    let same_template =
        "request.operation == 'UPDATE' && dyn(object).spec.template == dyn(oldObject).spec.template";
    json!({
        "failurePolicy": "Fail",
        "matchConstraints": constraints(&layout.opted_in(), &[
            rules(Treatment::GatePod, &["CREATE"]),
            rules(Treatment::Refuse, &["CREATE", "UPDATE"]),
        ].concat()),
        "matchConditions": [condition(
            "not-of-this-cluster",
            &format!("request.resource.resource != 'pods' || !({})", cel::made_for_this_cluster()),
        )],
        "variables": [
            variable("pod", is_pod),
            variable("old", &format!("request.resource.resource != 'pods' && {same_template}")),
            variable("exempt", &exempt),
            variable("gated", &gated),
            variable("bound", "object.?spec.?nodeName.orValue('') != ''"),
            variable("keys", &keys_of("object")),
        ],
        "validations": [
            said("variables.pod || variables.old || variables.exempt", validate::DAEMON_SET),
            said("!variables.pod || variables.exempt || !variables.bound", validate::NODE_NAME),
            said("!variables.pod || variables.exempt || variables.bound || variables.gated", validate::UNGATED),
            told("!variables.pod || variables.keys == []", validate::KEYS, "variables.keys.join(', ')"),
        ],
    })
}

/// Keys of the reconciler in a template would come back on its pods, and be refused there by and by.
fn templates(layout: &Layout) -> Value {
    let old = "oldObject.spec.template";
    let new = format!(
        "variables.keys.filter(key, request.operation == 'CREATE' || !(key in {}))",
        keys_of(old)
    );
    json!({
        "failurePolicy": "Fail",
        "matchConstraints": constraints(&layout.opted_in(), &template_rules()),
        "matchConditions": [condition("no-controller", &cel::not(&cel::has_controller()))],
        "variables": [
            variable(
                "keys",
                &format!(
                    "(request.operation == 'CREATE' ? {} : []) + {}",
                    keys_of("object"),
                    keys_of("object.spec.template")
                ),
            ),
            variable("new", &new),
        ],
        "validations": [told("variables.new == []", validate::TEMPLATE_KEYS, "variables.new.join(', ')")],
    })
}

/// What may become of a pod that carries `gated` or `exempt`. In every namespace: the bindings select by the
/// pod's own label, in the old or the new object, so the guard outlives the namespace's label.
fn pods(layout: &Layout) -> Value {
    let optional = |holder: &str, key: &str| format!("{}[?{}]", cel::labels(holder), cel::text(key));
    let same_label = |key: &str| format!("{} == {}", optional("object", key), optional("oldObject", key));
    let committed_to = format!(
        "{}[?{}].orValue('')",
        cel::annotations("oldObject"),
        cel::text(CLUSTER)
    );
    let finalizer = |holder: &str| format!("({} in {})", cel::text(REMOTE_COPY), cel::finalizers(holder));
    let same_spec = "variables.spec.all(key, key == 'schedulingGates' || \
                     (key in variables.oldSpec && variables.oldSpec[key] == variables.spec[key])) &&\n\
                     variables.oldSpec.all(key, key == 'schedulingGates' || key in variables.spec)";
    let changed = format!(
        "{}.filter(key, variables.annotations[?key] != variables.oldAnnotations[?key])",
        cel::texts(&RECONCILER_KEYS)
    );
    json!({
        "failurePolicy": "Fail",
        "matchConstraints": constraints(&json!({}), &[rule(
            "",
            "v1",
            &["pods", "pods/status", "pods/resize", "pods/ephemeralcontainers"],
            &["UPDATE"],
            "Namespaced",
        )]),
        "matchConditions": [condition("not-us", &format!("request.userInfo.username != {}", cel::text(&layout.user())))],
        "variables": [
            variable("annotations", &cel::annotations("object")),
            variable("oldAnnotations", &cel::annotations("oldObject")),
            variable("spec", "dyn(object.spec)"),
            variable("oldSpec", "dyn(oldObject.spec)"),
            variable("changed", &changed),
            variable("committed", &format!("{} in variables.oldAnnotations", cel::text(REMOTE_UID))),
        ],
        "validations": [
            said(&format!("{} == {}", cel::has_gate("object"), cel::has_gate("oldObject")), validate::GATE_CHANGED),
            said(&format!("{} && {}", same_label(GATED), same_label(EXEMPT)), validate::LABEL_CHANGED),
            told("variables.changed == []", validate::KEYS_CHANGED, "variables.changed.join(', ')"),
            said(
                &format!(
                    "has(oldObject.metadata.deletionTimestamp) || {} == {}",
                    finalizer("object"),
                    finalizer("oldObject")
                ),
                validate::FINALIZER_CHANGED,
            ),
            told(&format!("!variables.committed || ({same_spec})"), validate::SPEC_CHANGED, &committed_to),
        ],
    })
}

/// Who may opt a namespace in and out.
fn namespaces(layout: &Layout) -> Value {
    let ours = cel::texts(&[DISPATCH, GANG, ALLOW_EXEMPT]);
    let new = cel::labels("object");
    let old = format!(
        "(request.operation == 'CREATE' ? {{}} : {})",
        cel::labels("oldObject")
    );
    let changed = |key: &str| format!("variables.changed.exists(key, key == {})", cel::text(key));
    let named = |labels: &str| format!("({0} in {labels} ? [{labels}[{0}]] : [])", cel::text(DISPATCH));
    let may_use = |name: &str| {
        format!(
            "authorizer.group({}).resource('dispatchpolicies'){name}.check('use').allowed()",
            cel::text(GROUP)
        )
    };
    json!({
        "failurePolicy": "Fail",
        "matchConstraints": constraints(&json!({}), &[rule(
            "",
            "v1",
            &["namespaces", "namespaces/status", "namespaces/finalize"],
            &["CREATE", "UPDATE"],
            "Cluster",
        )]),
        "matchConditions": [
            condition("our-labels-change", &format!("{ours}.exists(key, {new}[?key] != {old}[?key])")),
        ],
        "variables": [
            variable("labels", &new),
            variable("oldLabels", &old),
            variable("changed", &format!("{ours}.filter(key, variables.labels[?key] != variables.oldLabels[?key])")),
            variable("oldPolicy", &named("variables.oldLabels")),
            variable(
                "policies",
                &format!("variables.oldPolicy + {}.filter(name, !(name in variables.oldPolicy))", named("variables.labels")),
            ),
            variable("mayUse", &format!("variables.policies.all(name, {})", may_use(".name(name)"))),
            variable("mayUseAny", &may_use("")),
        ],
        "validations": [
            told(
                &format!(
                    "!(object.metadata.?name.orValue('') in {}) || \
                     !variables.changed.exists(key, key in variables.labels)",
                    cel::texts(&layout.protected())
                ),
                validate::PROTECTED,
                "object.metadata.name",
            ),
            told(
                &format!("!{} || variables.mayUse", changed(DISPATCH)),
                validate::MAY_NOT_DISPATCH,
                "variables.policies.join(', ')",
            ),
            told(
                &format!(
                    "!{} || (variables.policies == [] ? variables.mayUseAny : variables.mayUse)",
                    changed(ALLOW_EXEMPT)
                ),
                validate::MAY_NOT_EXEMPT,
                "(variables.policies == [] ? 'of any name' : variables.policies.join(', '))",
            ),
            said(&format!("!{} || variables.mayUseAny", changed(GANG)), validate::MAY_NOT_GANG),
        ],
    })
}

/// A binding of [`PODS`] for pods that carry `label`, whatever their namespace.
fn labelled(name: &str, label: &str) -> Layer {
    let spec = json!({
        "policyName": PODS,
        "validationActions": ["Deny"],
        "matchResources": {
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {"matchExpressions": [{"key": label, "operator": "Exists"}]},
        },
    });
    Layer::new(LayerKind::ValidatingAdmissionPolicyBinding, name, ("spec", spec))
}

/// Which of the keys that only the reconciler writes `holder` carries.
pub(super) fn keys_of(holder: &str) -> String {
    format!(
        "{}.filter(key, key in {}) + ({finalizer} in {} ? [{finalizer}] : [])",
        cel::texts(&RECONCILER_KEYS),
        cel::annotations(holder),
        cel::finalizers(holder),
        finalizer = cel::text(REMOTE_COPY),
    )
}

/// A validation with a fixed sentence.
pub(super) fn said(expression: &str, message: &str) -> Value {
    json!({"expression": expression, "message": message, "reason": "Forbidden"})
}

/// A validation whose sentence names a value.
pub(super) fn told(expression: &str, sentence: &str, value: &str) -> Value {
    json!({"expression": expression, "messageExpression": cel::sentence(sentence, value), "reason": "Forbidden"})
}
