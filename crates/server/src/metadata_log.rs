//! The controller's log: a partition of its own, strict, whose records are changes of metadata.
//!
//! All calls block on the disk. A snapshot of the metadata is a batch whose first record has the key `reset`: replay
//! forgets everything before it. A snapshot is one batch, so it is there as a whole or not at all.

use std::collections::BTreeMap;
use std::path::Path;

use tailrace_broker::config::ConfigError;
use tailrace_broker::{ApplyError, Command, Controller, METADATA_TOPIC, MetadataRecord, RecordError};
use tailrace_log::{LogConfig, LogError, LogStore, PartitionIdentity};
use tailrace_records::{BatchBuilder, BatchError, BatchHeader, BatchOptions, DecodedBatch};
use tailrace_replication::{AppendError, Durability, Policy, Solo};
use tailrace_types::{Offset, PartitionId, TimestampMs, TopicId, TopicName, TopicPartition};

use crate::disk::ServerDisk;

/// Key of the record that begins a snapshot.
const RESET: &[u8] = b"reset";

/// A snapshot is written at start when the log has this many records more than the snapshot would.
const SNAPSHOT_SLACK: i64 = 10_000;

/// Most bytes of the log that are read at once during replay.
const REPLAY_BYTES: u64 = 1 << 20;

/// The topic id of the metadata log: the one that Kafka gives its own.
const METADATA_TOPIC_ID: TopicId = TopicId([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

/// Where the metadata log stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogPosition {
    /// Grows with every start that writes.
    pub(crate) epoch: i32,
    /// The next offset.
    pub(crate) end: i64,
    /// One past the last durable record.
    pub(crate) high_watermark: i64,
}

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

/// The open log.
pub(crate) struct MetadataLog {
    core: Solo<ServerDisk>,
}

impl MetadataLog {
    /// Opens the log and replays it over the start configuration.
    pub(crate) fn open(
        store: &LogStore<ServerDisk>,
        data_dir: &Path,
        fixed: &BTreeMap<String, String>,
        now: TimestampMs,
    ) -> Result<(Self, Controller), MetadataError> {
        let topic = TopicName::new(METADATA_TOPIC).expect("the name is legal");
        let id = TopicPartition::new(topic, PartitionId(0));
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
        let (core, recovery) = Solo::open(store, &dir, &identity, config, policy, now)?;
        if let Some(tail) = &recovery.truncated {
            tracing::warn!(bytes = tail.bytes, reason = %tail.reason, "a torn tail of the metadata log was cut off");
        }
        let mut log = Self { core };
        let mut controller = log.replay(fixed)?;
        if log.core.reader().log_end().get() == 0 {
            log.begin(&mut controller, now)?;
        }
        log.shorten(&controller, now)?;
        Ok((log, controller))
    }

    fn replay(&self, fixed: &BTreeMap<String, String>) -> Result<Controller, MetadataError> {
        let reader = self.core.reader();
        let mut controller = Controller::new(fixed.clone())?;
        let mut at = reader.log_start();
        while let Some(slice) = reader.log().read(at, reader.log_end().offset(), REPLAY_BYTES, true)? {
            let bytes = slice.read().map_err(MetadataError::Read)?;
            for batch in tailrace_records::split_batches(&bytes) {
                let (header, batch) = batch.map_err(|error| damaged(at, &error))?;
                replay_batch(&mut controller, fixed, &header, batch)?;
            }
            at = slice.next_offset;
        }
        Ok(controller)
    }

    /// Appends records in one batch; they are durable when this returns.
    pub(crate) fn append(
        &mut self,
        records: &[MetadataRecord],
        now: TimestampMs,
    ) -> Result<(), MetadataError> {
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
        let mut builder = BatchBuilder::new(BatchOptions::default());
        for (number, record) in records.iter().enumerate() {
            let key = first_key.filter(|_| number == 0);
            builder.push(now, key, Some(&record.encode()), &[]).map_err(|error| damaged(end, &error))?;
        }
        let batch = builder.build();
        let header = BatchHeader::parse(&batch).map_err(|error| damaged(end, &error))?;
        self.core.begin_epoch()?;
        let appended = self.core.append(&header, &batch, now)?;
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

    /// Where it stands.
    pub(crate) fn position(&self) -> LogPosition {
        let reader = self.core.reader();
        LogPosition {
            epoch: reader.epoch().0,
            end: reader.log_end().get(),
            high_watermark: reader.high_watermark().get(),
        }
    }

    /// The failure that stopped writing, if there was one.
    pub(crate) fn halted(&self) -> Option<&str> {
        self.core.halted()
    }

    /// Closes the log cleanly.
    pub(crate) fn close(self) -> Result<(), MetadataError> {
        Ok(self.core.close()?)
    }
}

fn replay_batch(
    controller: &mut Controller,
    fixed: &BTreeMap<String, String>,
    header: &BatchHeader,
    batch: &[u8],
) -> Result<(), MetadataError> {
    let offset = header.base_offset;
    let decoded = DecodedBatch::new(batch, usize::MAX).map_err(|error| damaged(offset, &error))?;
    for record in decoded.records() {
        let record = record.map_err(|error| damaged(offset, &error))?;
        if record.key == Some(RESET) {
            *controller = Controller::new(fixed.clone())?;
        }
        let value = record.value.unwrap_or_default();
        let change = MetadataRecord::decode(value)
            .map_err(|error| MetadataError::Record { offset: record.offset, error })?;
        controller.apply(&change).map_err(|error| MetadataError::Apply { offset: record.offset, error })?;
    }
    Ok(())
}

fn damaged(offset: Offset, error: &BatchError) -> MetadataError {
    MetadataError::Batch { offset, reason: error.to_string() }
}
