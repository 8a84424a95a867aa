//! A pod, or a pod template, as JSON text -> [`PodView`]: the fields that dispatch turns on.
//!
//! Webhook and reconciler read pods by this one parser: what it refuses never gets into an opted-in namespace.

use serde::de::{Deserialize, Deserializer, Error};
use serde_json::value::RawValue;

use crate::pod::narrow::{ReadError, StringMap, Text, narrow, read};

narrow! {
    /// A pod or a pod template. Everything is optional, since a template has no name and an exported manifest no UID.
    pub PodView<'de>: "an object" {
        "metadata" => metadata: Metadata<'de>,
        "spec" => spec: PodSpecView<'de>,
    }
}

narrow! {
    /// Any object, of which only the metadata matters.
    pub ObjectView<'de>: "an object" {
        "metadata" => metadata: Metadata<'de>,
    }
}

narrow! {
    /// The metadata that dispatch turns on.
    pub Metadata<'de>: "an object" {
        "uid" => uid: Text<'de>,
        "resourceVersion" => resource_version: Text<'de>,
        "name" => name: Text<'de>,
        "generateName" => generate_name: Text<'de>,
        "namespace" => namespace: Text<'de>,
        "labels" => labels: StringMap<'de>,
        "annotations" => annotations: StringMap<'de>,
        "finalizers" => finalizers: Vec<Text<'de>>,
        "ownerReferences" => owners: Vec<Owner<'de>>,
        "deletionTimestamp" => deletion_timestamp: Text<'de>,
    }
}

narrow! {
    /// One owner reference.
    pub Owner<'de>: "an owner reference" {
        "apiVersion" => api_version: Text<'de>,
        "kind" => kind: Text<'de>,
        "name" => name: Text<'de>,
        "uid" => uid: Text<'de>,
        "controller" => controller: bool,
    }
}

narrow! {
    /// The part of a pod's spec that dispatch turns on.
    pub PodSpecView<'de>: "an object" {
        "schedulingGates" => gates: Vec<Gate<'de>>,
        "nodeName" => node_name: Text<'de>,
        "schedulerName" => scheduler_name: Text<'de>,
        /// As written, for the snapshot of pods that Kueue will edit.
        "nodeSelector" => node_selector: &'de RawValue,
        /// As written, for the snapshot of pods that Kueue will edit.
        "tolerations" => tolerations: &'de RawValue,
    }
}

/// A scheduling gate; it always has a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate<'a> {
    /// The name.
    pub name: Text<'a>,
}

impl<'de> Deserialize<'de> for Gate<'de> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        narrow! {
            /// A gate before it is known to have a name.
            Fields<'de>: "a scheduling gate" {
                "name" => name: Text<'de>,
            }
        }
        let name = Fields::deserialize(source)?.name;
        name.map(|name| Gate { name })
            .ok_or_else(|| D::Error::missing_field("name"))
    }
}

impl<'a> PodView<'a> {
    /// Reads a pod or a template.
    ///
    /// # Errors
    /// With the field path, if the text is no pod: metadata or spec is no object, a label no string, a gate nameless.
    pub fn read(text: &'a str) -> Result<Self, ReadError> {
        let pod: Self = read(text)?;
        pod.with_spec()?;
        Ok(pod)
    }

    /// The pod, if it has what no pod lacks.
    ///
    /// # Errors
    /// If it has no spec.
    pub fn with_spec(&self) -> Result<&Self, ReadError> {
        match self.spec {
            Some(_) => Ok(self),
            None => Err(ReadError::missing("spec")),
        }
    }

    /// The labels, if the object has the map.
    #[must_use]
    pub fn labels(&self) -> Option<&StringMap<'a>> {
        self.metadata.as_ref()?.labels.as_ref()
    }

    /// The annotations, if the object has the map.
    #[must_use]
    pub fn annotations(&self) -> Option<&StringMap<'a>> {
        self.metadata.as_ref()?.annotations.as_ref()
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels()?.get(key)
    }

    /// The value of an annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations()?.get(key)
    }

    /// The scheduling gates, if the object has the list.
    #[must_use]
    pub fn gates(&self) -> Option<&[Gate<'a>]> {
        self.spec.as_ref()?.gates.as_deref()
    }

    /// Where a gate stands in the list of gates.
    #[must_use]
    pub fn gate_index(&self, name: &str) -> Option<usize> {
        self.gates()?.iter().position(|gate| *gate.name == *name)
    }

    /// The node a pod is bound to; a template or a pod that waits has none.
    #[must_use]
    pub fn node_name(&self) -> Option<&str> {
        let name = self.spec.as_ref()?.node_name.as_deref()?;
        Some(name).filter(|name| !name.is_empty())
    }
}

impl<'a> Metadata<'a> {
    /// The one owner that controls the object.
    #[must_use]
    pub fn controller(&self) -> Option<&Owner<'a>> {
        self.owners
            .as_ref()?
            .iter()
            .find(|owner| owner.controller == Some(true))
    }

    /// Deleted, and held by finalizers only.
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// The name, unless the server is yet to make one from `generateName`.
    #[must_use]
    pub fn given_name(&self) -> Option<&str> {
        self.name.as_deref().filter(|name| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_pod_with_all_that_matters() {
        let pod = PodView::read(
            r#"{"kind":"Pod","metadata":{"name":"web-0","uid":"u","labels":{"a":"b"},"annotations":{"c":"d"},
            "ownerReferences":[{"kind":"Other"},{"kind":"StatefulSet","name":"web","controller":true}]},
            "spec":{"schedulingGates":[{"name":"x"},{"name":"y","new":1}],"nodeName":"","containers":[]},"status":5}"#,
        )
        .unwrap();
        assert_eq!((pod.label("a"), pod.annotation("c")), (Some("b"), Some("d")));
        assert_eq!(
            (pod.gate_index("y"), pod.gate_index("z"), pod.node_name()),
            (Some(1), None, None)
        );
        let metadata = pod.metadata.unwrap();
        assert_eq!(
            metadata.controller().and_then(|owner| owner.name.as_deref()),
            Some("web")
        );
        assert!(!metadata.is_terminating());
    }

    #[test]
    fn names_the_field_that_is_not_a_pods() {
        for (text, sentence) in [
            (
                r#"{"spec":[]}"#,
                "spec: invalid type: sequence, expected an object",
            ),
            (r#"{"metadata":{}}"#, "spec: missing, expected an object"),
            (
                r#"{"metadata":[],"spec":{}}"#,
                "metadata: invalid type: sequence, expected an object",
            ),
            (
                r#"{"metadata":{"labels":{"a":{}}},"spec":{}}"#,
                "metadata.labels.a: invalid type: map, expected a string",
            ),
            (
                r#"{"spec":{"schedulingGates":[{}]}}"#,
                "spec.schedulingGates[0]: missing field `name`",
            ),
            (
                r#"{"spec":{"schedulingGates":["x"]}}"#,
                "spec.schedulingGates[0]: invalid type: string \"x\", expected a scheduling gate",
            ),
            (
                r#"{"spec":{"schedulingGates":{"name":"x"}}}"#,
                "spec.schedulingGates: invalid type: map, expected a sequence",
            ),
        ] {
            assert_eq!(PodView::read(text).unwrap_err().to_string(), sentence);
        }
    }
}
