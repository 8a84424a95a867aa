//! JSON text -> just the fields a struct names, borrowed from the text.
//!
//! Unknown fields are walked over, `null` is absent, a named field that stands there twice is refused, and an array is
//! never taken for an object (serde's derive would). One parser for the webhook and for the reconciler.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Why a JSON text is not what we must be able to read, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct ReadError {
    /// The field, such as `spec.schedulingGates[0].name`.
    pub path: String,
    /// What was found and what is expected there.
    pub problem: String,
}

impl ReadError {
    /// The same problem seen from an object that holds the one that was read under `parent`.
    #[must_use]
    pub fn under(mut self, parent: &str) -> Self {
        self.path = match (parent, self.path.as_str()) {
            ("", _) => self.path,
            (parent, "") => parent.to_owned(),
            (parent, path) => format!("{parent}.{path}"),
        };
        self
    }

    /// A required object that is not there.
    #[must_use]
    pub fn missing(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            problem: "missing, expected an object".to_owned(),
        }
    }
}

/// Reads one value; the path of a problem is looked up only when there is one.
///
/// # Errors
/// If the text is no JSON or a field that `T` names has another type.
pub fn read<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, ReadError> {
    serde_json::from_str(text).map_err(|plain| {
        let mut again = serde_json::Deserializer::from_str(text);
        match serde_path_to_error::deserialize::<_, T>(&mut again) {
            Err(error) => ReadError {
                path: match error.path().to_string() {
                    root if root == "." => String::new(),
                    path => path,
                },
                problem: problem(error.inner()),
            },
            Ok(_) => ReadError {
                path: String::new(),
                problem: problem(&plain),
            },
        }
    })
}

/// What serde says, without its position: nobody sees the text that it counts in.
fn problem(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

/// The value under one key of an object, as text.
///
/// # Errors
/// If `object` is no object or has the key twice.
pub fn field<'a>(object: &'a RawValue, key: &str) -> Result<Option<&'a RawValue>, ReadError> {
    struct Field<'k>(&'k str);
    impl<'de> Visitor<'de> for Field<'_> {
        type Value = Option<&'de RawValue>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found: Option<Option<&'de RawValue>> = None;
            while let Some(name) = map.next_key::<Text<'de>>()? {
                if *name != *self.0 {
                    map.next_value::<serde::de::IgnoredAny>()?;
                } else if found.replace(map.next_value()?).is_some() {
                    return Err(A::Error::custom(format_args!("duplicate field `{}`", self.0)));
                }
            }
            Ok(found.flatten())
        }
    }
    serde_json::Deserializer::from_str(object.get())
        .deserialize_map(Field(key))
        .map_err(|error| ReadError {
            path: String::new(),
            problem: problem(&error),
        })
}

/// A string of the text: borrowed, or owned where an escape made that impossible.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Text<'a>(pub Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Text_;
        impl<'de> Visitor<'de> for Text_ {
            type Value = Text<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        source.deserialize_str(Text_)
    }
}

/// A map of strings (labels, annotations) in the order of the text, each key once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StringMap<'a>(Vec<(Text<'a>, Text<'a>)>);

impl<'a> StringMap<'a> {
    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// All entries.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> + use<'_, 'a> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }
}

/// Up to this many keys are compared one by one, more go through a set: time stays linear in hostile input.
const FEW: usize = 24;

impl<'de> Deserialize<'de> for StringMap<'de> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = StringMap<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries: Vec<(Text<'de>, Text<'de>)> = Vec::with_capacity(8);
                while let Some(key) = map.next_key::<Text<'de>>()? {
                    // Go reads a null as the empty string.
                    let value = map.next_value::<Option<Text<'de>>>()?.unwrap_or_default();
                    entries.push((key, value));
                }
                match repeated(&entries) {
                    Some(key) => Err(A::Error::custom(format_args!("duplicate key `{key}`"))),
                    None => Ok(StringMap(entries)),
                }
            }
        }
        source.deserialize_map(Entries)
    }
}

fn repeated<'e>(entries: &'e [(Text<'_>, Text<'_>)]) -> Option<&'e str> {
    let mut keys = entries.iter().enumerate().map(|(at, (key, _))| (at, &**key));
    if entries.len() <= FEW {
        return keys
            .find(|(at, key)| entries[..*at].iter().any(|(earlier, _)| **earlier == **key))
            .map(|(_, key)| key);
    }
    let mut seen = HashSet::with_capacity(entries.len());
    keys.find(|(_, key)| !seen.insert(*key)).map(|(_, key)| key)
}

