//! Settings of one kind of system: keys and values. Each key must be known to the system's adapter.

use std::collections::BTreeMap;

use crate::error::RequesterError;

/// Settings of a system. Adapters take out the ones they know.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    values: BTreeMap<String, String>,
}

impl Settings {
    /// Creates settings from keys and values.
    pub fn new(values: BTreeMap<String, String>) -> Self {
        Self { values }
    }

    /// All keys and values.
    pub fn values(&self) -> &BTreeMap<String, String> {
        &self.values
    }

    /// Takes out the value of `key`.
    pub(super) fn take(&mut self, key: &str) -> Option<String> {
        self.values.remove(key)
    }

    /// Takes out all settings whose key starts with `prefix`, and removes the prefix from their keys.
    pub(super) fn take_prefixed(&mut self, prefix: &str) -> Vec<(String, String)> {
        let keys: Vec<_> = self.values.keys().filter(|key| key.starts_with(prefix)).cloned().collect();
        keys.into_iter()
            .filter_map(|key| Some((key[prefix.len()..].to_owned(), self.values.remove(&key)?)))
            .collect()
    }

    /// Fails if a setting is left, since no adapter knows it.
    pub(super) fn finish(self, system: &str) -> Result<(), RequesterError> {
        match self.values.into_keys().next() {
            None => Ok(()),
            Some(key) => {
                Err(RequesterError::Unsupported(format!("'{key}' is not a setting of the system {system}")))
            }
        }
    }
}
