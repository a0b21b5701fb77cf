//! The settings of a topic: the table and the typed struct.

use super::choice::{CleanupPolicy, CompressionType, MessageTimestampType};
use super::error::ConfigError;
use super::key::Bounds::{MinusOneOr, Replicas, Share};
use super::key::ConfigKind::{Boolean, Double, Int, List, Long, String as Text};
use super::key::{ConfigKey, ConfigKind, Synonym};
use super::subjects::CapturedSubjects;
use super::table::settings;

const MAX: &str = "9223372036854775807";
const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 3_600_000;

/// The synonyms of a topic key whose default comes from the broker key `$name`, and from coarser keys after
/// it.
macro_rules! from {
    ($($name:literal $(* $factor:expr)?),+) => {
        &[$( Synonym { name: $name, factor: 1 $(* $factor)? } ),+]
    };
}

const fn key(name: &'static str, kind: ConfigKind) -> ConfigKey {
    ConfigKey::new(name, kind).dynamic()
}

settings! {
    /// The effective configuration of one topic: its overrides, the broker's settings and the defaults,
    /// merged.
    #[derive(Clone, Debug, PartialEq)]
    pub struct TopicConfig, table TOPIC_KEYS {
        /// What happens to old segments. `delete` removes segments that retention no longer covers. `compact`
        /// keeps the last record of every key, and refuses records without a key. An empty list keeps
        /// everything for ever.
        cleanup_policy: CleanupPolicy = key("cleanup.policy", List).default("delete").one_of(&["compact", "delete"])
            .synonyms(from!("log.cleanup.policy"));
        /// Level of gzip when the broker compresses: 1 is fastest, 9 smallest, -1 the codec's default.
        compression_gzip_level: i32 = key("compression.gzip.level", Int).default("-1").bounds(MinusOneOr(1, 9))
            .synonyms(from!("compression.gzip.level"));
        /// Level of LZ4 when the broker compresses: 1 is fastest, 17 smallest.
        compression_lz4_level: i32 = key("compression.lz4.level", Int).default("9").between(1, 17)
            .synonyms(from!("compression.lz4.level"));
        /// The codec that batches are stored with. `producer` stores batches as they arrive, whatever their
        /// codec. With any other value the broker recompresses batches that arrive with another codec, which
        /// costs CPU.
        compression_type: CompressionType = key("compression.type", Text).default("producer")
            .one_of(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]).synonyms(from!("compression.type"));
        /// Level of Zstandard when the broker compresses: higher is smaller and slower.
        compression_zstd_level: i32 = key("compression.zstd.level", Int).default("3").between(-131_072, 22)
            .synonyms(from!("compression.zstd.level"));
        /// How long compaction keeps a tombstone (a record without a value) or the marker of a finished
        /// transaction, after the round that removed everything else it refers to. A reader that starts at
        /// the beginning and takes longer may miss deletions.
        delete_retention_ms: i64 = key("delete.retention.ms", Long).default("86400000").ms().at_least(0)
            .synonyms(from!("log.cleaner.delete.retention.ms"));
        /// How long the files of a removed segment stay on disk. tailrace deletes them when the last reader
        /// has closed them.
        file_delete_delay_ms: i64 = key("file.delete.delay.ms", Long).default("60000").ms().at_least(0).accepted()
            .synonyms(from!("log.segment.delete.delay.ms"));
        /// Number of records after which a sync is forced. 1, the default, makes the topic strict: records
        /// become visible, and acks=all is answered, only when they are on stable storage. A larger value
        /// makes it relaxed, like Kafka by default: acknowledged records may be lost when the machine (not
        /// just the process) fails, and a sync starts after this many records at the latest. The largest
        /// value leaves syncing to flush.ms and to the operating system.
        flush_messages: i64 = key("flush.messages", Long).default("1").count("records").at_least(1)
            .synonyms(from!("log.flush.interval.messages"));
        /// How long a record of a relaxed topic may wait for a sync. The largest value sets no limit. Strict
        /// topics sync at once.
        flush_ms: i64 = key("flush.ms", Long).default(MAX).ms().at_least(0)
            .synonyms(from!("log.flush.interval.ms", "log.flush.scheduler.interval.ms"));
        /// Replicas whose incoming replication is limited to follower.replication.throttled.rate of their
        /// node while they do not vote yet: pairs PARTITION:NODE, or * for all.
        follower_replication_throttled_replicas: Vec<String> = key("follower.replication.throttled.replicas", List)
            .default("").bounds(Replicas);
        /// Number of bytes of log between two entries of Kafka's offset index. tailrace writes one entry per
        /// batch.
        index_interval_bytes: i32 = key("index.interval.bytes", Int).default("4096").bytes().at_least(0).accepted()
            .synonyms(from!("log.index.interval.bytes"));
        /// Segment size for tests. If set, it replaces segment.bytes and may be below that setting's minimum.
        internal_segment_bytes: Option<u64> = key("internal.segment.bytes", Int).bytes().at_least(1).internal()
            .synonyms(from!("internal.segment.bytes"));
        /// Replicas whose outgoing replication to new replicas is limited to
        /// leader.replication.throttled.rate of their node: pairs PARTITION:NODE, or * for all.
        leader_replication_throttled_replicas: Vec<String> = key("leader.replication.throttled.replicas", List)
            .default("").bounds(Replicas);
        /// Number of bytes that stay on local disks when older segments move to remote storage; -2 means
        /// retention.bytes.
        local_retention_bytes: i64 = key("local.retention.bytes", Long).default("-2").bytes().at_least(-2).accepted()
            .synonyms(from!("log.local.retention.bytes"));
        /// How long records stay on local disks when older segments move to remote storage; -2 means
        /// retention.ms.
        local_retention_ms: i64 = key("local.retention.ms", Long).default("-2").ms().at_least(-2).accepted()
            .synonyms(from!("log.local.retention.ms"));
        /// Age at which a record becomes eligible for compaction, whatever min.cleanable.dirty.ratio says.
        /// Only closed segments are compacted, so segments are closed at this age, too, even if nothing is
        /// appended any more. If this is set, tombstones are also removed from an idle partition once
        /// delete.retention.ms has passed.
        max_compaction_lag_ms: i64 = key("max.compaction.lag.ms", Long).default(MAX).ms().at_least(1)
            .synonyms(from!("log.cleaner.max.compaction.lag.ms"));
        /// Maximum size of a batch, after compression if it is compressed. Larger ones are refused with
        /// MESSAGE_TOO_LARGE. A topic with tailrace.subjects must accept a batch with the largest NATS
        /// message: tailrace.nats.max.payload.bytes and a 64th of it, tailrace.nats.max.control.line.bytes,
        /// and 256 bytes. A smaller value of the topic itself is refused. A smaller broker-wide value is
        /// raised for the topic.
        max_message_bytes: u32 = key("max.message.bytes", Int).default("1048588").bytes().at_least(0)
            .synonyms(from!("message.max.bytes"));
        /// How far a record's timestamp may be ahead of the broker's clock. Later timestamps are refused with
        /// INVALID_TIMESTAMP. Ignored with LogAppendTime.
        message_timestamp_after_max_ms: i64 = key("message.timestamp.after.max.ms", Long).default("3600000").ms()
            .at_least(0).synonyms(from!("log.message.timestamp.after.max.ms"));
        /// How far a record's timestamp may be behind the broker's clock. Earlier timestamps are refused with
        /// INVALID_TIMESTAMP. Ignored with LogAppendTime.
        message_timestamp_before_max_ms: i64 = key("message.timestamp.before.max.ms", Long).default(MAX).ms()
            .at_least(0).synonyms(from!("log.message.timestamp.before.max.ms"));
        /// Source of record timestamps: the producer's clock (CreateTime), or the broker's clock at the
        /// append (LogAppendTime).
        message_timestamp_type: MessageTimestampType = key("message.timestamp.type", Text).default("CreateTime")
            .one_of(&["CreateTime", "LogAppendTime"]).synonyms(from!("log.message.timestamp.type"));
        /// Fraction of the log that must be uncompacted before it is compacted. Lower values keep fewer
        /// superseded records, at the cost of more reading and writing.
        min_cleanable_dirty_ratio: f64 = key("min.cleanable.dirty.ratio", Double).default("0.5")
            .bounds(Share(0.0, 1.0)).synonyms(from!("log.cleaner.min.cleanable.ratio"));
        /// Minimum time for which a record stays uncompacted. It applies to whole segments, by their newest
        /// record.
        min_compaction_lag_ms: i64 = key("min.compaction.lag.ms", Long).default("0").ms().at_least(0)
            .synonyms(from!("log.cleaner.min.compaction.lag.ms"));
        /// Number of replicas that must have a batch before acks=all is answered. tailrace always waits for a
        /// majority of the replicas, and for more only if this value is higher. A standalone server has one
        /// replica and ignores it.
        min_insync_replicas: i32 = key("min.insync.replicas", Int).default("1").count("replicas").at_least(1)
            .synonyms(from!("min.insync.replicas"));
        /// Whether Kafka preallocates a whole segment when it is created. tailrace always preallocates the
        /// active segment in steps; see tailrace.segment.preallocate.bytes.
        preallocate: bool = key("preallocate", Boolean).default("false").accepted()
            .synonyms(from!("log.preallocate"));
        /// Whether to stop copying segments to remote storage.
        remote_log_copy_disable: bool = key("remote.log.copy.disable", Boolean).default("false").not_yet(&["true"])
            .accepted();
        /// Whether remote segments are deleted when remote storage is turned off.
        remote_log_delete_on_disable: bool = key("remote.log.delete.on.disable", Boolean).default("false")
            .not_yet(&["true"]).accepted();
        /// Whether older segments move to remote storage.
        remote_storage_enable: bool = key("remote.storage.enable", Boolean).default("false").not_yet(&["true"])
            .accepted();
        /// Maximum size of a partition before its oldest segments are deleted. Negative: no limit. Whole
        /// segments are deleted, so a partition may exceed this by one segment.
        retention_bytes: Option<u64> = key("retention.bytes", Long).default("-1").bytes()
            .synonyms(from!("log.retention.bytes"));
        /// Age at which a segment is deleted, measured from its newest record. -1: no limit.
        retention_ms: Option<i64> = key("retention.ms", Long).default("604800000").ms().at_least(-1)
            .synonyms(from!("log.retention.ms", "log.retention.minutes" * MINUTE_MS, "log.retention.hours" * HOUR_MS));
        /// Size at which a segment is closed and the next one started. Retention works in whole segments.
        segment_bytes: u64 = key("segment.bytes", Int).default("1073741824").bytes().at_least(1_048_576)
            .synonyms(from!("log.segment.bytes"));
        /// Size that Kafka preallocates for the offset index of a segment. tailrace's indexes grow with the
        /// segment.
        segment_index_bytes: u32 = key("segment.index.bytes", Int).default("10485760").bytes().at_least(4).accepted()
            .synonyms(from!("log.index.size.max.bytes"));
        /// Maximum random time by which a segment rolls early, when it rolls by age. It keeps many partitions
        /// from rolling at the same moment.
        segment_jitter_ms: i64 = key("segment.jitter.ms", Long).default("0").ms().at_least(0)
            .synonyms(from!("log.roll.jitter.ms", "log.roll.jitter.hours" * HOUR_MS));
        /// Age at which a segment with records is closed even if it is not full, so that retention can delete
        /// it. Age is measured by the timestamps of appended records. If nothing is appended, the broker's
        /// clock decides, within a second.
        segment_ms: i64 = key("segment.ms", Long).default("604800000").ms().at_least(1)
            .synonyms(from!("log.roll.ms", "log.roll.hours" * HOUR_MS));
        /// The configuration of the JetStream stream that this topic is, as JSON. Only JetStream's API
        /// changes it, together with the settings that follow from it.
        tailrace_jetstream_stream: String = key("tailrace.jetstream.stream", Text).default("").internal().read_only();
        /// Minimum number of records that a partition keeps when its oldest segments are deleted. Negative:
        /// no limit. Whole segments are deleted, so a partition may keep more, by one segment.
        tailrace_retention_records: Option<u64> = key("tailrace.retention.records", Long).default("-1")
            .count("records").synonyms(from!("tailrace.retention.records"));
        /// NATS subjects that this topic captures, as patterns separated by commas. Every message that a NATS
        /// client publishes to a subject that one of them matches is appended to the topic. The wildcards are
        /// `*` for one word and, at the end, `>` for one or more. A subject belongs to at most one topic:
        /// patterns that overlap those of another topic are refused. So are patterns that start with a
        /// wildcard or match subjects of NATS itself ($JS, $SYS, _INBOX). A comma cannot be part of a
        /// pattern. At most 1000 patterns and 32768 bytes.
        tailrace_subjects: CapturedSubjects = key("tailrace.subjects", List).default("");
        /// Whether a captured NATS message with a reply subject is answered with a publish acknowledgement,
        /// once its record is as durable as the topic's settings require. Set it to false if captured
        /// messages are requests that a service answers.
        tailrace_subjects_ack: bool = key("tailrace.subjects.ack", Boolean).default("true")
            .synonyms(from!("tailrace.subjects.ack"));
        /// Whether a replica that is not in sync may become leader when no other is left, at the risk of
        /// losing records.
        unclean_leader_election_enable: bool = key("unclean.leader.election.enable", Boolean).default("false").accepted()
            .synonyms(from!("unclean.leader.election.enable"));
    }
    with {}
}

