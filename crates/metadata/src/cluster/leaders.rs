//! Who leads which partition, as the leaders have told it.

use std::collections::HashMap;

use tailrace_types::{LeaderEpoch, RaftGroup, ReplicaId, TopicId};

use crate::image::MetadataImage;

/// The leader of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leader {
    /// Which replica it is.
    pub replica: ReplicaId,
    /// Since which epoch.
    pub epoch: LeaderEpoch,
}

/// The leaders that were announced. Epochs only grow: an announcement that comes late changes nothing.
#[derive(Clone, Debug)]
pub struct Leaders {
    leaders: HashMap<RaftGroup, Leader>,
    groups_max: usize,
}

impl Leaders {
    /// Knows nobody yet, and never more than `groups_max` leaders. Each takes about 50 bytes.
    pub fn new(groups_max: usize) -> Self {
        Self { leaders: HashMap::new(), groups_max }
    }

    /// Takes over what a leader announced. True if that is news.
    ///
    /// Refused are epochs that are not above the known one, and groups beyond the limit.
    pub fn announce(&mut self, group: RaftGroup, replica: ReplicaId, epoch: LeaderEpoch) -> bool {
        match self.leaders.get(&group) {
            Some(known) if epoch <= known.epoch => return false,
            None if self.leaders.len() >= self.groups_max => return false,
            Some(_) | None => {}
        }
        self.leaders.insert(group, Leader { replica, epoch });
        true
    }

    /// The newest leader that was announced. It may have been deposed since.
    pub fn get(&self, group: RaftGroup) -> Option<Leader> {
        self.leaders.get(&group).copied()
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (RaftGroup, Leader)> + '_ {
        self.leaders.iter().map(|(group, leader)| (*group, *leader))
    }

    /// Forgets all groups but those in `image` and those of `also`: announcements that came after their topic's deletion.
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
        // Of topic 2, which has one partition.
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
