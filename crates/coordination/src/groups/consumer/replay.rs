//! Replays the records of consumer groups.

use std::sync::Arc;

use tailrace_records::internal::{
    ConsumerGroupKey, ConsumerGroupMember, ConsumerGroupMetadata, CurrentMemberAssignment,
    InternalRecordError, RegularExpression, TargetAssignmentMember, TargetAssignmentMetadata,
};
use tailrace_types::TimestampMs;

use super::group::{ConsumerGroup, Resolved};
use super::member::{partitions_of_record, standing_of_record};
use crate::coordinator::ReplayError;
use crate::groups::GroupCoordinator;
use crate::groups::group::Group;
use crate::groups::journal::Journal;

impl GroupCoordinator {
    pub(in crate::groups) fn replay_consumer(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), ReplayError> {
        let failure = |error: InternalRecordError| ReplayError(error.to_string());
        let key = ConsumerGroupKey::decode(key).map_err(failure)?;
        let id: Arc<str> = key.group().into();
        if value.is_none() {
            let Some(Group::Consumer(group)) = self.groups.get_mut(&id) else { return Ok(()) };
            if group.replay_tombstone(&id, &key) {
                self.groups.remove(&id);
            }
            return Ok(());
        }
        if !matches!(self.groups.get(&id), Some(Group::Consumer(_))) {
            self.groups.insert(Arc::clone(&id), Group::Consumer(ConsumerGroup::default()));
        }
        let (Some(Group::Consumer(group)), Some(value)) = (self.groups.get_mut(&id), value) else {
            return Ok(());
        };
        group.replay_value(&id, &key, value).map_err(failure)
    }
}

impl ConsumerGroup {
    fn replay_value(
        &mut self,
        id: &Arc<str>,
        key: &ConsumerGroupKey,
        value: &[u8],
    ) -> Result<(), InternalRecordError> {
        let journal = &mut Journal::silent(id);
        match key {
            ConsumerGroupKey::Group { .. } => {
                let ConsumerGroupMetadata { epoch, metadata_hash } = ConsumerGroupMetadata::decode(value)?;
                (self.epoch, self.metadata_hash) = (epoch, metadata_hash);
            }
            ConsumerGroupKey::PartitionMetadata { .. } => self.has_legacy_metadata = true,
            ConsumerGroupKey::Member { member, .. } => {
                let mut details = ConsumerGroupMember::decode(value)?;
                details.subscribed_topic_names.sort_unstable();
                details.subscribed_topic_names.dedup();
                self.set_details(&member.as_str().into(), details, journal);
            }
            ConsumerGroupKey::TargetMetadata { .. } => {
                let TargetAssignmentMetadata { epoch, timestamp_ms } =
                    TargetAssignmentMetadata::decode(value)?;
                self.set_target_epoch(epoch, timestamp_ms, journal);
            }
            ConsumerGroupKey::TargetMember { member, .. } => {
                let target = partitions_of_record(TargetAssignmentMember::decode(value)?.partitions);
                self.set_target(&member.as_str().into(), target, journal);
            }
            ConsumerGroupKey::CurrentMember { member, .. } => {
                let standing = standing_of_record(&CurrentMemberAssignment::decode(value)?);
                self.set_standing(&member.as_str().into(), standing, journal);
            }
            ConsumerGroupKey::RegularExpression { expression, .. } => {
                let value = RegularExpression::decode(value)?;
                let topics = value.topics.into_iter().collect();
                let resolved = Resolved { topics, at: TimestampMs(value.timestamp_ms) };
                self.set_resolved(expression, resolved, journal);
            }
        }
        Ok(())
    }

    /// Replays a tombstone. Returns true if the group is gone.
    fn replay_tombstone(&mut self, id: &Arc<str>, key: &ConsumerGroupKey) -> bool {
        let journal = &mut Journal::silent(id);
        match key {
            ConsumerGroupKey::Group { .. } => return true,
            ConsumerGroupKey::PartitionMetadata { .. } => self.has_legacy_metadata = false,
            ConsumerGroupKey::Member { member, .. } => self.forget_details(&member.as_str().into(), journal),
            ConsumerGroupKey::TargetMetadata { .. } => self.set_target_epoch(-1, 0, journal),
            ConsumerGroupKey::TargetMember { member, .. } => {
                self.forget_target(&member.as_str().into(), journal)
            }
            ConsumerGroupKey::CurrentMember { member, .. } => {
                self.forget_standing(&member.as_str().into(), journal);
            }
            ConsumerGroupKey::RegularExpression { expression, .. } => {
                self.forget_expression(expression, journal);
            }
        }
        false
    }
}
