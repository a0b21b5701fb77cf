//! What can be set for one kind of system: keys and values, each of which must be known to somebody.

use std::collections::BTreeMap;

use crate::error::RequesterError;

/// Settings of a system, taken out one by one by those who know them.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    values: BTreeMap<String, String>,
}

impl Settings {
    /// The settings of these keys.
    pub fn new(values: BTreeMap<String, String>) -> Self {
        Self { values }
    }

    /// All keys and values.
    pub fn values(&self) -> &BTreeMap<String, String> {
        &self.values
    }

    /// Takes the value of `key`.
    pub(super) fn take(&mut self, key: &str) -> Option<String> {
        self.values.remove(key)
    }

    /// Takes everything whose key begins with `prefix`, without it.
    pub(super) fn take_prefixed(&mut self, prefix: &str) -> Vec<(String, String)> {
        let keys: Vec<_> = self.values.keys().filter(|key| key.starts_with(prefix)).cloned().collect();
        keys.into_iter()
            .filter_map(|key| Some((key[prefix.len()..].to_owned(), self.values.remove(&key)?)))
            .collect()
    }

    /// Nobody knows what is left.
    pub(super) fn finish(self, system: &str) -> Result<(), RequesterError> {
        match self.values.into_keys().next() {
            None => Ok(()),
            Some(key) => {
                Err(RequesterError::Unsupported(format!("'{key}' is no setting of the system {system}")))
            }
        }
    }
}
