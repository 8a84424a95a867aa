//! The configuration file: `kind: PortcullisConfiguration`. Every field has a default; flags are said beside it.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::clock;
use crate::gang::{DeleteOnFinish, ElasticMin, GangSettings, NameStyle};
use crate::names;
use crate::words::nearest;
use crate::workload::jobs::ConfiguredKind;

mod kinds;

/// `kind` of the file.
const KIND: &str = "PortcullisConfiguration";

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// How PodGroups are made.
    pub gang: GangSettings,
    /// A job that waits longer for its PodGroup, while Portcullis runs, starts without it and with a warning. Default: 60 s.
    pub hold_timeout: Duration,
    /// When the PodGroup of a finished job goes. Default: when none of its pods runs any more.
    pub delete_on_finish: DeleteOnFinish,
    /// Kinds of jobs that are dispatched whole, beside those that are built in.
    pub kinds: Vec<ConfiguredKind>,
}

impl Default for Configuration {
    fn default() -> Self {
        Self {
            gang: GangSettings::default(),
            hold_timeout: Duration::from_secs(60),
            delete_on_finish: DeleteOnFinish::default(),
            kinds: Vec::new(),
        }
    }
}

/// The file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("read {path}")]
    Unreadable {
        /// Which file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is no YAML, or a field holds something else than it should.
    #[error("{field}: {words}")]
    Invalid {
        /// Where.
        field: String,
        /// What was found and what is allowed.
        words: String,
    },
    /// A key that nobody reads.
    #[error("{field}: no such field{hint}")]
    Unknown {
        /// Where.
        field: String,
        /// The nearest one that there is.
        hint: String,
    },
}

impl Configuration {
    /// Reads the file.
    ///
    /// # Errors
    /// [`ConfigError`], with the field.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable {
            path: path.display().to_string(),
            source,
        })?;
        Self::parse(&text)
    }

    /// Reads its text.
    ///
    /// # Errors
    /// [`ConfigError`], with the field.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let invalid = |field: &str, words: String| ConfigError::Invalid {
            field: field.to_owned(),
            words,
        };
        let given: Value =
            serde_saphyr::from_str(text).map_err(|error| invalid("(file)", error.to_string()))?;
        let known =
            serde_json::to_value(File::default()).map_err(|error| invalid("(file)", error.to_string()))?;
        unknown_keys(&given, &known, "")?;
        let file: File = serde_path_to_error::deserialize(&given).map_err(|error| {
            invalid(
                &error.path().to_string(),
                in_our_words(&error.inner().to_string()),
            )
        })?;
        let expected = format!("{}/v1alpha1", names::GROUP);
        for (field, found, allowed) in [
            ("apiVersion", &file.api_version, expected.as_str()),
            ("kind", &file.kind, KIND),
        ] {
            if found != allowed {
                return Err(invalid(field, format!("found {found:?}, allowed is {allowed:?}")));
            }
        }
        Ok(Self {
            kinds: kinds::read(file.kinds)?,
            ..Self::try_from(file.gang)?
        })
    }
}

/// What serde says of a value that is none of several.
fn in_our_words(said: &str) -> String {
    match said.strip_prefix("unknown variant ") {
        Some(rest) => {
            format!("found {}", rest.replacen(", expected ", ", allowed is ", 1)).replace('`', "\"")
        }
        None => said.to_owned(),
    }
}

