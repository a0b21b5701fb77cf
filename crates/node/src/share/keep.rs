//! The life of a share-partition in use: it is loaded, acknowledgements are applied and kept, and acquisition
//! locks expire.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use tailrace_env::time::Duration;
use tailrace_env::{select, task, time};

use parking_lot::Mutex;
use tailrace_coordination::share::{
    Acknowledgement, SharePartition, SharePartitionKey, ShareRequest, ShareStateError,
};
use tailrace_types::PartitionId;

use super::failure::{ShareFailure, StateFailure};
use super::live::{AcknowledgeFailure, Keeping, LivePartition};
use super::settings::GroupSettings;
use super::start::first_offset;
use super::state;
use crate::caller::Caller;
use crate::node::Node;
use crate::partitions::{NotHere, PartitionHandle};
use tailrace_env::task::stopped;

/// Interval between two checks whether the state of a share-partition in use still exists.
const CHECK_INTERVAL_MS: i64 = 5_000;

/// Returns the partition that `key` names, if it can be used.
pub(super) fn handle_of(node: &Node, key: &SharePartitionKey) -> Result<Arc<PartitionHandle>, ShareFailure> {
    let topics = node.topics();
    let topic = topics.by_id(key.topic.0).ok_or(ShareFailure::UnknownTopic)?;
    topic.led(key.partition).map(Arc::clone).map_err(|absent| match absent {
        NotHere::Elsewhere => ShareFailure::NotLeader,
        NotHere::Offline(_) => ShareFailure::Offline,
        NotHere::NoSuchPartition => ShareFailure::UnknownPartition,
    })
}

impl LivePartition {
    /// Loads a share-partition, which continues where the group was, or starts where its settings say.
    ///
    /// # Errors
    /// As in Kafka, a share-partition without a state cannot be read: a group without members so far reads
    /// nothing.
    pub(super) async fn load(
        node: &Arc<Node>,
        caller: &Caller,
        key: &SharePartitionKey,
        handle: Arc<PartitionHandle>,
    ) -> Result<Arc<Self>, ShareFailure> {
        assert_eq!(handle.id.partition, PartitionId(key.partition));
        let leader_epoch = handle.leads().ok_or(ShareFailure::NotLeader)?;
        let kept = state::read(node, caller, key, leader_epoch.get()).await;
        let kept = kept.map_err(|failure| match failure {
            StateFailure::Refused(ShareStateError::NotInitialized) => ShareFailure::NoState,
            failure => told(caller, key, failure),
        })?;
        let core = match kept.start {
            Some(start) => SharePartition::restore(start, &kept.batches),
            None => {
                let settings = GroupSettings::of(&node.image(), &key.group);
                SharePartition::new(first_offset(node, &handle, &settings).await?)
            }
        };
        let live = Arc::new(Self {
            key: key.clone(),
            handle,
            leader_epoch,
            generation: kept.generation,
            state_epoch: kept.state_epoch,
            core: Mutex::new(Some(core)),
            keeping: tailrace_env::sync::Mutex::default(),
            waiting: Mutex::default(),
            watched: AtomicBool::new(false),
            used_at: AtomicI64::new(0),
            checked_at: AtomicI64::new(node.share.clock.now().0),
        });
        // Where the group starts is decided once, so that a restart does not skip records that arrive before
        // any is acknowledged.
        live.keep(node, caller).kept().await.map_err(|failure| told(caller, key, failure))?;
        Ok(live)
    }