/// What a topic guarantees about stable storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The high watermark covers what is durable. Every append schedules a sync (`flush.messages` = 1, the
    /// default).
    Strict,
    /// The high watermark is the log end offset.
    Relaxed {
        /// Sync after this many records at the latest. `None` for no limit.
        flush_messages: Option<u64>,
        /// Sync after this many milliseconds at the latest. `None` for no limit.
        flush_ms: Option<u64>,
    },
}

impl TopicConfig {
    /// Returns what the topic guarantees about stable storage.
    pub fn durability(&self) -> Durability {
        if self.flush_messages == 1 {
            return Durability::Strict;
        }
        let limit = |value: i64| u64::try_from(value).ok().filter(|_| value != i64::MAX);
        Durability::Relaxed { flush_messages: limit(self.flush_messages), flush_ms: limit(self.flush_ms) }
    }

    /// Refuses values that contradict each other.
    ///
    /// # Errors
    /// The minimum compaction lag exceeds the maximum.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms {
            return Err(ConfigError::Inconsistent {
                key: "min.compaction.lag.ms",
                value: self.min_compaction_lag_ms,
                other: "max.compaction.lag.ms",
                other_value: self.max_compaction_lag_ms,
                reason: "the shortest lag must not exceed the longest",
            });
        }
        Ok(())
    }
}
