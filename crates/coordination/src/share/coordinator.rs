//! The share coordinator: stores the states of share-partitions in one partition of `__share_group_state`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tailrace_records::internal::{
    DELIVERY_COMPLETE_COUNT_UNKNOWN, ShareSnapshotValue, ShareStateBatch, ShareStateKey, ShareStateKind,
    ShareUpdateValue,
};
use tailrace_types::{Offset, PartitionId, TimestampMs, TopicId};

use super::intervals::Intervals;
use super::key::SharePartitionKey;
use super::state::{DeliveryState, KeptRuns, KeptState, StateBatch, StateWrite, apply_batches, batches_of};
use crate::coordinator::{Coordinator, CoordinatorRecord, Effects, Moment, ReplayError, Replayed, Token};

/// Maximum length of the name of a group with states: the key of a record has 15 bits for its length.
const GROUP_BYTES_MAX: usize = 32_767;

/// Maximum number of groups whose deletion is remembered, about 100 bytes each.
pub(super) const DELETED_MAX: usize = 10_000;

/// The start offset of a state for which none has been decided yet.
const NO_START: i64 = -1;

/// A request to the share coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShareRequest {
    /// Initializes a state, if none of this generation exists. A state of an earlier generation was left
    /// behind by a deleted group and is replaced. Answers with the resulting state.
    Initialize {
        /// The share-partition.
        #[serde(with = "tailrace_metadata::serial")]
        key: SharePartitionKey,
        /// The generation of the group's states.
        generation: i64,
    },
    /// Resets an existing state to an offset, under the next state epoch. Answers with the new state.
    Reset {
        /// The share-partition.
        #[serde(with = "tailrace_metadata::serial")]
        key: SharePartitionKey,
        /// The generation of the group's states. The state itself may be of an earlier one.
        generation: i64,
        /// The new start offset.
        #[serde(with = "tailrace_metadata::serial")]
        start: Offset,
    },
    /// Reads a state.
    Read {
        /// The share-partition.
        #[serde(with = "tailrace_metadata::serial")]
        key: SharePartitionKey,
        /// The epoch of the partition's leader. From now on older leaders are refused.
        leader_epoch: i32,
    },
    /// Applies a change. The reply is sent once the change is committed.
    Write {
        /// The share-partition.
        #[serde(with = "tailrace_metadata::serial")]
        key: SharePartitionKey,
        /// The generation of the state that was read.
        generation: i64,
        /// The epoch of the state that was read.
        state_epoch: i32,
        /// The epoch of the partition's leader.
        leader_epoch: i32,
        /// The change.
        write: StateWrite,
    },
    /// Deletes a state of this or an earlier generation, and refuses to initialize one from now on. Succeeds
    /// even if there is no state.
    Delete {
        /// The share-partition.
        #[serde(with = "tailrace_metadata::serial")]
        key: SharePartitionKey,
        /// The last generation to delete.
        upto: i64,
    },
    /// Reads a state without its batches, and fences no leader (ReadShareGroupStateSummary).
    Summary {
        /// The share-partition.
        #[serde(with = "tailrace_metadata::serial")]
        key: SharePartitionKey,
    },
}

impl ShareRequest {
    /// Returns the share-partition that the request is about.
    pub fn key(&self) -> &SharePartitionKey {
        match self {
            Self::Initialize { key, .. }
            | Self::Reset { key, .. }
            | Self::Read { key, .. }
            | Self::Write { key, .. }
            | Self::Delete { key, .. }
            | Self::Summary { key } => key,
        }
    }
}