/// Keys of `given` that `known` does not have.
fn unknown_keys(given: &Value, known: &Value, path: &str) -> Result<(), ConfigError> {
    let (Some(given), Some(known)) = (given.as_object(), known.as_object()) else {
        return Ok(());
    };
    for (key, value) in given {
        let field = [path, key]
            .iter()
            .filter(|part| !part.is_empty())
            .copied()
            .collect::<Vec<_>>()
            .join(".");
        match known.get(key) {
            Some(below) => unknown_keys(value, below, &field)?,
            None => {
                let nearest = nearest(key, known.keys().map(String::as_str));
                let hint = nearest.map_or_else(
                    || {
                        format!(
                            "; there are {}",
                            known.keys().cloned().collect::<Vec<_>>().join(", ")
                        )
                    },
                    |known| format!("; did you mean {known}?"),
                );
                return Err(ConfigError::Unknown { field, hint });
            }
        }
    }
    Ok(())
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct File {
    api_version: String,
    kind: String,
    gang: Gang,
    kinds: Vec<kinds::Kind>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Gang {
    gang_all: bool,
    propagate_priority: bool,
    strict_priority_class: bool,
    elastic_min: Elastic,
    raise_for_launcher: bool,
    volcano_quota_keys: bool,
    volcano_task_minimums: bool,
    volcano_default_queue: String,
    name_style: Style,
    coscheduling_scheduler_name: String,
    volcano_scheduler_name: String,
    block_owner_deletion: bool,
    hold_timeout: String,
    delete_on_finish: Finish,
}

#[derive(Serialize, Deserialize, Clone, Copy)]
#[serde(rename_all = "camelCase")]
enum Finish {
    Always,
    WhenIdle,
    Never,
}

#[derive(Serialize, Deserialize, Clone, Copy)]
#[serde(rename_all = "camelCase")]
enum Elastic {
    Policy,
    Upstream,
}

#[derive(Serialize, Deserialize, Clone, Copy)]
#[serde(rename_all = "camelCase")]
enum Style {
    Job,
    Kind,
}

impl Default for Gang {
    fn default() -> Self {
        let settings = GangSettings::default();
        Self {
            gang_all: settings.gang_all,
            propagate_priority: settings.propagate_priority,
            strict_priority_class: settings.strict_priority_class,
            elastic_min: match settings.elastic_min {
                ElasticMin::Policy => Elastic::Policy,
                ElasticMin::Upstream => Elastic::Upstream,
            },
            raise_for_launcher: settings.raise_for_launcher,
            volcano_quota_keys: settings.volcano_quota_keys,
            volcano_task_minimums: settings.volcano_task_minimums,
            volcano_default_queue: settings.volcano_default_queue.unwrap_or_default(),
            name_style: match settings.name_style {
                NameStyle::Job => Style::Job,
                NameStyle::Kind => Style::Kind,
            },
            coscheduling_scheduler_name: settings.coscheduling_scheduler,
            volcano_scheduler_name: settings.volcano_scheduler,
            block_owner_deletion: settings.block_owner_deletion,
            hold_timeout: "60s".to_owned(),
            delete_on_finish: Finish::WhenIdle,
        }
    }
}

impl TryFrom<Gang> for Configuration {
    type Error = ConfigError;

    fn try_from(gang: Gang) -> Result<Self, ConfigError> {
        let timeout = clock::parse_duration(&gang.hold_timeout).map_err(|error| ConfigError::Invalid {
            field: "gang.holdTimeout".to_owned(),
            words: error.to_string(),
        })?;
        Ok(Self {
            gang: GangSettings {
                gang_all: gang.gang_all,
                propagate_priority: gang.propagate_priority,
                strict_priority_class: gang.strict_priority_class,
                elastic_min: match gang.elastic_min {
                    Elastic::Policy => ElasticMin::Policy,
                    Elastic::Upstream => ElasticMin::Upstream,
                },
                raise_for_launcher: gang.raise_for_launcher,
                volcano_quota_keys: gang.volcano_quota_keys,
                volcano_task_minimums: gang.volcano_task_minimums,
                volcano_default_queue: Some(gang.volcano_default_queue).filter(|queue| !queue.is_empty()),
                name_style: match gang.name_style {
                    Style::Job => NameStyle::Job,
                    Style::Kind => NameStyle::Kind,
                },
                coscheduling_scheduler: gang.coscheduling_scheduler_name,
                volcano_scheduler: gang.volcano_scheduler_name,
                block_owner_deletion: gang.block_owner_deletion,
            },
            hold_timeout: timeout,
            delete_on_finish: match gang.delete_on_finish {
                Finish::Always => DeleteOnFinish::Always,
                Finish::WhenIdle => DeleteOnFinish::WhenIdle,
                Finish::Never => DeleteOnFinish::Never,
            },
            kinds: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: portcullis.dev/v1alpha1\nkind: PortcullisConfiguration\n";

    #[test]
    fn nothing_said_is_the_default() {
        assert_eq!(Configuration::parse(HEAD).unwrap(), Configuration::default());
    }

    #[test]
    fn what_is_said_counts() {
        let text = format!(
            "{HEAD}gang: {{gangAll: true, holdTimeout: 5m, elasticMin: upstream, volcanoDefaultQueue: research, deleteOnFinish: never}}\n"
        );
        let read = Configuration::parse(&text).unwrap();
        assert!(read.gang.gang_all);
        assert_eq!(read.gang.elastic_min, ElasticMin::Upstream);
        assert_eq!(read.gang.volcano_default_queue.as_deref(), Some("research"));
        assert_eq!(read.hold_timeout, Duration::from_secs(300));
        assert_eq!(read.delete_on_finish, DeleteOnFinish::Never);
    }

    #[test]
    fn errors_name_the_field_and_the_way_out() {
        for (text, expected) in [
            (
                "gang: {gangall: true}",
                "gang.gangall: no such field; did you mean gangAll?",
            ),
            ("gangs: {}", "gangs: no such field; did you mean gang?"),
            (
                "zzz: 1",
                "zzz: no such field; there are apiVersion, gang, kind, kinds",
            ),
            (
                "gang: {gangAll: 7}",
                "gang.gangAll: invalid type: integer `7`, expected a boolean",
            ),
            (
                "gang: {elasticMin: all}",
                "gang.elasticMin: found \"all\", allowed is \"policy\" or \"upstream\"",
            ),
            (
                "gang: {holdTimeout: soon}",
                "gang.holdTimeout: \"soon\" is no duration: write a number and a unit of h, m, s or ms, such as 5m or 1h30m",
            ),
        ] {
            let error = Configuration::parse(&format!("{HEAD}{text}\n")).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
        let error = Configuration::parse("apiVersion: v1\nkind: PortcullisConfiguration\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "apiVersion: found \"v1\", allowed is \"portcullis.dev/v1alpha1\""
        );
    }
}
