//! An object of the API as its own JSON text: what our types do not know survives (R32).

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ApiResource;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::value::RawValue;

/// An object as the API server sent it, without `managedFields`, and the identity that stores and watches need.
#[derive(Clone, Debug)]
pub struct RawObject {
    meta: ObjectMeta,
    json: Arc<str>,
}

impl RawObject {
    /// The whole object as JSON text, without `metadata.managedFields`.
    pub fn json(&self) -> &Arc<str> {
        &self.json
    }

    /// Reads one object from JSON text.
    ///
    /// # Errors
    /// If the text is no JSON object with a `metadata` object.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Identity<'a> {
            #[serde(borrow)]
            metadata: IdentityMeta<'a>,
        }
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase", default)]
        struct IdentityMeta<'a> {
            #[serde(borrow)]
            name: Option<Cow<'a, str>>,
            #[serde(borrow)]
            namespace: Option<Cow<'a, str>>,
            #[serde(borrow)]
            uid: Option<Cow<'a, str>>,
            #[serde(borrow)]
            resource_version: Option<Cow<'a, str>>,
        }
        let Identity {
            metadata:
                IdentityMeta {
                    name,
                    namespace,
                    uid,
                    resource_version,
                },
        } = serde_json::from_str(text)?;
        let meta = ObjectMeta {
            name: name.map(Cow::into_owned),
            namespace: namespace.map(Cow::into_owned),
            uid: uid.map(Cow::into_owned),
            resource_version: resource_version.map(Cow::into_owned),
            ..ObjectMeta::default()
        };
        Ok(Self {
            meta,
            json: without_managed_fields(text)?.into(),
        })
    }
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::parse(raw.get()).map_err(D::Error::custom)
    }
}

impl kube::Resource for RawObject {
    type DynamicType = ApiResource;
    type Scope = kube::core::DynamicResourceScope;

    fn kind(dt: &ApiResource) -> Cow<'_, str> {
        dt.kind.as_str().into()
    }
    fn group(dt: &ApiResource) -> Cow<'_, str> {
        dt.group.as_str().into()
    }
    fn version(dt: &ApiResource) -> Cow<'_, str> {
        dt.version.as_str().into()
    }
    fn api_version(dt: &ApiResource) -> Cow<'_, str> {
        dt.api_version.as_str().into()
    }
    fn plural(dt: &ApiResource) -> Cow<'_, str> {
        dt.plural.as_str().into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

/// Members of a JSON object in their order, values untouched.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::with_capacity(map.size_hint().unwrap_or(8));
                while let Some(entry) = map.next_entry::<Cow<'de, str>, &'de RawValue>()? {
                    members.push(entry);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

/// The bookkeeping of field owners is a third of a stored pod, and nothing here reads it.
fn without_managed_fields(text: &str) -> Result<String, serde_json::Error> {
    let Members(members) = serde_json::from_str(text)?;
    let mut out = String::with_capacity(text.len());
    let mut outer = Joined::open(&mut out);
    for (key, value) in members {
        if key == "metadata" {
            let Members(meta) = serde_json::from_str(value.get())?;
            let inner = outer.key(&key)?;
            let mut joined = Joined::open(inner);
            for (key, value) in meta.iter().filter(|(key, _)| key != "managedFields") {
                joined.key(key)?.push_str(value.get());
            }
            joined.close();
        } else {
            outer.key(&key)?.push_str(value.get());
        }
    }
    outer.close();
    Ok(out)
}

/// Writes `{"a":…,"b":…}`.
struct Joined<'a> {
    out: &'a mut String,
    first: bool,
}

impl<'a> Joined<'a> {
    fn open(out: &'a mut String) -> Self {
        out.push('{');
        Self { out, first: true }
    }
    fn key(&mut self, key: &str) -> Result<&mut String, serde_json::Error> {
        if !std::mem::take(&mut self.first) {
            self.out.push(',');
        }
        self.out.push_str(&serde_json::to_string(key)?);
        self.out.push(':');
        Ok(self.out)
    }
    fn close(self) {
        self.out.push('}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::WatchEvent;

    const POD: &str = r#"{"kind":"Pod","metadata":{"name":"a","managedFields":[{"x":1}],"new\n":null,"uid":"u"},"spec":{"future":12345678901234567890.50}}"#;

    #[test]
    fn unknown_fields_and_number_formats_survive_and_managed_fields_go() {
        let object = RawObject::parse(POD).unwrap();
        assert_eq!(
            &**object.json(),
            r#"{"kind":"Pod","metadata":{"name":"a","new\n":null,"uid":"u"},"spec":{"future":12345678901234567890.50}}"#
        );
        assert_eq!(object.meta.uid.as_deref(), Some("u"));
    }

    #[test]
    fn decodes_inside_of_a_watch_event_and_of_a_list() {
        let event = format!(r#"{{"type":"ADDED","object":{POD}}}"#);
        let WatchEvent::Added(object) = serde_json::from_str::<WatchEvent<RawObject>>(&event).unwrap() else {
            panic!("an ADDED event");
        };
        assert_eq!(object.meta.name.as_deref(), Some("a"));
        let list = format!(r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{}},"items":[{POD}]}}"#);
        assert_eq!(
            serde_json::from_str::<kube::core::ObjectList<RawObject>>(&list)
                .unwrap()
                .items
                .len(),
            1
        );
    }

    #[test]
    fn refuses_what_is_no_object() {
        for text in ["", "[]", "3", r#"{"metadata":[]}"#, r#"{"spec":{}}"#] {
            assert!(RawObject::parse(text).is_err(), "{text}");
        }
    }
}
