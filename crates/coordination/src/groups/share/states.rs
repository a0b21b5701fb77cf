//! A share group's view of its states at the share coordinators: those that exist, those it has requested,
//! and those it wants deleted.
//!
//! The group requests a state only after it has written the request. So its record lists every state that may
//! exist, and a group that is to be removed can name all states that have to be deleted first. While the
//! states of a topic are being deleted, it has no others. If a member reads the topic, new states are
//! requested once the deletion is confirmed.
//!
//! All requests to share coordinators carry the *generation* of the group's states, a number that no group of
//! this name has had before ([`Generations`](crate::coordinator::Generations)). A new one is drawn when a
//! group starts, and whenever states are to be deleted. A delayed request of an earlier generation arrives
//! too late, and has no effect.

use std::collections::{BTreeMap, BTreeSet};

use tailrace_metadata::{MetadataImage, TopicImage};
use tailrace_records::internal::{NamedTopicPartitions, ShareGroupStatePartitions};
use tailrace_types::{TimestampMs, TopicId};

use crate::coordinator::Moment;

/// The states of a topic's share-partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TopicStates {
    pub(super) name: String,
    /// Partitions that have a state.
    pub(super) initialized: BTreeSet<i32>,
    /// Partitions whose state was requested, with the time of the request. Requests from before a restart
    /// have no time.
    pub(super) asked: BTreeMap<i32, TimestampMs>,
}

/// A topic whose states are being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Deleting {
    name: String,
    /// The generation that was drawn for the deletion: all states of earlier generations are deleted.
    since: i64,
    /// The time of the last request to the share coordinators. [`TimestampMs::NONE`] if that was before a
    /// restart.
    asked_at: TimestampMs,
}

/// Share-partitions whose states are to be deleted, up to a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDeletion {
    /// The last generation to delete.
    pub upto: i64,
    /// The partitions, by topic.
    pub topics: Vec<(TopicId, Vec<i32>)>,
}

/// All states of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct States {
    /// The current generation of states. 0 for a group that has none yet, or was written by Kafka.
    pub(super) generation: i64,
    pub(super) topics: BTreeMap<TopicId, TopicStates>,
    deleting: BTreeMap<TopicId, Deleting>,
}

impl States {
    /// Reports whether a share coordinator may hold states of the group.
    pub(super) fn are_left(&self) -> bool {
        !self.topics.is_empty() || !self.deleting.is_empty()
    }

    /// Reports whether any states are being deleted.
    pub(super) fn deletes_some(&self) -> bool {
        !self.deleting.is_empty()
    }

    /// Reports whether all topics still exist.
    pub(super) fn all_exist_in(&self, image: &MetadataImage) -> bool {
        self.topics.keys().chain(self.deleting.keys()).all(|topic| image.topic_by_id(*topic).is_some())
    }

    pub(super) fn is_deleting(&self, topic: TopicId) -> bool {
        self.deleting.contains_key(&topic)
    }

    /// Marks states as requested at this time. [`TimestampMs::NONE`] if the caller may not confirm them.
    pub(super) fn ask(
        &mut self,
        topic: &TopicImage,
        partitions: &[i32],
        at: TimestampMs,
        moment: &Moment<'_>,
    ) {
        if self.generation == 0 && !self.are_left() {
            self.generation = moment.generations.next();
        }
        let states = self.topics.entry(topic.id).or_default();
        topic.name.as_str().clone_into(&mut states.name);
        states.asked.extend(partitions.iter().map(|number| (*number, at)));
    }

    /// Records that states have been initialized.
    pub(super) fn made(&mut self, topics: &[(TopicId, Vec<i32>)], image: &MetadataImage) {
        for (topic, partitions) in topics {
            // The topic or its states may have been deleted in the meantime.
            let (Some(known), Some(states)) = (image.topic_by_id(*topic), self.topics.get_mut(topic)) else {
                continue;
            };
            known.name.as_str().clone_into(&mut states.name);
            for partition in partitions.iter().filter(|number| (0..known.partitions).contains(*number)) {
                states.asked.remove(partition);
                states.initialized.insert(*partition);
            }
        }
    }

