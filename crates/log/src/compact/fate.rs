//! Decides what compaction does with each batch. Kafka's rules: `Cleaner.cleanInto` and
//! `MemoryRecords.filterTo`.

use tailrace_records::{BatchHeader, BatchRewriter, RawRecord, RawRecords, is_lost, write_empty};
use tailrace_types::{Offset, TimestampMs};

use super::key_map::{KeyHash, KeyMap};
use super::source::SourceBatch;
use super::transactions::{Aborted, Marker, SeenData, marker};
use super::{CompactionSettings, CompactionStats, later};
use crate::disk::Disk;
use crate::error::LogError;

/// The decision about one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It stays unchanged.
    Stays,
    /// It is removed.
    Goes,
    /// It was changed. What remains was appended to the output, under this header.
    Changed(BatchHeader),
}

/// The rules for all records of a batch.
struct Retention {
    /// True if the batch stays even without records.
    keep_header: bool,
    /// True if its tombstones or its marker have expired.
    expired: bool,
    /// True if the batch should get a delete horizon in this round, unless it has one.
    horizon_due: bool,
}

/// Decides about batches, one after the other in the log's order.
pub(crate) struct Judge<'c> {
    pub(crate) map: &'c KeyMap,
    /// An earlier round has covered everything below, completely.
    pub(crate) first_dirty: Offset,
    /// The map has all keys below.
    pub(crate) mapped_end: Offset,
    pub(crate) settings: &'c CompactionSettings,
    pub(crate) aborted: &'c Aborted,
    pub(crate) seen: &'c mut SeenData,
    pub(crate) stats: &'c mut CompactionStats,
    /// Offsets of removed abort markers.
    pub(crate) removed_aborts: Vec<Offset>,
    pub(crate) scratch: Vec<u8>,
    pub(crate) rewriter: BatchRewriter,
    /// Per record: its key's hash, if it has a key.
    pub(crate) hashes: Vec<Option<KeyHash>>,
    /// Per record: whether it stays.
    pub(crate) kept: Vec<bool>,
}

impl Judge<'_> {
    /// Decides about `batch`, and appends what remains to `out` if it changes. With `keep_header` the batch
    /// is not removed, because the offset of the last batch of a group must not be lost.
    pub(crate) fn judge<D: Disk>(
        &mut self,
        batch: &SourceBatch<'_, D>,
        keep_header: bool,
        out: &mut Vec<u8>,
    ) -> Result<Fate, LogError> {
        let header = &batch.header;
        let records = header.records();
        self.stats.records_before += records;
        let keep_header = keep_header || self.is_last_of_producer(header) || is_lost(header);
        let now = self.settings.limits.now;
        // Not for a horizon set by a round that did not finish, because then the tombstone would be removed
        // together with the records that it deletes.
        let expired = header.attributes.has_delete_horizon()
            && header.base_timestamp <= now
            && header.base_offset < self.first_dirty;
        let mut horizon_due = false;
        if header.attributes.is_control() {
            let marker = marker(header, batch.bytes);
            let may_go = self.seen.ends(header, marker);
            if header.record_count == 0 || (may_go && expired) {
                if marker == Marker::Abort {
                    self.removed_aborts.push(header.base_offset);
                }
                return Ok(emptied(header, keep_header, out));
            }
            horizon_due = may_go;
        } else {
            self.seen.data(header);
            if header.record_count == 0 || self.aborted.holds(header) {
                return Ok(emptied(header, keep_header, out));
            }
            if self.aborted.is_undecided(header) {
                self.stats.records_after += records;
                return Ok(Fate::Stays);
            }
        }
        if header.base_offset >= self.mapped_end && !header.attributes.is_control() {
            self.stats.records_after += records;
            return Ok(Fate::Stays);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let retention = Retention { keep_header, expired, horizon_due };
        let fate = batch.body(&mut scratch).and_then(|body| self.filter(batch, body, &retention, out));
        self.scratch = scratch;
        fate
    }

    fn filter<D: Disk>(
        &mut self,
        batch: &SourceBatch<'_, D>,
        body: &[u8],
        retention: &Retention,
        out: &mut Vec<u8>,
    ) -> Result<Fate, LogError> {
        let header = &batch.header;
        let mut horizon_due = retention.horizon_due;
        let control = header.attributes.is_control();
        self.hashes.clear();
        for record in RawRecords::new(header.record_count, body) {
            let record = record.map_err(|error| batch.damaged(&error))?;
            self.hashes.push(record.key.map(|key| self.map.hash(key)));
        }
        self.map.touch(self.hashes.iter().filter_map(|hash| *hash));
        self.kept.clear();
        for (record, hash) in RawRecords::new(header.record_count, body).zip(&self.hashes) {
            let record = record.map_err(|error| batch.damaged(&error))?;
            let stays = control || self.stays(header, &record, *hash, retention.expired);
            horizon_due |= stays && !control && record.is_tombstone;
            if hash.is_none() && !control {
                self.stats.keyless += 1;
            }
            self.kept.push(stays);
        }
        let kept = self.kept.iter().filter(|kept| **kept).count();
        self.stats.records_after += kept as u64;
        if kept == 0 {
            return Ok(emptied(header, retention.keep_header, out));
        }
        let needs_horizon = horizon_due && !header.attributes.has_delete_horizon();
        if kept == self.kept.len() && !needs_horizon {
            return Ok(Fate::Stays);
        }
        let horizon = needs_horizon.then(|| self.horizon());
        self.rewriter.begin(header, horizon);
        for (record, _) in RawRecords::new(header.record_count, body).zip(&self.kept).filter(|pair| *pair.1) {
            self.rewriter.push(&record.map_err(|error| batch.damaged(&error))?);
        }
        self.rewriter.finish(out).map(Fate::Changed).map_err(|error| batch.damaged(&error))
    }

    /// Keeps the last record of each key, and a tombstone until it expires. Removes records without a key, as
    /// in Kafka: they are from before the topic was compacted.
    fn stays(
        &self,
        header: &BatchHeader,
        record: &RawRecord<'_>,
        hash: Option<KeyHash>,
        expired: bool,
    ) -> bool {
        let Some(hash) = hash else { return false };
        let offset = header.base_offset.plus(i64::from(record.offset_delta));
        let is_last = self.map.last_offset(hash).is_none_or(|last| offset >= last);
        is_last && !(record.is_tombstone && expired)
    }

    fn horizon(&self) -> TimestampMs {
        later(self.settings.limits.now, self.settings.delete_retention_ms)
    }

    /// Reports whether the batch holds the state of an active producer: its last sequence, or its epoch.
    fn is_last_of_producer(&self, header: &BatchHeader) -> bool {
        let Some(last) = self.settings.producers.get(&header.producer_id) else { return false };
        match last.last_data_offset {
            Some(offset) => header.last_offset() == offset,
            None => header.attributes.is_control() && header.producer_epoch == last.epoch,
        }
    }
}

/// Removes the batch, or keeps only its header.
fn emptied(header: &BatchHeader, keep_header: bool, out: &mut Vec<u8>) -> Fate {
    match (keep_header, header.record_count) {
        (false, _) => Fate::Goes,
        (true, 0) => Fate::Stays,
        (true, _) => Fate::Changed(write_empty(header, out)),
    }
}
