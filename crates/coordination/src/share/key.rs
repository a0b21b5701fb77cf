//! Whose state it is: one partition as one share group sees it.

use std::fmt;
use std::sync::Arc;

use tailrace_metadata::serial::Plain;
use tailrace_types::TopicId;

/// A share-partition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharePartitionKey {
    /// The group.
    pub group: Arc<str>,
    /// The topic. Its id, so that a topic made anew under the old name starts afresh.
    pub topic: TopicId,
    /// The partition's number.
    pub partition: i32,
}

impl SharePartitionKey {
    /// The text whose hash says which partition of `__share_group_state` holds the state: `group:topic id:partition`, and
    /// what FindCoordinator asks for with key type SHARE (KIP-932).
    pub fn coordinator_key(&self) -> String {
        self.to_string()
    }

    /// Reads what [`SharePartitionKey::coordinator_key`] makes. `None` for anything else. A group's name may hold colons.
    pub fn parse(text: &str) -> Option<Self> {
        let (rest, partition) = text.rsplit_once(':')?;
        let (group, topic) = rest.rsplit_once(':')?;
        if group.is_empty() {
            return None;
        }
        let partition = partition.parse().ok().filter(|number| *number >= 0)?;
        Some(Self { group: group.into(), topic: TopicId::parse(topic)?, partition })
    }
}

impl fmt::Display for SharePartitionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.group, self.topic, self.partition)
    }
}

impl Plain for SharePartitionKey {
    type Form = String;

    fn form(&self) -> String {
        self.coordinator_key()
    }

    fn of(text: String) -> Option<Self> {
        Self::parse(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coordinator_key_is_kafkas() {
        let topic = TopicId([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
        let key = SharePartitionKey { group: "a:b".into(), topic, partition: 7 };
        assert_eq!(key.coordinator_key(), "a:b:AQIDBAUGBwgJCgsMDQ4PEA:7");
        assert_eq!(SharePartitionKey::parse("a:b:AQIDBAUGBwgJCgsMDQ4PEA:7"), Some(key));
        for wrong in ["", "a", "a:b", "a:b:c", ":AQIDBAUGBwgJCgsMDQ4PEA:7", "a:AQIDBAUGBwgJCgsMDQ4PEA:-1"] {
            assert_eq!(SharePartitionKey::parse(wrong), None, "{wrong}");
        }
    }
}
