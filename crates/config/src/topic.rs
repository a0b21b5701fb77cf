//! The settings of a topic: table and typed struct.

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

/// A topic key whose default comes from the broker key `$name`, and from coarser keys behind it.
macro_rules! from {
    ($($name:literal $(* $factor:expr)?),+) => {
        &[$( Synonym { name: $name, factor: 1 $(* $factor)? } ),+]
    };
}

const fn key(name: &'static str, kind: ConfigKind) -> ConfigKey {
    ConfigKey::new(name, kind).dynamic()
}

settings! {
    /// What holds for one topic, after its overrides, the broker's settings and the defaults were merged.
    #[derive(Clone, Debug, PartialEq)]
    pub struct TopicConfig, table TOPIC_KEYS {
        /// What happens to segments that have outlived their retention: `delete` removes them; the empty list keeps
        /// everything for ever. `compact` keeps the last record of every key, and refuses records without one.
        cleanup_policy: CleanupPolicy = key("cleanup.policy", List).default("delete").one_of(&["compact", "delete"])
            .synonyms(from!("log.cleanup.policy"));
        /// Effort of gzip when the broker compresses: 1 is fastest, 9 smallest, -1 is the codec's own choice.
        compression_gzip_level: i32 = key("compression.gzip.level", Int).default("-1").bounds(MinusOneOr(1, 9))
            .synonyms(from!("compression.gzip.level"));
        /// Effort of LZ4 when the broker compresses: 1 is fastest, 17 smallest.
        compression_lz4_level: i32 = key("compression.lz4.level", Int).default("9").between(1, 17)
            .synonyms(from!("compression.lz4.level"));
        /// The codec that batches are stored with. `producer` stores what arrived, untouched, whatever its codec; any
        /// other value makes the broker compress anew what comes with another codec, which costs its CPU.
        compression_type: CompressionType = key("compression.type", Text).default("producer")
            .one_of(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]).synonyms(from!("compression.type"));
        /// Effort of Zstandard when the broker compresses: higher is smaller and slower.
        compression_zstd_level: i32 = key("compression.zstd.level", Int).default("3").between(-131_072, 22)
            .synonyms(from!("compression.zstd.level"));
        /// How long compaction keeps the marker of a deleted key (a record without a value), and of a finished transaction,
        /// after the round that left nothing else of it. A reader from the beginning that takes longer may miss deletions.
        delete_retention_ms: i64 = key("delete.retention.ms", Long).default("86400000").ms().at_least(0)
            .synonyms(from!("log.cleaner.delete.retention.ms"));
        /// How long the files of a removed segment stay on disk. tailrace frees them when the last reader that has
        /// them open is done.
        file_delete_delay_ms: i64 = key("file.delete.delay.ms", Long).default("60000").ms().at_least(0).accepted()
            .synonyms(from!("log.segment.delete.delay.ms"));
        /// How many records may wait unsynced. 1, the default, makes the topic strict: records become visible, and
        /// acks=all is answered, only once they are on stable storage. Anything larger makes it relaxed, as Kafka is by
        /// default: acknowledged records may be lost when the machine (not just the process) fails, and a sync is
        /// started after this many records at the latest. The largest value leaves syncing to flush.ms and to the
        /// operating system.
        flush_messages: i64 = key("flush.messages", Long).default("1").count("records").at_least(1)
            .synonyms(from!("log.flush.interval.messages"));
        /// How long a record of a relaxed topic may wait unsynced. The largest value sets no limit. Strict topics sync
        /// at once.
        flush_ms: i64 = key("flush.ms", Long).default(MAX).ms().at_least(0)
            .synonyms(from!("log.flush.interval.ms", "log.flush.scheduler.interval.ms"));
        /// Replicas that, as long as they have no vote, take no more than follower.replication.throttled.rate of their node says:
        /// pairs PARTITION:NODE, or * for all.
        follower_replication_throttled_replicas: Vec<String> = key("follower.replication.throttled.replicas", List)
            .default("").bounds(Replicas);
        /// How many bytes of log Kafka lets pass between two rows of its offset index. tailrace writes one row per
        /// batch.
        index_interval_bytes: i32 = key("index.interval.bytes", Int).default("4096").bytes().at_least(0).accepted()
            .synonyms(from!("log.index.interval.bytes"));
        /// Segment size for tests: when set, it takes the place of segment.bytes and may lie below that key's bound.
        internal_segment_bytes: Option<u64> = key("internal.segment.bytes", Int).bytes().at_least(1).internal()
            .synonyms(from!("internal.segment.bytes"));
        /// Replicas that send to new ones no more than leader.replication.throttled.rate of their node says: pairs
        /// PARTITION:NODE, or * for all.
        leader_replication_throttled_replicas: Vec<String> = key("leader.replication.throttled.replicas", List)
            .default("").bounds(Replicas);
        /// Bytes that stay on local disks when older segments move to remote storage; -2 means retention.bytes.
        local_retention_bytes: i64 = key("local.retention.bytes", Long).default("-2").bytes().at_least(-2).accepted()
            .synonyms(from!("log.local.retention.bytes"));
        /// Time that records stay on local disks when older segments move to remote storage; -2 means retention.ms.
        local_retention_ms: i64 = key("local.retention.ms", Long).default("-2").ms().at_least(-2).accepted()
            .synonyms(from!("log.local.retention.ms"));
        /// Age from which a record is compacted whatever min.cleanable.dirty.ratio says. Segments are closed at this age, too,
        /// since only closed ones are compacted: also where nothing is appended any more. Where this is set, tombstones go from a
        /// quiet partition as well when delete.retention.ms is over.
        max_compaction_lag_ms: i64 = key("max.compaction.lag.ms", Long).default(MAX).ms().at_least(1)
            .synonyms(from!("log.cleaner.max.compaction.lag.ms"));
        /// Size of the largest batch that is accepted, after compression if it is compressed. Larger ones are answered
        /// with MESSAGE_TOO_LARGE. A topic with tailrace.subjects takes at least a batch with the largest NATS message, which
        /// is tailrace.nats.max.payload.bytes and a 64th of it, tailrace.nats.max.control.line.bytes, and 256 bytes: a smaller
        /// value of its own is refused, the broker-wide one is raised for it.
        max_message_bytes: u32 = key("max.message.bytes", Int).default("1048588").bytes().at_least(0)
            .synonyms(from!("message.max.bytes"));
        /// How far a record's own timestamp may lie ahead of the broker's clock. Later ones are refused with
        /// INVALID_TIMESTAMP. Does not matter under LogAppendTime.
        message_timestamp_after_max_ms: i64 = key("message.timestamp.after.max.ms", Long).default("3600000").ms()
            .at_least(0).synonyms(from!("log.message.timestamp.after.max.ms"));
        /// How far a record's own timestamp may lie behind the broker's clock. Earlier ones are refused with
        /// INVALID_TIMESTAMP. Does not matter under LogAppendTime.
        message_timestamp_before_max_ms: i64 = key("message.timestamp.before.max.ms", Long).default(MAX).ms()
            .at_least(0).synonyms(from!("log.message.timestamp.before.max.ms"));
        /// Whose clock timestamps a record: the producer's (CreateTime), or the broker's at the append (LogAppendTime).
        message_timestamp_type: MessageTimestampType = key("message.timestamp.type", Text).default("CreateTime")
            .one_of(&["CreateTime", "LogAppendTime"]).synonyms(from!("log.message.timestamp.type"));
        /// Share of a log that must be uncompacted before compaction is worth its while: lower values keep fewer superseded
        /// records, at the price of more reading and writing.
        min_cleanable_dirty_ratio: f64 = key("min.cleanable.dirty.ratio", Double).default("0.5")
            .bounds(Share(0.0, 1.0)).synonyms(from!("log.cleaner.min.cleanable.ratio"));
        /// How long a record is safe from compaction at least. Whole segments are, by their newest record.
        min_compaction_lag_ms: i64 = key("min.compaction.lag.ms", Long).default("0").ms().at_least(0)
            .synonyms(from!("log.cleaner.min.compaction.lag.ms"));
        /// In-sync replicas that Kafka demands before it answers acks=all. tailrace waits for a majority of the
        /// replicas instead.
        min_insync_replicas: i32 = key("min.insync.replicas", Int).default("1").count("replicas").at_least(1).accepted()
            .synonyms(from!("min.insync.replicas"));
        /// Whether Kafka reserves a whole segment's disk space at its creation. tailrace always reserves the active
        /// segment's space in steps; see tailrace.segment.preallocate.bytes.
        preallocate: bool = key("preallocate", Boolean).default("false").accepted()
            .synonyms(from!("log.preallocate"));
        /// Stops the copying of segments to remote storage.
        remote_log_copy_disable: bool = key("remote.log.copy.disable", Boolean).default("false").not_yet(&["true"])
            .accepted();
        /// Whether remote segments are deleted when remote storage is turned off.
        remote_log_delete_on_disable: bool = key("remote.log.delete.on.disable", Boolean).default("false")
            .not_yet(&["true"]).accepted();
        /// Whether older segments move to remote storage.
        remote_storage_enable: bool = key("remote.storage.enable", Boolean).default("false").not_yet(&["true"])
            .accepted();
        /// Size that a partition may reach before its oldest segments are deleted. Negative: no limit. Whole segments
        /// go, so a partition may exceed this by one segment.
        retention_bytes: Option<u64> = key("retention.bytes", Long).default("-1").bytes()
            .synonyms(from!("log.retention.bytes"));
        /// Age at which a segment is deleted, counted from its newest record. -1: no limit.
        retention_ms: Option<i64> = key("retention.ms", Long).default("604800000").ms().at_least(-1)
            .synonyms(from!("log.retention.ms", "log.retention.minutes" * MINUTE_MS, "log.retention.hours" * HOUR_MS));
        /// Size at which a segment is closed and the next one begins. Retention works in whole segments.
        segment_bytes: u64 = key("segment.bytes", Int).default("1073741824").bytes().at_least(1_048_576)
            .synonyms(from!("log.segment.bytes"));
        /// Size that Kafka reserves for the offset index of a segment. tailrace's indexes grow with the segment.
        segment_index_bytes: u32 = key("segment.index.bytes", Int).default("10485760").bytes().at_least(4).accepted()
            .synonyms(from!("log.index.size.max.bytes"));
        /// Upper end of a random time by which the rolling of a segment by age comes early, so that many partitions
        /// do not roll in the same moment.
        segment_jitter_ms: i64 = key("segment.jitter.ms", Long).default("0").ms().at_least(0)
            .synonyms(from!("log.roll.jitter.ms", "log.roll.jitter.hours" * HOUR_MS));
        /// Age at which a segment that has records is closed even if it is not full, so that retention can reach it: by the
        /// timestamps of what is appended, and by the broker's clock where nothing is, within a second.
        segment_ms: i64 = key("segment.ms", Long).default("604800000").ms().at_least(1)
            .synonyms(from!("log.roll.ms", "log.roll.hours" * HOUR_MS));
        /// Number of records that a partition keeps at least before its oldest segments are deleted. Negative: no limit.
        /// Whole segments go, so a partition may keep more by one segment.
        tailrace_retention_records: Option<u64> = key("tailrace.retention.records", Long).default("-1")
            .count("records").synonyms(from!("tailrace.retention.records"));
        /// NATS subjects that this topic captures, as patterns separated by commas: each message that a NATS client publishes
        /// to a subject that one of them matches is appended to the topic. Wildcards are `*` for one word and `>`, at the end,
        /// for one or more. A subject belongs to one topic at most: patterns that overlap those of another topic are
        /// refused. So are patterns that begin with a wildcard or match subjects of NATS itself ($JS, $SYS, _INBOX). A comma
        /// cannot be part of a pattern. At most 1000 patterns and 32768 bytes.
        tailrace_subjects: CapturedSubjects = key("tailrace.subjects", List).default("");
        /// Whether a captured NATS message with a reply subject is answered with a publish acknowledgement once its record
        /// is as durable as the topic's settings say. Say false where captured messages are requests that a service answers.
        tailrace_subjects_ack: bool = key("tailrace.subjects.ack", Boolean).default("true")
            .synonyms(from!("tailrace.subjects.ack"));
        /// Whether a replica that lags may become leader when no other is left, at the price of records.
        unclean_leader_election_enable: bool = key("unclean.leader.election.enable", Boolean).default("false").accepted()
            .synonyms(from!("unclean.leader.election.enable"));
    }
    with {}
}

/// What a topic promises about stable storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The high watermark is what is durable: every append schedules a sync (`flush.messages` = 1, the default).
    Strict,
    /// The high watermark is the log end.
    Relaxed {
        /// Sync after this many records at the latest; `None` for no limit.
        flush_messages: Option<u64>,
        /// Sync after this many milliseconds at the latest; `None` for no limit.
        flush_ms: Option<u64>,
    },
}

impl TopicConfig {
    /// What the topic promises about stable storage.
    pub fn durability(&self) -> Durability {
        if self.flush_messages == 1 {
            return Durability::Strict;
        }
        let limit = |value: i64| u64::try_from(value).ok().filter(|_| value != i64::MAX);
        Durability::Relaxed { flush_messages: limit(self.flush_messages), flush_ms: limit(self.flush_ms) }
    }

    /// Refuses values that do not fit together.
    ///
    /// # Errors
    /// The shortest lag of compaction exceeds the longest.
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
