//! OffsetCommit and TxnOffsetCommit.

use std::sync::Arc;

use tailrace_metadata::TopicRef;
use tailrace_records::internal::OffsetValue;
use tailrace_types::{PartitionId, TimestampMs, TopicId};

use super::event::{CommitPartition, CommitRequest, CommitTopic, CommittedOffset, CommittedTopic, Committer};
use super::records::key;
use crate::coordinator::{CoordinatorRecord, Effects, Moment, TransactionalProducer};
use crate::groups::classic::ClassicGroup;
use crate::groups::group::Group;
use crate::groups::limits::{OFFSETS_PER_GROUP_MAX, PENDING_OFFSETS_MAX, check_group_id};
use crate::groups::{GroupCoordinator, GroupError};

/// Maximum length of the metadata text in the old record layout, which is needed for an expiry time.
const OLD_TEXT_BYTES_MAX: usize = 32_767;

impl GroupCoordinator {
    pub(super) fn commit(
        &mut self,
        group: &Arc<str>,
        request: CommitRequest,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) -> Result<Vec<CommittedTopic>, GroupError> {
        let by = request.by;
        check_group_id(group, by.transaction.is_none())?;
        if let Some(producer) = by.transaction {
            self.check_producer(producer)?;
        }
        self.check_committer(group, &by)?;
        if !self.groups.contains_key(group) {
            self.groups.insert(Arc::clone(group), Group::Classic(ClassicGroup::new(moment.now)));
        }
        self.committed_in_classic(group, &by.member, moment, effects);
        let expires_at = match request.retention_ms {
            Some(retention) => TimestampMs(moment.now.0.saturating_add(retention)),
            None => TimestampMs::NONE,
        };
        let mut commit =
            Commit { coordinator: self, group, by: &by, moment, expires_at, records: Vec::new() };
        let topics = request.topics.into_iter().map(|topic| commit.topic(topic)).collect();
        let records = commit.records;
        if let Some(producer) = by.transaction.filter(|_| !records.is_empty()) {
            self.offsets.note_epoch(producer);
        }
        effects.append_in_batches(by.transaction, records);
        // Every partition may have been refused.
        self.forget_idle_classic(group);
        Ok(topics)
    }

    fn check_producer(&self, producer: TransactionalProducer) -> Result<(), GroupError> {
        match self.offsets.epoch(producer.id) {
            Some(current) if producer.epoch < current => {
                Err(GroupError::FencedProducer { current: current.0, found: producer.epoch.0 })
            }
            _ => Ok(()),
        }
    }

    /// Checks whether a client may commit. A client that names neither member nor generation may create a
    /// group by committing.
    fn check_committer(&self, group: &Arc<str>, by: &Committer) -> Result<(), GroupError> {
        let found = by.generation_or_epoch;
        let Some(known) = self.groups.get(group) else {
            return match found {
                ..0 => Ok(()),
                _ if by.knows_epochs && by.transaction.is_none() => {
                    Err(GroupError::GroupNotFound { group: Arc::clone(group), kind: "" })
                }
                _ => Err(GroupError::IllegalGeneration { expected: -1, found }),
            };
        };
        known.check_commit(group, by).map_err(|error| match error {
            GroupError::StaleMemberEpoch { expected, found } if by.transaction.is_some() => {
                GroupError::IllegalGeneration { expected, found }
            }
            GroupError::StaleMemberEpoch { .. } if !by.knows_epochs => GroupError::ClientTooOld,
            other => other,
        })
    }
}

/// A commit request in progress.
struct Commit<'a> {
    coordinator: &'a mut GroupCoordinator,
    group: &'a Arc<str>,
    by: &'a Committer,
    moment: &'a Moment<'a>,
    expires_at: TimestampMs,
    records: Vec<CoordinatorRecord>,
}

