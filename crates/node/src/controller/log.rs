//! The controller's log: a partition of its own, read strictly, whose records are changes of metadata.
//!
//! Reading and opening block on the disk. A snapshot of the metadata is a batch whose first record has the
//! key `reset`, at which replay forgets everything before. A snapshot is one batch, so it exists as a whole
//! or not at all.

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

/// Key of the first record of a snapshot.
const RESET: &[u8] = b"reset";

/// At start, a snapshot is written if the log has this many records more than the snapshot would have.
const SNAPSHOT_SLACK: i64 = 10_000;

/// Maximum bytes of the log that replay reads at once.
const REPLAY_BYTES: usize = 1 << 20;

/// Why the metadata could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// The log itself failed.
    #[error("the metadata log cannot be used: {0}")]
    Log(#[from] LogError),
    /// An append failed.
    #[error("the metadata log cannot be written: {0}")]
    Append(#[from] AppendError),
    /// Its folder is gone, or belongs to another replica.
    #[error("the metadata log of this node cannot be used: {reason}")]
    Folder {
        /// What is wrong with the folder.
        reason: String,
        /// The folder was this node's own, and is gone.
        is_lost: bool,
    },
    /// A batch of it is damaged.
    #[error("the metadata log is damaged at offset {offset}: {reason}")]
    Batch {
        /// Offset of the batch.
        offset: Offset,
        /// The damage.
        reason: String,
    },
    /// A record of it cannot be decoded.
    #[error("metadata record at offset {offset}: {error}")]
    Record {
        /// Offset of the record.
        offset: Offset,
        /// The decoding error.
        error: RecordError,
    },
    /// A record contradicts those before it.
    #[error("metadata record at offset {offset}: {error}")]
    Apply {
        /// Offset of the record.
        offset: Offset,
        /// The contradiction.
        error: ApplyError,
    },
    /// The start configuration is illegal.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl MetadataError {
    /// Reports whether the log is damaged or gone, so that this node can continue with another replica of it
    /// if the other nodes help.
    pub(crate) fn is_loss(&self) -> bool {
        matches!(
            self,
            Self::Log(LogError::Damaged { .. }) | Self::Batch { .. } | Self::Folder { is_lost: true, .. }
        )
    }
}

/// The open metadata log and its contents.
pub(crate) struct OpenLog {
    /// The partition.
    pub(crate) core: Partition<NodeDisk>,
    /// The controller's state as of `applied`.
    pub(crate) controller: Controller,
    /// One past the last record that was replayed.
    pub(crate) applied: Offset,
    /// Offset that replay must reach before this node uses the metadata. Set if damage that the other
    /// replicas are to repair interrupted the replay.
    pub(crate) lacks_upto: Option<Offset>,
    /// The options it was opened with, if it is one of several replicas or may become one.
    pub(crate) replica: Option<ReplicaOptions>,
}

/// Opens the log and replays its committed part over the start configuration. `replica`: set if the log is
/// one of several replicas, or may become one. Blocks.
///
/// A standalone server starts a new log with every feature at its newest level, and shortens a long log.
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
            // Only a batch that is out of service is repaired.
            Some(damage)
                if !replica.damaged().is_empty() && replica.members().voters.iter().any(|id| *id != own) =>
            {
                tracing::error!(%damage, "a part of the metadata log is damaged: this node waits until the other nodes have repaired it");
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

/// Empties the folder if the replica replaces an earlier one.
fn make_way(opener: &Opener, options: &ReplicaOptions, now: TimestampMs) -> Result<(), MetadataError> {
    let (dir, identity) = place(opener);
    let before = opener.owner_before(GROUP, &dir, Some(options)).map_err(|error| match error {
        OpenError::Log(error) => MetadataError::Log(error),
        error => MetadataError::Folder { is_lost: error.is_lost(), reason: error.to_string() },
    })?;
    Ok(opener.make_way(&identity, before, options, false, now)?)
}

/// Result of reading the log at start.
struct Replayed {
    controller: Controller,
    /// One past the last record.
    applied: Offset,
    /// The damage that stopped the replay.
    damage: Option<MetadataError>,
}

/// Like [`replay`], but rebuilds a damaged index from its log.
fn replay_replica(
    replica: &mut Replica<NodeDisk>,
    fixed: &BTreeMap<String, String>,
) -> Result<Replayed, MetadataError> {
    let replayed = replay(&replica.reader(), fixed)?;
    let Some(MetadataError::Log(LogError::Damaged { file, .. })) = &replayed.damage else {
        return Ok(replayed);
    };
    if file.extension().is_some_and(|extension| extension == "index") {
        tracing::warn!(file = %file.display(), "rebuilding the index");
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

/// The contents of the log, in order.
pub(crate) enum Change {
    /// Everything before is obsolete: a snapshot of it starts here.
    Reset,
    Record(MetadataRecord, Offset),
    /// A batch has ended before this offset. A batch counts only as a whole.
    Upto(Offset),
}

/// Reports whether anything is committed from `from` on.
pub(super) fn has_committed(reader: &Reader, from: Offset) -> bool {
    committed(reader, from).is_some()
}

/// Returns what is committed from `from` on, or from the log start if that is later. `None` if there is
/// nothing.
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

/// Iterates over the committed changes from `from` on. Reads the disk.
pub(crate) fn committed_from(
    reader: &Reader,
    from: Offset,
) -> impl Iterator<Item = Result<Change, MetadataError>> {
    let (reader, mut at) = (reader.clone(), from);
    let pieces = std::iter::from_fn(move || {
        let Range { start, end: upto } = committed(&reader, at)?;
        at = start;
        // Checked, because bit rot in the metadata must not become a setting or a topic.
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
                // Stop here.
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

/// Builds one batch of records, so that they count together or not at all.
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

/// The log of a standalone server, while it is being opened.
struct LoneLog {
    core: Solo<NodeDisk>,
}

impl LoneLog {
    /// Appends records in one batch. They are durable on return.
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
        // The records are durable and count now, even if the checkpoint fails.
        if appended.checkpoint_due
            && let Err(error) = self.sync(true)
        {
            tracing::error!(%error, "the metadata log has no checkpoint");
        }
        Ok(appended.base_offset)
    }

    fn sync(&mut self, checkpoint: bool) -> Result<(), LogError> {
        let Some(ticket) = self.core.begin_sync(checkpoint) else { return Ok(()) };
        let result = ticket.run();
        self.core.finish_sync(&ticket, &result);
        result
    }

    /// Writes the first records of a new data folder: every feature at its newest level.
    fn begin(&mut self, controller: &mut Controller, now: TimestampMs) -> Result<(), MetadataError> {
        let records = controller.plan(&Command::FinalizeFeatures).expect("new folders can have all features");
        self.append(&records, now)?;
        for record in &records {
            controller.apply(record).expect("records that were just planned apply");
        }
        Ok(())
    }

    /// Replaces the log with a snapshot if it has grown far beyond its contents.
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
