//! The in-memory store of offsets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tailrace_types::{ProducerEpoch, ProducerId, TopicId, take_off};

use super::event::CommittedOffset;
use crate::coordinator::TransactionalProducer;
use crate::groups::limits::PRODUCERS_REMEMBERED_MAX;

type Partitions<T> = BTreeMap<i32, T>;
type Topics<T> = BTreeMap<Arc<str>, Partitions<T>>;

/// An offset and its position in the order of all stored ones. The later one wins.
#[derive(Clone, Debug)]
struct Stored {
    order: u64,
    offset: CommittedOffset,
}

/// The offsets of one group.
#[derive(Debug, Default)]
struct GroupOffsets {
    committed: Topics<Stored>,
    committed_count: usize,
    /// For each partition, the transactions that may change its offset.
    pending: Topics<BTreeSet<ProducerId>>,
}

/// The offsets of all groups of a coordinator.
#[derive(Debug, Default)]
pub(in crate::groups) struct Offsets {
    groups: BTreeMap<Arc<str>, GroupOffsets>,
    transactions: BTreeMap<ProducerId, BTreeMap<Arc<str>, Topics<Stored>>>,
    /// The number of committed offsets by topic, with the topic id at the time of the commit.
    topics: BTreeMap<(Arc<str>, TopicId), usize>,
    /// The number of pending offsets.
    pending_count: usize,
    next_order: u64,
    /// The producers that have written here.
    producers: BTreeMap<ProducerId, KnownProducer>,
}

/// A producer that has written here.
#[derive(Clone, Copy, Debug)]
struct KnownProducer {
    /// Its newest epoch. The partition refuses older ones; the coordinator has to know that before it
    /// decides.
    epoch: ProducerEpoch,
    /// The number of its transactions that have ended here.
    ended: u64,
}

impl Offsets {
    /// Returns the newest known epoch of a producer.
    pub(super) fn epoch(&self, producer: ProducerId) -> Option<ProducerEpoch> {
        self.producers.get(&producer).map(|known| known.epoch)
    }

    /// Returns the number of transactions of a producer that have ended here. `None` if it is unknown.
    pub(in crate::groups) fn transactions_ended(&self, producer: ProducerId) -> Option<u64> {
        self.producers.get(&producer).map(|known| known.ended)
    }

    /// Records that a producer has written.
    pub(super) fn note_epoch(&mut self, producer: TransactionalProducer) {
        self.note(producer, 0);
    }

    /// Records that a producer's transaction has ended.
    pub(super) fn note_end(&mut self, producer: TransactionalProducer) {
        self.note(producer, 1);
    }

    fn note(&mut self, TransactionalProducer { id, epoch }: TransactionalProducer, ended: u64) {
        let known = self.producers.entry(id).or_insert(KnownProducer { epoch, ended: 0 });
        known.epoch = epoch.max(known.epoch);
        known.ended += ended;
        if self.producers.len() > PRODUCERS_REMEMBERED_MAX {
            // Ids are handed out in order, so this is the oldest.
            self.producers.pop_first();
        }
    }

    /// Reports whether a group has offsets, committed or pending.
    pub(in crate::groups) fn has_any(&self, group: &str) -> bool {
        self.groups.contains_key(group)
    }

    /// Returns the number of committed offsets of a group.
    pub(super) fn count(&self, group: &str) -> usize {
        self.groups.get(group).map_or(0, |group| group.committed_count)
    }

    /// Returns the number of offsets in open transactions, of all groups.
    pub(super) fn pending_count(&self) -> usize {
        self.pending_count
    }

    /// Returns the number of committed offsets, of all groups.
    pub(in crate::groups) fn committed_count(&self) -> usize {
        self.groups.values().map(|group| group.committed_count).sum()
    }

    /// Returns all topics with committed offsets.
    pub(super) fn topics(&self) -> impl Iterator<Item = (&Arc<str>, TopicId)> {
        self.topics.keys().map(|(name, id)| (name, *id))
    }

    /// Returns the ids of all groups with offsets.
    pub(super) fn group_ids(&self) -> impl Iterator<Item = &Arc<str>> {
        self.groups.keys()
    }

    pub(super) fn get(&self, group: &str, topic: &str, partition: i32) -> Option<&CommittedOffset> {
        let stored = self.groups.get(group)?.committed.get(topic)?.get(&partition)?;
        Some(&stored.offset)
    }

    /// Returns all committed offsets of a group, by topic and partition.
    pub(super) fn of_group(
        &self,
        group: &str,
    ) -> impl Iterator<Item = (&Arc<str>, impl Iterator<Item = (i32, &CommittedOffset)>)> {
        let topics = self.groups.get(group).into_iter().flat_map(|group| &group.committed);
        topics.map(|(topic, partitions)| {
            (topic, partitions.iter().map(|(partition, stored)| (*partition, &stored.offset)))
        })
    }

