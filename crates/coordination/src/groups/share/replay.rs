//! Replays the records of share groups.

use std::sync::Arc;

use tailrace_records::internal::{
    InternalRecordError, ShareCurrentMemberAssignment, ShareGroupKey, ShareGroupMember, ShareGroupMetadata,
    ShareGroupStatePartitions, TargetAssignmentMember, TargetAssignmentMetadata,
};

use super::group::ShareGroup;
use super::states::States;
use crate::coordinator::ReplayError;
use crate::groups::GroupCoordinator;
use crate::groups::consumer::partitions_of_record;
use crate::groups::group::Group;
use crate::groups::journal::Journal;

impl GroupCoordinator {
    pub(in crate::groups) fn replay_share(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), ReplayError> {
        let failure = |error: InternalRecordError| ReplayError(error.to_string());
        let key = ShareGroupKey::decode(key).map_err(failure)?;
        let id: Arc<str> = key.group().into();
        let Some(value) = value else {
            let Some(Group::Share(group)) = self.groups.get_mut(&id) else { return Ok(()) };
            if group.replay_tombstone(&id, &key) {
                self.groups.remove(&id);
            }
            return Ok(());
        };
        if !matches!(self.groups.get(&id), Some(Group::Share(_))) {
            self.groups.insert(Arc::clone(&id), Group::Share(ShareGroup::default()));
        }
        match self.groups.get_mut(&id) {
            Some(Group::Share(group)) => group.replay_value(&id, &key, value).map_err(failure),
            _ => Ok(()),
        }
    }
}

impl ShareGroup {
    fn replay_value(
        &mut self,
        id: &Arc<str>,
        key: &ShareGroupKey,
        value: &[u8],
    ) -> Result<(), InternalRecordError> {
        let journal = &mut Journal::silent(id);
        match key {
            ShareGroupKey::Group { .. } => {
                let value = ShareGroupMetadata::decode(value)?;
                self.set_epoch(value.epoch, value.metadata_hash, journal);
            }
            ShareGroupKey::Member { member, .. } => {
                let mut details = ShareGroupMember::decode(value)?;
                details.subscribed_topic_names.sort_unstable();
                details.subscribed_topic_names.dedup();
                self.set_details(&member.as_str().into(), details, journal);
            }
            ShareGroupKey::TargetMetadata { .. } => {
                let value = TargetAssignmentMetadata::decode(value)?;
                self.set_target_epoch(value.epoch, value.timestamp_ms, journal);
            }
            ShareGroupKey::TargetMember { member, .. } => {
                let target = partitions_of_record(TargetAssignmentMember::decode(value)?.partitions);
                self.set_target(&member.as_str().into(), target, journal);
            }
            ShareGroupKey::CurrentMember { member, .. } => {
                let value = ShareCurrentMemberAssignment::decode(value)?;
                self.set_current(
                    &member.as_str().into(),
                    value.epoch,
                    value.previous_epoch,
                    partitions_of_record(value.assigned),
                    journal,
                );
            }
            ShareGroupKey::StatePartitions { .. } => {
                self.set_states(States::of_record(ShareGroupStatePartitions::decode(value)?), journal);
            }
        }
        Ok(())
    }

    /// Replays a tombstone. Returns true if the group is gone.
    fn replay_tombstone(&mut self, id: &Arc<str>, key: &ShareGroupKey) -> bool {
        let journal = &mut Journal::silent(id);
        match key {
            ShareGroupKey::Group { .. } => return true,
            ShareGroupKey::Member { member, .. } => self.forget_details(&member.as_str().into(), journal),
            ShareGroupKey::TargetMetadata { .. } => self.set_target_epoch(-1, 0, journal),
            ShareGroupKey::TargetMember { member, .. } => {
                self.forget_target(&member.as_str().into(), journal)
            }
            ShareGroupKey::CurrentMember { member, .. } => {
                self.forget_current(&member.as_str().into(), journal)
            }
            ShareGroupKey::StatePartitions { .. } => self.set_states(States::default(), journal),
        }
        false
    }
}
