//! The streams that a node leads, as far as anyone has asked for them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use tailrace_env::sync::Semaphore;
use tailrace_types::RaftGroup;

use super::charge::Memory;
use super::consumers::Registry;
use super::deliverer::Deliverer;
use super::ids::IdKey;
use super::live::LiveStream;
use super::publish::Judging;
use super::translator::Translator;

/// Questions that are answered at the same time. Others wait.
const QUESTIONS_AT_ONCE: usize = 32;

/// The streams of one node.
pub(crate) struct Streams {
    pub(super) translator: Option<Arc<dyn Translator>>,
    pub(super) live: Mutex<HashMap<RaftGroup, Arc<LiveStream>>>,
    /// What is known of those into which somebody publishes what has to be judged.
    pub(super) judging: Mutex<HashMap<RaftGroup, Arc<Judging>>>,
    pub(super) memory: Memory,
    /// Ids of messages, of all tables.
    pub(super) ids: Memory,
    pub(super) id_key: IdKey,
    pub(super) places: Semaphore,
    pub(super) consumers: Registry,
}

impl Streams {
    pub(crate) fn new(
        translator: Option<Arc<dyn Translator>>,
        deliverer: Option<Arc<dyn Deliverer>>,
    ) -> Self {
        Self {
            translator,
            live: Mutex::default(),
            judging: Mutex::default(),
            memory: Memory::default(),
            ids: Memory::default(),
            id_key: IdKey::random(),
            places: Semaphore::new(QUESTIONS_AT_ONCE),
            consumers: Registry::new(deliverer),
        }
    }

    /// How many ids of messages the tables have.
    pub(crate) fn ids(&self) -> usize {
        self.ids.load(Ordering::Relaxed)
    }

    /// How many writes of durable consumers there were.
    pub(crate) fn consumer_saves(&self) -> u64 {
        self.consumers.saves()
    }

    /// How many tables there are.
    pub(crate) fn tables(&self) -> usize {
        self.live.lock().len()
    }

    /// The memory that they take.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    /// Forgets a table that is no longer kept.
    pub(super) fn remove(&self, live: &Arc<LiveStream>) {
        let mut all = self.live.lock();
        if all.get(&live.handle.group).is_some_and(|present| Arc::ptr_eq(present, live)) {
            all.remove(&live.handle.group);
        }
    }
}
