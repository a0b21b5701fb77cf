//! The core of a partition behind one short lock, and what follows from changing it.
//!
//! No other code holds the core. Callers that change it pass a function to [`PartitionHandle::with`] or one
//! of its siblings. Comparing the core before and after the change shows what has to follow, which is done
//! here:
//!
//! | what changed | what follows | under the lock |
//! |---|---|---|
//! | the replica has messages for others | they are sent, in order | yes |
//! | leadership was won or lost | the other rooms hear of it, and waits for a commit are answered | yes |
//! | it fell asleep, or woke | the ticker hears of it | yes |
//! | bytes were written | they count for [`DirtyPages`](crate::dirty::DirtyPages) | no |
//! | something has to be synced | the flusher gets it | no |
//! | a segment was started or closed | the next sync writes a checkpoint | no |
//! | a mark moved | waiters are answered and woken | no |
//! | it accepts no more writes | all waiters hear of it | no |
//! | it panicked | the partition is taken out of service | no |

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tailrace_env::{panics, task, thread};

use tailrace_log::LogConfig;
use tailrace_replication::raft::Replica;
use tailrace_replication::{AppendError, Policy, SyncTicket};
use tailrace_types::{HighWatermark, LeaderEpoch, LogEnd, Offset, TimestampMs};

use super::PartitionHandle;
use super::lock::{Core, Guard};
use crate::disk::NodeDisk;
use crate::partitions::failure::AppendFailure;
use tailrace_env::time::wall_clock;

/// The values of a partition that are compared before and after a change.
struct Marks {
    high_watermark: HighWatermark,
    last_stable_offset: Offset,
    log_start: Offset,
    log_end: LogEnd,
    appended_bytes: u64,
    rolls: u64,
    sync_due: bool,
}

impl Marks {
    /// Checks what must hold after every change.
    ///
    /// # Panics
    /// If it does not hold.
    fn assert_follow(&self, before: &Self) {
        let (committed, stable, end) = (self.high_watermark, self.last_stable_offset, self.log_end);
        assert!(
            stable <= committed.offset()
                && committed.offset() <= end.offset()
                && self.log_start <= end.offset(),
            "last stable offset {stable}, high watermark {committed} and log start {} of a log that ends at {end}",
            self.log_start
        );
        assert!(
            committed >= before.high_watermark && stable >= before.last_stable_offset,
            "high watermark {committed} and last stable offset {stable}, after {} and {}",
            before.high_watermark,
            before.last_stable_offset
        );
        assert!(
            self.appended_bytes >= before.appended_bytes && self.rolls >= before.rolls,
            "{} bytes and {} segments were written, and before {} and {}",
            self.appended_bytes,
            self.rolls,
            before.appended_bytes,
            before.rolls
        );
    }

    fn of(partition: &PartitionHandle, core: &Core) -> Self {
        let reader = &partition.reader;
        Self {
            high_watermark: reader.high_watermark(),
            last_stable_offset: reader.last_stable_offset(),
            log_start: reader.log_start(),
            log_end: reader.log_end(),
            appended_bytes: reader.log().appended_bytes(),
            rolls: reader.log().rolls(),
            sync_due: core.sync_due(),
        }
    }

    fn places(&self) -> (HighWatermark, Offset, Offset) {
        (self.high_watermark, self.last_stable_offset, self.log_start)
    }
}

/// What remains to be done after a change, without the lock.
#[must_use]
enum Effects {
    /// The core panicked, and is gone.
    OutOfService { reason: String },
    Changed {
        appended_bytes: u64,
        is_sync_due: bool,
        has_rolled: bool,
        have_marks_moved: bool,
        /// Why it takes no more writes.
        halted: Option<String>,
    },
}

impl Effects {
    fn between(before: &Marks, after: &Marks, halted: Option<&str>) -> Self {
        let appended_bytes = after.appended_bytes - before.appended_bytes;
        Self::Changed {
            appended_bytes,
            is_sync_due: after.sync_due,
            has_rolled: after.rolls != before.rolls,
            have_marks_moved: after.places() != before.places(),
            halted: halted.map(str::to_owned),
        }
    }

    fn without_sync(mut self) -> Self {
        if let Self::Changed { is_sync_due, .. } = &mut self {
            *is_sync_due = false;
        }
        self
    }
}

