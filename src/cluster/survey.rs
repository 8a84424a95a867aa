//! Which kinds of jobs keep `managedBy` on a cluster: what its definitions and its version say, kept in memory.
//!
//! A schema that lacks the field prunes it, so the operator of the cluster runs every job of the kind. One that keeps all
//! that it does not know says nothing of its operator, which is no better.

use std::collections::BTreeMap;
use std::time::Duration;

use arc_swap::ArcSwap;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::api::{CallError, ClusterApi};
use super::definitions::{Definitions, Generation};
use crate::admission::Keeps;
use crate::pod::narrow::{ReadError, Text, field, narrow, read};
use crate::workload::Resource;
use crate::workload::jobs::{JobKind, JobKinds};

/// The server's version is asked again, for nobody tells when it is another one.
const ASK_AGAIN: Duration = Duration::from_mins(10);
const ASK_AFTER_FAILURE: Duration = Duration::from_secs(2);

/// What is known of the kinds of one cluster.
#[derive(Debug, Default)]
pub struct Survey {
    kinds: JobKinds,
    found: ArcSwap<BTreeMap<Resource, Keeps>>,
}

/// What was looked at, and what it said.
type Seen = BTreeMap<Resource, (Generation, Keeps)>;

impl Survey {
    /// Of these kinds; nothing is known yet.
    #[must_use]
    pub fn new(kinds: JobKinds) -> Self {
        Self {
            kinds,
            found: ArcSwap::default(),
        }
    }

    /// The kinds.
    #[must_use]
    pub fn kinds(&self) -> JobKinds {
        self.kinds
    }

    /// Whether an object of this kind keeps its `managedBy`.
    #[must_use]
    pub fn keeps(&self, kind: Resource) -> Keeps {
        self.found.load().get(&kind).copied().unwrap_or(Keeps::Unknown)
    }

