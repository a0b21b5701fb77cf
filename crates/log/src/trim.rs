//! The log start: retention and DeleteRecords.
//!
//! The log start moves in memory first, then durably, and then files are removed. At worst, a crash in
//! between brings segments back. Only synced segments are removed from the list. Until the new log start is
//! durable, recovery must be able to pass through them to the synced segments behind them.

use std::sync::Arc;

use tailrace_types::{HighWatermark, Offset, TimestampMs};

use crate::checkpoint::CheckpointPlan;
use crate::disk::{Disk, remove_if_there};
use crate::error::{IoContext, LogError};
use crate::format::names::{DELETED_SUFFIX, Kind, with_suffix};
use crate::format::row::Row;
use crate::log::Log;
use crate::sections::Sections;
use crate::segment::Segment;

/// A log start that moved in memory. [`Trim::run`] makes it durable and removes the files below it.
#[must_use = "the log start is durable only after run()"]
pub struct Trim<D: Disk> {
    checkpoint: CheckpointPlan<D>,
    log_start: Offset,
    pub(crate) segments: Vec<Arc<Segment<D>>>,
}

impl<D: Disk> Trim<D> {
    /// `checkpoint` no longer lists `segments`.
    pub(crate) fn new(
        checkpoint: CheckpointPlan<D>,
        log_start: Offset,
        segments: Vec<Arc<Segment<D>>>,
    ) -> Self {
        Self { checkpoint, log_start, segments }
    }

    /// Writes the checkpoint with the new log start, then renames the files to `.deleted`, then removes them.
    /// Does not take the log's lock. Readers that hold a slice keep their file. After a failure, the next
    /// start removes what is left.
    ///
    /// Works on a full disk too: removing the indexes of the segments, which can be rebuilt, makes room for
    /// the checkpoint.
    ///
    /// # Errors
    /// Those of [`CheckpointPlan::run`]. After [`LogError::NoSpace`] it can be run again later.
    pub fn run(&self) -> Result<(), LogError> {
        let disk = self.checkpoint.sync.reader().store.disk();
        match self.checkpoint.run() {
            Err(error) if error.is_no_space() => {
                for segment in &self.segments {
                    segment.close();
                    remove_if_there(disk, &segment.path(Kind::Index))?;
                }
                self.checkpoint.run()?;
            }
            result => result?,
        }
        for segment in &self.segments {
            remove_segment_files(disk, segment)?;
        }
        Ok(())
    }

    /// The new log start.
    pub fn log_start(&self) -> Offset {
        self.log_start
    }

    /// Base offsets of the segments that are removed.
    pub fn segments(&self) -> Vec<Offset> {
        self.segments.iter().map(|s| s.base_offset).collect()
    }

    /// Returns the index row of the last batch that is removed. `None` if there is none. Call it before
    /// [`Trim::run`].
    ///
    /// # Errors
    /// The disk's errors. [`LogError::Damaged`] for a row with a wrong checksum.
    pub fn last_row(&self) -> Result<Option<Row>, LogError> {
        let store = &self.checkpoint.sync.reader().store;
        self.segments.last().map_or(Ok(None), |segment| segment.last_row(store))
    }

    /// The plan to pass to [`Log::mark_checkpointed`] after [`Trim::run`].
    pub fn checkpoint(&self) -> &CheckpointPlan<D> {
        &self.checkpoint
    }
}

/// Renames the files first, `.log` before the others, so that a partly removed segment is never taken for a
/// whole one.
pub(crate) fn remove_segment_files<D: Disk>(disk: &D, segment: &Segment<D>) -> Result<(), LogError> {
    let kinds = [Kind::Log, Kind::Index, Kind::Header];
    for kind in kinds {
        let path = segment.path(kind);
        match disk.rename(&path, &with_suffix(&path, DELETED_SUFFIX)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).context("rename", &path);
            }
            _ => {}
        }
    }
    for kind in kinds {
        remove_if_there(disk, &with_suffix(&segment.path(kind), DELETED_SUFFIX))?;
    }
    Ok(())
}

impl<D: Disk> Log<D> {
    /// Moves the log start up to `offset` for DeleteRecords, never back. Removes sealed segments entirely
    /// below it. The caller has checked that `offset` is not above the high watermark. Run the result before
    /// answering the client.
    ///
    /// # Errors
    /// [`LogError::OutOfRange`] above the log end.
    pub fn advance_log_start(&mut self, offset: Offset) -> Result<Trim<D>, LogError> {
        self.advance_log_start_with(offset, || None)
    }

    /// Like [`Log::advance_log_start`], with the state derived from the log up to its end. `sections` is
    /// called if segments are removed, because their information about producers and ended transactions is
    /// nowhere else then.
    ///
    /// # Errors
    /// Those of [`Log::advance_log_start`].
    pub fn advance_log_start_with(
        &mut self,
        offset: Offset,
        sections: impl FnOnce() -> Option<Sections>,
    ) -> Result<Trim<D>, LogError> {
        let log_end = self.log_end();
        if offset > log_end.offset() {
            return Err(LogError::OutOfRange { requested: offset, log_start: self.log_start(), log_end });
        }
        let list = self.reader.segments.load_full();
        let sealed = list.len().saturating_sub(1);
        let going =
            list[..sealed].iter().take_while(|s| s.end_offset() <= offset && s.is_log_synced()).count();
        let sections = if going > 0 { sections() } else { None };
        Ok(self.trim(going, offset, sections))
    }

