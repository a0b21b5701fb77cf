//! Deleting offsets: by OffsetDelete, with their group, or with their topic.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tailrace_types::TopicId;

use super::event::TopicPartitions;
use super::records::tombstone;
use crate::coordinator::{CoordinatorRecord, Effects, Moment};
use crate::groups::limits::check_group_id;
use crate::groups::{GroupCoordinator, GroupError};

impl GroupCoordinator {
    pub(super) fn delete_offsets(
        &mut self,
        id: &Arc<str>,
        topics: &[TopicPartitions],
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) -> Result<Vec<Vec<Result<(), GroupError>>>, GroupError> {
        check_group_id(id, true)?;
        let group = self.groups.get(id);
        let group = group.ok_or_else(|| GroupError::GroupNotFound { group: Arc::clone(id), kind: "" })?;
        group.check_offset_delete(id)?;
        let mut records = Vec::new();
        let mut answers = Vec::with_capacity(topics.len());
        for TopicPartitions { topic, partitions } in topics {
            // As in Kafka, a missing partition is reported before a subscribed topic.
            let known = 0..moment.image.topic(topic).map_or(0, |topic| topic.partitions);
            let allowed = if group.may_read(topic) { Err(GroupError::SubscribedToTopic) } else { Ok(()) };
            let mut fates = Vec::with_capacity(partitions.len());
            for partition in partitions {
                let fate = if known.contains(partition) {
                    allowed.clone()
                } else {
                    Err(GroupError::UnknownTopicOrPartition)
                };
                if fate.is_ok() && self.offsets.get(id, topic, *partition).is_some() {
                    self.offsets.remove(id, topic, *partition);
                    records.push(tombstone(id, topic, *partition));
                }
                fates.push(fate);
            }
            answers.push(fates);
        }
        self.counts.offset_deletions += records.len() as u64;
        effects.append_in_batches(None, records);
        Ok(answers)
    }

    /// Deletes all offsets of a group, including those in open transactions.
    pub(in crate::groups) fn delete_all_offsets(&mut self, id: &Arc<str>, effects: &mut Effects<Self>) {
        let committed = self.offsets.of_group(id);
        let committed =
            committed.flat_map(|(topic, partitions)| partitions.map(move |(index, _)| (topic, index)));
        let all = committed.chain(self.offsets.pending_of_group(id));
        let all: BTreeSet<_> = all.map(|(topic, index)| (Arc::clone(topic), index)).collect();
        let records = self.forget(id, all.into_iter());
        effects.append_in_batches(None, records);
    }

    /// Deletes the offsets of topics that were deleted, or recreated under the same name, including those in
    /// open transactions.
    pub(in crate::groups) fn forget_lost_topics(&mut self, moment: &Moment<'_>, effects: &mut Effects<Self>) {
        let is_lost = |name: &str, id: TopicId| match moment.image.topic(name) {
            Some(topic) => !id.is_zero() && topic.id != id,
            None => true,
        };
        let mut lost: BTreeMap<Arc<str>, BTreeSet<(Arc<str>, i32)>> = BTreeMap::new();
        for (group, topic, index, id) in self.offsets.pending() {
            if is_lost(topic, id) {
                lost.entry(Arc::clone(group)).or_default().insert((Arc::clone(topic), index));
            }
        }
        if lost.is_empty() && !self.offsets.topics().any(|(name, id)| is_lost(name, id)) {
            return;
        }
        for id in self.offsets.group_ids() {
            let offsets = self.offsets.of_group(id);
            let offsets = offsets.flat_map(|(topic, rows)| rows.map(move |row| (topic, row)));
            let gone = offsets.filter(|(topic, (_, offset))| is_lost(topic, offset.topic_id));
            let mut gone = gone.map(|(topic, (index, _))| (Arc::clone(topic), index)).peekable();
            if gone.peek().is_some() {
                lost.entry(Arc::clone(id)).or_default().extend(gone);
            }
        }
        let mut records = Vec::new();
        for (id, partitions) in lost {
            records.extend(self.forget(&id, partitions.into_iter()));
        }
        effects.append_in_batches(None, records);
    }

    /// Deletes offsets, and returns their tombstones.
    pub(super) fn forget(
        &mut self,
        id: &Arc<str>,
        partitions: impl Iterator<Item = (Arc<str>, i32)>,
    ) -> Vec<CoordinatorRecord> {
        let mut records = Vec::new();
        for (topic, index) in partitions {
            self.offsets.remove(id, &topic, index);
            records.push(tombstone(id, &topic, index));
        }
        self.counts.offset_deletions += records.len() as u64;
        records
    }
}
