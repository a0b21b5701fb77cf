//! The table of topics: an immutable snapshot that every request uses without a lock.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tailrace_config::{CompressionType, MessageTimestampType, TopicConfig};
use tailrace_metadata::TopicImage;
use tailrace_records::{AppendRules, Compression, CompressionLevels, TimestampType};
use tailrace_types::{ReplicaId, TimestampMs, TopicId, TopicName, TopicPartition};

use crate::partitions::handle::PartitionHandle;

/// Why a partition is offline.
#[derive(Clone, Debug)]
pub struct Offline {
    /// The fault, with file and position where known.
    pub reason: Arc<str>,
    /// The replica that was to be opened, if it is one of several.
    pub(crate) replica: Option<ReplicaId>,
    /// The replica is damaged or gone, so another one may start in its place.
    pub(crate) is_lost: bool,
    /// The disk had no room for what opening writes. Opening is retried when it has.
    pub(crate) waits_for_room: bool,
    /// Its folder is gone, or belongs to another topic of the same name, while the metadata may be old.
    /// Opening is retried with the newest metadata.
    pub(crate) waits_for_metadata: bool,
}

/// Why a partition cannot be used on this node.
#[derive(Clone, Copy, Debug)]
pub enum NotHere<'a> {
    /// The topic has no partition of this number.
    NoSuchPartition,
    /// Other nodes have it, or lead it.
    Elsewhere,
    /// It is this node's, and is offline.
    Offline(&'a Offline),
}

/// One partition, online or not.
#[derive(Clone, Debug)]
pub(crate) enum PartitionSlot {
    /// It works.
    Online(Arc<PartitionHandle>),
    /// It cannot be used.
    Offline(Offline),
    /// This node has no replica of it.
    Elsewhere,
}

impl PartitionSlot {
    /// Returns the partition, if it can be used on this node.
    pub(crate) fn handle(&self) -> Option<&Arc<PartitionHandle>> {
        match self {
            Self::Online(handle) => Some(handle),
            Self::Offline(_) | Self::Elsewhere => None,
        }
    }
}

/// One topic, with what the data path needs of it.
#[derive(Debug)]
pub struct Topic {
    /// Its name.
    pub name: TopicName,
    /// Its id.
    pub id: TopicId,
    /// True for topics that the server uses itself.
    pub internal: bool,
    /// Its metadata.
    pub image: Arc<TopicImage>,
    /// Its current settings.
    pub config: Arc<TopicConfig>,
    /// `message.timestamp.type` is LogAppendTime.
    pub log_append_time: bool,
    /// Indexed by partition number.
    pub(crate) partitions: Vec<PartitionSlot>,
    compression: Option<Compression>,
}

impl Topic {
    pub(crate) fn new(image: &Arc<TopicImage>, partitions: Vec<PartitionSlot>) -> Self {
        let config = Arc::clone(&image.config);
        Self {
            name: image.name.clone(),
            id: image.id,
            internal: image.is_internal(),
            image: Arc::clone(image),
            log_append_time: config.message_timestamp_type == MessageTimestampType::LogAppendTime,
            compression: target_compression(config.compression_type),
            config,
            partitions,
        }
    }

    /// Returns the number of partitions.
    ///
    /// # Panics
    /// If there are more than 2^31, because partition numbers have 31 bits.
    pub fn partition_count(&self) -> i32 {
        i32::try_from(self.partitions.len()).expect("partitions have numbers of 31 bits")
    }

    /// Reports whether the topic has a partition with this number, on any node.
    pub fn has(&self, index: i32) -> bool {
        self.slot(index).is_some()
    }

    fn slot(&self, index: i32) -> Option<&PartitionSlot> {
        self.partitions.get(usize::try_from(index).ok()?)
    }

