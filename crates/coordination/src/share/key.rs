//! The key of a state: one partition, as seen by one share group.

use std::fmt;
use std::sync::Arc;

use tailrace_metadata::serial::Plain;
use tailrace_types::TopicId;

/// A share-partition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharePartitionKey {
    /// The group.
    pub group: Arc<str>,
    /// The topic's id. A topic that is created again under the same name has another id, and starts without a
    /// state.
    pub topic: TopicId,
    /// The partition's number.
    pub partition: i32,
}

impl SharePartitionKey {
    /// Returns the text whose hash selects the partition of `__share_group_state` that holds the state:
    /// `group:topic id:partition`. FindCoordinator asks for it with key type SHARE (KIP-932).
    pub fn coordinator_key(&self) -> String {
        self.to_string()
    }

    /// Parses the output of [`SharePartitionKey::coordinator_key`]. `None` for anything else. A group's name
    /// may contain colons.
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
