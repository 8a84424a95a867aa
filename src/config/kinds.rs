//! `kinds:` of the configuration: kinds of jobs that are dispatched whole though Portcullis does not know them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::ConfigError;
use crate::names;
use crate::workload::Resource;
use crate::workload::jobs::{ConfiguredKind, JobKinds, ManagedBy, Written};

/// One of `kinds:`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Kind {
    group: String,
    version: String,
    kind: String,
    plural: String,
    managed_by: ManagedByField,
    suspend: String,
    #[serde(default = "conditions")]
    conditions: String,
    #[serde(default = "finished")]
    finished: Vec<String>,
    #[serde(default = "failed")]
    failed: String,
    ttl_seconds_after_finished: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ManagedByField {
    path: String,
    #[serde(default = "ours")]
    value: String,
    #[serde(default)]
    local: String,
}

fn conditions() -> String {
    "status.conditions".to_owned()
}

fn finished() -> Vec<String> {
    ["Complete", "Completed", "Succeeded", "Failed"]
        .map(str::to_owned)
        .to_vec()
}

fn failed() -> String {
    "Failed".to_owned()
}

fn ours() -> String {
    Written::Ours.value().to_owned()
}

/// The kinds, checked.
///
/// # Errors
/// The first field that holds something else than it should.
pub(super) fn read(kinds: Vec<Kind>) -> Result<Vec<ConfiguredKind>, ConfigError> {
    let mut known: BTreeSet<(String, String)> = JobKinds::BUILT_IN
        .iter()
        .map(|kind| (kind.resource().group.to_owned(), kind.resource().kind.to_owned()))
        .collect();
    let mut read = Vec::with_capacity(kinds.len());
    for (place, kind) in kinds.into_iter().enumerate() {
        let at = format!("kinds[{place}]");
        if !known.insert((kind.group.clone(), kind.kind.clone())) {
            let found = format!("{} of group {:?}", kind.kind, kind.group);
            let words = format!("found {found}, which is known already; remove it");
            return Err(invalid(format!("{at}.kind"), words));
        }
        read.push(one(kind, &at)?);
    }
    Ok(read)
}

fn one(kind: Kind, at: &str) -> Result<ConfiguredKind, ConfigError> {
    let name = |field: &str, found: &str, is_good: fn(&str) -> bool, allowed: &str| match is_good(found) {
        true => Ok(()),
        false => Err(invalid(
            format!("{at}.{field}"),
            format!("found {found:?}, allowed is {allowed}"),
        )),
    };
    name(
        "group",
        &kind.group,
        is_group,
        "the API group of a CRD, such as batch.example.com",
    )?;
    name(
        "version",
        &kind.version,
        is_version,
        "a version such as v1 or v1beta1",
    )?;
    name("kind", &kind.kind, is_kind, "a name in CamelCase, such as Solver")?;
    name(
        "plural",
        &kind.plural,
        is_plural,
        "the name of the resource in lower case, such as solvers",
    )?;
    let path = |field: &str, found: &str, top: &str| path(&format!("{at}.{field}"), found, top);
    let managed_by = path("managedBy.path", &kind.managed_by.path, "spec")?;
    let suspend = path("suspend", &kind.suspend, "spec")?;
    let conditions = path("conditions", &kind.conditions, "status")?;
    let ttl = kind
        .ttl_seconds_after_finished
        .as_deref()
        .map(|found| path("ttlSecondsAfterFinished", found, "spec"))
        .transpose()?;
    if managed_by.starts_with(suspend) || suspend.starts_with(managed_by) {
        let words = format!("found {:?}, which is the place of managedBy too", kind.suspend);
        return Err(invalid(format!("{at}.suspend"), words));
    }
    let written = [Written::Ours, Written::Kueues]
        .into_iter()
        .find(|written| written.value() == kind.managed_by.value)
        .ok_or_else(|| {
            let allowed = format!("{:?} or {:?}", Written::Ours.value(), Written::Kueues.value());
            let found = &kind.managed_by.value;
            invalid(
                format!("{at}.managedBy.value"),
                format!("found {found:?}, allowed is {allowed}"),
            )
        })?;
    if [Written::Ours.value(), Written::Kueues.value()].contains(&kind.managed_by.local.as_str()) {
        return Err(invalid(
            format!("{at}.managedBy.local"),
            format!(
                "found {:?}, which names no operator of this cluster",
                kind.managed_by.local
            ),
        ));
    }
    if !kind.finished.contains(&kind.failed) {
        let words = format!(
            "found {:?}, allowed is one of {at}.finished: {}",
            kind.failed,
            kind.finished.join(", ")
        );
        return Err(invalid(format!("{at}.failed"), words));
    }
    Ok(ConfiguredKind {
        resource: Resource {
            group: kind.group.leak(),
            version: kind.version.leak(),
            plural: kind.plural.leak(),
            kind: kind.kind.leak(),
        },
        managed_by: ManagedBy {
            path: managed_by,
            local: kind.managed_by.local.leak(),
        },
        written,
        suspend,
        conditions,
        finished: leak(kind.finished),
        failed: kind.failed.leak(),
        ttl,
    })
}

