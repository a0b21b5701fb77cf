//! The metadata that the server adds: the level of the API that a stream or consumer needs, and in answers
//! the server's version and level.

use std::collections::BTreeMap;

use super::{PersistMode, StreamConfig};

/// The level of nats-server 2.15.
pub(crate) const API_LEVEL: i64 = 5;
const REQUIRED_LEVEL: &str = "_nats.req.level";
const VERSION: &str = "_nats.ver";
const LEVEL: &str = "_nats.level";

type Metadata = BTreeMap<String, String>;

impl StreamConfig {
    /// Writes the level that the configuration needs. Values that a user gave for these keys go.
    pub(super) fn set_required_level(&mut self) {
        let level = [
            (self.allow_msg_ttl || self.subject_delete_marker_ttl > 0, 1),
            (self.allow_msg_counter || self.allow_atomic || self.allow_msg_schedules, 2),
            (self.persist_mode == PersistMode::Async, 2),
            (self.allow_batched, 4),
        ];
        set_required_level(&mut self.metadata, &level);
    }

    /// The configuration as answers to create, update and info show it. `version` is that of the server.
    #[must_use]
    pub fn for_answer(&self, version: &str) -> Self {
        let mut config = self.clone();
        add_dynamic(&mut config.metadata, version);
        config
    }
}

/// Writes the highest level of those whose condition holds.
pub(crate) fn set_required_level(metadata: &mut Metadata, levels: &[(bool, i64)]) {
    metadata.remove(VERSION);
    metadata.remove(LEVEL);
    let level = levels.iter().filter(|(holds, _)| *holds).map(|(_, level)| *level).max().unwrap_or(0);
    metadata.insert(REQUIRED_LEVEL.to_owned(), level.to_string());
}

/// Adds what only answers show.
pub(crate) fn add_dynamic(metadata: &mut Metadata, version: &str) {
    metadata.insert(VERSION.to_owned(), version.to_owned());
    metadata.insert(LEVEL.to_owned(), API_LEVEL.to_string());
}

/// Takes the level from the configuration that it is compared with.
pub(crate) fn copy_required_level(metadata: &mut Metadata, other: &Metadata) {
    metadata.remove(VERSION);
    metadata.remove(LEVEL);
    match other.get(REQUIRED_LEVEL) {
        Some(level) => drop(metadata.insert(REQUIRED_LEVEL.to_owned(), level.clone())),
        None => drop(metadata.remove(REQUIRED_LEVEL)),
    }
}

/// Bytes of all keys and values.
pub(crate) fn size(metadata: &Metadata) -> usize {
    metadata.iter().map(|(key, value)| key.len() + value.len()).sum()
}
