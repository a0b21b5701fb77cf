//! What becomes of one batch. Kafka's rules: `Cleaner.cleanInto` and `MemoryRecords.filterTo`.

use tailrace_records::{BatchHeader, BatchRewriter, RawRecord, RawRecords, is_lost, write_empty};
use tailrace_types::{Offset, TimestampMs};

use super::key_map::{KeyHash, KeyMap};
use super::source::SourceBatch;
use super::transactions::{Aborted, Marker, SeenData, marker};
use super::{CompactionSettings, CompactionStats, later};
use crate::disk::Disk;
use crate::error::LogError;

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It stays as it is.
    Stays,
    /// It goes.
    Goes,
    /// What is left of it was appended to the output, under this header.
    Changed(BatchHeader),
}

/// What holds for all of a batch's records.
struct Retention {
    /// The batch does not go, even if none of them stays.
    keep_header: bool,
    /// The time of its tombstones, or of its marker, is over.
    expired: bool,
    /// That time begins with this round, if it has not begun yet.
    horizon_due: bool,
}

/// Decides about batches, one after the other in the log's order.
pub(crate) struct Judge<'c> {
    pub(crate) map: &'c KeyMap,
    /// What lies below an earlier round has seen to, to its end.
    pub(crate) first_dirty: Offset,
    /// The map knows all keys below.
    pub(crate) mapped_end: Offset,
    pub(crate) settings: &'c CompactionSettings,
    pub(crate) aborted: &'c Aborted,
    pub(crate) seen: &'c mut SeenData,
    pub(crate) stats: &'c mut CompactionStats,
    /// Offsets of abort markers that went.
    pub(crate) removed_aborts: Vec<Offset>,
    pub(crate) scratch: Vec<u8>,
    pub(crate) rewriter: BatchRewriter,
    /// Of each record: its key's hash, if it has one.
    pub(crate) hashes: Vec<Option<KeyHash>>,
    /// Of each record: whether it stays.
    pub(crate) kept: Vec<bool>,
}

impl Judge<'_> {
    /// Decides about `batch` and writes what is left of it, if it changes, to `out`. With `keep_header` it does not go: the
    /// offset of the last batch of a group must not be lost.
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
        // Not what a round that did not come to its end gave some time: nobody may take it for gone together with what it deletes.
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

    /// The last of its key stays, a tombstone until its time is over. Records without a key go, as in Kafka: they are from
    /// before the topic was compacted.
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

    /// The batch tells of the state of a producer that is active: its last sequence, or its epoch.
    fn is_last_of_producer(&self, header: &BatchHeader) -> bool {
        let Some(last) = self.settings.producers.get(&header.producer_id) else { return false };
        match last.last_data_offset {
            Some(offset) => header.last_offset() == offset,
            None => header.attributes.is_control() && header.producer_epoch == last.epoch,
        }
    }
}

/// Nothing but, perhaps, the header stays.
fn emptied(header: &BatchHeader, keep_header: bool, out: &mut Vec<u8>) -> Fate {
    match (keep_header, header.record_count) {
        (false, _) => Fate::Goes,
        (true, 0) => Fate::Stays,
        (true, _) => Fate::Changed(write_empty(header, out)),
    }
}
