//! Merges the layers of configuration into one map of keys and values: TOML file < environment < flags.
//!
//! Defaults are not here: the tables in `tailrace_config` hold them, and check every value.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use tailrace_cli::failure::plain;
use tailrace_config::{BrokerConfig, ConfigError, DynamicConfigs, broker_key_of_variable, start_setting};

use crate::args::ServeArguments;

/// Variables with our prefix that are not server settings.
const OTHER_VARIABLES: &[&str] = &[
    "TAILRACE_CONFIG",
    "TAILRACE_BOOTSTRAP",
    "TAILRACE_PASSWORD",
    "TAILRACE_NATS_SERVER",
    "TAILRACE_NATS_MONITOR",
    "TAILRACE_HTTP_PORT",
];

/// Why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error("cannot read {}: {}", .path.display(), plain(.error))]
    Read { path: PathBuf, error: std::io::Error },
    #[error("{}: {error}", .path.display())]
    Toml { path: PathBuf, error: String },
    #[error("{place}: {error}")]
    Key { place: String, error: ConfigError },
    #[error("--set {0:?}: expected KEY=VALUE")]
    NoValue(String),
    #[error("{0}")]
    Config(#[from] ConfigError),
}

/// The layer that a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    File(PathBuf),
    Variable(String),
    Flag(&'static str),
}

impl Origin {
    /// The layer.
    pub(crate) fn layer(&self) -> &'static str {
        match self {
            Self::File(_) => "file",
            Self::Variable(_) => "environment",
            Self::Flag(_) => "flag",
        }
    }
}

/// The place within the layer.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Variable(name) => f.pad(name),
            Self::Flag(name) => f.pad(name),
        }
    }
}

/// All layers, merged.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    /// Canonical key to value.
    pub(crate) values: BTreeMap<String, String>,
    /// The origin of each value.
    pub(crate) origins: BTreeMap<String, Origin>,
    /// Variables with our prefix that are unknown. They are reported, but do not prevent a start, since other
    /// programs use the prefix too.
    pub(crate) unknown_variables: Vec<String>,
}

impl Settings {
    /// Reads file, environment and flags, and checks the result as a whole.
    pub(crate) fn load(arguments: &ServeArguments) -> Result<(Self, BrokerConfig), SettingsError> {
        let mut settings = Self::default();
        if let Some(path) = &arguments.config {
            settings.add_file(path)?;
        }
        settings.add_environment(
            std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))),
        )?;
        settings.add_flags(arguments)?;
        let config = BrokerConfig::resolve(&settings.values, &DynamicConfigs::default())?;
        Ok((settings, config))
    }

    fn add_file(&mut self, path: &Path) -> Result<(), SettingsError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| SettingsError::Read { path: path.into(), error })?;
        let wrong = |error: String| SettingsError::Toml { path: path.into(), error };
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            // The error's own text shows the line, which may contain a password.
            let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
            wrong(format!("line {line}: {}", error.message()))
        })?;
        let mut flat = Vec::new();
        flatten("", &toml::Value::Table(table), &mut flat).map_err(wrong)?;
        for (key, value) in flat {
            self.add(&key, value, Origin::File(path.to_owned()))?;
        }
        Ok(())
    }

    fn add_environment(
        &mut self,
        variables: impl Iterator<Item = (String, String)>,
    ) -> Result<(), SettingsError> {
        for (variable, value) in variables {
            if !variable.starts_with("TAILRACE_") || OTHER_VARIABLES.contains(&variable.as_str()) {
                continue;
            }
            match broker_key_of_variable(&variable) {
                Some(key) => self.add(key.name, value, Origin::Variable(variable))?,
                None => self.unknown_variables.push(variable),
            }
        }
        Ok(())
    }

    fn add_flags(&mut self, arguments: &ServeArguments) -> Result<(), SettingsError> {
        for set in &arguments.set {
            let (key, value) = set.split_once('=').ok_or_else(|| SettingsError::NoValue(set.clone()))?;
            self.add(key.trim(), value.to_owned(), Origin::Flag("--set"))?;
        }
        let node_id = arguments.node_id.map(|id| id.to_string());
        let seeds = (!arguments.seeds.is_empty()).then(|| arguments.seeds.join(","));
        let flags = [
            ("data.dir", &arguments.data_dir, "--data-dir"),
            ("kafka", &arguments.kafka, "--kafka"),
            ("nats", &arguments.nats, "--nats"),
            ("http", &arguments.http, "--http"),
            ("node.id", &node_id, "--node-id"),
            ("cluster.listen", &arguments.cluster_listen, "--cluster-listen"),
            ("tailrace.cluster.seeds", &seeds, "--seed"),
        ];
        for (key, value, flag) in flags {
            if let Some(value) = value {
                self.add(key, value.clone(), Origin::Flag(flag))?;
            }
        }
        Ok(())
    }

    /// Adds a value under its key's canonical name, so that it replaces a value that an earlier layer set
    /// under an alias.
    fn add(&mut self, key: &str, value: String, origin: Origin) -> Result<(), SettingsError> {
        let wrong = |error| SettingsError::Key { place: origin.to_string(), error };
        let name = start_setting(key, &value).map_err(wrong)?;
        self.origins.insert(name.clone(), origin);
        self.values.insert(name, value);
        Ok(())
    }
}