    /// Returns the partition with this number, if this node has a replica of it, leading or not.
    ///
    /// # Errors
    /// This node has no usable replica of it.
    pub fn here(&self, index: i32) -> Result<&Arc<PartitionHandle>, NotHere<'_>> {
        match self.slot(index) {
            Some(PartitionSlot::Online(handle)) => Ok(handle),
            Some(PartitionSlot::Elsewhere) => Err(NotHere::Elsewhere),
            Some(PartitionSlot::Offline(offline)) => Err(NotHere::Offline(offline)),
            None => Err(NotHere::NoSuchPartition),
        }
    }

    /// Returns the partition with this number, if this node leads it.
    ///
    /// # Errors
    /// This node does not lead it.
    pub fn led(&self, index: i32) -> Result<&Arc<PartitionHandle>, NotHere<'_>> {
        self.here(index).and_then(|handle| handle.leads().map(|_| handle).ok_or(NotHere::Elsewhere))
    }

    /// Iterates over the partitions of which this node has a usable replica.
    pub(crate) fn online(&self) -> impl Iterator<Item = &Arc<PartitionHandle>> {
        self.partitions.iter().filter_map(PartitionSlot::handle)
    }

    /// Iterates over the offline partitions, with the reason.
    pub(crate) fn offline(&self) -> impl Iterator<Item = (TopicPartition, &Offline)> {
        let all = self.partitions.iter().zip(self.image.topic_partitions());
        all.filter_map(|(slot, id)| match slot {
            PartitionSlot::Offline(offline) => Some((id, offline)),
            PartitionSlot::Online(_) | PartitionSlot::Elsewhere => None,
        })
    }

    /// Returns the codec that the topic's settings ask for. `None` if they leave it to the producer or ask
    /// for none.
    pub fn stored_compression(&self) -> Option<Compression> {
        self.compression.filter(|compression| *compression != Compression::None)
    }

    /// Returns the compression levels.
    pub fn compression_levels(&self) -> CompressionLevels {
        let config = &self.config;
        CompressionLevels { gzip: config.compression_gzip_level, zstd: config.compression_zstd_level }
    }

    /// Returns the maximum size of a batch.
    pub fn batch_bytes_max(&self) -> usize {
        self.config.max_message_bytes as usize
    }

    /// Returns the rules for a batch that arrives at `now`.
    pub fn append_rules(&self, now: TimestampMs, decompressed_bytes_max: usize) -> AppendRules {
        let config = &self.config;
        AppendRules {
            compression: self.compression,
            levels: self.compression_levels(),
            timestamp_type: if self.log_append_time {
                TimestampType::LogAppendTime
            } else {
                TimestampType::CreateTime
            },
            timestamp_before_max_ms: config.message_timestamp_before_max_ms,
            timestamp_after_max_ms: config.message_timestamp_after_max_ms,
            batch_bytes_max: self.batch_bytes_max(),
            decompressed_bytes_max,
            keys_required: config.cleanup_policy.compact,
            now,
        }
    }
}

fn target_compression(setting: CompressionType) -> Option<Compression> {
    match setting {
        CompressionType::Producer => None,
        CompressionType::Uncompressed => Some(Compression::None),
        CompressionType::Gzip => Some(Compression::Gzip),
        CompressionType::Snappy => Some(Compression::Snappy),
        CompressionType::Lz4 => Some(Compression::Lz4),
        CompressionType::Zstd => Some(Compression::Zstd),
    }
}

/// A front that keeps state per topic.
pub trait FollowsTopics: Send + Sync {
    /// Replaces the topics. Called before any request sees them, by one caller at a time. Must be quick.
    fn follow(&self, topics: &TopicTable);
}

/// All topics at one moment.
#[derive(Clone, Debug, Default)]
pub struct TopicTable {
    names: BTreeMap<TopicName, Arc<Topic>>,
    ids: HashMap<TopicId, Arc<Topic>>,
}

impl TopicTable {
    /// Returns the topic of this name.
    pub fn by_name(&self, name: &str) -> Option<Arc<Topic>> {
        self.names.get(name).cloned()
    }

    /// Returns the topic with the id that a request carries.
    pub fn by_id(&self, id: [u8; 16]) -> Option<Arc<Topic>> {
        self.ids.get(&TopicId(id)).cloned()
    }

    /// Iterates over all topics, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Topic>> {
        self.names.values()
    }

    /// Iterates over all online partitions.
    pub(crate) fn online(&self) -> impl Iterator<Item = &Arc<PartitionHandle>> {
        self.iter().flat_map(|topic| topic.online())
    }

    pub(crate) fn insert(&mut self, topic: Topic) {
        let topic = Arc::new(topic);
        if let Some(old) = self.names.insert(topic.name.clone(), Arc::clone(&topic)) {
            self.ids.remove(&old.id);
        }
        self.ids.insert(topic.id, topic);
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<Arc<Topic>> {
        let topic = self.names.remove(name)?;
        self.ids.remove(&topic.id);
        Some(topic)
    }
}
