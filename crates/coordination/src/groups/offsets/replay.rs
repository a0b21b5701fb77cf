//! Replays offset records, and applies the ends of transactions, replayed or live.

use std::sync::Arc;

use tailrace_records::internal::{InternalRecordError, OffsetKey, OffsetValue};
use tailrace_types::{TimestampMs, TopicId};

use super::event::CommittedOffset;
use crate::coordinator::{ReplayError, TransactionalProducer};
use crate::groups::GroupCoordinator;
use crate::groups::classic::ClassicGroup;
use crate::groups::group::Group;

impl GroupCoordinator {
    pub(in crate::groups) fn replay_offset(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
        producer: Option<TransactionalProducer>,
    ) -> Result<(), ReplayError> {
        let failure = |error: InternalRecordError| ReplayError(error.to_string());
        let key = OffsetKey::decode(key).map_err(failure)?;
        let Some(value) = value else {
            self.offsets.remove(key.group, key.topic, key.partition);
            return Ok(());
        };
        let value = OffsetValue::decode(value).map_err(failure)?;
        let offset = CommittedOffset {
            offset: value.offset,
            leader_epoch: value.leader_epoch,
            metadata: value.metadata.into(),
            committed_at: TimestampMs(value.commit_timestamp),
            expires_at: TimestampMs(value.expire_timestamp),
            topic_id: TopicId(value.topic_id),
        };
        if let Some(producer) = producer {
            self.offsets.note_epoch(producer);
        }
        let (group, topic) = (self.group_with_offsets(key.group), Arc::from(key.topic));
        match producer {
            Some(producer) => self.offsets.put_pending(producer.id, &group, &topic, key.partition, offset),
            None => self.offsets.put(&group, &topic, key.partition, offset),
        }
        Ok(())
    }

    /// Returns the group with these offsets. If there is none, adds a classic group without members.
    fn group_with_offsets(&mut self, id: &str) -> Arc<str> {
        if let Some((id, _)) = self.groups.get_key_value(id) {
            return Arc::clone(id);
        }
        let id: Arc<str> = id.into();
        self.groups.insert(Arc::clone(&id), Group::Classic(ClassicGroup::new(TimestampMs::NONE)));
        id
    }

    pub(in crate::groups) fn finish_transaction(&mut self, producer: TransactionalProducer, committed: bool) {
        self.offsets.note_end(producer);
        for group in self.offsets.finish(producer.id, committed) {
            self.group_with_offsets(&group);
        }
    }
}