    /// Starts to delete the states of these topics. `None` for all. From now on they do not count. Topics
    /// without states are skipped.
    pub(super) fn delete(&mut self, topics: Option<&[TopicId]>, moment: &Moment<'_>) -> StateDeletion {
        let is_meant = |topic: &TopicId| topics.is_none_or(|topics| topics.contains(topic));
        let goes: Vec<TopicId> = self.topics.keys().copied().filter(is_meant).collect();
        if !goes.is_empty() {
            let since = moment.generations.next();
            self.generation = since;
            for topic in goes {
                let Some(states) = self.topics.remove(&topic) else { continue };
                let deleting = Deleting { name: states.name, since, asked_at: moment.now };
                self.deleting.insert(topic, deleting);
            }
            // Requests of an earlier generation will not be answered any more.
            let asked = self.topics.values_mut().flat_map(|states| states.asked.values_mut());
            asked.for_each(|at| *at = TimestampMs::NONE);
        }
        self.deletion(is_meant, moment)
    }

    /// Returns the deletions that have not been confirmed for `retry_ms`, to ask the share coordinators
    /// again.
    pub(super) fn overdue(&mut self, retry_ms: i64, moment: &Moment<'_>) -> Option<StateDeletion> {
        let is_overdue = |deleting: &Deleting| {
            deleting.asked_at == TimestampMs::NONE || moment.now.since(deleting.asked_at) >= retry_ms
        };
        let overdue: BTreeSet<TopicId> =
            self.deleting.iter().filter(|(_, one)| is_overdue(one)).map(|(topic, _)| *topic).collect();
        (!overdue.is_empty()).then(|| self.deletion(|topic| overdue.contains(topic), moment))
    }

    fn deletion(&mut self, which: impl Fn(&TopicId) -> bool, moment: &Moment<'_>) -> StateDeletion {
        if self.generation == 0 && !self.deleting.is_empty() {
            // Kafka started the deletion. Its states have no generation.
            self.generation = moment.generations.next();
        }
        let mut deletion = StateDeletion { upto: self.generation.saturating_sub(1), topics: Vec::new() };
        for (topic, deleting) in self.deleting.iter_mut().filter(|(topic, _)| which(topic)) {
            deleting.asked_at = moment.now;
            // The share coordinators drop the states of a deleted topic by themselves.
            let partitions = moment.image.topic_by_id(*topic).map_or(0, |topic| topic.partitions);
            deletion.topics.push((*topic, (0..partitions).collect()));
        }
        deletion
    }

    /// Records that the states of these topics have been deleted, up to a generation.
    pub(super) fn deleted(&mut self, upto: i64, topics: &[TopicId]) {
        self.deleting
            .retain(|topic, deleting| upto.saturating_add(1) < deleting.since || !topics.contains(topic));
    }

    /// Drops the states of deleted topics. The share coordinators drop them by themselves, too.
    pub(super) fn drop_topics_without(&mut self, image: &MetadataImage) {
        self.topics.retain(|topic, _| image.topic_by_id(*topic).is_some());
        self.deleting.retain(|topic, _| image.topic_by_id(*topic).is_some());
    }

    pub(super) fn to_record(&self) -> ShareGroupStatePartitions {
        let named = |topic: &TopicId, states: &TopicStates, partitions: Vec<i32>| {
            let name = states.name.clone();
            (!partitions.is_empty()).then_some(NamedTopicPartitions { topic: topic.0, name, partitions })
        };
        let asked = self
            .topics
            .iter()
            .filter_map(|(topic, states)| named(topic, states, states.asked.keys().copied().collect()));
        let initialized = self
            .topics
            .iter()
            .filter_map(|(topic, states)| named(topic, states, states.initialized.iter().copied().collect()));
        ShareGroupStatePartitions {
            initializing: asked.collect(),
            initialized: initialized.collect(),
            deleting: self.deleting.iter().map(|(topic, one)| (topic.0, one.name.clone())).collect(),
            generation: self.generation,
        }
    }

    /// Restores states from a record. Requests from before a restart have no time, so they are repeated at
    /// once.
    pub(super) fn of_record(record: ShareGroupStatePartitions) -> Self {
        let mut topics: BTreeMap<TopicId, TopicStates> = BTreeMap::new();
        for topic in record.initialized {
            let known = topics.entry(TopicId(topic.topic)).or_default();
            known.name = topic.name;
            known.initialized.extend(topic.partitions);
        }
        for topic in record.initializing {
            let known = topics.entry(TopicId(topic.topic)).or_default();
            known.name = topic.name;
            known.asked.extend(topic.partitions.into_iter().map(|partition| (partition, TimestampMs::NONE)));
        }
        let since = record.generation;
        let deleting =
            |(topic, name)| (TopicId(topic), Deleting { name, since, asked_at: TimestampMs::NONE });
        Self { generation: since, topics, deleting: record.deleting.into_iter().map(deleting).collect() }
    }
}
