//! Partitions and members by number, the form in which assignors work on them.

use tailrace_types::TopicId;

use super::task::{AssignmentTask, Partitions};

/// The owner of an unassigned slot.
pub(super) const NOBODY: u32 = u32::MAX;

/// The partitions of a task as numbered slots, each with its owner.
#[derive(Debug)]
pub(super) struct Board<'a> {
    topics: Vec<(TopicId, &'a [i32])>,
    /// The first slot of each topic, followed by the total number of slots.
    first: Vec<usize>,
    /// The owner of each slot.
    pub(super) owner: Vec<u32>,
    /// The number of slots of each member.
    pub(super) load: Vec<u32>,
}

impl<'a> Board<'a> {
    /// Makes a board without owners.
    pub(super) fn new(task: &AssignmentTask<'a>) -> Self {
        let topics: Vec<_> = task.topics.iter().map(|(id, partitions)| (*id, &partitions[..])).collect();
        let mut first = vec![0];
        for (_, partitions) in &topics {
            first.push(first[first.len() - 1] + partitions.len());
        }
        let slots = first[first.len() - 1];
        Self { topics, first, owner: vec![NOBODY; slots], load: vec![0; task.members.len()] }
    }

    pub(super) fn slots(&self) -> usize {
        self.owner.len()
    }

    pub(super) fn topic_count(&self) -> usize {
        self.topics.len()
    }

    /// Returns the slots of the topic with this number.
    pub(super) fn slots_of(&self, topic: usize) -> std::ops::Range<usize> {
        self.first[topic]..self.first[topic + 1]
    }

    /// Returns the number of a topic.
    pub(super) fn topic(&self, id: TopicId) -> Option<usize> {
        self.topics.binary_search_by_key(&id, |(id, _)| *id).ok()
    }

    /// Returns the slot of a partition.
    pub(super) fn slot(&self, topic: usize, partition: i32) -> Option<usize> {
        let index = self.topics[topic].1.binary_search(&partition).ok()?;
        Some(self.first[topic] + index)
    }

    pub(super) fn give(&mut self, slot: usize, member: usize) {
        let before = self.owner[slot];
        if before != NOBODY {
            self.load[before as usize] -= 1;
        }
        self.owner[slot] = member_number(member);
        self.load[member] += 1;
    }

    /// Returns the assignment of each member.
    pub(super) fn assignments(&self) -> Vec<Partitions> {
        let mut members = vec![Partitions::new(); self.load.len()];
        for (topic, (id, partitions)) in self.topics.iter().enumerate() {
            for (slot, partition) in self.slots_of(topic).zip(*partitions) {
                if self.owner[slot] != NOBODY {
                    members[self.owner[slot] as usize].entry(*id).or_default().push(*partition);
                }
            }
        }
        members
    }

    /// Returns the partition of a slot.
    pub(super) fn partition(&self, slot: usize) -> (TopicId, i32) {
        let topic = self.first.partition_point(|first| *first <= slot) - 1;
        let (id, partitions) = self.topics[topic];
        (id, partitions[slot - self.first[topic]])
    }
}

/// Converts a member's number to 32 bits. The limit on group size is below that.
pub(super) fn member_number(member: usize) -> u32 {
    u32::try_from(member).expect("members fit 32 bits")
}
