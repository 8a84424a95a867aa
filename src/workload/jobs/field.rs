//! A job as JSON -> its fields, each with its path, so that what cannot be read is named as the user wrote it.

use std::fmt;

use serde_json::{Map, Value};

/// A value of a job, or the place where it is not. `null` is as good as absent.
#[derive(Debug, Clone, PartialEq)]
pub struct Field<'j> {
    value: Option<&'j Value>,
    path: FieldPath,
}

/// The keys and places that lead from an object to a field, as a JSON pointer.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldPath(String);

/// A field that holds something else than it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct InvalidField {
    /// The field, such as `spec.runPolicy.schedulingPolicy.minAvailable`.
    pub path: String,
    /// What was found, and what is allowed.
    pub problem: String,
}

impl<'j> Field<'j> {
    /// The whole object.
    #[must_use]
    pub fn root(object: &'j Value) -> Self {
        Self {
            value: Some(object),
            path: FieldPath::default(),
        }
    }

    /// A field that no object has.
    #[must_use]
    pub fn absent() -> Self {
        Self {
            value: None,
            path: FieldPath::default(),
        }
    }

    /// The member of this name; absent if this is absent. That this is an object at all, [`Self::object`] tells.
    #[must_use]
    pub fn get(&self, key: &str) -> Self {
        Self {
            value: self
                .value
                .and_then(|value| value.get(key))
                .filter(|value| !value.is_null()),
            path: self.path.key(key),
        }
    }

    /// The field at the end of these keys.
    #[must_use]
    pub fn at(&self, keys: &[&str]) -> Self {
        let mut value = self.value;
        let mut path = self.path.clone();
        for key in keys {
            value = value
                .and_then(|value| value.get(key))
                .filter(|value| !value.is_null());
            path = path.key(key);
        }
        Self { value, path }
    }

    /// The value as it is.
    #[must_use]
    pub fn value(&self) -> Option<&'j Value> {
        self.value
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &FieldPath {
        &self.path
    }

    /// Whether there is a value.
    #[must_use]
    pub fn is_present(&self) -> bool {
        self.value.is_some()
    }

    /// An object's members, in the order of their names.
    ///
    /// # Errors
    /// If it is something else.
    pub fn object(&self) -> Result<Option<&'j Map<String, Value>>, InvalidField> {
        self.read("an object", Value::as_object)
    }

    /// The members of an object as fields; none if it is absent.
    ///
    /// # Errors
    /// If it is no object.
    pub fn members(&self) -> Result<Vec<(&'j str, Field<'j>)>, InvalidField> {
        let members = self.object()?.into_iter().flatten();
        Ok(members.map(|(key, _)| (key.as_str(), self.get(key))).collect())
    }

    /// The items of a list as fields; none if it is absent.
    ///
    /// # Errors
    /// If it is no list.
    pub fn items(&self) -> Result<Vec<Field<'j>>, InvalidField> {
        let items = self.read("a list", Value::as_array)?.into_iter().flatten();
        let item = |(place, value): (usize, &'j Value)| Field {
            value: Some(value).filter(|value| !value.is_null()),
            path: self.path.item(place),
        };
        Ok(items.enumerate().map(item).collect())
    }

    /// A text.
    ///
    /// # Errors
    /// If it is something else.
    pub fn text(&self) -> Result<Option<&'j str>, InvalidField> {
        match self.value {
            Some(value @ (Value::Bool(_) | Value::Number(_))) => {
                Err(self.invalid(format!("found {value}, expected a text; write \"{value}\"")))
            }
            _ => self.read("a text", Value::as_str),
        }
    }

    /// True or false.
    ///
    /// # Errors
    /// If it is something else.
    pub fn boolean(&self) -> Result<Option<bool>, InvalidField> {
        self.read("true or false", Value::as_bool)
    }

    /// A whole number of any sign. A text is none, as for API servers.
    ///
    /// # Errors
    /// If it is something else, or does not fit into 64 bits.
    pub fn integer(&self) -> Result<Option<i64>, InvalidField> {
        self.read("a whole number", whole)
    }

    /// A number of pods: from 0 to 2147483647, the most that APIs hold.
    ///
    /// # Errors
    /// If it is something else.
    pub fn count(&self) -> Result<Option<u32>, InvalidField> {
        self.read("a whole number from 0 to 2147483647", |value| {
            i32::try_from(whole(value)?).ok()?.try_into().ok()
        })
    }

    /// That something else was expected here.
    #[must_use]
    pub fn invalid(&self, problem: impl Into<String>) -> InvalidField {
        self.path.invalid(problem)
    }

    fn read<T>(
        &self,
        expected: &str,
        reader: impl Fn(&'j Value) -> Option<T>,
    ) -> Result<Option<T>, InvalidField> {
        let Some(value) = self.value else { return Ok(None) };
        match reader(value) {
            Some(read) => Ok(Some(read)),
            None => Err(self.invalid(format!("found {}, expected {expected}", found(value)))),
        }
    }
}