/// A request, with the token for its reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareEvent {
    /// Identifies the request.
    pub token: Token,
    /// The request.
    pub request: ShareRequest,
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShareAnswer {
    /// The request was carried out.
    Done,
    /// The state.
    State(KeptState),
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShareStateError {
    /// There is no such topic or partition.
    #[error("there is no such topic or partition")]
    UnknownPartition,
    /// The state was never initialized, or was deleted.
    #[error("the share-partition has no state")]
    NotInitialized,
    /// The state was reset in the meantime.
    #[error("the state epoch is {current}, the request's is {found}")]
    FencedStateEpoch {
        /// The current state epoch.
        current: i32,
        /// The request's state epoch.
        found: i32,
    },
    /// The request is too late: the group's states have been deleted since, or initialized in a newer
    /// generation.
    #[error("the states' generation is {current}, the request's is {found}")]
    FencedGeneration {
        /// The current generation, or the last deleted one.
        current: i64,
        /// The request's generation.
        found: i64,
    },
    /// A newer leader has read the state.
    #[error("the leader epoch is {current}, the request's is {found}")]
    FencedLeaderEpoch {
        /// The current leader epoch.
        current: i32,
        /// The request's leader epoch.
        found: i32,
    },
    /// The group's name is empty, or too long for a record's key.
    #[error("the group's name is empty or longer than {GROUP_BYTES_MAX} bytes")]
    GroupName,
}

/// The reply to a [`ShareRequest`].
pub type ShareReply = Result<ShareAnswer, ShareStateError>;

/// Work to be done elsewhere. The share coordinator has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareWork {}

/// The state of one share-partition.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    generation: i64,
    snapshot_epoch: i32,
    state_epoch: i32,
    leader_epoch: i32,
    start: i64,
    delivery_complete_count: i32,
    created_at: TimestampMs,
    runs: KeptRuns,
    /// The offsets that changed since the snapshot.
    changed: Intervals<()>,
    /// The number of updates since the snapshot.
    updates: u32,
}

impl Entry {
    fn new(generation: i64, snapshot_epoch: i32, now: TimestampMs) -> Self {
        Self {
            generation,
            snapshot_epoch,
            state_epoch: 0,
            leader_epoch: 0,
            start: NO_START,
            delivery_complete_count: 0,
            created_at: now,
            runs: KeptRuns::default(),
            changed: Intervals::default(),
            updates: 0,
        }
    }

    fn start(&self) -> Option<Offset> {
        (self.start != NO_START).then_some(Offset(self.start))
    }

    fn kept(&self, with_batches: bool) -> KeptState {
        KeptState {
            generation: self.generation,
            state_epoch: self.state_epoch,
            leader_epoch: self.leader_epoch,
            start: self.start(),
            delivery_complete_count: self.delivery_complete_count,
            batches: if with_batches { batches_of(&self.runs) } else { Vec::new() },
        }
    }

    fn apply(&mut self, batches: &[StateBatch]) {
        apply_batches(&mut self.runs, batches);
        for batch in batches {
            self.changed.set(batch.first.get(), batch.last.get(), ());
        }
        self.runs.remove_below(self.start);
        self.changed.remove_below(self.start);
    }

    fn snapshot(&self, key: &SharePartitionKey, now: TimestampMs) -> CoordinatorRecord {
        let value = ShareSnapshotValue {
            snapshot_epoch: self.snapshot_epoch,
            state_epoch: self.state_epoch,
            leader_epoch: self.leader_epoch,
            start_offset: self.start,
            delivery_complete_count: self.delivery_complete_count,
            create_timestamp: self.created_at.0,
            write_timestamp: now.0,
            state_batches: batches_of(&self.runs).iter().map(record_of).collect(),
            generation: self.generation,
        };
        CoordinatorRecord { key: record_key(key, ShareStateKind::Snapshot), value: Some(value.encode()) }
    }

    fn update(&self, key: &SharePartitionKey) -> CoordinatorRecord {
        let mut changed = KeptRuns::default();
        for run in self.changed.iter() {
            for run in self.runs.within(run.first, run.last) {
                changed.set(run.first, run.last, *run.value);
            }
        }
        let value = ShareUpdateValue {
            snapshot_epoch: self.snapshot_epoch,
            leader_epoch: self.leader_epoch,
            start_offset: self.start,
            delivery_complete_count: self.delivery_complete_count,
            state_batches: batches_of(&changed).iter().map(record_of).collect(),
        };
        CoordinatorRecord { key: record_key(key, ShareStateKind::Update), value: Some(value.encode()) }
    }
}

fn record_key(key: &SharePartitionKey, kind: ShareStateKind) -> bytes::Bytes {
    let group_id = key.group.to_string();
    ShareStateKey { kind, group_id, topic_id: key.topic.0, partition: key.partition }.encode()
}

