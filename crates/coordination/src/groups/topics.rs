//! Topic names and topic changes, for several kinds of groups.

use tailrace_metadata::MetadataImage;
use tailrace_types::{TopicId, TopicName};

use super::assignors::Partitions;

/// Partitions of a topic, with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPartitions {
    /// The topic's id.
    pub topic: TopicId,
    /// The topic's name.
    pub name: TopicName,
    /// Its partitions, ascending.
    pub partitions: Vec<i32>,
}

/// Adds the names of their topics to partitions. Those of deleted topics are omitted.
pub(crate) fn named(partitions: &Partitions, image: &MetadataImage) -> Vec<NamedPartitions> {
    let named = |(id, partitions): (&TopicId, &Vec<i32>)| {
        let name = image.topic_by_id(*id)?.name.clone();
        Some(NamedPartitions { topic: *id, name, partitions: partitions.clone() })
    };
    partitions.iter().filter_map(named).collect()
}

/// Returns a hash of topics as they are now. 0 for none. It is the sum of each topic's FNV-1a.
pub(crate) fn hash_of_topics<'a>(names: impl Iterator<Item = &'a str>, image: &MetadataImage) -> i64 {
    let topics = names.filter_map(|name| image.topic(name));
    let hash = topics.fold(0_u64, |sum, topic| {
        let name = topic.name.as_str().bytes();
        let bytes = topic.id.0.into_iter().chain(topic.partitions.to_be_bytes()).chain(name);
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        sum.wrapping_add(hash)
    });
    hash.cast_signed()
}
