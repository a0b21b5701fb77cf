//! What is kept of the consumers of a stream, and changes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tailrace_records::internal::ConsumersLeaderValue;

/// Bytes of a page of consumers, unless one is larger by itself. A page travels in one answer.
const PAGE_BYTES: usize = 1 << 20;

/// What a consumer is besides its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WholeConsumer {
    /// The stream's name in JetStream.
    pub stream: String,
    /// The configuration, as JSON.
    pub config: String,
    /// When it was created, in nanoseconds since 1970.
    pub created_ns: i64,
}

/// A consumer as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptConsumer {
    /// Its name.
    pub name: String,
    /// What it is.
    pub whole: WholeConsumer,
    /// Its last whole state.
    #[serde(with = "tailrace_metadata::serial")]
    pub snapshot: Arc<[u8]>,
    /// What has changed since.
    #[serde(with = "tailrace_metadata::serial")]
    pub update: Option<Arc<[u8]>>,
}

/// Some consumers of a stream, sorted by their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumersPage {
    /// The consumers.
    pub consumers: Vec<KeptConsumer>,
    /// There are more behind the last one.
    pub has_more: bool,
}

/// A new state of a consumer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumerWrite {
    /// The consumer.
    pub name: String,
    /// What it is, if this is its whole state. Otherwise this is what has changed since.
    pub whole: Option<WholeConsumer>,
    /// The state.
    #[serde(with = "tailrace_metadata::serial")]
    pub state: Arc<[u8]>,
}

/// A change of the consumers of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumersWrite {
    /// Those that are deleted. They need not be there.
    pub deleted: Vec<String>,
    /// Those with another state.
    pub changed: Vec<ConsumerWrite>,
}

/// One consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) whole: WholeConsumer,
    pub(super) snapshot: Arc<[u8]>,
    pub(super) update: Option<Arc<[u8]>>,
}

impl Kept {
    fn bytes(&self) -> usize {
        let update = self.update.as_ref().map_or(0, |update| update.len());
        self.whole.config.len() + self.snapshot.len() + update
    }
}

/// The consumers of a stream, and who may write them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stream {
    pub(super) leader: ConsumersLeaderValue,
    pub(super) consumers: BTreeMap<String, Kept>,
}

impl Default for Stream {
    fn default() -> Self {
        let leader = ConsumersLeaderValue { leader_epoch: -1, generation: 0, sequence: 0 };
        Self { leader, consumers: BTreeMap::new() }
    }
}

impl Stream {
    /// Returns the consumers behind this name.
    pub(super) fn page(&self, after: &str) -> ConsumersPage {
        let mut page = ConsumersPage { consumers: Vec::new(), has_more: false };
        let mut bytes = 0;
        for (name, kept) in &self.consumers {
            if !after.is_empty() && **name <= *after {
                continue;
            }
            bytes += name.len() + kept.bytes();
            if bytes > PAGE_BYTES && !page.consumers.is_empty() {
                page.has_more = true;
                break;
            }
            let Kept { whole, snapshot, update } = kept.clone();
            page.consumers.push(KeptConsumer { name: name.clone(), whole, snapshot, update });
        }
        page
    }

    /// Returns an update for a consumer that is not there.
    pub(super) fn stranger<'a>(&self, write: &'a ConsumersWrite) -> Option<&'a str> {
        let deleted: BTreeSet<&String> = write.deleted.iter().collect();
        let is_known = |name: &String| self.consumers.contains_key(name) && !deleted.contains(name);
        let updates = write.changed.iter().filter(|change| change.whole.is_none());
        updates.map(|change| &change.name).find(|name| !is_known(name)).map(|name| &**name)
    }

    /// Applies a write.
    pub(super) fn apply(&mut self, write: ConsumersWrite) {
        for name in &write.deleted {
            self.consumers.remove(name);
        }
        for ConsumerWrite { name, whole, state } in write.changed {
            match whole {
                Some(whole) => {
                    self.consumers.insert(name, Kept { whole, snapshot: state, update: None });
                }
                None => {
                    if let Some(kept) = self.consumers.get_mut(&name) {
                        kept.update = Some(state);
                    }
                }
            }
        }
    }
}
