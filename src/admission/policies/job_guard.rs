//! The layer guard for whole jobs: who may mark them, and what of a dispatched one can still change.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::guard::{keys_of, said, told};
use super::jobs::{choose, job_rules, kind, path, value_at};
use super::{Layer, LayerKind, Layout, cel, condition, constraints, variable};
use crate::admission::validate;
use crate::names::{
    CLUSTER, DISPATCHED_BY, EXEMPT, GATE, KUEUES_MANAGER, RECONCILER_KEYS, REMOTE_COPY, REMOTE_UID,
};
use crate::workload::jobs::JobKind;

const CREATE: &str = "portcullis-guard-job-create";
const JOBS: &str = "portcullis-guard-jobs";

pub(super) fn render(layout: &Layout) -> Vec<Layer> {
    let policy =
        |name: &str, spec: Value| Layer::new(LayerKind::ValidatingAdmissionPolicy, name, ("spec", spec));
    let binding = |name: &str| Layer::binding(LayerKind::ValidatingAdmissionPolicyBinding, name);
    vec![
        policy(CREATE, create(layout)),
        binding(CREATE),
        policy(JOBS, jobs(layout)),
        binding(JOBS),
    ]
}

/// Nobody creates a job that looks as if it had been handed to a worker, or whose pods would.
fn create(layout: &Layout) -> Value {
    let keys = format!(
        "{} +\n{}",
        keys_of("object"),
        keys_of("dyn(object).?spec.?template")
    );
    json!({
        "failurePolicy": "Fail",
        "matchConstraints": constraints(&layout.opted_in(), &job_rules(layout.kinds, &[""], &["CREATE"])),
        "variables": [variable("keys", &keys)],
        "validations": [told("variables.keys == []", validate::JOB_KEYS, "variables.keys.join(', ')")],
    })
}

/// What may become of a job that is ours, committed, or exempt. In every namespace: a condition looks at the job's own
/// marks, in the old or the new object, so the guard outlives the namespace's label.
fn jobs(layout: &Layout) -> Value {
    let same = |old: &str, new: &str| format!("{old} == {new}");
    let label = |holder: &str| format!("{}[?{}]", cel::labels(holder), cel::text(EXEMPT));
    let annotation = |holder: &str| format!("{}[?{}]", cel::annotations(holder), cel::text(DISPATCHED_BY));
    let finalizer = |holder: &str| format!("({} in {})", cel::text(REMOTE_COPY), cel::finalizers(holder));
    let changed = format!(
        "{}.filter(key, variables.annotations[?key] != variables.oldAnnotations[?key])",
        cel::texts(&RECONCILER_KEYS)
    );
    let names_us = |managed_by: &str| {
        format!(
            "{managed_by} == {} || ({managed_by} == {} && variables.marked)",
            cel::text(GATE),
            cel::text(KUEUES_MANAGER)
        )
    };
    let managed_by = |holder: &str| {
        choose(layout.kinds, path, |path| {
            value_at(&format!("dyn({holder})"), path)
        })
    };
    let committed_to = format!("variables.oldAnnotations[?{}].orValue('')", cel::text(CLUSTER));
    json!({
        "failurePolicy": "Fail",
        "matchConstraints": constraints(&json!({}), &job_rules(layout.kinds, &["", "status"], &["UPDATE"])),
        "matchConditions": [
            condition("not-us", &format!("request.userInfo.username != {}", cel::text(&layout.user()))),
            condition("marked", &marked(layout)),
        ],
        "variables": [
            variable("kind", kind()),
            variable("annotations", &cel::annotations("object")),
            variable("oldAnnotations", &cel::annotations("oldObject")),
            variable("changed", &changed),
            variable("marked", &format!(
                "{key} in variables.annotations || {key} in variables.oldAnnotations", key = cel::text(DISPATCHED_BY)
            )),
            variable("managedBy", &managed_by("object")),
            variable("oldManagedBy", &managed_by("oldObject")),
            variable("ours", &[names_us("variables.managedBy"), names_us("variables.oldManagedBy")].join(" ||\n")),
            variable("committed", &format!("{} in variables.oldAnnotations", cel::text(REMOTE_UID))),
            variable("spec", &cel::optional_map("dyn(object)", "spec")),
            variable("oldSpec", &cel::optional_map("dyn(oldObject)", "spec")),
            variable("sameSpec", &choose(layout.kinds, changeable, |paths| {
                same_spec("variables.spec", "variables.oldSpec", paths)
            })),
        ],
        "validations": [
            told("variables.changed == []", validate::JOB_KEYS_CHANGED, "variables.changed.join(', ')"),
            said(
                &format!(
                    "has(oldObject.metadata.deletionTimestamp) || {} == {}",
                    finalizer("object"),
                    finalizer("oldObject")
                ),
                validate::JOB_FINALIZER_CHANGED,
            ),
            said(&same(&annotation("oldObject"), &annotation("object")), validate::DISPATCHED_BY_CHANGED),
            said(&same(&label("oldObject"), &label("object")), validate::JOB_EXEMPT_CHANGED),
            said(
                "!variables.ours || variables.managedBy == variables.oldManagedBy",
                validate::MANAGED_BY_CHANGED,
            ),
            told("!variables.committed || variables.sameSpec", validate::JOB_SPEC_CHANGED, &committed_to),
        ],
    })
}

