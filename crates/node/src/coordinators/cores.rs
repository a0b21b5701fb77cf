//! The cores of one kind of coordinator, and what the shell keeps around each. `runtime` and `shard` work on
//! them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32};

use parking_lot::Mutex;
use tailrace_config::BrokerConfig;
use tailrace_coordination::coordinator::{Coordinator, Token};
use tailrace_env::sync::{Notify, oneshot};
use tailrace_types::LeaderEpoch;

use super::SteadyClock;
use crate::partitions::{Awaited, PartitionHandle};

/// No deadline.
pub(super) const NEVER: i64 = i64::MAX;

/// What a kind of coordinator needs from the shell.
pub(crate) struct Kind<C: Coordinator> {
    /// Name for the server's log.
    pub(crate) name: &'static str,
    /// The internal topic that holds their state.
    pub(crate) topic: &'static str,
    /// Number of partitions of the topic.
    pub(crate) partitions: fn(&BrokerConfig) -> i32,
    /// Settings of the topic.
    pub(crate) settings: fn(&BrokerConfig) -> Vec<(&'static str, String)>,
    /// Makes an empty core.
    pub(crate) new: fn() -> C,
}

/// All coordinators of one kind. Cores are loaded at start, and again after a failure.
pub struct Runtime<C: Coordinator> {
    pub(super) kind: &'static Kind<C>,
    pub(super) clock: SteadyClock,
    pub(super) shards: Mutex<BTreeMap<i32, Arc<Shard<C>>>>,
    /// One task creates the topic while the others wait.
    pub(super) creating: tailrace_env::sync::Mutex<()>,
}

impl<C: Coordinator> Runtime<C> {
    pub(crate) fn new(kind: &'static Kind<C>, clock: SteadyClock) -> Self {
        Self { kind, clock, shards: Mutex::default(), creating: tailrace_env::sync::Mutex::default() }
    }

    /// Lists coordinators that this node leads and that a bug in the server keeps out of service.
    pub(super) fn problems(&self) -> Vec<String> {
        self.shards.lock().values().filter_map(|shard| shard.problem()).collect()
    }
}

#[cfg(test)]
impl<C: Coordinator> Runtime<C> {
    /// Makes the coordinator refuse requests until this time of the coordinators' clock, as if a write to its
    /// log had just failed.
    pub(crate) async fn refuse_until(&self, partition: i32, until: i64) {
        let shard = self.shards.lock().get(&partition).cloned().expect("it was used");
        *shard.state.lock().await = ShardState::Unloaded;
        shard.refuses_until.store(until, std::sync::atomic::Ordering::Release);
    }
}

/// The coordinator of one partition: its core behind a lock, and its timer.
pub(super) struct Shard<C: Coordinator> {
    pub(super) partition: i32,
    pub(super) kind: &'static Kind<C>,
    pub(super) clock: SteadyClock,
    pub(super) state: tailrace_env::sync::Mutex<ShardState<C>>,
    /// When the core wants to be called, in milliseconds.
    pub(super) deadline: AtomicI64,
    pub(super) deadline_changed: Notify,
    /// Until when it refuses requests, in milliseconds.
    pub(super) refuses_until: AtomicI64,
    /// The panic while loading it, until it is loaded or another node leads its partition.
    panic: Mutex<Option<String>>,
    /// How many generations its cores have allocated, one after the other.
    pub(super) generations: AtomicU32,
}

pub(super) enum ShardState<C: Coordinator> {
    /// Not read yet, or evicted after a failure.
    Unloaded,
    Loaded(Box<Loaded<C>>),
    /// The server is stopping.
    Closed,
}

pub(super) struct Loaded<C: Coordinator> {
    pub(super) core: C,
    pub(super) handle: Arc<PartitionHandle>,
    /// The epoch in which it was loaded. In another epoch, others may have written in between.
    pub(super) epoch: LeaderEpoch,
    pub(super) next_token: u64,
    pub(super) waiting: HashMap<Token, oneshot::Sender<C::Reply>>,
    /// The high watermark must reach this point before any decision so far may be sent out.
    pub(super) appended_to: Awaited,
}

impl<C: Coordinator> Shard<C> {
    pub(super) fn new(partition: i32, kind: &'static Kind<C>, clock: SteadyClock) -> Self {
        Self {
            partition,
            kind,
            clock,
            state: tailrace_env::sync::Mutex::new(ShardState::Unloaded),
            deadline: AtomicI64::new(NEVER),
            deadline_changed: Notify::new(),
            refuses_until: AtomicI64::new(i64::MIN),
            panic: Mutex::default(),
            generations: AtomicU32::new(0),
        }
    }

    pub(super) fn set_panic(&self, reason: Option<String>) {
        *self.panic.lock() = reason;
    }

    fn problem(&self) -> Option<String> {
        let panic = self.panic.lock();
        let reason = panic.as_ref()?;
        let (topic, partition) = (self.kind.topic, self.partition);
        Some(format!("the coordinator of {topic}-{partition} is out of service: {reason}"))
    }
}