    /// Reports whether a transaction may change the offset.
    pub(super) fn is_pending(&self, group: &str, topic: &str, partition: i32) -> bool {
        let pending = self.groups.get(group).and_then(|group| group.pending.get(topic));
        pending.is_some_and(|partitions| partitions.contains_key(&partition))
    }

    /// Returns the partitions whose offsets open transactions may change.
    pub(super) fn pending_of_group(&self, group: &str) -> impl Iterator<Item = (&Arc<str>, i32)> {
        let topics = self.groups.get(group).into_iter().flat_map(|group| &group.pending);
        topics.flat_map(|(topic, partitions)| partitions.keys().map(move |partition| (topic, *partition)))
    }

    /// Returns all offsets in open transactions: group, topic, partition, and the topic id at the time of the
    /// commit.
    pub(super) fn pending(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, i32, TopicId)> {
        let groups = self.transactions.values().flatten();
        let topics = groups.flat_map(|(group, topics)| topics.iter().map(move |topic| (group, topic)));
        topics.flat_map(|(group, (topic, partitions))| {
            partitions.iter().map(move |(index, stored)| (group, topic, *index, stored.offset.topic_id))
        })
    }

    fn stamp(&mut self, offset: CommittedOffset) -> Stored {
        self.next_order += 1;
        Stored { order: self.next_order, offset }
    }

    pub(super) fn put(
        &mut self,
        group: &Arc<str>,
        topic: &Arc<str>,
        partition: i32,
        offset: CommittedOffset,
    ) {
        let stored = self.stamp(offset);
        self.put_stored(group, topic, partition, stored);
    }

    fn put_stored(&mut self, group: &Arc<str>, topic: &Arc<str>, partition: i32, stored: Stored) {
        let group = self.groups.entry(Arc::clone(group)).or_default();
        let partitions = group.committed.entry(Arc::clone(topic)).or_default();
        if partitions.get(&partition).is_some_and(|present| present.order > stored.order) {
            return;
        }
        *self.topics.entry((Arc::clone(topic), stored.offset.topic_id)).or_default() += 1;
        match partitions.insert(partition, stored) {
            Some(before) => self.discount_topic(topic, before.offset.topic_id),
            None => group.committed_count += 1,
        }
    }

    fn discount_topic(&mut self, topic: &Arc<str>, id: TopicId) {
        let key = (Arc::clone(topic), id);
        let count = self.topics.get_mut(&key).expect("the topics of all offsets are counted");
        take_off(count, 1, "offsets of a topic");
        if *count == 0 {
            self.topics.remove(&key);
        }
    }

    /// Makes an offset part of a transaction.
    pub(super) fn put_pending(
        &mut self,
        producer: ProducerId,
        group: &Arc<str>,
        topic: &Arc<str>,
        partition: i32,
        offset: CommittedOffset,
    ) {
        let stored = self.stamp(offset);
        let groups = self.transactions.entry(producer).or_default();
        let topics = groups.entry(Arc::clone(group)).or_default();
        let before = topics.entry(Arc::clone(topic)).or_default().insert(partition, stored);
        self.pending_count += usize::from(before.is_none());
        let pending = &mut self.groups.entry(Arc::clone(group)).or_default().pending;
        pending.entry(Arc::clone(topic)).or_default().entry(partition).or_default().insert(producer);
    }

    /// Deletes an offset, committed and pending.
    pub(super) fn remove(&mut self, group: &str, topic: &str, partition: i32) {
        let Some(offsets) = self.groups.get_mut(group) else { return };
        let committed = take(&mut offsets.committed, topic, partition);
        take_off(&mut offsets.committed_count, usize::from(committed.is_some()), "committed offsets");
        let producers = take(&mut offsets.pending, topic, partition);
        if let Some(stored) = committed {
            self.discount_topic(&topic.into(), stored.offset.topic_id);
        }
        for producer in producers.into_iter().flatten() {
            let Some(groups) = self.transactions.get_mut(&producer) else { continue };
            let Some(topics) = groups.get_mut(group) else { continue };
            let gone = usize::from(take(topics, topic, partition).is_some());
            take_off(&mut self.pending_count, gone, "pending offsets");
            if topics.is_empty() {
                groups.remove(group);
            }
            if groups.is_empty() {
                self.transactions.remove(&producer);
            }
        }
        self.drop_if_empty(group);
    }

    fn drop_if_empty(&mut self, group: &str) {
        let empty = |group: &GroupOffsets| group.committed.is_empty() && group.pending.is_empty();
        if self.groups.get(group).is_some_and(empty) {
            self.groups.remove(group);
        }
    }