/// `[log.retention]` with `ms = 5` is `log.retention.ms`, as is `"log.retention.ms" = 5`. Elements of a list
/// are joined by commas.
fn flatten(prefix: &str, value: &toml::Value, flat: &mut Vec<(String, String)>) -> Result<(), String> {
    let text = match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                flatten(&name, value, flat)?;
            }
            return Ok(());
        }
        toml::Value::Array(items) => {
            items.iter().map(scalar).collect::<Option<Vec<_>>>().map(|items| items.join(","))
        }
        other => scalar(other),
    };
    let text = text
        .ok_or_else(|| format!("{prefix}: expected a string, a number, true or false, or a list of these"))?;
    flat.push((prefix.to_owned(), text));
    Ok(())
}

fn scalar(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(truth) => Some(truth.to_string()),
        toml::Value::Datetime(_) | toml::Value::Array(_) | toml::Value::Table(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(set: &[&str]) -> ServeArguments {
        ServeArguments { set: set.iter().map(|&s| s.to_owned()).collect(), ..Default::default() }
    }

    #[test]
    fn flags_win_over_environment_and_environment_over_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t.toml");
        std::fs::write(&file, "num.partitions = 2\n[log.retention]\nms = 7\n[fetch]\nmax.bytes = 4096\n")
            .unwrap();
        let mut settings = Settings::default();
        settings.add_file(&file).unwrap();
        let variables =
            [("TAILRACE_NUM_PARTITIONS", "3"), ("TAILRACE_LOG_RETENTION_MS", "8"), ("TAILRACE_BIN", "x")];
        let variables = variables.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned()));
        settings.add_environment(variables).unwrap();
        settings.add_flags(&arguments(&["num.partitions=4"])).unwrap();
        assert_eq!(settings.values["num.partitions"], "4");
        assert_eq!(settings.values["log.retention.ms"], "8");
        assert_eq!(settings.values["fetch.max.bytes"], "4096");
        assert_eq!(settings.unknown_variables, ["TAILRACE_BIN"]);
        let origin = |key: &str| (settings.origins[key].layer(), settings.origins[key].to_string());
        assert_eq!(origin("num.partitions"), ("flag", "--set".to_owned()));
        assert_eq!(origin("log.retention.ms"), ("environment", "TAILRACE_LOG_RETENTION_MS".to_owned()));
        assert_eq!(origin("fetch.max.bytes"), ("file", file.display().to_string()));
    }

    #[test]
    fn a_file_that_is_no_toml_is_an_error_with_its_line_and_without_its_text() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t.toml");
        std::fs::write(&file, "num.partitions = 2\n\"tailrace.nats.password\" = \"s3sam\n").unwrap();
        let said = Settings::default().add_file(&file).unwrap_err().to_string();
        assert!(said.contains("t.toml: line 2: ") && !said.contains("s3sam"), "{said}");
    }

    #[test]
    fn a_topics_own_key_name_sets_the_default_of_all_topics() {
        let mut settings = Settings::default();
        settings.add_flags(&arguments(&["flush.messages=1000"])).unwrap();
        assert_eq!(settings.values["log.flush.interval.messages"], "1000");
    }

    #[test]
    fn a_single_listener_has_settings_of_its_own() {
        let mut settings = Settings::default();
        let key = "listener.name.clients.sasl.enabled.mechanisms";
        settings.add_flags(&arguments(&[&format!("{key}=PLAIN")])).unwrap();
        assert_eq!(settings.values[key], "PLAIN");
        let error = settings.add_flags(&arguments(&["listener.name.clients.ssl.keystore.location=x"]));
        assert!(error.unwrap_err().to_string().contains("listener.name.clients.ssl.keystore.location"));
    }

    #[test]
    fn unknown_keys_and_illegal_values_are_errors_that_name_their_place() {
        let error = |set: &[&str]| Settings::default().add_flags(&arguments(set)).unwrap_err().to_string();
        assert!(error(&["no.such.key=1"]).contains("no.such.key"));
        assert!(error(&["num.partitions=many"]).contains("many"));
        assert!(error(&["num.partitions"]).contains("KEY=VALUE"));
    }
}
