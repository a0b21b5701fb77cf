//! One share-partition in use.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use tailrace_env::time::Duration;
use tailrace_env::{panics, task};

use parking_lot::Mutex;
use tailrace_coordination::share::{AcknowledgeError, SharePartition, SharePartitionKey};
use tailrace_env::sync::Notify;
use tailrace_types::{LeaderEpoch, TimestampMs};

use super::failure::StateFailure;
use crate::coordinators::CoordinatorFailure;
use crate::partitions::PartitionHandle;

/// A share-partition in use. Shared by all fetches for its group.
pub struct LivePartition {
    pub(crate) key: SharePartitionKey,
    pub(crate) handle: Arc<PartitionHandle>,
    /// The epoch in which this node leads the partition. The core is invalid in any other epoch, because
    /// another leader may have handed out records in between.
    pub(super) leader_epoch: LeaderEpoch,
    /// The generation and epoch of the state that it was loaded from.
    pub(super) generation: i64,
    pub(super) state_epoch: i32,
    /// `None` once it is invalid: its state could not be kept, was reset or deleted, or another node has led
    /// since.
    pub(super) core: Mutex<Option<SharePartition>>,
    /// Held while changes are kept, so that they are kept in order. A caller that waits for it finds its
    /// change kept together with those of other waiters.
    pub(super) keeping: tailrace_env::sync::Mutex<()>,
    /// Fetches that wait for records to become available, by the address of their `Notify`.
    pub(super) waiting: Mutex<HashMap<usize, Arc<Notify>>>,
    /// A task watches the acquisition locks.
    pub(super) watched: AtomicBool,
    /// When it was last asked for, in milliseconds.
    pub(super) used_at: AtomicI64,
    /// When its state was last checked, in milliseconds.
    pub(super) checked_at: AtomicI64,
}

/// A pending write of changes.
pub struct Keeping(pub(super) task::JoinHandle<Result<(), StateFailure>>);

impl Keeping {
    /// Waits until the changes are kept.
    ///
    /// # Errors
    /// They could not be kept, so no client may be told that they hold.
    pub async fn kept(self) -> Result<(), StateFailure> {
        self.0.await.unwrap_or(Err(StateFailure::Coordinator(CoordinatorFailure::Reloaded)))
    }
}

/// Why an acknowledgement does not count.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AcknowledgeFailure {
    /// The share-partition refuses it.
    #[error(transparent)]
    Refused(AcknowledgeError),
    /// This node no longer leads the partition.
    #[error("the records are unknown: the share-partition was loaded again")]
    Gone,
}

impl LivePartition {
    /// Runs `step` on the core. `None` if the core is invalid. A panic in `step` makes it so, because a
    /// half-applied change must not be used. The kept state is then loaded again.
    pub(super) fn with_core<T>(&self, step: impl FnOnce(&mut SharePartition) -> T) -> Option<T> {
        if !self.is_led() {
            self.give_up();
            return None;
        }
        let stepped = {
            let mut core = self.core.lock();
            let stepped = catch_unwind(AssertUnwindSafe(|| core.as_mut().map(step)));
            if stepped.is_err() {
                *core = None;
            }
            stepped
        };
        stepped.unwrap_or_else(|panic| {
            let (reason, key) = (panics::reason_of(&*panic), &self.key);
            tracing::error!(?key, %reason, "a bug in the server: a change of a share-partition panicked, it is loaded again");
            self.wake();
            None
        })
    }

    /// Reports whether this node leads the partition, and has done so without a break since this was loaded.
    fn is_led(&self) -> bool {
        self.handle.leads() == Some(self.leader_epoch)
    }

    /// Reports whether it is valid for this partition: a topic may have been deleted and created again.
    pub(super) fn serves(&self, handle: &Arc<PartitionHandle>) -> bool {
        Arc::ptr_eq(&self.handle, handle) && self.is_led() && self.core.lock().is_some()
    }

    /// Reports whether no member holds records, everything is kept, and it was not used for this long.
    pub(super) fn is_idle_since(&self, now: TimestampMs, time: Duration) -> bool {
        let unused_ms = now.0.saturating_sub(self.used_at.load(Ordering::Relaxed));
        let is_old = u128::try_from(unused_ms).is_ok_and(|ms| ms >= time.as_millis());
        is_old && self.with_core(|core| core.is_idle() && !core.has_unsaved()).unwrap_or(true)
    }

    /// Invalidates this share-partition. Waiters look for a new one.
    pub(super) fn give_up(&self) {
        *self.core.lock() = None;
        self.wake();
    }

    /// Waits until nothing is being kept any longer, after this was invalidated: a new one must not be loaded
    /// from a state that lacks a write in flight. After a failed hand-over this node leads in the same epoch,
    /// so the coordinator could not tell the two apart.
    pub(super) async fn last_write_ended(&self) {
        drop(self.keeping.lock().await);
    }

    /// Registers a fetch to be woken when records may have become available. Look again after registering.
    pub fn register_fetch(&self, fetch: &Arc<Notify>) {
        let mut waiting = self.waiting.lock();
        // Fetches that ended by their time limit leave their entry behind.
        waiting.retain(|_, other| Arc::strong_count(other) > 1);
        waiting.insert(Arc::as_ptr(fetch) as usize, Arc::clone(fetch));
        drop(waiting);
        self.handle.register_fetch(fetch);
    }

    pub(super) fn wake(&self) {
        for fetch in std::mem::take(&mut *self.waiting.lock()).into_values() {
            fetch.notify_one();
        }
    }
}
