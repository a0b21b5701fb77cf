//! All keys by scope, and lookup by name.
//!
//! Keys are declared with the typed configurations that they fill. This module joins the tables. The broker
//! has a key for every topic or group default that can be set broker-wide.

use std::sync::LazyLock;

use super::broker::BROKER_KEYS;
use super::error::{ConfigError, ConfigScope};
use super::group::GROUP_KEYS;
use super::key::{ConfigKey, environment_name};
use super::listeners::{MECHANISMS, OWN_PREFIX, canonical_own};
use super::topic::TOPIC_KEYS;

/// Returns all keys of the broker, ordered by name: its own, and one for each topic or group default that can
/// be set broker-wide.
pub fn broker_keys() -> &'static [ConfigKey] {
    static KEYS: LazyLock<Vec<ConfigKey>> = LazyLock::new(|| {
        let mut keys = BROKER_KEYS.to_vec();
        keys.extend(TOPIC_KEYS.iter().filter_map(default_of));
        keys.extend(GROUP_KEYS.iter().filter_map(default_of_group));
        keys.sort_by_key(|key| key.name);
        keys
    });
    &KEYS
}

/// Returns the broker key that holds a topic key's default. The topic key's own name is an alias of it.
fn default_of(topic_key: &'static ConfigKey) -> Option<ConfigKey> {
    let synonym = topic_key.synonyms.first()?;
    // If there are several synonyms, the last one has the default: log.retention.ms is null,
    // log.retention.hours is 168.
    let default = if topic_key.synonyms.len() == 1 { topic_key.default } else { None };
    let aliases =
        if synonym.name == topic_key.name { &[][..] } else { std::slice::from_ref(&topic_key.name) };
    Some(ConfigKey {
        name: synonym.name,
        default,
        synonyms: &[],
        aliases,
        default_of: Some(topic_key.name),
        ..*topic_key
    })
}

/// Returns the broker key that holds a group key's default. As in Kafka, it cannot be changed at run time.
fn default_of_group(group_key: &'static ConfigKey) -> Option<ConfigKey> {
    let synonym = group_key.synonyms.first()?;
    Some(ConfigKey {
        name: synonym.name,
        synonyms: &[],
        default_of: Some(group_key.name),
        default_scope: ConfigScope::Group,
        dynamic: false,
        ..*group_key
    })
}

/// Finds the broker key that an environment variable sets. See [`ConfigKey::environment_name`].
pub fn broker_key_of_variable(variable: &str) -> Option<&'static ConfigKey> {
    broker_keys().iter().find(|key| {
        key.environment_name() == variable
            || key.aliases.iter().any(|alias| environment_name(alias) == variable)
    })
}

/// Finds a broker key by its name or an alias.
///
/// # Errors
/// There is no key of that name.
pub fn broker_key(name: &str) -> Result<&'static ConfigKey, ConfigError> {
    let keys = broker_keys();
    if let Ok(position) = keys.binary_search_by(|key| key.name.cmp(name)) {
        return Ok(&keys[position]);
    }
    keys.iter()
        .find(|key| key.aliases.contains(&name))
        .ok_or_else(|| unknown(ConfigScope::Broker, name, keys))
}

/// Checks a setting of the start configuration, and returns its canonical name. Besides the broker keys there
/// are those of single Kafka listeners, `listener.name.NAME.KEY`.
///
/// # Errors
/// There is no key of that name, or the value is illegal.
pub fn start_setting(name: &str, text: &str) -> Result<String, ConfigError> {
    if name.starts_with(OWN_PREFIX) {
        return canonical_own(name, text, broker_key(MECHANISMS)?).map(|_| name.to_owned());
    }
    let key = broker_key(name)?;
    key.parse(text)?;
    Ok(key.name.to_owned())
}

/// Returns all keys of topics, ordered by name.
pub fn topic_keys() -> &'static [ConfigKey] {
    TOPIC_KEYS
}

/// Finds a topic key.
///
/// # Errors
/// There is no key of that name.
pub fn topic_key(name: &str) -> Result<&'static ConfigKey, ConfigError> {
    TOPIC_KEYS
        .iter()
        .find(|key| key.name == name)
        .ok_or_else(|| unknown(ConfigScope::Topic, name, TOPIC_KEYS))
}

/// Returns all keys of groups, ordered by name.
pub fn group_keys() -> &'static [ConfigKey] {
    GROUP_KEYS
}

/// Finds a group key.
///
/// # Errors
/// There is no key of that name.
pub fn group_key(name: &str) -> Result<&'static ConfigKey, ConfigError> {
    GROUP_KEYS
        .iter()
        .find(|key| key.name == name)
        .ok_or_else(|| unknown(ConfigScope::Group, name, GROUP_KEYS))
}

/// A longer name is nowhere near a setting, and comparing it would take time.
const COMPARED_BYTES_MAX: usize = 100;

/// Returns the error for an unknown key, with a suggestion if a known name is similar.
fn unknown(scope: ConfigScope, name: &str, keys: &[ConfigKey]) -> ConfigError {
    let near = keys
        .iter()
        .filter(|_| name.len() <= COMPARED_BYTES_MAX)
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

/// Returns the Levenshtein distance in bytes.
fn distance(a: &str, b: &str) -> usize {
    strsim::generic_levenshtein(&a.as_bytes().to_vec(), &b.as_bytes().to_vec())
}