/// A mark of ours stands in the old or the new object. Conditions see no variables.
fn marked(layout: &Layout) -> String {
    let mut paths: Vec<&[&str]> = Vec::new();
    for path in layout.kinds.iter().map(path) {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    let annotations: Vec<&str> = RECONCILER_KEYS.into_iter().chain([DISPATCHED_BY]).collect();
    let of = |holder: &str| {
        let managed_by = paths.iter().map(|path| {
            format!(
                "{} == {}",
                value_at(&format!("dyn({holder})"), path),
                cel::text(GATE)
            )
        });
        [
            format!(
                "{}.exists(key, key in {})",
                cel::texts(&annotations),
                cel::annotations(holder)
            ),
            format!("{} in {}", cel::text(REMOTE_COPY), cel::finalizers(holder)),
            format!("{} in {}", cel::text(EXEMPT), cel::labels(holder)),
        ]
        .into_iter()
        .chain(managed_by)
        .collect::<Vec<_>>()
        .join(" ||\n")
    };
    format!("{} ||\n{}", of("object"), of("oldObject"))
}

/// The fields of the spec that may change though the job runs elsewhere: those that change there too, and those that only
/// mean something here. Without the key `spec`.
fn changeable(kind: &dyn JobKind) -> Vec<&'static [&'static str]> {
    let forwarded = kind.forwarded().iter().copied();
    let mut paths: Vec<&'static [&'static str]> = std::iter::once(kind.suspend())
        .chain(forwarded)
        .chain(kind.kept_here())
        .filter_map(|path| match path {
            ["spec", below @ ..] => Some(below),
            _ => None,
        })
        .collect();
    paths.sort_unstable();
    paths
}

/// Two maps are the same but for what stands at these paths.
fn same_spec(new: &str, old: &str, paths: &[&[&str]]) -> String {
    let mut below: BTreeMap<&str, Vec<&[&str]>> = BTreeMap::new();
    for path in paths {
        if let [key, rest @ ..] = path {
            below
                .entry(key)
                .or_default()
                .extend((!rest.is_empty()).then_some(rest));
        }
    }
    let keys: Vec<&str> = below.keys().copied().collect();
    let nested = below
        .iter()
        .filter(|(_, paths)| !paths.is_empty())
        .map(|(key, paths)| same_spec(&cel::optional_map(new, key), &cel::optional_map(old, key), paths));
    let parts: Vec<String> = cel::same_but(new, old, &keys).into_iter().chain(nested).collect();
    cel::all(&parts)
}
