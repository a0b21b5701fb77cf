//! The coordinator of groups: who belongs to a group, who reads what, and how far each group has read.
//!
//! One [`GroupCoordinator`] is the state of one partition of `__consumer_offsets`: all groups whose id hashes to it, with
//! their offsets. A group is of one kind at a time. Classic groups (`classic/`) leave the assignment to their leader;
//! consumer groups (`consumer/`, KIP-848) and share groups (`share/`, KIP-932) are assigned here. Offsets (`offsets/`) belong to
//! the id, whatever the kind.
//!
//! Deliberately not here: protocol error codes ([`GroupError`] tells facts), versions of requests (the shell translates
//! them into abilities), randomness (fresh member ids come in with events).

mod admin;
mod assignors;
mod classic;
mod consumer;
mod error;
mod event;
mod group;
mod limits;
mod offsets;
mod share;
mod timers;

use std::collections::BTreeMap;
use std::sync::Arc;

use tailrace_types::{ProducerId, TimestampMs};

pub use assignors::Partitions;
pub use classic::{
    ClassicDescription, ClassicEvent, ClassicMemberDescription, ClassicReply, JoinAbilities, JoinRequest,
    Joined, JoinedMember, LeavingMember, MemberReference, SyncRequest, Synced,
};
pub use consumer::{
    ConsumerDescription, ConsumerEvent, ConsumerHeartbeat, ConsumerMemberDescription, ConsumerReply,
    EXPRESSION_BYTES_MAX, EXPRESSIONS_PER_GROUP_MAX, NamedPartitions,
};
pub use error::GroupError;
pub use event::{
    ClientIdentity, GroupEvent, GroupFilter, GroupReply, GroupSummary, GroupWork, HeartbeatAnswer, NamedBytes,
};
pub use group::{GroupKind, GroupState};
pub use limits::{GROUP_ID_BYTES_MAX, OFFSETS_PER_GROUP_MAX};
pub use offsets::{
    CommitPartition, CommitRequest, CommitTopic, CommittedOffset, CommittedTopic, Committer, FetchRequest,
    FetchTopic, FetchedPartition, FetchedTopic, OffsetsEvent, OffsetsReply, TopicPartitions, TopicReference,
};
pub use share::{
    ShareDescription, ShareEvent, ShareHeartbeat, ShareMemberDescription, ShareReply, ShareWork,
};

use crate::coordinator::{Coordinator, Effects, Moment, ReplayError, Replayed};
use group::Group;
use offsets::Offsets;
use timers::{GroupTimer, Timers};

/// All groups of one partition of `__consumer_offsets`.
#[derive(Debug, Default)]
pub struct GroupCoordinator {
    groups: BTreeMap<Arc<str>, Group>,
    offsets: Offsets,
    timers: Timers,
    counts: GroupCounts,
    /// When offsets are looked through for expired ones; not before everything is loaded.
    expiry_check_at: Option<TimestampMs>,
}

/// What has happened since the coordinator was made, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupCounts {
    /// Rebalances of classic groups that were completed.
    pub classic_rebalances: u64,
    /// Offsets that were committed, each partition counted.
    pub offset_commits: u64,
    /// Offsets that have expired.
    pub offset_expirations: u64,
    /// Offsets that were deleted, on request or with their topic.
    pub offset_deletions: u64,
}

impl GroupCounts {
    /// Adds those of another coordinator.
    pub fn add(&mut self, other: Self) {
        self.classic_rebalances += other.classic_rebalances;
        self.offset_commits += other.offset_commits;
        self.offset_expirations += other.offset_expirations;
        self.offset_deletions += other.offset_deletions;
    }

    /// Raises each count to another's, where that is larger.
    pub fn raise_to(&mut self, other: Self) {
        self.classic_rebalances = self.classic_rebalances.max(other.classic_rebalances);
        self.offset_commits = self.offset_commits.max(other.offset_commits);
        self.offset_expirations = self.offset_expirations.max(other.offset_expirations);
        self.offset_deletions = self.offset_deletions.max(other.offset_deletions);
    }
}

impl GroupCoordinator {
    /// A coordinator that knows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What has happened so far.
    pub fn counts(&self) -> GroupCounts {
        self.counts
    }

    /// How many transactions of a producer have ended in this coordinator's partition, as far as its log and memory go;
    /// `None` of a producer that is not known. Who asks a transaction's coordinator before offsets are committed in the
    /// transaction compares it before and after: another number means that the transaction has ended meanwhile.
    pub fn transactions_ended(&self, producer: ProducerId) -> Option<u64> {
        self.offsets.transactions_ended(producer)
    }

