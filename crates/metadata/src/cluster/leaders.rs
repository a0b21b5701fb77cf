//! The leader of each partition, as announced by the leaders themselves.

use std::collections::HashMap;

use tailrace_types::{LeaderEpoch, RaftGroup, ReplicaId, TopicId};

use crate::image::MetadataImage;

/// The leader of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The leading replica.
    pub replica: ReplicaId,
    /// The epoch in which it became leader.
    pub epoch: LeaderEpoch,
}

/// The announced leaders. Epochs only grow, so a late announcement changes nothing.
#[derive(Clone, Debug)]
pub struct Leaders {
    leaders: HashMap<RaftGroup, Leader>,
    groups_max: usize,
}

impl Leaders {
    /// Makes an empty table of at most `groups_max` leaders. Each takes about 50 bytes.
    pub fn new(groups_max: usize) -> Self {
        Self { leaders: HashMap::new(), groups_max }
    }

    /// Records an announced leader. Returns true if it is news.
    ///
    /// Ignores epochs that are not above the known one, and new groups beyond the limit.
    pub fn announce(&mut self, group: RaftGroup, replica: ReplicaId, epoch: LeaderEpoch) -> bool {
        match self.leaders.get(&group) {
            Some(known) if epoch <= known.epoch => return false,
            None if self.leaders.len() >= self.groups_max => return false,
            Some(_) | None => {}
        }
        self.leaders.insert(group, Leader { replica, epoch });
        true
    }

    /// Returns the newest announced leader. It may have been deposed since.
    pub fn get(&self, group: RaftGroup) -> Option<Leader> {
        self.leaders.get(&group).copied()
    }

    /// Returns all leaders, in no particular order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (RaftGroup, Leader)> + '_ {
        self.leaders.iter().map(|(group, leader)| (*group, *leader))
    }

    /// Forgets all groups that are neither in `image` nor of the topic `also`. Such groups come from
    /// announcements that arrive after their topic's deletion.
    pub fn forget_unknown(&mut self, image: &MetadataImage, also: TopicId) {
        self.leaders.retain(|group, _| {
            let topic = image.topic_by_id(group.topic);
            group.topic == also || topic.is_some_and(|topic| topic.has_partition(group.partition))
        });
    }
}

#[cfg(test)]
mod tests {
    use tailrace_types::{NodeId, PartitionId, TimestampMs};

    use super::*;
    use crate::{Command, Controller, CreateTopic, Requester};

    fn group(topic: u8, partition: i32) -> RaftGroup {
        RaftGroup { topic: TopicId([topic; 16]), partition: PartitionId(partition) }
    }

    #[test]
    fn only_higher_epochs_are_news_and_deleted_topics_are_forgotten() {
        let mut leaders = Leaders::new(3);
        let [a, b] = [1, 2].map(|node| ReplicaId::new(NodeId(node), 1));
        assert!(leaders.announce(group(1, 0), a, LeaderEpoch(3)));
        for (replica, epoch) in [(b, 3), (b, 2), (a, 3)] {
            assert!(!leaders.announce(group(1, 0), replica, LeaderEpoch(epoch)));
            assert_eq!(leaders.get(group(1, 0)), Some(Leader { replica: a, epoch: LeaderEpoch(3) }));
        }
        assert!(leaders.announce(group(1, 0), b, LeaderEpoch(4)));
        assert!(leaders.announce(group(2, 0), a, LeaderEpoch(5)));
        assert!(leaders.announce(group(2, 7), a, LeaderEpoch(1)));
        assert!(!leaders.announce(group(3, 0), a, LeaderEpoch(1)), "no room");
        assert!(leaders.announce(group(2, 7), b, LeaderEpoch(2)), "known groups need none");
        // Topic 2 has one partition.
        let image = image_with_topic(2);
        leaders.forget_unknown(&image, TopicId([1; 16]));
        let mut left: Vec<_> = leaders.iter().collect();
        left.sort_by_key(|(group, _)| group.topic);
        let leader = |replica, epoch| Leader { replica, epoch: LeaderEpoch(epoch) };
        assert_eq!(left, [(group(1, 0), leader(b, 4)), (group(2, 0), leader(a, 5))]);
        leaders.forget_unknown(&image, TopicId([9; 16]));
        assert_eq!(leaders.iter().map(|(group, _)| group).collect::<Vec<_>>(), [group(2, 0)]);
    }

    fn image_with_topic(id: u8) -> std::sync::Arc<MetadataImage> {
        let mut controller = Controller::new(std::collections::BTreeMap::new()).unwrap();
        let (id, now) = (TopicId([id; 16]), TimestampMs(1));
        let create =
            CreateTopic { partitions: 1, ..CreateTopic::with_defaults("t", id, now, Requester::Client) };
        for record in controller.plan(&Command::CreateTopic(create)).unwrap() {
            controller.apply(&record).unwrap();
        }
        controller.image()
    }
}
