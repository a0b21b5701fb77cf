//! The controller's log: a partition of its own, strict, whose records are changes of metadata.
//!
//! Reading and opening block on the disk. A snapshot of the metadata is a batch whose first record has the key `reset`: replay
//! forgets everything before it. A snapshot is one batch, so it is there as a whole or not at all.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use tailrace_broker::config::ConfigError;
use tailrace_broker::{ApplyError, Command, Controller, METADATA_TOPIC, MetadataRecord, RecordError};
use tailrace_log::{LogConfig, LogError, LogStore, PartitionIdentity, Recovery};
use tailrace_records::{BatchBuilder, BatchError, BatchOptions, DecodedBatch, Validated};
use tailrace_replication::raft::{Replica, ReplicaOptions, owner};
use tailrace_replication::{AppendError, Durability, Partition, PartitionReader, Policy, Solo};
use tailrace_types::{
    GroupId, Offset, PartitionId, ReplicaId, TimestampMs, TopicId, TopicName, TopicPartition,
};

use crate::disk::ServerDisk;
use crate::partitions::Opener;

/// Key of the record that begins a snapshot.
const RESET: &[u8] = b"reset";

/// A snapshot is written at start when the log has this many records more than the snapshot would.
const SNAPSHOT_SLACK: i64 = 10_000;

/// Most bytes of the log that are read at once during replay.
const REPLAY_BYTES: u64 = 1 << 20;

