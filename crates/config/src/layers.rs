//! Where a value comes from: the node's dynamic settings, the cluster's, the start configuration, the default.

use std::collections::BTreeMap;

use super::broker::{broker_key, broker_keys};
use super::error::{ConfigError, ConfigScope};
use super::group::GROUP_KEYS;
use super::key::{ConfigKey, Synonym};
use super::topic::TOPIC_KEYS;
use super::value::Value;

/// Settings that were changed while running and are kept in the metadata log. Keys are canonical.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DynamicConfigs {
    /// For this node alone: the broker resource with its node id.
    pub node: BTreeMap<String, String>,
    /// For all nodes: the broker resource with the empty name.
    pub cluster: BTreeMap<String, String>,
}

/// Where a value was found. The numbers are those of a DescribeConfigs answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigSource {
    /// Override of the topic.
    DynamicTopic = 1,
    /// Changed at run time for this node.
    DynamicBroker = 2,
    /// Changed at run time for all nodes.
    DynamicDefaultBroker = 3,
    /// File, environment or command line.
    StaticBroker = 4,
    /// Nothing is set.
    Default = 5,
    /// Override of the group.
    DynamicGroup = 8,
}

impl ConfigSource {
    /// Kafka's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DynamicTopic => "DYNAMIC_TOPIC_CONFIG",
            Self::DynamicBroker => "DYNAMIC_BROKER_CONFIG",
            Self::DynamicDefaultBroker => "DYNAMIC_DEFAULT_BROKER_CONFIG",
            Self::StaticBroker => "STATIC_BROKER_CONFIG",
            Self::Default => "DEFAULT_CONFIG",
            Self::DynamicGroup => "DYNAMIC_GROUP_CONFIG",
        }
    }
}

/// The broker's settings by origin, under canonical names. Not `Debug`-derived: some of them are secrets.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Layers {
    dynamic: DynamicConfigs,
    fixed: BTreeMap<String, String>,
}

impl std::fmt::Debug for Layers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = |layer: &BTreeMap<String, String>| layer.keys().cloned().collect::<Vec<_>>();
        f.debug_struct("Layers")
            .field("node", &names(&self.dynamic.node))
            .field("cluster", &names(&self.dynamic.cluster))
            .field("fixed", &names(&self.fixed))
            .finish()
    }
}

impl Layers {
    pub(crate) fn new(
        fixed: &BTreeMap<String, String>,
        dynamic: &DynamicConfigs,
    ) -> Result<Self, ConfigError> {
        let dynamic =
            DynamicConfigs { node: canonical(&dynamic.node)?, cluster: canonical(&dynamic.cluster)? };
        Ok(Self { dynamic, fixed: canonical(fixed)? })
    }

    /// The layers, the strongest first.
    pub(crate) fn layers(&self) -> [(ConfigSource, &BTreeMap<String, String>); 3] {
        [
            (ConfigSource::DynamicBroker, &self.dynamic.node),
            (ConfigSource::DynamicDefaultBroker, &self.dynamic.cluster),
            (ConfigSource::StaticBroker, &self.fixed),
        ]
    }

    pub(crate) fn dynamic(&self) -> &DynamicConfigs {
        &self.dynamic
    }

    /// The value of a broker key itself, without its synonyms.
    pub(crate) fn broker_value(&self, key: &ConfigKey) -> Result<Value, ConfigError> {
        match self.layers().iter().find_map(|(_, layer)| layer.get(key.name)) {
            Some(text) => key.parse(text),
            None => Ok(key.default_value()),
        }
    }

    /// The value of a topic's or a group's key under `overrides`.
    pub(crate) fn resource_value(
        &self,
        key: &ConfigKey,
        overrides: &BTreeMap<String, String>,
    ) -> Result<Value, ConfigError> {
        if let Some(text) = overrides.get(key.name) {
            return key.parse(text);
        }
        for (_, layer) in self.layers() {
            for synonym in key.synonyms {
                if let Some(text) = layer.get(synonym.name) {
                    return synonym_value(key, synonym, text);
                }
            }
        }
        Ok(key.default_value())
    }
}

/// Reads a broker key's text as a value of the topic's or group's key.
fn synonym_value(key: &ConfigKey, synonym: &Synonym, text: &str) -> Result<Value, ConfigError> {
    let broker_key = broker_key(synonym.name)?;
    let Value::Number(number) = broker_key.parse(text)? else { return broker_key.parse(text) };
    // Kafka reads -1 hours or minutes as "no limit", not as -1 hour.
    let scaled = if number < 0 { Some(number) } else { number.checked_mul(synonym.factor) };
    let scaled = scaled.ok_or_else(|| broker_key.invalid(text, "the time is too long".to_owned()))?;
    key.parse(&scaled.to_string()).map_err(|_| broker_key.invalid(text, format!("{scaled} is out of bounds")))
}

/// Gives every key its canonical name and checks its value.
fn canonical(values: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, ConfigError> {
    let mut result = BTreeMap::new();
    let mut origin: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, text) in values {
        let key = broker_key(name)?;
        let value = key.parse(text)?.to_string();
        if let Some(earlier) = result.insert(key.name.to_owned(), value.clone())
            && earlier != value
        {
            let first = origin.get(key.name).copied().unwrap_or(key.name);
            return Err(ConfigError::Conflict { first: first.to_owned(), second: name.clone() });
        }
        origin.insert(key.name, name);
    }
    Ok(result)
}

/// The error for a key that does not exist, with a proposal if one is near.
pub(crate) fn unknown(scope: ConfigScope, name: &str, keys: &[ConfigKey]) -> ConfigError {
    let near = keys
        .iter()
        .map(|key| (distance(key.name, name), key.name))
        .min()
        .filter(|(distance, _)| *distance * 4 <= name.len());
    let hint = match near {
        Some((_, near)) => format!(" (did you mean {near}?)"),
        None => {
            let scopes = [
                (ConfigScope::Topic, TOPIC_KEYS),
                (ConfigScope::Broker, broker_keys()),
                (ConfigScope::Group, GROUP_KEYS),
            ];
            let mut others = scopes.into_iter().filter(|(other, _)| *other != scope);
            let found = others.find(|(_, keys)| keys.iter().any(|key| key.name == name));
            found.map_or_else(String::new, |(other, _)| format!(" (it is a {other} config)"))
        }
    };
    ConfigError::Unknown { scope, key: name.to_owned(), hint }
}

/// Levenshtein's distance. Keys are short, so the table is one row.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<u8> = b.bytes().take(100).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.bytes().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(left != *right);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