fn record_of(batch: &StateBatch) -> ShareStateBatch {
    ShareStateBatch {
        first_offset: batch.first.get(),
        last_offset: batch.last.get(),
        delivery_state: batch.state.code(),
        delivery_count: batch.delivery_count,
    }
}

fn batch_of(record: &ShareStateBatch) -> Result<StateBatch, ReplayError> {
    let state = DeliveryState::from_code(record.delivery_state)
        .ok_or_else(|| ReplayError(format!("a record has the delivery state {}", record.delivery_state)))?;
    if record.first_offset > record.last_offset || record.last_offset == i64::MAX {
        let ShareStateBatch { first_offset, last_offset, .. } = record;
        return Err(ReplayError(format!("a state batch has the offsets {first_offset} to {last_offset}")));
    }
    Ok(StateBatch {
        first: Offset(record.first_offset),
        last: Offset(record.last_offset),
        state,
        delivery_count: record.delivery_count,
    })
}

/// A share coordinator. See the module's documentation.
#[derive(Clone, Debug, Default)]
pub struct ShareCoordinator {
    entries: BTreeMap<SharePartitionKey, Entry>,
    /// The last deleted generation of recently deleted groups, so that late requests initialize no states of
    /// them. It is in memory only, and a reload forgets it. A request that arrives even later leaves an
    /// unused state, which a newer generation replaces.
    deleted: BTreeMap<Arc<str>, i64>,
}

