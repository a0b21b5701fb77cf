//! What DescribeConfigs shows: each key's value, where it comes from, and what it would be without that.

use std::collections::BTreeMap;

use super::broker::{BrokerConfig, broker_keys};
use super::error::ConfigError;
use super::key::{ConfigKey, ConfigKind};
use super::layers::{ConfigSource, Layers};
use super::topic::topic_keys;
use super::value::Value;

/// One key of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedConfig {
    /// The key.
    pub name: &'static str,
    /// Its value, `None` for null and for sensitive keys.
    pub value: Option<String>,
    /// Where the value comes from.
    pub source: ConfigSource,
    /// Where values were found, the strongest first.
    pub synonyms: Vec<ConfigSynonym>,
    /// Its type.
    pub kind: ConfigKind,
    /// What it means.
    pub documentation: String,
    /// True if it cannot be changed while running.
    pub read_only: bool,
    /// True if its value is hidden.
    pub sensitive: bool,
}

/// One place where a value was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigSynonym {
    /// The key that was set there.
    pub name: &'static str,
    /// The value there, in that key's unit.
    pub value: Option<String>,
    /// The place.
    pub source: ConfigSource,
}

/// All keys of a topic with these overrides, by name.
///
/// # Errors
/// An override is illegal.
pub fn describe_topic(
    overrides: &BTreeMap<String, String>,
    broker: &BrokerConfig,
) -> Result<Vec<DescribedConfig>, ConfigError> {
    let layers = broker.layers();
    let shown = topic_keys().iter().filter(|key| !key.internal || overrides.contains_key(key.name));
    shown
        .map(|key| {
            let value = layers.topic_value(key, overrides)?;
            let mut synonyms = Vec::new();
            if overrides.contains_key(key.name) {
                synonyms.push(synonym(key, key.name, value.text(), ConfigSource::DynamicTopic));
            }
            for name in key.synonyms.iter().map(|synonym| synonym.name) {
                collect(name, layers, &mut synonyms);
            }
            synonyms.sort_by_key(|synonym| synonym.source);
            Ok(entry(key, value, synonyms))
        })
        .collect()
}

/// All keys of the broker, by name.
pub fn describe_broker(broker: &BrokerConfig) -> Vec<DescribedConfig> {
    let layers = broker.layers();
    let set = |key: &&ConfigKey| layers.layers().iter().any(|(_, layer)| layer.contains_key(key.name));
    let shown = broker_keys().iter().filter(|key| !key.internal || set(key));
    shown
        .map(|key| {
            // The layers were parsed when the configuration was resolved.
            let value = layers.broker_value(key).expect("resolved configurations are legal");
            let mut synonyms = Vec::new();
            collect(key.name, layers, &mut synonyms);
            entry(key, value, synonyms)
        })
        .collect()
}

/// Finds every layer that sets the broker key `name`, and its default.
fn collect(name: &'static str, layers: &Layers, synonyms: &mut Vec<ConfigSynonym>) {
    let Ok(key) = super::broker::broker_key(name) else { return };
    for (source, layer) in layers.layers() {
        if let Some(text) = layer.get(name) {
            synonyms.push(synonym(key, name, Some(text.clone()), source));
        }
    }
    if let Some(default) = key.default_value().text() {
        synonyms.push(synonym(key, name, Some(default), ConfigSource::Default));
    }
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
        read_only: !key.dynamic,
        sensitive: key.sensitive,
    }
}