/// Declares a struct of optional fields that is read from a JSON object, and from nothing else.
macro_rules! narrow {
    ($(#[$doc:meta])* $vis:vis $name:ident<'de>: $expecting:literal {
        $($(#[$field_doc:meta])* $key:literal => $field:ident: $type:ty,)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default)]
        $vis struct $name<'de> {
            $($(#[$field_doc])* $vis $field: Option<$type>,)*
            marker: std::marker::PhantomData<&'de ()>,
        }

        impl<'de> serde::Deserialize<'de> for $name<'de> {
            fn deserialize<D: serde::Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
                struct ObjectFields;
                impl<'de> serde::de::Visitor<'de> for ObjectFields {
                    type Value = $name<'de>;

                    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        out.write_str($expecting)
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                        $(let mut $field: Option<Option<$type>> = None;)*
                        while let Some(key) = map.next_key::<$crate::pod::narrow::Text<'de>>()? {
                            match &*key {
                                $($key => {
                                    if $field.is_some() {
                                        return Err(serde::de::Error::duplicate_field($key));
                                    }
                                    $field = Some(map.next_value()?);
                                })*
                                _ => {
                                    map.next_value::<serde::de::IgnoredAny>()?;
                                }
                            }
                        }
                        Ok($name {
                            $($field: $field.flatten(),)*
                            marker: std::marker::PhantomData,
                        })
                    }
                }
                source.deserialize_map(ObjectFields)
            }
        }
    };
}
pub(crate) use narrow;

#[cfg(test)]
mod tests {
    use super::*;

    narrow! {
        /// A struct to try the macro with.
        Thing<'de>: "a thing" {
            "name" => name: Text<'de>,
            "parts" => parts: Vec<Thing<'de>>,
            "labels" => labels: StringMap<'de>,
            "raw" => raw: &'de RawValue,
        }
    }

    #[test]
    fn reads_what_it_names_and_walks_over_the_rest() {
        let thing: Thing<'_> =
            read(r#"{"x":[{"y":1e999}],"name":"a\u003cb","labels":{"k":"v","n":null},"raw": {"z" : 1.50}}"#)
                .unwrap();
        assert_eq!(thing.name.as_deref(), Some("a<b"));
        let labels = thing.labels.unwrap();
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("k", "v"), ("n", "")]);
        assert_eq!(thing.raw.map(RawValue::get), Some(r#"{"z" : 1.50}"#));
        assert!(thing.parts.is_none());
    }

    #[test]
    fn takes_null_for_absent() {
        let thing: Thing<'_> = read(r#"{"name":null,"parts":null,"labels":null,"raw":null}"#).unwrap();
        assert!(
            thing.name.is_none() && thing.parts.is_none() && thing.labels.is_none() && thing.raw.is_none()
        );
    }

    #[test]
    fn names_the_field_and_what_is_wrong_there() {
        for (text, path, problem) in [
            (r#"[]"#, "", "invalid type: sequence, expected a thing"),
            (
                r#"{"name":5}"#,
                "name",
                "invalid type: integer `5`, expected a string",
            ),
            (
                r#"{"parts":{}}"#,
                "parts",
                "invalid type: map, expected a sequence",
            ),
            (
                r#"{"parts":[{},[]]}"#,
                "parts[1]",
                "invalid type: sequence, expected a thing",
            ),
            (
                r#"{"parts":[{"labels":[]}]}"#,
                "parts[0].labels",
                "invalid type: sequence, expected an object of strings",
            ),
            (
                r#"{"labels":{"a":1}}"#,
                "labels.a",
                "invalid type: integer `1`, expected a string",
            ),
            (r#"{"name":"a","name":"b"}"#, "", "duplicate field `name`"),
            (r#"{"labels":{"a":"1","a":"1"}}"#, "labels", "duplicate key `a`"),
        ] {
            let error = read::<Thing<'_>>(text).unwrap_err();
            assert_eq!(
                (error.path.as_str(), error.problem.as_str()),
                (path, problem),
                "{text}"
            );
        }
    }

    #[test]
    fn finds_a_repeated_key_among_many_in_linear_time() {
        let many: Vec<String> = (0..100_000).map(|n| format!(r#""k{n}":"""#)).collect();
        let text = |last: &str| format!(r#"{{"labels":{{{},{last}}}}}"#, many.join(","));
        assert!(read::<Thing<'_>>(&text(r#""k":"""#)).is_ok());
        assert!(read::<Thing<'_>>(&text(r#""k99999":"""#)).is_err());
    }

    #[test]
    fn steps_into_one_key_of_an_object() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let object = raw(r#"{"a":1,"b":{"c":[2]},"n":null}"#);
        assert_eq!(
            field(&object, "b").unwrap().map(RawValue::get),
            Some(r#"{"c":[2]}"#)
        );
        assert_eq!(field(&object, "n").unwrap().map(RawValue::get), None);
        assert_eq!(field(&object, "z").unwrap().map(RawValue::get), None);
        assert!(field(&raw(r#"{"a":1,"a":1}"#), "a").is_err());
        assert!(field(&raw("[]"), "a").is_err());
    }
}