impl ShareCoordinator {
    /// Makes an empty coordinator.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of share-partitions with a state.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Reports whether there are no states.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn answer(
        &mut self,
        request: ShareRequest,
        moment: &Moment<'_>,
        records: &mut Vec<CoordinatorRecord>,
    ) -> ShareReply {
        match request {
            ShareRequest::Initialize { key, generation } => {
                check_key(&key, moment)?;
                self.fence_late(&key, generation)?;
                let snapshot_epoch = match self.entries.get(&key) {
                    Some(entry) if entry.generation == generation => {
                        return Ok(ShareAnswer::State(entry.kept(true)));
                    }
                    Some(left) => next(left.snapshot_epoch),
                    None => 0,
                };
                Ok(self.begin(key, Entry::new(generation, snapshot_epoch, moment.now), moment, records))
            }
            ShareRequest::Reset { key, generation, start } => {
                check_key(&key, moment)?;
                self.fence_late(&key, generation)?;
                let before = self.entries.get(&key).ok_or(ShareStateError::NotInitialized)?;
                let fresh = Entry::new(before.generation, next(before.snapshot_epoch), moment.now);
                let state_epoch = next(before.state_epoch);
                Ok(self.begin(key, Entry { state_epoch, start: start.get(), ..fresh }, moment, records))
            }
            ShareRequest::Read { key, leader_epoch } => {
                let entry = self.entries.get_mut(&key).ok_or(ShareStateError::NotInitialized)?;
                fence_leader(entry, leader_epoch)?;
                entry.leader_epoch = leader_epoch;
                Ok(ShareAnswer::State(entry.kept(true)))
            }
            ShareRequest::Write { key, generation, state_epoch, leader_epoch, write } => {
                if let Some(Entry { generation: current, .. }) =
                    self.entries.get(&key).filter(|entry| entry.generation != generation)
                {
                    return Err(ShareStateError::FencedGeneration { current: *current, found: generation });
                }
                let record = self.write(&key, state_epoch, leader_epoch, &write, moment)?;
                records.push(record);
                Ok(ShareAnswer::Done)
            }
            ShareRequest::Delete { key, upto } => {
                self.delete(key, upto, records);
                Ok(ShareAnswer::Done)
            }
            ShareRequest::Summary { key } => {
                let entry = self.entries.get(&key).ok_or(ShareStateError::NotInitialized)?;
                Ok(ShareAnswer::State(entry.kept(false)))
            }
        }
    }

    /// Refuses requests from before the states were deleted, or initialized in a newer generation.
    fn fence_late(&self, key: &SharePartitionKey, generation: i64) -> Result<(), ShareStateError> {
        let made = self.entries.get(key).map(|entry| entry.generation).filter(|made| *made > generation);
        let deleted = self.deleted.get(&key.group).copied().filter(|upto| *upto >= generation);
        match made.or(deleted) {
            Some(current) => Err(ShareStateError::FencedGeneration { current, found: generation }),
            None => Ok(()),
        }
    }

    /// Deletes a state. Tombstones are written even if there is no state, so that the reply waits for a
    /// commit. A deposed leader, which may not know of a state that its successor has initialized, commits
    /// nothing.
    fn delete(&mut self, key: SharePartitionKey, upto: i64, records: &mut Vec<CoordinatorRecord>) {
        if self.entries.get(&key).is_some_and(|entry| entry.generation > upto) {
            return;
        }
        self.entries.remove(&key);
        records.extend(tombstones(&key));
        let deleted = self.deleted.entry(key.group).or_insert(upto);
        *deleted = upto.max(*deleted);
        if self.deleted.len() > DELETED_MAX {
            // The earliest deletion, because its late requests have most likely arrived already.
            let earliest =
                self.deleted.iter().min_by_key(|(_, upto)| **upto).map(|(group, _)| Arc::clone(group));
            earliest.map(|group| self.deleted.remove(&group));
        }
    }

    fn begin(
        &mut self,
        key: SharePartitionKey,
        entry: Entry,
        moment: &Moment<'_>,
        records: &mut Vec<CoordinatorRecord>,
    ) -> ShareAnswer {
        records.push(entry.snapshot(&key, moment.now));
        let kept = entry.kept(true);
        self.entries.insert(key, entry);
        ShareAnswer::State(kept)
    }

    fn write(
        &mut self,
        key: &SharePartitionKey,
        state_epoch: i32,
        leader_epoch: i32,
        write: &StateWrite,
        moment: &Moment<'_>,
    ) -> Result<CoordinatorRecord, ShareStateError> {
        let entry = self.entries.get_mut(key).ok_or(ShareStateError::NotInitialized)?;
        if state_epoch != entry.state_epoch {
            let current = entry.state_epoch;
            return Err(ShareStateError::FencedStateEpoch { current, found: state_epoch });
        }
        fence_leader(entry, leader_epoch)?;
        entry.leader_epoch = leader_epoch;
        entry.start = entry.start.max(write.start.get());
        entry.delivery_complete_count = write.delivery_complete_count;
        entry.apply(&write.batches);
        let updates_max = moment.image.broker().share_coordinator_snapshot_update_records_per_snapshot;
        if entry.updates >= updates_max {
            entry.snapshot_epoch = next(entry.snapshot_epoch);
            entry.updates = 0;
            entry.changed = Intervals::default();
            return Ok(entry.snapshot(key, moment.now));
        }
        entry.updates += 1;
        Ok(entry.update(key))
    }

    fn forget(&mut self, which: impl Fn(&SharePartitionKey) -> bool, records: &mut Vec<CoordinatorRecord>) {
        self.entries.retain(|key, _| {
            let gone = which(key);
            if gone {
                records.extend(tombstones(key));
            }
            !gone
        });
    }

    fn replay_snapshot(&mut self, key: SharePartitionKey, value: &[u8]) -> Result<(), ReplayError> {
        let value = ShareSnapshotValue::decode(value).map_err(|error| ReplayError(error.to_string()))?;
        let batches: Vec<StateBatch> = value.state_batches.iter().map(batch_of).collect::<Result<_, _>>()?;
        let mut entry = Entry {
            generation: value.generation,
            snapshot_epoch: value.snapshot_epoch,
            state_epoch: value.state_epoch,
            leader_epoch: value.leader_epoch,
            start: value.start_offset.max(NO_START),
            delivery_complete_count: value.delivery_complete_count,
            created_at: TimestampMs(value.create_timestamp),
            runs: KeptRuns::default(),
            changed: Intervals::default(),
            updates: 0,
        };
        entry.apply(&batches);
        entry.changed = Intervals::default();
        self.entries.insert(key, entry);
        Ok(())
    }

    fn replay_update(&mut self, key: &SharePartitionKey, value: &[u8]) -> Result<(), ReplayError> {
        let value = ShareUpdateValue::decode(value).map_err(|error| ReplayError(error.to_string()))?;
        let batches: Vec<StateBatch> = value.state_batches.iter().map(batch_of).collect::<Result<_, _>>()?;
        let Some(entry) = self.entries.get_mut(key) else { return Ok(()) };
        if entry.snapshot_epoch != value.snapshot_epoch {
            return Ok(());
        }
        entry.leader_epoch = entry.leader_epoch.max(value.leader_epoch);
        entry.start = entry.start.max(value.start_offset);
        if value.delivery_complete_count != DELIVERY_COMPLETE_COUNT_UNKNOWN {
            entry.delivery_complete_count = value.delivery_complete_count;
        }
        entry.apply(&batches);
        entry.updates = entry.updates.saturating_add(1);
        Ok(())
    }
}

