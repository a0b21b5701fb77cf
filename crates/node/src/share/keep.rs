//! What a share-partition in use goes through: it is loaded, what its members say is taken over and kept, and its locks run out.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use tailrace_env::time::Duration;
use tailrace_env::{select, task, time};

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

/// Between two looks whether the state of a share-partition in use is there still.
const CHECK_INTERVAL_MS: i64 = 5_000;

/// The partition that `key` names, if it can be used.
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
    /// Goes on where the group was, or begins where its settings say.
    ///
    /// # Errors
    /// As Kafka has it, a share-partition without a state cannot be read: a group that nobody has joined reads nothing.
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
        // Where the group begins is decided once: records that come while nobody acknowledges any are not skipped by a
        // restart.
        live.keep(node, caller).kept().await.map_err(|failure| told(caller, key, failure))?;
        Ok(live)
    }

    /// It was asked for.
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

    /// Gives itself up if its state is gone, or another one. A node that could not be told of a deletion would go on where the old group
    /// was, for members of the next one, and while nobody acknowledges anything, nothing else would tell it.
    pub(super) async fn check(&self, node: &Arc<Node>) {
        let outlives = match state::summary(node, Caller::internal(), &self.key).await {
            Ok(Some(kept)) => (kept.generation, kept.state_epoch) != (self.generation, self.state_epoch),
            Ok(None) => true,
            // Nothing is known.
            Err(_) => false,
        };
        if outlives {
            tracing::info!(share_partition = %self.key, "the state of a share-partition in use is another one, or gone");
            self.give_up();
        }
    }

    /// Takes over what a member says about records it holds. It counts at once, and must be kept
    /// ([`LivePartition::keep`]) before the member is told so.
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
            // Those who wait look again if records were released, or if there is room for fresh ones now.
            let news = result == Ok(true) || core.next_fetch(&settings.terms) != before;
            (result, news)
        };
        let (result, news) = self.with_core(step).ok_or(AcknowledgeFailure::Gone)?;
        if news {
            self.wake();
        }
        result.map(drop).map_err(|error| {
            tracing::debug!(%caller, share_partition = %self.key, %error, "an acknowledgement is refused");
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

    /// Begins to keep everything that changed so far. The handle's being dropped does not stop it, nor does the
    /// caller's deadline: what counts already must be kept.
    ///
    /// If it cannot be kept, the share-partition is given up, and another will go on from what was kept before.
    pub fn keep(self: &Arc<Self>, node: &Arc<Node>, caller: &Caller) -> Keeping {
        let (live, node, caller) = (Arc::clone(self), Arc::clone(node), caller.patient());
        Keeping(task::spawn(async move {
            let kept = live.keep_in_order(&node, &caller).await;
            if let Err(failure) = &kept {
                let key = &live.key;
                tracing::warn!(%caller, share_partition = %key, %failure, "a share-partition's state was not kept");
                live.give_up();
            }
            kept
        }))
    }

    async fn keep_in_order(&self, node: &Arc<Node>, caller: &Caller) -> Result<(), StateFailure> {
        let _in_order = self.keeping.lock().await;
        let unsaved = self.with_core(SharePartition::take_unsaved).ok_or(ShareStateError::NotInitialized)?;
        let Some(write) = unsaved else { return Ok(()) };
        // Of the load, not of now: the coordinator refuses what comes from before another leader's load.
        let leader_epoch = self.leader_epoch.get();
        let (key, generation, state_epoch) = (self.key.clone(), self.generation, self.state_epoch);
        let request = ShareRequest::Write { key, generation, state_epoch, leader_epoch, write };
        state::ask(node, caller, request).await.map(drop)
    }

    /// Makes sure that somebody watches the acquisition locks: to be called after records were acquired.
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
                // Somebody may have acquired in between, and have seen the watch still on.
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
    tracing::warn!(%caller, share_partition = %key, %failure, "a share-partition's state cannot be read");
    ShareFailure::State(failure)
}
