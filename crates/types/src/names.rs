//! Names and ids of topics and partitions.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The longest topic name in bytes. This is Kafka's limit: the name, a dash, the partition and a suffix for
/// deletion must fit into a file name of 255 bytes.
pub(crate) const TOPIC_NAME_BYTES_MAX: usize = 249;

/// The number of a partition within its topic, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub i32);

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A legal topic name: 1 to `TOPIC_NAME_BYTES_MAX` bytes out of `[a-zA-Z0-9._-]`, neither `.` nor `..`
/// (Kafka: `org.apache.kafka.common.internals.Topic`). Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicName(Arc<str>);

/// The reason why a text is not a topic name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopicNameError {
    /// The empty string.
    #[error("the topic name is empty")]
    Empty,
    /// `.` or `..`.
    #[error("the topic name is '{0}', which would name a folder")]
    Reserved(String),
    /// More than `TOPIC_NAME_BYTES_MAX` bytes.
    #[error("the topic name has {bytes} bytes, more than {TOPIC_NAME_BYTES_MAX}")]
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// A character outside `[a-zA-Z0-9._-]`.
    #[error(
        "the topic name has {character:?} at byte {position}; only letters, digits, '.', '_' and '-' are allowed"
    )]
    Character {
        /// The offending character.
        character: char,
        /// Its position in bytes, from 0.
        position: usize,
    },
}

impl TopicName {
    /// Checks `name` against Kafka's rules.
    ///
    /// # Errors
    /// The rule that is broken, and the position.
    pub fn new(name: &str) -> Result<Self, TopicNameError> {
        if name.is_empty() {
            return Err(TopicNameError::Empty);
        }
        if name == "." || name == ".." {
            return Err(TopicNameError::Reserved(name.to_owned()));
        }
        if name.len() > TOPIC_NAME_BYTES_MAX {
            return Err(TopicNameError::TooLong { bytes: name.len() });
        }
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if let Some((position, character)) = name.char_indices().find(|&(_, c)| !legal(c)) {
            return Err(TopicNameError::Character { character, position });
        }
        Ok(Self(name.into()))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name with `_` for every `.`. Two names have the same folded form exactly if they differ
    /// only in `.` against `_`. Kafka refuses such pairs because their metric names would be the same, and
    /// tailrace because their JetStream stream names would be.
    pub fn folded(&self) -> String {
        self.0.replace('.', "_")
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

impl FromStr for TopicName {
    type Err = TopicNameError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Self::new(s)
    }
}

impl std::borrow::Borrow<str> for TopicName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// One partition of one topic. Its folder is named `TOPIC-N`, and it is displayed in the same form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic.
    pub topic: TopicName,
    /// The partition within it.
    pub partition: PartitionId,
}

impl TopicPartition {
    /// Combines a topic and a partition number.
    pub fn new(topic: TopicName, partition: PartitionId) -> Self {
        Self { topic, partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// A topic's identity over its whole life. A topic that is deleted and created again under the same name has
/// another id. Displayed as in Kafka: 22 characters of URL-safe base64 without padding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TopicId(pub [u8; 16]);

const BASE64_URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl TopicId {
    /// All zeros: "no id" in the protocol.
    pub const ZERO: Self = Self([0; 16]);

    /// Makes a version 4 UUID from 16 random bytes.
    pub const fn from_random(mut bytes: [u8; 16]) -> Self {
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Self(bytes)
    }

    /// Reports whether this is [`TopicId::ZERO`].
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// Parses the 22-character form. `None` if the text is not in that form.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 22 {
            return None;
        }
        let mut bits: u128 = 0;
        for (i, c) in text.bytes().enumerate() {
            let value = BASE64_URL.iter().position(|&b| b == c)? as u128;
            if i == 21 {
                // 22 characters are 132 bits; the last four are padding and must be zero.
                if value & 0xf != 0 {
                    return None;
                }
                bits = (bits << 2) | (value >> 4);
            } else {
                bits = (bits << 6) | value;
            }
        }
        Some(Self(bits.to_be_bytes()))
    }
}

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = u128::from_be_bytes(self.0);
        for i in 0..21u32 {
            let index = (bits >> (122 - 6 * i)) & 0x3f;
            write!(f, "{}", BASE64_URL[index as usize] as char)?;
        }
        let last = (bits << 4) & 0x3f;
        write!(f, "{}", BASE64_URL[last as usize] as char)
    }
}

impl fmt::Debug for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_kafkas_rules() {
        assert!(TopicName::new("orders.eu_new-1").is_ok());
        assert!(TopicName::new(&"a".repeat(249)).is_ok());
        assert_eq!(TopicName::new(""), Err(TopicNameError::Empty));
        assert_eq!(TopicName::new(".."), Err(TopicNameError::Reserved("..".into())));
        assert_eq!(TopicName::new(&"a".repeat(250)), Err(TopicNameError::TooLong { bytes: 250 }));
        assert_eq!(TopicName::new("a/b"), Err(TopicNameError::Character { character: '/', position: 1 }));
    }

    #[test]
    fn names_that_differ_in_dot_and_underscore_collide() {
        let name = |s| TopicName::new(s).unwrap();
        assert_eq!(name("a.b").folded(), name("a_b").folded());
        assert_ne!(name("a.b").folded(), name("a-b").folded());
    }

    #[test]
    fn topic_ids_are_shown_as_kafka_shows_them() {
        // The output of java.util.Base64.getUrlEncoder().withoutPadding() for the bytes 1..=16.
        let id = TopicId([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
        assert_eq!(id.to_string(), "AQIDBAUGBwgJCgsMDQ4PEA");
        assert_eq!(TopicId::parse("AQIDBAUGBwgJCgsMDQ4PEA"), Some(id));
        assert_eq!(TopicId::parse("AQIDBAUGBwgJCgsMDQ4PEB"), None);
        assert_eq!(TopicId::parse("short"), None);
    }
}