/// How a partition's handle ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The server stops.
    Stopped,
    /// The partition continues elsewhere, or under another handle.
    Elsewhere,
    /// Its topic is deleted, here and on other nodes.
    Deleted,
}

impl PartitionHandle {
    /// Changes the core on an event loop, so the change must not wait for a disk. `None` if the core is gone.
    ///
    /// What follows from the change is done before this returns. Once the change has started, it is done even
    /// if the caller is dropped.
    pub(crate) async fn with<R>(self: &Arc<Self>, change: impl FnOnce(&mut Core) -> R) -> Option<R> {
        let mut slot = self.core.0.lock().await;
        let (result, effects) = self.change(&mut slot, change)?;
        drop(slot);
        self.act(effects);
        result
    }

    /// Changes the core on a thread that may block. Not for the runtime's workers: an append may hold the
    /// lock while it waits for one.
    pub(crate) fn with_blocking<R>(self: &Arc<Self>, change: impl FnOnce(&mut Core) -> R) -> Option<R> {
        let mut slot = thread::wait_for(self.core.0.lock());
        let (result, effects) = self.change(&mut slot, change)?;
        drop(slot);
        self.act(effects);
        result
    }

    /// Changes the core on a worker, for changes that may wait for a disk. The worker never waits for the
    /// lock. A change that was started completes even if the caller is dropped meanwhile.
    pub(crate) async fn with_on_worker<R: Send + 'static>(
        self: &Arc<Self>,
        change: impl FnOnce(&mut Core) -> R + Send + 'static,
    ) -> Option<R> {
        let slot = Arc::clone(&self.core.0).lock_owned().await;
        let partition = Arc::clone(self);
        let work = move || partition.change_owned(slot, change);
        task::spawn_blocking(work).await.ok().flatten()
    }

    fn change_owned<R>(self: &Arc<Self>, mut slot: Guard, change: impl FnOnce(&mut Core) -> R) -> Option<R> {
        let (result, effects) = self.change(&mut slot, change)?;
        drop(slot);
        self.act(effects);
        result
    }

    /// Applies changed settings.
    pub(crate) async fn configure(self: &Arc<Self>, config: LogConfig, policy: Policy, now: TimestampMs) {
        *self.policy.lock() = policy;
        self.with(|core| core.configure(config, policy, now)).await;
    }

    /// Plans a sync of everything appended so far, followed by a checkpoint if asked for. `None` if there is
    /// nothing to do. Blocks.
    pub(crate) fn begin_sync(self: &Arc<Self>, checkpoint: bool) -> Option<SyncTicket<NodeDisk>> {
        let mut slot = thread::wait_for(self.core.0.lock());
        let (ticket, effects) = self.change(&mut slot, |core| core.begin_sync(checkpoint))?;
        drop(slot);
        // The sync stays due until it has run.
        self.act(effects.without_sync());
        ticket.flatten()
    }

    /// Looks at the core without changing it. `None` if the core is gone.
    pub async fn look<R>(&self, look: impl FnOnce(&Core) -> R) -> Option<R> {
        self.core.0.lock().await.as_ref().map(look)
    }

    /// Looks at the core, or returns `None` at once if a writer holds it.
    pub(crate) fn try_look<R>(&self, look: impl FnOnce(&Core) -> R) -> Option<R> {
        self.core.0.try_lock().ok()?.as_ref().map(look)
    }

    /// Applies a change and catches panics. A broken invariant costs this partition, not the process: a core
    /// that panicked half-way is never used again.
    fn change<R>(
        &self,
        slot: &mut Option<Core>,
        change: impl FnOnce(&mut Core) -> R,
    ) -> Option<(Option<R>, Effects)> {
        let core = slot.as_mut()?;
        let changed = catch_unwind(AssertUnwindSafe(|| {
            let before = Marks::of(self, core);
            let result = change(core);
            // Checked before the change is announced.
            Marks::of(self, core).assert_follow(&before);
            self.pass_on(core);
            (result, Effects::between(&before, &Marks::of(self, core), core.halted()))
        }));
        match changed {
            Ok((result, effects)) => Some((Some(result), effects)),
            Err(panic) => {
                *slot = None;
                Some((None, Effects::OutOfService { reason: panics::reason_of(&*panic).to_owned() }))
            }
        }
    }

    fn act(self: &Arc<Self>, effects: Effects) {
        let (appended_bytes, is_sync_due, has_rolled, have_marks_moved, halted) = match effects {
            Effects::Changed { appended_bytes, is_sync_due, has_rolled, have_marks_moved, halted } => {
                (appended_bytes, is_sync_due, has_rolled, have_marks_moved, halted)
            }
            Effects::OutOfService { reason } => return self.note_panic(reason),
        };
        if appended_bytes > 0 {
            self.context.dirty.appended(appended_bytes);
        }
        if has_rolled {
            self.checkpointed_at.store(self.reader.log_end().get(), Ordering::Relaxed);
            self.checkpoint_due.store(true, Ordering::Release);
        }
        if is_sync_due || has_rolled {
            self.context.flusher.schedule(self);
        }
        match halted.filter(|_| !self.is_halted()) {
            Some(reason) => {
                let what = if self.is_replica() {
                    "the replica has stopped"
                } else {
                    "the partition accepts no more writes"
                };
                tracing::error!(partition = %self.id, %reason, "{what}");
                self.stop_waiters();
            }
            None if have_marks_moved => self.marks_moved(),
            None => {}
        }
    }

    /// Takes the partition out of service after work without its core, such as a sync, panicked: its outcome
    /// is unknown. Blocks until the core is free.
    pub(crate) fn take_out_of_service(self: &Arc<Self>, reason: &str) {
        drop(thread::wait_for(self.core.0.lock()).take());
        self.note_panic(reason.to_owned());
    }

    fn note_panic(&self, reason: String) {
        tracing::error!(
            partition = %self.id, %reason,
            "a bug in the server: work on the partition panicked, and it is taken out of service"
        );
        // Only the first panic is kept: it names the original fault.
        let _ = self.panic.set(format!("a bug in the server, it panicked: {reason}"));
        self.sleep.set_gone();
        self.stop_waiters();
    }

    /// Sends the replica's messages in order, and announces leadership won or lost. Called under the lock
    /// after a change.
    fn pass_on(&self, core: &mut Core) {
        let Some(replica) = core.replica() else { return };
        self.send(replica);
        self.inbox.set_due(replica.ticks_until_due());
        self.note_sleep(replica);
        let leads = replica.leads();
        let now = leads.unwrap_or(LeaderEpoch::UNKNOWN).get();
        let before = self.leads.swap(now, Ordering::AcqRel);
        self.waiting.stepped();
        if before == now {
            return;
        }
        if before != LeaderEpoch::UNKNOWN.get() {
            self.answer_committed();
            self.waiting.answer_deposed();
        }
        self.context.links.leadership_changed(self.group, replica.id(), leads);
    }

    fn send(&self, replica: &mut Replica<NodeDisk>) {
        let throttled = self.throttled.load();
        let throttled = throttled.as_deref();
        let sends_slowly = self.sends_slowly();
        replica.pace(|id| sends_slowly || throttled.is_some_and(|throttled| throttled.takes(id.node())));
        self.is_new.store(!replica.votes(), Ordering::Relaxed);
        let links = &self.context.links;
        for message in replica.take_messages() {
            let to = message.to();
            match message.append_bytes().filter(|_| sends_slowly && replica.is_paced(to)) {
                None => links.send(self.group, message),
                Some(bytes) if links.send_slowly(self.group, message, bytes) => {}
                Some(_) => replica.unreachable(to, wall_clock()),
            }
        }
    }

    /// Closes the partition cleanly, and tells all waiters. Blocks on the disk, on a worker.
    ///
    /// # Errors
    /// Those of [`Partition::close`], and [`AppendError::Halted`] if the close or earlier work panicked.
    pub(crate) async fn close(self: &Arc<Self>, ending: Ending) -> Result<(), AppendError> {
        // Not on the worker: an append may hold the lock while it waits for one.
        let core = self.core.0.lock().await.take();
        if ending != Ending::Stopped {
            self.end(ending);
        }
        let Some(core) = core else {
            // The next start recovers a partition that panicked.
            let panicked = self.panic.get().filter(|_| ending == Ending::Stopped);
            return panicked.map_or(Ok(()), |reason| Err(AppendError::Halted { reason: reason.clone() }));
        };
        let partition = Arc::clone(self);
        let close = move || {
            let closed = core.close();
            if ending == Ending::Stopped {
                // After the last sync, which has answered some waiters.
                partition.end(ending);
            }
            closed
        };
        match task::spawn_blocking(close).await {
            Ok(closed) => closed,
            Err(error) => {
                self.stop_waiters();
                Err(AppendError::Halted { reason: format!("closing it panicked: {error}") })
            }
        }
    }

    /// Ends without a clean close: its files are removed, or opened by another handle, which recovers them.
    pub(crate) async fn abandon(&self, ending: Ending) {
        drop(self.core.0.lock().await.take());
        self.end(ending);
    }

    /// Drops the core if `holds` of it, or of there being none. The handle itself lives on until
    /// [`PartitionHandle::retire`]. False if `holds` is false.
    pub(crate) async fn abandon_if(&self, holds: impl FnOnce(Option<&Core>) -> bool) -> bool {
        let mut slot = self.core.0.lock().await;
        let abandons = holds(slot.as_ref());
        if abandons {
            drop(slot.take());
        }
        abandons
    }

    fn end(&self, ending: Ending) {
        match ending {
            Ending::Stopped => self.stop_waiters(),
            Ending::Elsewhere => self.retire(),
            Ending::Deleted => {
                // The other replicas are deleted, too, so none has to be woken.
                self.sleep.end();
                self.sleep.set_gone();
                self.stop_waiters();
            }
        }
    }

    /// Tells all waiters that the partition continues elsewhere, or under another handle.
    pub(crate) fn retire(&self) {
        self.leads.store(LeaderEpoch::UNKNOWN.get(), Ordering::Release);
        self.awake(true);
        self.sleep.set_gone();
        self.answer_committed();
        self.waiting.answer_deposed();
        self.waiting.end_asks();
        self.marks_moved();
    }

    /// Reports whether the partition was deleted, or continues elsewhere or under another handle. Its files
    /// may be gone.
    pub(crate) fn is_over(&self) -> bool {
        self.sleep.is_gone() && self.panic.get().is_none()
    }

    /// Returns why writing has stopped. While a writer holds the core, the reason is just "stopped".
    pub(crate) fn halted(&self) -> Option<String> {
        if let Some(panic) = self.panic.get() {
            return Some(panic.clone());
        }
        let reason = || self.try_look(|core| core.halted().map(str::to_owned)).flatten();
        self.is_halted().then(|| reason().unwrap_or_else(|| "stopped".to_owned()))
    }

    /// Returns the failure to report if the core is gone: a bug in the server, or the partition was closed or
    /// deleted.
    pub(crate) fn absent(&self) -> AppendFailure {
        match self.panic.get() {
            Some(reason) => AppendFailure::Refused(AppendError::Halted { reason: reason.clone() }),
            None => AppendFailure::Gone,
        }
    }

    /// Marks the partition as no longer writable and tells all waiters.
    pub(crate) fn stop_waiters(&self) {
        self.halted.store(true, Ordering::Release);
        self.awake(true);
        self.answer_committed();
        self.waiting.answer_halted();
        self.waiting.end_asks();
        self.marks_moved();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(last_stable_offset: i64, high_watermark: i64, log_end: i64) -> Marks {
        Marks {
            high_watermark: HighWatermark(high_watermark),
            last_stable_offset: Offset(last_stable_offset),
            log_start: Offset(0),
            log_end: LogEnd(log_end),
            appended_bytes: 100,
            rolls: 1,
            sync_due: false,
        }
    }

    #[test]
    fn marks_move_forward() {
        marks(1, 2, 3).assert_follow(&marks(0, 2, 9));
    }

    #[test]
    #[should_panic(
        expected = "last stable offset 3, high watermark 2 and log start 0 of a log that ends at 4"
    )]
    fn the_last_stable_offset_is_not_beyond_the_high_watermark() {
        marks(3, 2, 4).assert_follow(&marks(0, 0, 0));
    }

    #[test]
    #[should_panic(expected = "high watermark 2 and last stable offset 2, after 3 and 2")]
    fn the_high_watermark_does_not_go_back() {
        marks(2, 2, 4).assert_follow(&marks(2, 3, 4));
    }

    #[test]
    #[should_panic(expected = "50 bytes and 1 segments were written, and before 100 and 1")]
    fn what_was_written_stays_written() {
        Marks { appended_bytes: 50, ..marks(1, 2, 3) }.assert_follow(&marks(1, 2, 3));
    }
}