    /// Looks at start and whenever a definition changes, until `stop`.
    pub async fn keep(&self, calls: ClusterApi, mut definitions: Definitions, stop: CancellationToken) {
        let mut seen = Seen::new();
        loop {
            let pause = match self.look(&calls, &mut definitions, &mut seen).await {
                Ok(()) => ASK_AGAIN,
                Err(error) => {
                    let words = error.words();
                    tracing::warn!(
                        words,
                        "the cluster does not show the schemas of its jobs; it is asked again"
                    );
                    ASK_AFTER_FAILURE
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                Ok(()) = definitions.changed() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Reads what is new; what could be read before a failure counts.
    async fn look(
        &self,
        calls: &ClusterApi,
        definitions: &mut Definitions,
        seen: &mut Seen,
    ) -> Result<(), CallError> {
        let stored = definitions.borrow_and_update().clone();
        let looked = self.look_at(calls, &stored, seen).await;
        let found: BTreeMap<Resource, Keeps> =
            seen.iter().map(|(kind, (_, keeps))| (*kind, *keeps)).collect();
        let before = self.found.swap(found.clone().into());
        for (kind, keeps) in found
            .iter()
            .filter(|(kind, keeps)| before.get(kind) != Some(keeps))
        {
            let kind = format!("{}/{}", kind.api_version(), kind.kind);
            match keeps {
                Keeps::No => {
                    tracing::warn!(kind, "has no managedBy here: its pods are dispatched one by one");
                }
                Keeps::Yes | Keeps::Unknown => tracing::info!(kind, "is dispatched whole"),
            }
        }
        looked
    }

    async fn look_at(
        &self,
        calls: &ClusterApi,
        stored: &BTreeMap<String, Generation>,
        seen: &mut Seen,
    ) -> Result<(), CallError> {
        for kind in self.kinds.iter() {
            let names = kind.resource();
            if is_built_in(names) {
                let version = calls.client().apiserver_version().await?;
                seen.insert(names, (0, of_version(&version.major, &version.minor)));
                continue;
            }
            let name = format!("{}.{}", names.plural, names.group);
            let Some(generation) = stored.get(&name) else {
                seen.remove(&names);
                continue;
            };
            if seen
                .get(&names)
                .is_some_and(|(looked_at, _)| looked_at == generation)
            {
                continue;
            }
            let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
            let keeps = match calls.get(&path).await {
                Ok(definition) => of_definition(kind, definition.json()),
                Err(error) if error.code() == Some(404) => continue,
                Err(error) => return Err(error),
            };
            seen.insert(names, (*generation, keeps));
        }
        Ok(())
    }
}

fn is_built_in(names: Resource) -> bool {
    !names.group.contains('.')
}

/// Job has `managedBy` by default since Kubernetes 1.32.
fn of_version(major: &str, minor: &str) -> Keeps {
    let number = |text: &str| -> Option<u32> {
        let digits = text
            .find(|letter: char| !letter.is_ascii_digit())
            .unwrap_or(text.len());
        text[..digits].parse().ok()
    };
    match (number(major), number(minor)) {
        (Some(major), Some(minor)) if (major, minor) >= (1, 32) => Keeps::Yes,
        (Some(_), Some(_)) => Keeps::No,
        (None, _) | (_, None) => Keeps::Unknown,
    }
}

narrow! {
    Version<'de>: "a version of a definition" {
        "name" => name: Text<'de>,
        "served" => served: bool,
        "schema" => schema: &'de RawValue,
    }
}

/// What the served schema of a kind says; one that cannot be read says nothing.
fn of_definition(kind: &dyn JobKind, definition: &str) -> Keeps {
    match declares(definition, kind.resource().version, kind.managed_by().path) {
        Ok(Some(true)) => Keeps::Yes,
        Ok(Some(false)) => Keeps::No,
        Ok(None) => Keeps::Unknown,
        Err(error) => {
            let kind = kind.resource().kind;
            tracing::warn!(kind, %error, "its definition cannot be read");
            Keeps::Unknown
        }
    }
}

/// Whether a version declares a field; none if it is not served.
fn declares(definition: &str, version: &str, path: &[&str]) -> Result<Option<bool>, ReadError> {
    let definition: &RawValue = read(definition)?;
    let Some(versions) = at(definition, &["spec", "versions"])? else {
        return Ok(None);
    };
    let versions: Vec<Version<'_>> = read(versions.get())?;
    let served = versions
        .iter()
        .find(|known| known.name.as_deref() == Some(version) && known.served == Some(true));
    let Some(served) = served else { return Ok(None) };
    let Some(schema) = served.schema else {
        return Ok(Some(false));
    };
    let keys: Vec<&str> = std::iter::once("openAPIV3Schema")
        .chain(path.iter().flat_map(|key| ["properties", key]))
        .collect();
    Ok(Some(at(schema, &keys)?.is_some()))
}

fn at<'t>(text: &'t RawValue, keys: &[&str]) -> Result<Option<&'t RawValue>, ReadError> {
    let mut place = text;
    for key in keys {
        match field(place, key)? {
            Some(next) => place = next,
            None => return Ok(None),
        }
    }
    Ok(Some(place))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::workload::jobs::{MpiJob, SparkApplication};

    #[test]
    fn only_a_served_schema_that_declares_the_field_keeps_it() {
        let field = json!({"properties": {"spec": {"properties": {"runPolicy": {"properties": {"managedBy": {"type": "string"}}}}}}});
        let older = json!({"properties": {"spec": {"properties": {"runPolicy": {"properties": {}}}}}});
        let any =
            json!({"properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
        for (schema, keeps) in [(&field, Keeps::Yes), (&older, Keeps::No), (&any, Keeps::No)] {
            let version = json!({"name": "v2beta1", "served": true, "schema": {"openAPIV3Schema": schema}});
            assert_eq!(of(&MpiJob, json!([version])), keeps, "{schema}");
        }
        let version = |name: &str, served: bool, schema: &Value| json!({"name": name, "served": served, "schema": {"openAPIV3Schema": schema}});
        // Another version, or one that is not served, is none of it.
        let versions = json!([version("v1", true, &field), version("v2beta1", false, &field)]);
        assert_eq!(of(&MpiJob, versions), Keeps::Unknown);
        let versions = json!([version("v1beta2", true, &field), version("v1beta1", true, &field)]);
        assert_eq!(
            of(&SparkApplication, versions),
            Keeps::No,
            "the field is elsewhere"
        );
        assert_eq!(
            of(&MpiJob, json!([{"name": "v2beta1", "served": true}])),
            Keeps::No
        );
    }

    #[test]
    fn what_is_no_definition_says_nothing() {
        for text in [
            "",
            "[]",
            "{}",
            r#"{"spec": {"versions": {}}}"#,
            r#"{"spec": {"versions": [5]}}"#,
        ] {
            assert_eq!(of_definition(&MpiJob, text), Keeps::Unknown, "{text}");
        }
    }

    #[test]
    fn a_job_keeps_it_since_1_32() {
        for (version, keeps) in [
            (("1", "31"), Keeps::No),
            (("1", "32"), Keeps::Yes),
            (("1", "37+"), Keeps::Yes),
            (("2", "0"), Keeps::Yes),
            (("", ""), Keeps::Unknown),
        ] {
            assert_eq!(of_version(version.0, version.1), keeps, "{version:?}");
        }
    }

    fn of(kind: &dyn JobKind, versions: Value) -> Keeps {
        of_definition(kind, &json!({"spec": {"versions": versions}}).to_string())
    }
}
