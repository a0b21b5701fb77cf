//! Partitions and members by number, which is how assignors think of them.

use tailrace_types::TopicId;

use super::task::{AssignmentTask, Partitions};

/// No member.
pub(super) const NOBODY: u32 = u32::MAX;

/// Every partition of a task as one slot, and who has it.
#[derive(Debug)]
pub(super) struct Board<'a> {
    topics: Vec<(TopicId, &'a [i32])>,
    /// The first slot of each topic, and one past the last of all.
    first: Vec<usize>,
    /// Who has the slot.
    pub(super) owner: Vec<u32>,
    /// How many slots each member has.
    pub(super) load: Vec<u32>,
}

impl<'a> Board<'a> {
    /// A board on which nobody has anything.
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

    /// The slots of the topic with this number.
    pub(super) fn slots_of(&self, topic: usize) -> std::ops::Range<usize> {
        self.first[topic]..self.first[topic + 1]
    }

    /// The number of a topic.
    pub(super) fn topic(&self, id: TopicId) -> Option<usize> {
        self.topics.binary_search_by_key(&id, |(id, _)| *id).ok()
    }

    /// The slot of a partition.
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

    /// What each member has.
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

    /// The partition of a slot.
    pub(super) fn partition(&self, slot: usize) -> (TopicId, i32) {
        let topic = self.first.partition_point(|first| *first <= slot) - 1;
        let (id, partitions) = self.topics[topic];
        (id, partitions[slot - self.first[topic]])
    }
}

/// Members are counted in 32 bits: a group's bound is below that.
pub(super) fn member_number(member: usize) -> u32 {
    u32::try_from(member).expect("members fit 32 bits")
}