    /// Moves the log start up to `offset` for readers, never back and not beyond the log end. The next
    /// [`Log::retain_with`] makes it durable and removes files.
    pub fn raise_log_start(&mut self, offset: Offset) {
        let offset = offset.min(self.log_end().offset());
        if offset > self.log_start() {
            self.reader.raise_log_start(offset);
            self.reader.damage.trim(offset);
            self.epochs.truncate_start(offset);
            self.publish_epochs();
        }
    }

    /// Applies retention by age, bytes and records, as Kafka does. Removes whole segments, oldest first, but
    /// none that reaches above the high watermark and none that is not synced. Includes the active segment if
    /// all of it is due. Run the result.
    pub fn retain(&mut self, high_watermark: HighWatermark, now: TimestampMs) -> Option<Trim<D>> {
        let (going, start) = self.to_retain(high_watermark, now);
        (going > 0).then(|| self.trim(going, start, None))
    }

    /// True if [`Log::retain`] would remove anything.
    pub fn retention_is_due(&self, high_watermark: HighWatermark, now: TimestampMs) -> bool {
        self.to_retain(high_watermark, now).0 > 0
    }

    /// Returns the index row of the last batch that [`Log::retain`] would remove.
    ///
    /// # Errors
    /// The disk's errors. [`LogError::Damaged`] for a row with a wrong checksum, which must be rebuilt before
    /// the segment is removed.
    pub fn last_row_due(
        &self,
        high_watermark: HighWatermark,
        now: TimestampMs,
    ) -> Result<Option<Row>, LogError> {
        let going = self.to_retain(high_watermark, now).0;
        let list = self.reader.segments.load_full();
        let last = going.checked_sub(1).and_then(|last| list.get(last));
        last.map_or(Ok(None), |segment| segment.last_row(&self.reader.store))
    }

    /// Like [`Log::retain`], and also returns a plan if only the log start was raised. `sections` are derived
    /// from the log up to its end, and are saved if anything is removed.
    pub fn retain_with(
        &mut self,
        high_watermark: HighWatermark,
        now: TimestampMs,
        sections: Option<Sections>,
    ) -> Option<Trim<D>> {
        let (going, start) = self.to_retain(high_watermark, now);
        if going > 0 {
            return Some(self.trim(going, start, sections));
        }
        let written = self.reader.checkpoint.lock().written.as_ref().map(|c| c.log_start);
        let raised = self.log_start() > written.unwrap_or_default();
        raised.then(|| self.trim(0, self.log_start(), None))
    }

    /// Returns how many of the oldest segments are removed, and the log start after that.
    fn to_retain(&self, high_watermark: HighWatermark, now: TimestampMs) -> (usize, Offset) {
        let list = self.reader.segments.load_full();
        let free = list
            .iter()
            .take_while(|s| s.rows() > 0 && s.end_offset() <= high_watermark.offset() && s.is_log_synced())
            .count();
        let going = self.due(&list, now).min(free);
        (going, list.get(going).map_or(self.log_end().offset(), |next| next.base_offset))
    }

    /// Returns how many of the oldest segments are due.
    fn due(&self, list: &[Arc<Segment<D>>], now: TimestampMs) -> usize {
        let log_start = self.log_start();
        let below_start = list.iter().take_while(|s| s.end_offset() <= log_start).count();
        if !self.config.delete {
            return below_start;
        }
        let by_age = self.config.retention_ms.map_or(0, |ms| {
            // Not `since`, because a timestamp in the future is a negative age.
            list.iter().take_while(|s| now.0.saturating_sub(s.age_base().0) > ms).count()
        });
        let bytes = |s: &Segment<D>| u64::from(s.bytes());
        let by_bytes = self.config.retention_bytes.map_or(0, |kept| surplus(list, kept, bytes));
        let records =
            |s: &Segment<D>| (s.end_offset().0 - s.base_offset.max(log_start).0).max(0).cast_unsigned();
        let by_records = self.config.retention_records.map_or(0, |kept| surplus(list, kept, records));
        below_start.max(by_age).max(by_bytes).max(by_records)
    }

    /// Removes the oldest `going` segments from the list and moves the log start up to `start`.
    pub(crate) fn trim(&mut self, going: usize, start: Offset, sections: Option<Sections>) -> Trim<D> {
        let list = self.reader.segments.load_full();
        let log_start = start.max(self.log_start());
        let gone = list[..going].last().map(|last| last.end_offset());
        assert!(
            gone.is_none_or(|gone| gone <= log_start),
            "records from {log_start} on are kept, and a segment goes that reaches up to {gone:?}"
        );
        self.reader.raise_log_start(log_start);
        self.reader.damage.trim(log_start);
        let segments = list[..going].to_vec();
        if going > 0 {
            self.reader.segments.store(Arc::new(list[going..].to_vec()));
            if going == list.len() {
                // The next append starts a segment at the log end.
                self.active = None;
                self.reserved = crate::reserved::Reserved::default();
            }
        }
        self.epochs.truncate_start(log_start);
        self.publish_epochs();
        Trim { checkpoint: self.checkpoint_plan(sections), log_start, segments }
    }
}

/// Returns how many of the oldest segments can be removed so that at least `kept` is left, by Kafka's rule
/// for `retention.bytes`.
fn surplus<D: Disk>(list: &[Arc<Segment<D>>], kept: u64, measure: impl Fn(&Segment<D>) -> u64) -> usize {
    let total: u64 = list.iter().map(|s| measure(s)).sum();
    let mut surplus = total.saturating_sub(kept);
    let mut going = 0;
    for segment in list {
        let size = measure(segment);
        if total < kept || size > surplus {
            break;
        }
        surplus -= size;
        going += 1;
    }
    going
}