    /// Ends a transaction. If it was committed, its offsets take effect, unless later ones were stored in the
    /// meantime. Otherwise they are dropped. Returns the groups whose offsets have changed.
    pub(super) fn finish(&mut self, producer: ProducerId, committed: bool) -> Vec<Arc<str>> {
        let Some(groups) = self.transactions.remove(&producer) else { return Vec::new() };
        let mut changed = Vec::new();
        for (group, topics) in groups {
            for (topic, partitions) in topics {
                for (partition, stored) in partitions {
                    take_off(&mut self.pending_count, 1, "pending offsets");
                    self.no_longer_pending(&group, &topic, partition, producer);
                    if committed {
                        self.put_stored(&group, &topic, partition, stored);
                    }
                }
            }
            self.drop_if_empty(&group);
            changed.push(group);
        }
        if committed { changed } else { Vec::new() }
    }

    fn no_longer_pending(&mut self, group: &str, topic: &str, partition: i32, producer: ProducerId) {
        let Some(offsets) = self.groups.get_mut(group) else { return };
        let producers = offsets.pending.get_mut(topic).and_then(|partitions| partitions.get_mut(&partition));
        let Some(producers) = producers else { return };
        producers.remove(&producer);
        if producers.is_empty() {
            take(&mut offsets.pending, topic, partition);
        }
    }
}

/// Removes a partition, and its topic if that becomes empty.
fn take<T>(topics: &mut Topics<T>, topic: &str, partition: i32) -> Option<T> {
    let partitions = topics.get_mut(topic)?;
    let taken = partitions.remove(&partition);
    if partitions.is_empty() {
        topics.remove(topic);
    }
    taken
}

#[cfg(test)]
mod tests {
    use tailrace_types::TimestampMs;

    use super::*;

    fn offset(offset: i64) -> CommittedOffset {
        CommittedOffset {
            offset,
            leader_epoch: -1,
            metadata: "".into(),
            committed_at: TimestampMs(0),
            expires_at: TimestampMs::NONE,
            topic_id: TopicId::ZERO,
        }
    }

    fn committed(offsets: &Offsets) -> Option<i64> {
        offsets.get("g", "t", 0).map(|offset| offset.offset)
    }

    #[test]
    fn a_transaction_counts_when_it_is_committed_and_is_forgotten_when_not() {
        let (mut offsets, group, topic) = (Offsets::default(), "g".into(), "t".into());
        offsets.put_pending(ProducerId(1), &group, &topic, 0, offset(5));
        assert!(offsets.is_pending("g", "t", 0) && offsets.has_any("g"));
        assert_eq!((committed(&offsets), offsets.pending_count()), (None, 1));
        assert_eq!(offsets.finish(ProducerId(1), true), [Arc::clone(&group)]);
        assert_eq!((committed(&offsets), offsets.pending_count(), offsets.count("g")), (Some(5), 0, 1));
        offsets.put_pending(ProducerId(1), &group, &topic, 0, offset(6));
        offsets.finish(ProducerId(1), false);
        assert_eq!((committed(&offsets), offsets.is_pending("g", "t", 0)), (Some(5), false));
        offsets.remove("g", "t", 0);
        assert!(!offsets.has_any("g"));
    }

    #[test]
    fn of_two_commits_the_later_one_counts_whenever_its_transaction_ends() {
        let (mut offsets, group, topic) = (Offsets::default(), "g".into(), "t".into());
        offsets.put_pending(ProducerId(1), &group, &topic, 0, offset(5));
        offsets.put(&group, &topic, 0, offset(9));
        offsets.put_pending(ProducerId(2), &group, &topic, 0, offset(7));
        offsets.finish(ProducerId(2), true);
        assert_eq!(committed(&offsets), Some(7));
        offsets.finish(ProducerId(1), true);
        assert_eq!((committed(&offsets), offsets.count("g")), (Some(7), 1));
    }

    #[test]
    fn a_deleted_offset_does_not_come_back_with_a_transaction() {
        let (mut offsets, group, topic) = (Offsets::default(), "g".into(), "t".into());
        offsets.put_pending(ProducerId(1), &group, &topic, 0, offset(5));
        offsets.remove("g", "t", 0);
        assert!(!offsets.has_any("g"));
        assert_eq!(offsets.pending_count(), 0);
        offsets.finish(ProducerId(1), true);
        assert_eq!(committed(&offsets), None);
    }

    #[test]
    fn the_ends_of_a_producers_transactions_are_counted() {
        let mut offsets = Offsets::default();
        let producer = |epoch| TransactionalProducer { id: ProducerId(1), epoch: ProducerEpoch(epoch) };
        assert_eq!(offsets.transactions_ended(ProducerId(1)), None);
        offsets.note_epoch(producer(3));
        assert_eq!(offsets.transactions_ended(ProducerId(1)), Some(0));
        offsets.note_end(producer(4));
        offsets.note_epoch(producer(2));
        assert_eq!(offsets.transactions_ended(ProducerId(1)), Some(1));
        assert_eq!(offsets.epoch(ProducerId(1)), Some(ProducerEpoch(4)), "the newest");
    }
}