/// Returns the tombstones of a state. That of the snapshot is last: an update without its snapshot has no
/// meaning.
fn tombstones(key: &SharePartitionKey) -> [CoordinatorRecord; 2] {
    let tombstone = |kind| CoordinatorRecord { key: record_key(key, kind), value: None };
    [ShareStateKind::Update, ShareStateKind::Snapshot].map(tombstone)
}

/// Returns the next epoch. After the largest it starts again at 0.
fn next(epoch: i32) -> i32 {
    epoch.checked_add(1).unwrap_or(0)
}

fn check_key(key: &SharePartitionKey, moment: &Moment<'_>) -> Result<(), ShareStateError> {
    if key.group.is_empty() || key.group.len() > GROUP_BYTES_MAX {
        return Err(ShareStateError::GroupName);
    }
    let topic = moment.image.topic_by_id(key.topic).ok_or(ShareStateError::UnknownPartition)?;
    if topic.has_partition(PartitionId(key.partition)) {
        Ok(())
    } else {
        Err(ShareStateError::UnknownPartition)
    }
}

fn fence_leader(entry: &Entry, leader_epoch: i32) -> Result<(), ShareStateError> {
    if leader_epoch < entry.leader_epoch {
        return Err(ShareStateError::FencedLeaderEpoch { current: entry.leader_epoch, found: leader_epoch });
    }
    Ok(())
}

/// Appends records in pairs. Only deletions have more than one record. The two of one share-partition stay
/// together, but all of them might not fit in a batch.
fn append_pairs(effects: &mut Effects<ShareCoordinator>, records: &[CoordinatorRecord]) {
    for pair in records.chunks(2) {
        effects.append(pair.to_vec());
    }
}

impl Coordinator for ShareCoordinator {
    type Event = ShareEvent;
    type Reply = ShareReply;
    type Work = ShareWork;

    fn replay(&mut self, entry: Replayed<'_>) -> Result<(), ReplayError> {
        // This log has no transactional records.
        let Replayed::Record { key, value, .. } = entry else { return Ok(()) };
        let key = ShareStateKey::decode(key).map_err(|error| ReplayError(error.to_string()))?;
        let kind = key.kind;
        let key = SharePartitionKey {
            group: key.group_id.into(),
            topic: TopicId(key.topic_id),
            partition: key.partition,
        };
        match (kind, value) {
            (ShareStateKind::Snapshot, Some(value)) => self.replay_snapshot(key, value),
            (ShareStateKind::Update, Some(value)) => self.replay_update(&key, value),
            (ShareStateKind::Snapshot, None) => {
                self.entries.remove(&key);
                Ok(())
            }
            (ShareStateKind::Update, None) => Ok(()),
        }
    }

    /// Drops the states of topics that were deleted before the coordinator was loaded.
    fn loaded(&mut self, moment: &Moment<'_>) -> Effects<Self> {
        self.metadata_changed(moment)
    }

    fn metadata_changed(&mut self, moment: &Moment<'_>) -> Effects<Self> {
        let mut records = Vec::new();
        self.forget(|key| moment.image.topic_by_id(key.topic).is_none(), &mut records);
        let mut effects = Effects::default();
        append_pairs(&mut effects, &records);
        effects
    }

    fn step(&mut self, event: Self::Event, moment: &Moment<'_>) -> Effects<Self> {
        let mut records = Vec::new();
        let reply = self.answer(event.request, moment, &mut records);
        let mut effects = Effects::reply(event.token, reply);
        append_pairs(&mut effects, &records);
        effects
    }

    fn deadline(&self) -> Option<TimestampMs> {
        None
    }

    fn tick(&mut self, _moment: &Moment<'_>) -> Effects<Self> {
        Effects::default()
    }
}
