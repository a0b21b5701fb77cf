//! The value of one key that may be set in several places under several names.

use std::collections::BTreeMap;

use crate::error::ConfigError;
use crate::key::{ConfigKey, Synonym};
use crate::keys::broker_key;
use crate::layers::{DynamicConfigs, Layers};
use crate::listeners::{MECHANISMS, OWN_PREFIX, canonical_own};
use crate::value::Value;

impl Layers {
    /// Gives every key its canonical name and checks its value.
    ///
    /// # Errors
    /// A key is unknown, a value is illegal, or two names of one setting have different values.
    pub(crate) fn new(
        fixed: &BTreeMap<String, String>,
        dynamic: &DynamicConfigs,
    ) -> Result<Self, ConfigError> {
        let dynamic =
            DynamicConfigs { node: canonical(&dynamic.node)?, cluster: canonical(&dynamic.cluster)? };
        let is_own = |name: &String| name.starts_with(OWN_PREFIX);
        let (own, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            fixed.iter().map(|(name, text)| (name.clone(), text.clone())).partition(|(name, _)| is_own(name));
        let mut fixed = canonical(&others)?;
        for (name, text) in own {
            let value = canonical_own(&name, &text, broker_key(MECHANISMS)?)?;
            fixed.insert(name, value);
        }
        Ok(Self::of_canonical(dynamic, fixed))
    }

    /// Returns the value of a topic or group key under `overrides`.
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

/// Converts the text of a broker key to a value of the topic or group key.
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