/// `spec.runPolicy.suspend` as its keys, at least one below `top`.
fn path(field: &str, found: &str, top: &str) -> Result<&'static [&'static str], ConfigError> {
    let keys: Vec<String> = found.split('.').map(str::to_owned).collect();
    let is_key = |key: &String| {
        !key.is_empty()
            && key
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
    };
    match keys.len() > 1 && keys[0] == top && keys.iter().all(is_key) {
        true => Ok(leak(keys)),
        false => {
            let words =
                format!("found {found:?}, allowed is the path of a field below {top}, such as {top}.field");
            Err(invalid(field.to_owned(), words))
        }
    }
}

fn leak(texts: Vec<String>) -> &'static [&'static str] {
    let texts: Vec<&'static str> = texts.into_iter().map(|text| &*text.leak()).collect();
    texts.leak()
}

fn is_group(text: &str) -> bool {
    text.contains('.') && text.len() <= 253 && text != names::GROUP && text.split('.').all(is_label)
}

fn is_label(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(is_inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn is_version(text: &str) -> bool {
    is_label(text) && text.starts_with('v')
}

fn is_kind(text: &str) -> bool {
    text.len() <= 63
        && text.starts_with(|first: char| first.is_ascii_uppercase())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn is_plural(text: &str) -> bool {
    is_label(text)
}

fn invalid(field: String, words: String) -> ConfigError {
    ConfigError::Invalid { field, words }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::super::Configuration;
    use crate::workload::jobs::JobKinds;

    const HEAD: &str = "apiVersion: portcullis.dev/v1alpha1\nkind: PortcullisConfiguration\n";
    const SOLVER: &str = "group: batch.example.com, version: v1, kind: Solver, plural: solvers";

    #[test]
    fn a_kind_with_its_defaults_is_a_kind_like_others() {
        let kinds = parsed(&format!(
            "{{{SOLVER}, managedBy: {{path: spec.run.managedBy, local: example.com/solver}}, suspend: spec.run.suspend}}"
        ))
        .unwrap();
        let kind = kinds.named("batch.example.com/v1", "Solver").unwrap();
        assert_eq!(kind.suspend(), ["spec", "run", "suspend"]);
        assert_eq!(kind.managed_by().local, "example.com/solver");
        assert_eq!(kind.dispatch().written.value(), "portcullis.dev/multikueue");
        let ended = json!({"status": {"conditions": [{"type": "Succeeded", "status": "True", "lastTransitionTime": "t"}]}});
        assert!(kind.is_finished(&ended));
        assert_eq!(kind.finished_at(&ended), Some("t"));
        assert!(kinds.named("batch/v1", "Job").is_some());
    }

    #[test]
    fn a_kind_may_keep_its_fields_elsewhere() {
        let kinds = parsed(&format!(
            "{{{SOLVER}, managedBy: {{path: spec.owner, value: kueue.x-k8s.io/multikueue}}, suspend: spec.paused, \
             conditions: status.job.conditions, finished: [Done, Broken], failed: Broken, ttlSecondsAfterFinished: spec.ttl}}"
        ))
        .unwrap();
        let kind = kinds.by_resource("batch.example.com", "v1", "solvers").unwrap();
        assert_eq!(kind.conditions(), ["status", "job", "conditions"]);
        assert_eq!(kind.dispatch().ttl, Some(&["spec", "ttl"][..]));
        let mut broken = json!({"status": {}});
        let failure = crate::workload::jobs::Failure {
            reason: "RemoteJobDeleted",
            message: "gone",
            now: "t",
        };
        kind.fail(broken["status"].as_object_mut().unwrap(), &failure);
        assert!(kind.is_finished(&broken), "{broken}");
        assert_eq!(
            broken,
            json!({"status": {"job": {"conditions": [{"type": "Broken", "status": "True", "reason": "RemoteJobDeleted",
                "message": "gone", "lastTransitionTime": "t"}]}}})
        );
    }

    #[test]
    fn errors_name_the_field_and_what_is_allowed() {
        let good = json!({
            "group": "batch.example.com", "version": "v1", "kind": "Solver", "plural": "solvers",
            "managedBy": {"path": "spec.managedBy"}, "suspend": "spec.suspend",
        });
        let edits = [
            json!({"suspend": null}),
            json!({"paused": "x"}),
            json!({"managedBy": {"vaule": "x"}}),
            json!({"managedBy": {"path": "managedBy"}}),
            json!({"managedBy": {"value": "me"}}),
            json!({"managedBy": {"local": "kueue.x-k8s.io/multikueue"}}),
            json!({"suspend": "spec"}),
            json!({"suspend": "spec..suspend"}),
            json!({"suspend": "spec.managedBy"}),
            json!({"conditions": "spec.conditions"}),
            json!({"failed": "Broken"}),
            json!({"group": "batch"}),
            json!({"version": "1"}),
            json!({"kind": "solver"}),
            json!({"plural": "Solvers"}),
            json!({"group": "ray.io", "kind": "RayJob"}),
            json!({}),
        ];
        let errors = edits.iter().map(|edit| {
            let mut kind = good.clone();
            json_patch::merge(&mut kind, edit);
            let twice = if *edit == json!({}) {
                format!("\n- {kind}")
            } else {
                String::new()
            };
            parsed(&format!("{kind}{twice}")).unwrap_err() + "\n"
        });
        expect![[r#"
            kinds[0]: missing field `suspend`
            kinds[0].paused: unknown field `paused`, expected one of `group`, `version`, `kind`, `plural`, `managedBy`, `suspend`, `conditions`, `finished`, `failed`, `ttlSecondsAfterFinished`
            kinds[0].managedBy.vaule: unknown field `vaule`, expected one of `path`, `value`, `local`
            kinds[0].managedBy.path: found "managedBy", allowed is the path of a field below spec, such as spec.field
            kinds[0].managedBy.value: found "me", allowed is "portcullis.dev/multikueue" or "kueue.x-k8s.io/multikueue"
            kinds[0].managedBy.local: found "kueue.x-k8s.io/multikueue", which names no operator of this cluster
            kinds[0].suspend: found "spec", allowed is the path of a field below spec, such as spec.field
            kinds[0].suspend: found "spec..suspend", allowed is the path of a field below spec, such as spec.field
            kinds[0].suspend: found "spec.managedBy", which is the place of managedBy too
            kinds[0].conditions: found "spec.conditions", allowed is the path of a field below status, such as status.field
            kinds[0].failed: found "Broken", allowed is one of kinds[0].finished: Complete, Completed, Succeeded, Failed
            kinds[0].group: found "batch", allowed is the API group of a CRD, such as batch.example.com
            kinds[0].version: found "1", allowed is a version such as v1 or v1beta1
            kinds[0].kind: found "solver", allowed is a name in CamelCase, such as Solver
            kinds[0].plural: found "Solvers", allowed is the name of the resource in lower case, such as solvers
            kinds[0].kind: found RayJob of group "ray.io", which is known already; remove it
            kinds[1].kind: found Solver of group "batch.example.com", which is known already; remove it
        "#]].assert_eq(&errors.collect::<String>());
    }

    fn parsed(kind: &str) -> Result<JobKinds, String> {
        let read = Configuration::parse(&format!("{HEAD}kinds:\n- {kind}\n"));
        read.map(|read| JobKinds::with(read.kinds))
            .map_err(|error| error.to_string())
    }
}