    /// Number of committed offsets.
    pub fn offsets(&self) -> usize {
        self.offsets.committed_count()
    }

    /// Number of groups by kind and state.
    pub fn census(&self) -> BTreeMap<(GroupKind, GroupState), usize> {
        let mut census = BTreeMap::new();
        for group in self.groups.values() {
            *census.entry((group.kind(), group.state())).or_default() += 1;
        }
        census
    }
}

impl Coordinator for GroupCoordinator {
    type Event = GroupEvent;
    type Reply = GroupReply;
    type Work = GroupWork;

    fn replay(&mut self, entry: Replayed<'_>) -> Result<(), ReplayError> {
        match entry {
            Replayed::Marker { producer, committed, .. } => {
                self.finish_transaction(producer, committed);
                Ok(())
            }
            Replayed::Record { key, value, producer, .. } => match record_kind(key)? {
                0 | 1 => self.replay_offset(key, value, producer),
                2 => self.replay_classic(key, value),
                3..=8 | 16 => self.replay_consumer(key, value),
                9..=15 => self.replay_share(key, value),
                kind => Err(ReplayError(format!("a record of the unknown kind {kind}"))),
            },
        }
    }

    fn loaded(&mut self, moment: &Moment<'_>) -> Effects<Self> {
        let mut effects = Effects::default();
        self.schedule_expiry_check(moment);
        self.forget_lost_topics(moment, &mut effects);
        let ids: Vec<_> = self.groups.iter().map(|(id, group)| (Arc::clone(id), group.kind())).collect();
        for (id, kind) in ids {
            match kind {
                GroupKind::Classic => self.classic_loaded(&id, moment, &mut effects),
                GroupKind::Consumer => self.consumer_loaded(&id, moment, &mut effects),
                GroupKind::Share => self.share_loaded(&id, moment, &mut effects),
            }
        }
        effects
    }

    fn step(&mut self, event: Self::Event, moment: &Moment<'_>) -> Effects<Self> {
        let mut effects = Effects::default();
        match event {
            GroupEvent::Classic { token, group, event } => {
                self.step_classic(token, &group, event, moment, &mut effects);
            }
            GroupEvent::Consumer { token, group, event } => {
                self.step_consumer(token, &group, event, moment, &mut effects);
            }
            GroupEvent::Share { token, group, event } => {
                self.step_share(token, &group, event, moment, &mut effects);
            }
            GroupEvent::Offsets { token, group, event } => {
                self.step_offsets(token, &group, event, moment, &mut effects);
            }
            GroupEvent::List { token, filter } => {
                effects.replies.push((token, GroupReply::List(self.list(&filter))));
            }
            GroupEvent::Describe { token, groups } => {
                effects.replies.push((token, GroupReply::Describe(self.describe(&groups))));
            }
            GroupEvent::Delete { token, groups } => {
                let reply = self.delete_groups(&groups, moment, &mut effects);
                effects.replies.push((token, GroupReply::Delete(reply)));
            }
        }
        effects
    }

    fn metadata_changed(&mut self, moment: &Moment<'_>) -> Effects<Self> {
        let mut effects = Effects::default();
        self.forget_lost_topics(moment, &mut effects);
        effects
    }

    fn deadline(&self) -> Option<TimestampMs> {
        self.timers.next().into_iter().chain(self.expiry_check_at).min()
    }

    fn tick(&mut self, moment: &Moment<'_>) -> Effects<Self> {
        let mut effects = Effects::default();
        while let Some((group, timer)) = self.timers.take_due(moment.now) {
            match timer {
                GroupTimer::Classic(timer) => self.classic_timer(&group, timer, moment, &mut effects),
                GroupTimer::Consumer(timer) => self.consumer_timer(&group, timer, moment, &mut effects),
                GroupTimer::Share(timer) => self.share_timer(&group, timer, moment, &mut effects),
            }
        }
        if self.expiry_check_at.is_some_and(|at| at <= moment.now) {
            self.expire_offsets(moment, &mut effects);
            self.schedule_expiry_check(moment);
        }
        effects
    }
}

/// What a record is about: the version of its key.
fn record_kind(key: &[u8]) -> Result<i16, ReplayError> {
    let kind = key.first_chunk::<2>().ok_or_else(|| ReplayError("a key without a version".to_owned()))?;
    Ok(i16::from_be_bytes(*kind))
}