impl Commit<'_> {
    fn topic(&mut self, commit: CommitTopic) -> CommittedTopic {
        let image = self.moment.image;
        let (topic, unknown) = match &commit.topic {
            TopicRef::Name(name) => (image.topic(name), GroupError::UnknownTopicOrPartition),
            TopicRef::Id(id) => (image.topic_by_id(*id), GroupError::UnknownTopicId),
        };
        let found = topic.map(|topic| (Arc::<str>::from(topic.name.as_str()), topic));
        let mut partitions = Vec::with_capacity(commit.partitions.len());
        for partition in commit.partitions {
            let index = partition.index;
            let result = match &found {
                None => Err(unknown.clone()),
                Some((_, topic)) if !topic.has_partition(PartitionId(index)) => {
                    Err(GroupError::UnknownTopicOrPartition)
                }
                Some((name, topic)) => self.partition(name, topic.id, partition),
            };
            partitions.push((index, result));
        }
        CommittedTopic { topic: commit.topic, partitions }
    }

    fn partition(
        &mut self,
        topic: &Arc<str>,
        id: TopicId,
        partition: CommitPartition,
    ) -> Result<(), GroupError> {
        self.check_size(topic, &partition)?;
        if let Some(Group::Consumer(group)) = self.coordinator.groups.get(self.group) {
            group.check_commit_of(self.by, id, partition.index)?;
        }
        let with_expiry = self.expires_at != TimestampMs::NONE;
        let offset = CommittedOffset {
            offset: partition.offset,
            // The old layout has no fields for these two. The stored values are those that a replay restores.
            leader_epoch: if with_expiry { -1 } else { partition.leader_epoch },
            topic_id: if with_expiry { TopicId::ZERO } else { id },
            metadata: partition.metadata.into(),
            committed_at: self.moment.now,
            expires_at: self.expires_at,
        };
        let value = OffsetValue {
            offset: offset.offset,
            leader_epoch: offset.leader_epoch,
            metadata: &offset.metadata,
            commit_timestamp: offset.committed_at.0,
            expire_timestamp: offset.expires_at.0,
            topic_id: offset.topic_id.0,
        };
        let key = key(self.group, topic, partition.index);
        self.records.push(CoordinatorRecord { key, value: Some(value.encode()) });
        let offsets = &mut self.coordinator.offsets;
        match self.by.transaction {
            Some(producer) => offsets.put_pending(producer.id, self.group, topic, partition.index, offset),
            None => {
                offsets.put(self.group, topic, partition.index, offset);
                self.coordinator.counts.offset_commits += 1;
            }
        }
        Ok(())
    }

    fn check_size(&self, topic: &str, partition: &CommitPartition) -> Result<(), GroupError> {
        let max = usize::try_from(self.moment.image.broker().offset_metadata_max_bytes).unwrap_or(0);
        // As in Kafka, the limit counts UTF-16 code units, despite the setting's name.
        let found = partition.metadata.encode_utf16().count();
        if found > max {
            return Err(GroupError::OffsetMetadataTooLarge { found, max });
        }
        if self.expires_at != TimestampMs::NONE && partition.metadata.len() > OLD_TEXT_BYTES_MAX {
            let found = partition.metadata.len();
            return Err(GroupError::OffsetMetadataTooLarge { found, max: OLD_TEXT_BYTES_MAX });
        }
        let offsets = &self.coordinator.offsets;
        if self.by.transaction.is_some() {
            if offsets.pending_count() >= PENDING_OFFSETS_MAX {
                let what = "offsets in open transactions";
                return Err(GroupError::TooMany { what, max: PENDING_OFFSETS_MAX });
            }
        } else if offsets.count(self.group) >= OFFSETS_PER_GROUP_MAX
            && offsets.get(self.group, topic, partition.index).is_none()
        {
            return Err(GroupError::TooMany { what: "offsets of a group", max: OFFSETS_PER_GROUP_MAX });
        }
        Ok(())
    }
}