/// The topic id of the metadata log: the one that Kafka gives its own.
const METADATA_TOPIC_ID: TopicId = TopicId([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

/// Why the metadata could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// The log itself.
    #[error("the metadata log cannot be used: {0}")]
    Log(#[from] LogError),
    /// Appending to it.
    #[error("the metadata log cannot be written: {0}")]
    Append(#[from] AppendError),
    /// Reading it.
    #[error("the metadata log cannot be read: {0}")]
    Read(#[source] std::io::Error),
    /// Its folder was removed.
    #[error(
        "the metadata log of this node, replica {replica}, is gone from {}: it must not begin again as if it had never voted. Remove the \
         whole data folder and start with seeds, so that the node comes back as a new one",
        .dir.display()
    )]
    Gone {
        /// Where it was.
        dir: std::path::PathBuf,
        /// Which replica.
        replica: ReplicaId,
    },
    /// A batch in it.
    #[error("the metadata log is damaged at offset {offset}: {reason}")]
    Batch {
        /// Where.
        offset: Offset,
        /// What is wrong.
        reason: String,
    },
    /// A record in it.
    #[error("metadata record at offset {offset}: {error}")]
    Record {
        /// Where.
        offset: Offset,
        /// What is wrong.
        error: RecordError,
    },
    /// A record that contradicts those before it.
    #[error("metadata record at offset {offset}: {error}")]
    Apply {
        /// Where.
        offset: Offset,
        /// What it contradicts.
        error: ApplyError,
    },
    /// The start configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// The metadata log of this start, with what it says.
pub(crate) struct OpenLog {
    /// The partition.
    pub(crate) core: Partition<ServerDisk>,
    /// What holds as of `applied`.
    pub(crate) controller: Controller,
    /// One past the last record that was replayed.
    pub(crate) applied: Offset,
}

/// The partition of the metadata log.
pub(crate) fn topic_partition() -> TopicPartition {
    let topic = TopicName::new(METADATA_TOPIC).expect("the name is legal");
    TopicPartition::new(topic, PartitionId(0))
}

/// The group of the metadata log: the controller's.
pub(crate) const GROUP: GroupId = GroupId { topic: METADATA_TOPIC_ID, partition: PartitionId(0) };

/// Opens the log and replays what is committed of it over the start configuration. `replica`: it is one of several, or may
/// become so. Blocks.
///
/// A node that is alone begins a new log with every feature at its newest level, and shortens one that is long.
pub(crate) fn open(
    store: &LogStore<ServerDisk>,
    data_dir: &Path,
    fixed: &BTreeMap<String, String>,
    replica: Option<ReplicaOptions>,
    now: TimestampMs,
) -> Result<OpenLog, MetadataError> {
    let id = topic_partition();
    let dir = data_dir.join(id.to_string());
    let identity = PartitionIdentity { topic_id: METADATA_TOPIC_ID, topic_partition: id };
    let config = LogConfig {
        retention_ms: None,
        segment_ms: i64::MAX,
        segment_bytes: 64 << 20,
        preallocate_bytes: 0,
        ..LogConfig::default()
    };
    let policy = Policy { durability: Durability::Strict, producer_expiration_ms: i64::MAX };
    let warn = |recovery: &Recovery| {
        if let Some(tail) = &recovery.truncated {
            tracing::warn!(bytes = tail.bytes, reason = %tail.reason, "a torn tail of the metadata log was cut off");
        }
    };
    if let Some(options) = replica {
        let (replica, recovery) = Replica::open(store, &dir, &identity, config, policy, options, now)?;
        warn(&recovery);
        let (controller, applied) = replay(&replica.reader(), fixed)?;
        return Ok(OpenLog { core: Partition::Replica(Box::new(replica)), controller, applied });
    }
    let (core, recovery) = Solo::open(store, &dir, &identity, config, policy, now)?;
    warn(&recovery);
    let (mut controller, _) = replay(&core.reader(), fixed)?;
    let mut log = LoneLog { core };
    if log.core.reader().log_end().get() == 0 {
        log.begin(&mut controller, now)?;
    }
    log.shorten(&controller, now)?;
    let applied = log.core.reader().log_end().offset();
    Ok(OpenLog { core: Partition::Solo(Box::new(log.core)), controller, applied })
}

type Reader = PartitionReader<ServerDisk>;

/// # Errors
/// [`MetadataError::Gone`] if this node had this replica, and its folder is not there; the disk's.
pub(crate) fn refuse_if_gone(opener: &Opener, replica: ReplicaId) -> Result<(), MetadataError> {
    let dir = opener.data_dir.join(topic_partition().to_string());
    let is_there = owner(opener.store.disk(), &dir)?.is_some();
    if !is_there && opener.journal.known(GROUP) == Some(replica) {
        return Err(MetadataError::Gone { dir, replica });
    }
    Ok(())
}

fn replay(reader: &Reader, fixed: &BTreeMap<String, String>) -> Result<(Controller, Offset), MetadataError> {
    let mut controller = Controller::new(fixed.clone())?;
    let mut at = reader.log_start();
    for change in committed_from(reader, at) {
        match change? {
            Change::Record(record, offset) => {
                let applied = controller.apply(&record);
                applied.map_err(|error| MetadataError::Apply { offset, error })?;
            }
            Change::Reset => controller = Controller::new(fixed.clone())?,
            Change::Upto(next) => at = next,
        }
    }
    Ok((controller, at))
}

/// What the log says, in its order.
pub(crate) enum Change {
    /// All before is forgotten: what comes next begins a snapshot of the same.
    Reset,
    Record(MetadataRecord, Offset),
    /// A batch has ended here. Only as a whole does it count.
    Upto(Offset),
}

/// The committed changes from `from` on. Reads the disk.
pub(crate) fn committed_from(
    reader: &Reader,
    from: Offset,
) -> impl Iterator<Item = Result<Change, MetadataError>> {
    let (reader, mut at) = (reader.clone(), from);
    let pieces = std::iter::from_fn(move || {
        let upto = reader.high_watermark().offset();
        let piece = match reader.log().read(at, upto, REPLAY_BYTES, true) {
            Ok(slice) => slice?,
            Err(error) => return Some(vec![Err(error.into())]),
        };
        at = piece.next_offset;
        let changes = piece.read().map_err(MetadataError::Read).and_then(|bytes| changes_of(&bytes, from));
        Some(match changes {
            Ok(changes) => changes.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        })
    });
    pieces.flatten()
}

fn changes_of(bytes: &Bytes, from: Offset) -> Result<Vec<Change>, MetadataError> {
    let mut changes = Vec::new();
    for batch in tailrace_records::split_batches(bytes) {
        let (header, batch) = batch.map_err(|error| damaged(from, &error))?;
        let offset = header.base_offset;
        let decoded = DecodedBatch::new(batch, usize::MAX).map_err(|error| damaged(offset, &error))?;
        for record in decoded.records() {
            let record = record.map_err(|error| damaged(offset, &error))?;
            if record.key == Some(RESET) {
                changes.push(Change::Reset);
            }
            let value = record.value.unwrap_or_default();
            let change = MetadataRecord::decode(value)
                .map_err(|error| MetadataError::Record { offset: record.offset, error })?;
            changes.push(Change::Record(change, record.offset));
        }
        changes.push(Change::Upto(header.next_offset()));
    }
    Ok(changes)
}

/// One batch of records, so that they count together or not at all.
pub(crate) fn batch_of(
    records: &[MetadataRecord],
    first_key: Option<&[u8]>,
    now: TimestampMs,
) -> Result<Validated, BatchError> {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    for (number, record) in records.iter().enumerate() {
        let key = first_key.filter(|_| number == 0);
        builder.push(now, key, Some(&record.encode()), &[])?;
    }
    let (header, bytes) = builder.build_with_header();
    Ok(Validated { header, bytes })
}

/// The log of a node that is alone, while it is opened.
struct LoneLog {
    core: Solo<ServerDisk>,
}

impl LoneLog {
    /// Appends records in one batch; they are durable when this returns.
    fn append(&mut self, records: &[MetadataRecord], now: TimestampMs) -> Result<(), MetadataError> {
        if records.is_empty() {
            return Ok(());
        }
        self.append_keyed(records, None, now).map(|_| ())
    }

    fn append_keyed(
        &mut self,
        records: &[MetadataRecord],
        first_key: Option<&[u8]>,
        now: TimestampMs,
    ) -> Result<Offset, MetadataError> {
        let end = self.core.reader().log_end().offset();
        let Validated { header, bytes } =
            batch_of(records, first_key, now).map_err(|error| damaged(end, &error))?;
        self.core.begin_epoch()?;
        let appended = self.core.append(&header, &bytes, now)?;
        self.sync(false)?;
        // The records are durable now and count, whatever becomes of the checkpoint.
        if appended.checkpoint_due
            && let Err(error) = self.sync(true)
        {
            tracing::error!(%error, "the metadata log got no checkpoint");
        }
        Ok(appended.base_offset)
    }

    fn sync(&mut self, checkpoint: bool) -> Result<(), LogError> {
        let Some(ticket) = self.core.begin_sync(checkpoint) else { return Ok(()) };
        let result = ticket.run();
        self.core.finish_sync(&ticket, &result);
        result
    }

    /// What a new data folder begins with: every feature at its newest level.
    fn begin(&mut self, controller: &mut Controller, now: TimestampMs) -> Result<(), MetadataError> {
        let records = controller.plan(&Command::FinalizeFeatures).expect("new folders can have all features");
        self.append(&records, now)?;
        for record in &records {
            controller.apply(record).expect("records that were just planned apply");
        }
        Ok(())
    }

    /// Replaces a log that has grown far beyond what it says.
    fn shorten(&mut self, controller: &Controller, now: TimestampMs) -> Result<(), MetadataError> {
        let reader = self.core.reader();
        let length = reader.log_end().get() - reader.log_start().get();
        let records = controller.snapshot_records();
        let needed = i64::try_from(records.len()).unwrap_or(i64::MAX);
        if records.is_empty() || length < needed.saturating_add(SNAPSHOT_SLACK) {
            return Ok(());
        }
        let base = self.append_keyed(&records, Some(RESET), now)?;
        let trim = self.core.advance_log_start(base)?;
        let result = trim.run();
        self.core.finish_trim(&trim, &result);
        Ok(result?)
    }
}

fn damaged(offset: Offset, error: &BatchError) -> MetadataError {
    MetadataError::Batch { offset, reason: error.to_string() }
}