    /// Records a use.
    pub(super) fn touch(self: &Arc<Self>, node: &Arc<Node>) {
        let now = node.share.clock.now().0;
        self.used_at.store(now, Ordering::Relaxed);
        let checked_at = self.checked_at.load(Ordering::Relaxed);
        let is_due = now.saturating_sub(checked_at) >= CHECK_INTERVAL_MS
            && self
                .checked_at
                .compare_exchange(checked_at, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if is_due {
            let (live, node) = (Arc::clone(self), Arc::clone(node));
            task::spawn(async move { live.check(&node).await });
        }
    }

    /// Invalidates this share-partition if its state is gone, or is a different one. A node that missed a
    /// deletion would continue where the old group was, for members of the next one. As long as no member
    /// acknowledges anything, nothing else would tell it.
    pub(super) async fn check(&self, node: &Arc<Node>) {
        let outlives = match state::summary(node, Caller::internal(), &self.key).await {
            Ok(Some(kept)) => (kept.generation, kept.state_epoch) != (self.generation, self.state_epoch),
            Ok(None) => true,
            // The state is unknown.
            Err(_) => false,
        };
        if outlives {
            tracing::info!(share_partition = %self.key, "the state of a share-partition in use was replaced, or is gone");
            self.give_up();
        }
    }

    /// Applies a member's acknowledgement of records that it holds. It counts at once, and must be kept
    /// ([`LivePartition::keep`]) before the member gets its answer.
    pub fn acknowledge(
        &self,
        node: &Node,
        caller: &Caller,
        settings: &GroupSettings,
        member: &str,
        batches: &[Acknowledgement],
    ) -> Result<(), AcknowledgeFailure> {
        let now = node.share.clock.now();
        let step = |core: &mut SharePartition| {
            let before = core.next_fetch(&settings.terms);
            let result = core.acknowledge(member, batches, &settings.terms, now);
            // Waiting fetches look again if records were released, or if there is room for new ones now.
            let news = result == Ok(true) || core.next_fetch(&settings.terms) != before;
            (result, news)
        };
        let (result, news) = self.with_core(step).ok_or(AcknowledgeFailure::Gone)?;
        if news {
            self.wake();
        }
        result.map(drop).map_err(|error| {
            tracing::debug!(%caller, share_partition = %self.key, %error, "refused an acknowledgement");
            AcknowledgeFailure::Refused(error)
        })
    }

    pub(super) fn release_member(self: &Arc<Self>, node: &Arc<Node>, caller: &Caller, member: &str) {
        let settings = GroupSettings::of(&node.image(), &self.key.group);
        if self.with_core(|core| core.release_member(member, &settings.terms)) == Some(true) {
            self.wake();
            drop(self.keep(node, caller));
        }
    }

    /// Starts keeping everything that changed so far. Neither dropping the handle nor the caller's deadline
    /// stops it: what counts already must be kept.
    ///
    /// If that fails, the share-partition is invalidated, and a new one continues from what was kept before.
    pub fn keep(self: &Arc<Self>, node: &Arc<Node>, caller: &Caller) -> Keeping {
        let (live, node, caller) = (Arc::clone(self), Arc::clone(node), caller.patient());
        Keeping(task::spawn(async move {
            let kept = live.keep_in_order(&node, &caller).await;
            if let Err(failure) = &kept {
                let key = &live.key;
                tracing::warn!(%caller, share_partition = %key, %failure, "could not store a share-partition's state");
                live.give_up();
            }
            kept
        }))
    }

    async fn keep_in_order(&self, node: &Arc<Node>, caller: &Caller) -> Result<(), StateFailure> {
        let _in_order = self.keeping.lock().await;
        let unsaved = self.with_core(SharePartition::take_unsaved).ok_or(ShareStateError::NotInitialized)?;
        let Some(write) = unsaved else { return Ok(()) };
        // The epoch of the load, not the current one: the coordinator refuses writes that are older than
        // another leader's load.
        let leader_epoch = self.leader_epoch.get();
        let (key, generation, state_epoch) = (self.key.clone(), self.generation, self.state_epoch);
        let request = ShareRequest::Write { key, generation, state_epoch, leader_epoch, write };
        state::ask(node, caller, request).await.map(drop)
    }

    /// Has a task watch the acquisition locks. Call this after acquiring records.
    pub(super) fn watch_locks(self: &Arc<Self>, node: &Arc<Node>) {
        if !self.watched.swap(true, Ordering::AcqRel) {
            task::spawn(Arc::clone(self).run_watch(Arc::clone(node)));
        }
    }

    async fn run_watch(self: Arc<Self>, node: Arc<Node>) {
        let mut stopping = node.stopping.subscribe();
        let clock = node.share.clock;
        loop {
            let Some(deadline) = self.with_core(|core| core.deadline()).flatten() else {
                self.watched.store(false, Ordering::Release);
                // Another caller may have acquired records in between, and seen the watch still on.
                let missed = self.with_core(|core| core.deadline()).flatten().is_some();
                if missed && !self.watched.swap(true, Ordering::AcqRel) {
                    continue;
                }
                return;
            };
            select! {
                () = time::sleep(clock.until(deadline)) => {}
                () = stopped(&mut stopping) => return,
            }
            let settings = GroupSettings::of(&node.image(), &self.key.group);
            if self.with_core(|core| core.tick(clock.now(), &settings.terms)) == Some(true) {
                self.wake();
                drop(self.keep(&node, Caller::internal()));
            } else {
                // The clock counts whole milliseconds and may be short of the deadline by less than one.
                time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
}

fn told(caller: &Caller, key: &SharePartitionKey, failure: StateFailure) -> ShareFailure {
    tracing::warn!(%caller, share_partition = %key, %failure, "could not read a share-partition's state");
    ShareFailure::State(failure)
}
