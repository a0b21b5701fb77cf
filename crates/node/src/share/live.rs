//! One share-partition in use.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tailrace_env::time::Duration;
use tailrace_env::{panics, task};

use tailrace_coordination::share::{AcknowledgeError, SharePartition, SharePartitionKey};
use tailrace_env::sync::Notify;
use tailrace_types::{LeaderEpoch, TimestampMs};

use super::failure::StateFailure;
use crate::coordinators::CoordinatorFailure;
use crate::partitions::PartitionHandle;

/// A share-partition in use. Shared by all who read it for its group.
pub struct LivePartition {
    pub(crate) key: SharePartitionKey,
    pub(crate) handle: Arc<PartitionHandle>,
    /// The epoch in which this node leads the partition. What it knows counts in no other: another leader may have handed out records
    /// in between.
    pub(super) leader_epoch: LeaderEpoch,
    /// The generation and the epoch of the state that it was loaded from.
    pub(super) generation: i64,
    pub(super) state_epoch: i32,
    /// `None` once it is of no use any more: its state could not be kept, or was reset or deleted, or another node has led since.
    pub(super) core: Mutex<Option<SharePartition>>,
    /// Held while changes are being kept, so that they are kept in their order. Whoever waits for it finds his change kept
    /// together with those of the others who waited.
    pub(super) keeping: tailrace_env::sync::Mutex<()>,
    /// Fetches that wait for records to become available, by the address of their `Notify`.
    pub(super) waiting: Mutex<HashMap<usize, Arc<Notify>>>,
    /// Somebody watches the acquisition locks.
    pub(super) watched: AtomicBool,
    /// When it was last asked for, in milliseconds.
    pub(super) used_at: AtomicI64,
    /// When its state was last looked for, in milliseconds.
    pub(super) checked_at: AtomicI64,
}

/// Changes that are being kept.
pub struct Keeping(pub(super) task::JoinHandle<Result<(), StateFailure>>);

impl Keeping {
    /// Waits until they are.
    ///
    /// # Errors
    /// They could not be kept: nobody may be told that they hold.
    pub async fn kept(self) -> Result<(), StateFailure> {
        self.0.await.unwrap_or(Err(StateFailure::Coordinator(CoordinatorFailure::Reloaded)))
    }
}

/// Why an acknowledgement does not count.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AcknowledgeFailure {
    /// The partition refuses it.
    #[error(transparent)]
    Refused(AcknowledgeError),
    /// The partition is not led here any more.
    #[error("nothing is known of the records: the share-partition was loaded anew")]
    Gone,
}

impl LivePartition {
    /// Runs `step` on the core. `None` if it is of no use any more: it is not if this panics, since nobody may go on with what was changed
    /// half-way. What was kept is loaded again.
    pub(super) fn with_core<T>(&self, step: impl FnOnce(&mut SharePartition) -> T) -> Option<T> {
        if !self.is_led() {
            self.give_up();
            return None;
        }
        let stepped = {
            let mut core = lock(&self.core);
            let stepped = catch_unwind(AssertUnwindSafe(|| core.as_mut().map(step)));
            if stepped.is_err() {
                *core = None;
            }
            stepped
        };
        stepped.unwrap_or_else(|panic| {
            let (reason, key) = (panics::reason_of(&*panic), &self.key);
            tracing::error!(?key, %reason, "a bug of the server: a change of a share-partition panicked, it is loaded again");
            self.wake();
            None
        })
    }

    /// True if this node leads the partition, and has done so since this was loaded.
    fn is_led(&self) -> bool {
        self.handle.leads() == Some(self.leader_epoch)
    }

    /// True if it is of use, for this partition: a topic may have been deleted and made anew.
    pub(super) fn serves(&self, handle: &Arc<PartitionHandle>) -> bool {
        Arc::ptr_eq(&self.handle, handle) && self.is_led() && lock(&self.core).is_some()
    }

    /// True if nobody holds records, everything is kept, and nobody asked for so long.
    pub(super) fn is_idle_since(&self, now: TimestampMs, time: Duration) -> bool {
        let unused_ms = now.0.saturating_sub(self.used_at.load(Ordering::Relaxed));
        let is_old = u128::try_from(unused_ms).is_ok_and(|ms| ms >= time.as_millis());
        is_old && self.with_core(|core| core.is_idle() && !core.has_unsaved()).unwrap_or(true)
    }

    /// Nothing that it knows counts any more. Whoever waits looks for a fresh one.
    pub(super) fn give_up(&self) {
        *lock(&self.core) = None;
        self.wake();
    }

    /// Waits until nothing of it is being kept any more, once it was given up: a fresh one must not be loaded from before what
    /// is on its way. A hand-over of leadership that fails leaves this node leading in the same epoch, so that the coordinator
    /// would not tell the one from the other.
    pub(super) async fn last_write_ended(&self) {
        drop(self.keeping.lock().await);
    }

    /// Registers a fetch that wants to look again when records may have become available. Look again after registering.
    pub fn register_fetch(&self, fetch: &Arc<Notify>) {
        let mut waiting = lock(&self.waiting);
        // Fetches that ended by their time limit leave their entry behind.
        waiting.retain(|_, other| Arc::strong_count(other) > 1);
        waiting.insert(Arc::as_ptr(fetch) as usize, Arc::clone(fetch));
        drop(waiting);
        self.handle.register_fetch(fetch);
    }

    pub(super) fn wake(&self) {
        for fetch in std::mem::take(&mut *lock(&self.waiting)).into_values() {
            fetch.notify_one();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
