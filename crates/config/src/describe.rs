//! The content of DescribeConfigs: each key's value, its source, and the values that it overrides.

use std::collections::BTreeMap;

use super::broker::BrokerConfig;
use super::error::ConfigError;
use super::key::{ConfigKey, ConfigKind, Synonym};
use super::keys::{broker_key, broker_keys, group_keys, topic_keys};
use super::layers::{ConfigSource, Layers};
use super::resolve::group;
use super::topic::TopicConfig;
use super::value::Value;

/// One key of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedConfig {
    /// The key.
    pub name: &'static str,
    /// Its value. `None` for null and for sensitive keys.
    pub value: Option<String>,
    /// Where the value comes from.
    pub source: ConfigSource,
    /// All places that set a value, the strongest first.
    pub synonyms: Vec<ConfigSynonym>,
    /// Its type.
    pub kind: ConfigKind,
    /// Its documentation.
    pub documentation: String,
    /// True if it cannot be changed at run time.
    pub read_only: bool,
    /// True if its value is hidden.
    pub sensitive: bool,
}

/// One place that sets a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigSynonym {
    /// The key that is set there.
    pub name: &'static str,
    /// The value there, in that key's unit.
    pub value: Option<String>,
    /// The place.
    pub source: ConfigSource,
}

/// Describes all keys of a topic with these overrides, ordered by name.
///
/// # Errors
/// An override is not legal.
pub fn describe_topic(
    overrides: &BTreeMap<String, String>,
    broker: &BrokerConfig,
) -> Result<Vec<DescribedConfig>, ConfigError> {
    let layers = broker.layers();
    let config = TopicConfig::resolve_in(overrides, layers)?;
    let shown = topic_keys().iter().filter(|key| !key.internal || overrides.contains_key(key.name));
    shown
        .map(|key| {
            let mut value = layers.resource_value(key, overrides)?;
            if key.name == "max.message.bytes" {
                // A topic that captures NATS messages accepts larger batches than the setting says.
                value = Value::Number(config.max_message_bytes.into());
            }
            let mut synonyms = Vec::new();
            if overrides.contains_key(key.name) {
                synonyms.push(synonym(key, key.name, value.text(), ConfigSource::DynamicTopic));
            }
            synonyms.extend(topic_defaults(key, layers));
            Ok(entry(key, value, synonyms))
        })
        .collect()
}

/// Describes all keys of a group with these overrides, ordered by name. The group need not exist.
///
/// # Errors
/// An override is not legal.
pub fn describe_group(
    overrides: &BTreeMap<String, String>,
    broker: &BrokerConfig,
) -> Result<Vec<DescribedConfig>, ConfigError> {
    let layers = broker.layers();
    let describe = |key: &ConfigKey| {
        let value = group::effective(key, overrides, layers)?;
        let own = overrides.get(key.name);
        let own = own.map(|text| synonym(key, key.name, Some(text.clone()), ConfigSource::DynamicGroup));
        let mut synonyms: Vec<_> = own.into_iter().chain(chain(key.synonyms, layers)).collect();
        if key.synonyms.is_empty() {
            synonyms.push(synonym(key, key.name, key.default_value().text(), ConfigSource::Default));
        }
        Ok(entry(key, value, synonyms))
    };
    group_keys().iter().map(describe).collect()
}

/// Describes all keys of the broker, ordered by name.
pub fn describe_broker(broker: &BrokerConfig) -> Vec<DescribedConfig> {
    let layers = broker.layers();
    let set = |key: &&ConfigKey| layers.layers().iter().any(|(_, layer)| layer.contains_key(key.name));
    let shown = broker_keys().iter().filter(|key| !key.internal || set(key));
    shown
        .map(|key| {
            // The layers were parsed when the configuration was resolved.
            let value = layers.broker_value(key).expect("resolved configurations are legal");
            let alone = [Synonym { name: key.name, factor: 1 }];
            let names = equivalents(key).unwrap_or(&alone);
            entry(key, value, own_first(key.name, chain(names, layers)))
        })
        .collect()
}

/// Describes the settings changed at run time for all nodes, ordered by name: the broker resource with the
/// empty name.
pub fn describe_cluster(broker: &BrokerConfig) -> Vec<DescribedConfig> {
    let source = ConfigSource::DynamicDefaultBroker;
    let keys =
        broker.dynamic().cluster.iter().filter_map(|(name, text)| Some((broker_key(name).ok()?, text)));
    keys.map(|(key, text)| {
        let found = synonym(key, key.name, Some(text.clone()), source);
        entry(key, Value::Text(text.clone()), vec![found])
    })
    .collect()
}

/// Returns the sources of a topic key's default.
///
/// While nothing is set, Kafka names only the main broker key, so that retention.ms does not show
/// log.retention.hours as the source of its default. tailrace does the same. If only a coarser key is set,
/// Kafka hides it and reports a default; tailrace reports the key.
fn topic_defaults(key: &ConfigKey, layers: &Layers) -> Vec<ConfigSynonym> {
    let found = chain(key.synonyms, layers);
    match key.synonyms.first() {
        Some(main) if found.iter().all(|synonym| synonym.source == ConfigSource::Default) => {
            own_first(main.name, found)
        }
        _ => found,
    }
}

/// Returns the broker keys that hold the same setting as `key` in other units. `None` if there are none.
fn equivalents(key: &ConfigKey) -> Option<&'static [Synonym]> {
    let mut groups = topic_keys().iter().map(|topic_key| topic_key.synonyms);
    groups.find(|group| group.iter().any(|other| other.name == key.name))
}

/// Drops everything that is stronger than the first value of `name` itself.
fn own_first(name: &str, found: Vec<ConfigSynonym>) -> Vec<ConfigSynonym> {
    found.into_iter().skip_while(|synonym| synonym.name != name).collect()
}

/// Returns every place that sets one of these broker keys, the strongest first, and then their defaults.
fn chain(names: &[Synonym], layers: &Layers) -> Vec<ConfigSynonym> {
    let keys = || names.iter().filter_map(|synonym| broker_key(synonym.name).ok());
    let mut found = Vec::new();
    for (source, layer) in layers.layers() {
        for key in keys() {
            if let Some(text) = layer.get(key.name) {
                found.push(synonym(key, key.name, Some(text.clone()), source));
            }
        }
    }
    for key in keys() {
        if let Some(default) = key.default_value().text() {
            found.push(synonym(key, key.name, Some(default), ConfigSource::Default));
        }
    }
    found
}

fn synonym(
    key: &ConfigKey,
    name: &'static str,
    value: Option<String>,
    source: ConfigSource,
) -> ConfigSynonym {
    ConfigSynonym { name, value: value.filter(|_| !key.sensitive), source }
}

fn entry(key: &ConfigKey, value: Value, synonyms: Vec<ConfigSynonym>) -> DescribedConfig {
    DescribedConfig {
        name: key.name,
        value: value.text().filter(|_| !key.sensitive),
        source: synonyms.first().map_or(ConfigSource::Default, |synonym| synonym.source),
        synonyms,
        kind: key.kind,
        documentation: key.documentation_text(),
        read_only: key.read_only || !key.dynamic,
        sensitive: key.sensitive,
    }
}
