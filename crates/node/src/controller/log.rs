//! The controller's log: a partition of its own, strict, whose records are changes of metadata.
//!
//! Reading and opening block on the disk. A snapshot of the metadata is a batch whose first record has the key `reset`: replay
//! forgets everything before it. A snapshot is one batch, so it is there as a whole or not at all.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use bytes::Bytes;
use tailrace_config::ConfigError;
use tailrace_log::{LogConfig, LogError, PartitionIdentity, Recovery};
use tailrace_metadata::{ApplyError, Command, Controller, MetadataRecord, RecordError};
use tailrace_records::{BatchBuilder, BatchError, BatchOptions, DecodedBatch, Validated};
use tailrace_replication::raft::{Replica, ReplicaOptions};
use tailrace_replication::{AppendError, Durability, Partition, PartitionReader, Policy, Solo};
use tailrace_types::{Offset, TimestampMs, i64_of};

use super::group::{GROUP, topic_partition};
use crate::disk::NodeDisk;
use crate::partitions::{
    Bounds, Isolation, OpenError, Opener, ReadTerms, Readable, readable, with_index_built_again,
};

/// Key of the record that begins a snapshot.
const RESET: &[u8] = b"reset";

/// A snapshot is written at start when the log has this many records more than the snapshot would.
const SNAPSHOT_SLACK: i64 = 10_000;

/// Most bytes of the log that are read at once during replay.
const REPLAY_BYTES: usize = 1 << 20;