impl FieldPath {
    /// The member of this name.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        let mut pointer = String::with_capacity(self.0.len() + key.len() + 1);
        pointer.push_str(&self.0);
        pointer.push('/');
        if key.contains(['~', '/']) {
            pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
        } else {
            pointer.push_str(key);
        }
        Self(pointer)
    }

    /// The item of a list, counted from 0.
    #[must_use]
    pub fn item(&self, place: usize) -> Self {
        Self(format!("{}/{place}", self.0))
    }

    /// As a JSON pointer (RFC 6901).
    #[must_use]
    pub fn pointer(&self) -> &str {
        &self.0
    }

    /// That something else was expected here.
    #[must_use]
    pub fn invalid(&self, problem: impl Into<String>) -> InvalidField {
        InvalidField {
            path: self.to_string(),
            problem: problem.into(),
        }
    }
}

/// As in messages: `spec.containers[0].resources`, `metadata.annotations[a/b]`.
impl fmt::Display for FieldPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, key) in self.0.split('/').skip(1).enumerate() {
            let key = key.replace("~1", "/").replace("~0", "~");
            let is_plain = key
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
            match (key.bytes().all(|byte| byte.is_ascii_digit()), is_plain, place) {
                (false, true, 0) => write!(out, "{key}")?,
                (false, true, _) => write!(out, ".{key}")?,
                (true, _, _) | (_, false, _) => write!(out, "[{key}]")?,
            }
        }
        Ok(())
    }
}

/// A whole number, also one that was written as `3.0` or `1e3`.
fn whole(value: &Value) -> Option<i64> {
    let fits = |number: &f64| number.fract() == 0.0 && number.abs() < 9e15;
    value
        .as_i64()
        .or_else(|| value.as_f64().filter(fits).map(|number| number as i64))
}

/// As in messages: short values as they are, long ones by their kind.
fn found(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::String(text) if text.chars().count() > 64 => "a long text".to_owned(),
        Value::String(text) => format!("the text {text:?}"),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_cannot_be_read_is_named_with_its_path() {
        let job = json!({"spec": {"n": "2", "list": [{"a/b": -1}], "huge": 2_147_483_648u64, "half": 1.5, "thousand": 1e3}});
        let spec = Field::root(&job).get("spec");
        let problem = |error: InvalidField| error.to_string();
        assert_eq!(
            spec.get("n").integer().map_err(problem),
            Err("spec.n: found the text \"2\", expected a whole number".to_owned())
        );
        assert_eq!(
            spec.get("list").items().unwrap()[0]
                .get("a/b")
                .count()
                .map_err(problem),
            Err("spec.list[0][a/b]: found -1, expected a whole number from 0 to 2147483647".to_owned())
        );
        for key in ["huge", "half"] {
            assert!(spec.get(key).count().is_err(), "{key}");
        }
        assert_eq!(spec.get("thousand").count(), Ok(Some(1000)));
        assert_eq!(spec.get("none").get("below").text(), Ok(None));
        assert!(spec.get("n").object().is_err());
        assert_eq!(
            spec.get("half").text().map_err(problem),
            Err("spec.half: found 1.5, expected a text; write \"1.5\"".to_owned())
        );
    }
}