/// Why the metadata could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// The log itself.
    #[error("the metadata log cannot be used: {0}")]
    Log(#[from] LogError),
    /// Appending to it.
    #[error("the metadata log cannot be written: {0}")]
    Append(#[from] AppendError),
    /// Its folder is gone, or that of another replica.
    #[error("the metadata log of this node cannot be used: {reason}")]
    Folder {
        /// Which it is.
        reason: String,
        /// It was this node's own, and is no more.
        is_lost: bool,
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

impl MetadataError {
    /// True if the log is damaged, or gone: with the help of the other nodes, this one goes on with another replica of it.
    pub(crate) fn is_loss(&self) -> bool {
        matches!(
            self,
            Self::Log(LogError::Damaged { .. }) | Self::Batch { .. } | Self::Folder { is_lost: true, .. }
        )
    }
}

/// The metadata log of this start, with what it says.
pub(crate) struct OpenLog {
    /// The partition.
    pub(crate) core: Partition<NodeDisk>,
    /// What holds as of `applied`.
    pub(crate) controller: Controller,
    /// One past the last record that was replayed.
    pub(crate) applied: Offset,
    /// Where the replay has to get before what it says is used: it was interrupted by damage that the others are to mend.
    pub(crate) lacks_upto: Option<Offset>,
    /// It was opened with these: it is one of several replicas, or may become so.
    pub(crate) replica: Option<ReplicaOptions>,
}

/// Opens the log and replays what is committed of it over the start configuration. `replica`: it is one of several, or may
/// become so. Blocks.
///
/// A node that is alone begins a new log with every feature at its newest level, and shortens one that is long.
pub(crate) fn open(
    opener: &Opener,
    fixed: &BTreeMap<String, String>,
    replica: Option<ReplicaOptions>,
    now: TimestampMs,
) -> Result<OpenLog, MetadataError> {
    if let Some(options) = replica {
        let own = options.id;
        let mut replica = open_replica(opener, &options, now)?;
        let replayed = replay_replica(&mut replica, fixed)?;
        let Replayed { controller, applied, damage } = replayed;
        let committed = replica.reader().high_watermark().offset();
        let lacks_upto = match damage {
            // Only a batch that is out of service is mended.
            Some(damage)
                if !replica.damaged().is_empty() && replica.members().voters.iter().any(|id| *id != own) =>
            {
                tracing::error!(%damage, "a part of the metadata log is damaged: this node waits until the others have mended it");
                Some(committed)
            }
            Some(damage) => return Err(damage),
            None => None,
        };
        let core = Partition::Replica(Box::new(replica));
        return Ok(OpenLog { core, controller, applied, lacks_upto, replica: Some(options) });
    }
    let (dir, identity) = place(opener);
    let (core, recovery) = Solo::open(&opener.store, &dir, &identity, config(), POLICY, now)?;
    warn(&recovery);
    let Replayed { mut controller, damage, .. } = replay(&core.reader(), fixed)?;
    if let Some(damage) = damage {
        return Err(damage);
    }
    let mut log = LoneLog { core };
    if log.core.reader().log_end().get() == 0 {
        log.begin(&mut controller, now)?;
    }
    log.shorten(&controller, now)?;
    let applied = log.core.reader().log_end().offset();
    let core = Partition::Solo(Box::new(log.core));
    Ok(OpenLog { core, controller, applied, lacks_upto: None, replica: None })
}

/// Opens the log as one of several replicas, without replaying it. Blocks.
pub(crate) fn open_replica(
    opener: &Opener,
    options: &ReplicaOptions,
    now: TimestampMs,
) -> Result<Replica<NodeDisk>, MetadataError> {
    let (dir, identity) = place(opener);
    make_way(opener, options, now)?;
    let store = &opener.store;
    let open = || Replica::open(store, &dir, &identity, config(), POLICY, options.clone(), now);
    let (replica, recovery) = with_index_built_again(store.disk(), &identity.topic_partition, open)?;
    warn(&recovery);
    opener.journal.note(GROUP, options.id)?;
    Ok(replica)
}

const POLICY: Policy = Policy {
    durability: Durability::Strict,
    producer_expiration_ms: i64::MAX,
    timestamp_type: tailrace_records::TimestampType::CreateTime,
};

fn config() -> LogConfig {
    LogConfig {
        retention_ms: None,
        segment_ms: i64::MAX,
        segment_bytes: 64 << 20,
        preallocate_bytes: 0,
        ..LogConfig::default()
    }
}

fn place(opener: &Opener) -> (PathBuf, PartitionIdentity) {
    let id = topic_partition();
    (opener.dir(&id), PartitionIdentity { topic_id: GROUP.topic, topic_partition: id })
}

fn warn(recovery: &Recovery) {
    if let Some(tail) = &recovery.truncated {
        tracing::warn!(bytes = tail.bytes, reason = %tail.reason, "a torn tail of the metadata log was cut off");
    }
}

type Reader = PartitionReader<NodeDisk>;

/// Sees to it that a replica that comes in the place of an earlier one begins with an empty folder.
fn make_way(opener: &Opener, options: &ReplicaOptions, now: TimestampMs) -> Result<(), MetadataError> {
    let (dir, identity) = place(opener);
    let before = opener.owner_before(GROUP, &dir, Some(options)).map_err(|error| match error {
        OpenError::Log(error) => MetadataError::Log(error),
        error => MetadataError::Folder { is_lost: error.is_lost(), reason: error.to_string() },
    })?;
    Ok(opener.make_way(&identity, before, options, false, now)?)
}

/// What was read of the log at start.
struct Replayed {
    controller: Controller,
    /// One past the last record.
    applied: Offset,
    /// Where it went no further.
    damage: Option<MetadataError>,
}

/// As [`replay`]; an index that is damaged is built again from its log.
fn replay_replica(
    replica: &mut Replica<NodeDisk>,
    fixed: &BTreeMap<String, String>,
) -> Result<Replayed, MetadataError> {
    let replayed = replay(&replica.reader(), fixed)?;
    let Some(MetadataError::Log(LogError::Damaged { file, .. })) = &replayed.damage else {
        return Ok(replayed);
    };
    if file.extension().is_some_and(|extension| extension == "index") {
        tracing::warn!(file = %file.display(), "the index is built again");
        replica.repair_index(replayed.applied)?;
        return replay(&replica.reader(), fixed);
    }
    Ok(replayed)
}

fn replay(reader: &Reader, fixed: &BTreeMap<String, String>) -> Result<Replayed, MetadataError> {
    let mut controller = Controller::new(fixed.clone())?;
    let mut applied = reader.log_start();
    for change in committed_from(reader, applied) {
        match change {
            Ok(Change::Record(record, offset)) => {
                let applied = controller.apply(&record);
                applied.map_err(|error| MetadataError::Apply { offset, error })?;
            }
            Ok(Change::Reset) => controller = Controller::new(fixed.clone())?,
            Ok(Change::Upto(next)) => applied = next,
            Err(damage) if damage.is_loss() => {
                return Ok(Replayed { controller, applied, damage: Some(damage) });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Replayed { controller, applied, damage: None })
}

/// What the log says, in its order.
pub(crate) enum Change {
    /// All before is forgotten: what comes next begins a snapshot of the same.
    Reset,
    Record(MetadataRecord, Offset),
    /// A batch has ended here. Only as a whole does it count.
    Upto(Offset),
}

/// True if something is committed from `from` on.
pub(super) fn has_committed(reader: &Reader, from: Offset) -> bool {
    committed(reader, from).is_some()
}

/// What is committed from `from` on, or from the log start if that is behind it. `None` if there is nothing.
fn committed(reader: &Reader, from: Offset) -> Option<Range<Offset>> {
    let bounds = Bounds::of(reader);
    let from = from.max(bounds.log_start);
    let terms = ReadTerms::new(from, Isolation::HighWatermark, REPLAY_BYTES as u64);
    // No node leads this log before it was replayed.
    match readable(reader, &bounds, &terms, || false) {
        Ok(Readable::Upto(upto)) => Some(from..upto),
        Ok(Readable::Nothing | Readable::Diverging(..)) | Err(_) => None,
    }
}

/// The committed changes from `from` on. Reads the disk.
pub(crate) fn committed_from(
    reader: &Reader,
    from: Offset,
) -> impl Iterator<Item = Result<Change, MetadataError>> {
    let (reader, mut at) = (reader.clone(), from);
    let pieces = std::iter::from_fn(move || {
        let Range { start, end: upto } = committed(&reader, at)?;
        at = start;
        // Checked: what rots in the metadata must not become a setting, or a topic.
        let changes = match reader.log().read_checked(at, upto, REPLAY_BYTES) {
            Ok(bytes) if bytes.is_empty() => return None,
            Ok(bytes) => changes_of(&bytes, at),
            Err(error) => Err(error.into()),
        };
        Some(match changes {
            Ok(changes) => {
                at = changes.iter().fold(at, |at, change| match change {
                    Change::Upto(next) => *next,
                    Change::Reset | Change::Record(..) => at,
                });
                changes.into_iter().map(Ok).collect()
            }
            Err(error) => {
                // It goes no further.
                at = upto;
                vec![Err(error)]
            }
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
    core: Solo<NodeDisk>,
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
        let needed = i64_of(records.len());
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
