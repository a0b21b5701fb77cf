//! Compaction keeps the last record of every key.
//!
//! A round has two halves. [`Compaction::index`] reads the part of the log that no round has covered yet, and
//! stores the last offset of each key in a [`KeyMap`]. [`Compaction::rewrite_next`] then rewrites the
//! segments from the start of the log, merging groups of adjacent segments into one each. It leaves out the
//! records for which the map has a later one. [`Log::install_compacted`] puts each group in place under the
//! log's lock. Both halves run without that lock. The rules are those of Kafka's `Cleaner`. Offsets never
//! change. The batch with a producer's last sequence stays, at least as a header. Tombstones and transaction
//! markers stay for `delete.retention.ms` after the round that made them unnecessary (KIP-534).
//!
//! docs/adr/0007 describes how segments are replaced so that a crash leaves either the old or the new ones.

mod cleanable;
mod fate;
mod install;
mod key_map;
mod output;
mod pace;
mod rewrite;
mod source;
mod transactions;

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use tailrace_records::{HEADER_BYTES, RawRecords};
use tailrace_types::{HighWatermark, Offset, ProducerEpoch, ProducerId, TimestampMs};

use crate::config::SEGMENT_BYTES_MAX;
use crate::disk::Disk;
use crate::error::LogError;
use crate::format::checkpoint::Checkpoint;
use crate::format::names::Kind;
use crate::log::Log;
use crate::reader::LogReader;
use crate::segment::Segment;
pub use cleanable::{Cleanable, CompactionLimits};
pub use install::Discarded;
pub use key_map::{HashSecret, KeyMap};
pub(crate) use output::Output;
pub use pace::{Pace, Unhurried};
pub use rewrite::Rewritten;
use source::Source;
use transactions::{Aborted, SeenData};

/// Where the state of an active producer can be read off the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastOfProducer {
    /// Offset of its last data record. `None` if its last batch was a transaction marker.
    pub last_data_offset: Option<Offset>,
    /// Its newest epoch.
    pub epoch: ProducerEpoch,
}

/// The settings of a round of compaction.
#[derive(Clone, Debug)]
pub struct CompactionSettings {
    /// The limits of what may be compacted.
    pub limits: CompactionLimits,
    /// Transaction markers below this are final.
    pub committed: HighWatermark,
    /// `delete.retention.ms`.
    pub delete_retention_ms: i64,
    /// Bytes per read and per write: half of `log.cleaner.io.buffer.size`.
    pub io_bytes: usize,
    /// The producers whose sequences must stay readable.
    pub producers: HashMap<ProducerId, LastOfProducer>,
}

/// Statistics of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionStats {
    /// Bytes of the segments considered for rewriting.
    pub bytes_before: u64,
    /// Bytes of their replacements.
    pub bytes_after: u64,
    /// Records considered for rewriting.
    pub records_before: u64,
    /// Records kept.
    pub records_after: u64,
    /// Removed records without a key, from before the topic was compacted.
    pub keyless: u64,
    /// Keys in the map.
    pub keys: u64,
}

/// A round of compaction of one log. Each log has at most one at a time.
pub struct Compaction<D: Disk> {
    reader: Arc<LogReader<D>>,
    /// All segments at the start of the round, and the number of those that may be rewritten.
    segments: Vec<Arc<Segment<D>>>,
    eligible: usize,
    first_dirty: Offset,
    /// One past the last offset that the map covers.
    mapped_end: Offset,
    segment_bytes: u64,
    settings: CompactionSettings,
    aborted: Aborted,
    seen: SeenData,
    groups: VecDeque<Vec<Arc<Segment<D>>>>,
    stats: CompactionStats,
    /// Held by everything that must be dropped before the next round starts.
    token: Arc<()>,
}

impl<D: Disk> Log<D> {
    /// Starts a round. `None` if there is nothing to do, or if a round is under way. Blocks to write a
    /// checkpoint in two cases. If the log never had one, the output of a round would count at the next start
    /// whether it was installed or not. If segments were removed or replaced and that is not durable yet,
    /// their records must not come back, because this round removes abort markers whose records are gone.
    ///
    /// # Errors
    /// [`LogError::Poisoned`] if the log is poisoned. Nothing is rewritten then. The disk's errors.
    pub fn begin_compaction(
        &mut self,
        settings: CompactionSettings,
    ) -> Result<Option<Compaction<D>>, LogError> {
        self.check_writable()?;
        let reader = self.reader();
        let segments = reader.segments.load_full().as_ref().clone();
        let first_dirty = reader.first_dirty().max(reader.log_start());
        let cleanable = cleanable::cleanable(&segments, first_dirty, &settings.limits);
        if (cleanable.end <= first_dirty && !cleanable.expired) || self.compaction.upgrade().is_some() {
            return Ok(None);
        }
        if !is_durable(&segments, reader.checkpoint.lock().written.as_ref()) {
            self.checkpoint(None)?;
        }
        let token = Arc::new(());
        self.compaction = Arc::downgrade(&token);
        Ok(Some(Compaction {
            eligible: segments.partition_point(|s| s.base_offset < cleanable.end),
            segments,
            first_dirty,
            mapped_end: first_dirty,
            segment_bytes: self.config.segment_bytes.min(SEGMENT_BYTES_MAX),
            settings,
            aborted: Aborted::default(),
            seen: SeenData::default(),
            groups: VecDeque::new(),
            stats: CompactionStats::default(),
            token,
            reader,
        }))
    }
}

/// True if the next start would find the current segments, apart from those created since the checkpoint.
fn is_durable<D: Disk>(segments: &[Arc<Segment<D>>], written: Option<&Checkpoint>) -> bool {
    let Some(written) = written else { return false };
    let there = segments.iter().map(|s| (s.base_offset, s.generation));
    let mut listed = written.segments.iter().map(|s| (s.base_offset, s.generation));
    there.zip(&mut listed).all(|(there, listed)| there == listed) && listed.next().is_none()
}

impl<D: Disk> Compaction<D> {
    /// The first half. Fills `map`, which must be empty, with the keys of the part that no round has covered.
    /// Stops early if the map is full, or at offsets too far from the first one. The rest is left to the next
    /// round. Reads that part, and the rows of the whole log.
    ///
    /// # Errors
    /// [`LogError::KeyMapTooSmall`] if the map cannot even hold the first batch's keys.
    /// [`LogError::ExpandsTooLarge`], [`LogError::Damaged`], [`LogError::CompactionStopped`], and the disk's
    /// errors. The log is unchanged.
    pub fn index(&mut self, map: &mut KeyMap, pace: &mut impl Pace) -> Result<(), LogError> {
        self.unless_overtaken(|this| this.index_segments(map, pace))?;
        self.stats.keys = map.len() as u64;
        let has_dirty = self.mapped_end > self.first_dirty;
        if has_dirty || self.unless_overtaken(|this| this.has_expired(pace))? {
            self.groups = self.group();
        }
        Ok(())
    }

    /// If nothing is dirty: returns true if a tombstone or marker has expired. Reads the headers of batches
    /// that may have one.
    fn has_expired(&self, pace: &mut impl Pace) -> Result<bool, LogError> {
        let now = self.settings.limits.now;
        let mut has_expired = false;
        for segment in self.segments[..self.eligible].iter().filter(|s| s.generation > 0 && s.rows() > 0) {
            if segment.next_horizon().is_none() {
                segment.set_next_horizon(self.look_for_horizon(segment, pace)?);
            }
            has_expired |= segment.next_horizon().is_some_and(|horizon| horizon <= now);
        }
        Ok(has_expired)
    }

    fn look_for_horizon(
        &self,
        segment: &Arc<Segment<D>>,
        pace: &mut impl Pace,
    ) -> Result<TimestampMs, LogError> {
        let mut first = TimestampMs(i64::MAX);
        let mut source = Source::open(&self.reader, segment, HEADER_BYTES)?;
        while let Some(row) = source.next_row()? {
            if row.attributes.has_delete_horizon() && row.record_count > 0 {
                first = first.min(source.batch(&row, pace)?.header.base_timestamp);
            }
        }
        Ok(first)
    }

    fn index_segments(&mut self, map: &mut KeyMap, pace: &mut impl Pace) -> Result<(), LogError> {
        let committed = self.settings.committed.offset();
        self.aborted = Aborted::scan(&self.reader, &self.segments, committed, pace)?;
        let (mut scratch, mut hashes) = (Vec::new(), Vec::new());
        let dirty: Vec<_> = self.segments[..self.eligible]
            .iter()
            .filter(|s| s.end_offset() > self.first_dirty)
            .cloned()
            .collect();
        for segment in &dirty {
            let mut source = Source::open(&self.reader, segment, self.settings.io_bytes)?;
            while let Some(row) = source.next_row()? {
                if row.next_offset() <= self.first_dirty {
                    continue;
                }
                if !row.attributes.is_control() && row.record_count > 0 {
                    let batch = source.batch(&row, pace)?;
                    let header = &batch.header;
                    if !self.aborted.holds(header) && !self.aborted.is_undecided(header) {
                        let body = batch.body(&mut scratch)?;
                        hashes.clear();
                        for record in RawRecords::new(header.record_count, body) {
                            let record = record.map_err(|error| batch.damaged(&error))?;
                            let offset = header.base_offset.plus(i64::from(record.offset_delta));
                            if let Some(key) = record.key.filter(|_| offset >= self.first_dirty) {
                                hashes.push((map.hash(key), offset));
                            }
                        }
                        map.touch(hashes.iter().map(|(hash, _)| *hash));
                        if !hashes.iter().all(|(hash, offset)| map.put(*hash, *offset)) {
                            return self.full(map, &hashes.len());
                        }
                    }
                }
                self.mapped_end = row.next_offset();
            }
            self.mapped_end = self.mapped_end.max(segment.end_offset());
        }
        Ok(())
    }

    /// Some keys of the batch at `mapped_end` may be in the map without the others. That is harmless: records
    /// from `mapped_end` on stay whatever the map has, and its entries for older records are correct. A key
    /// whose last offset did not fit keeps an older record until the next round. The first batch's offsets
    /// always fit, because they span less than 2^31.
    fn full(&self, map: &KeyMap, records: &usize) -> Result<(), LogError> {
        if self.mapped_end > self.first_dirty {
            return Ok(());
        }
        Err(LogError::KeyMapTooSmall { keys_max: map.keys_max() as u64, records: *records as u64 })
    }

    /// Groups adjacent segments whose bytes together fit one segment, by their sizes before compaction, as
    /// Kafka does.
    fn group(&self) -> VecDeque<Vec<Arc<Segment<D>>>> {
        let mut groups: VecDeque<Vec<Arc<Segment<D>>>> = VecDeque::new();
        let sources = self.segments[..self.eligible].iter().filter(|s| s.rows() > 0);
        for segment in sources.take_while(|s| s.base_offset < self.mapped_end) {
            let fits = groups.back().is_some_and(|group| {
                let bytes: u64 = group.iter().map(|s| u64::from(s.bytes())).sum();
                let span = segment.end_offset().0 - group[0].base_offset.0;
                bytes + u64::from(segment.bytes()) <= self.segment_bytes && span <= i64::from(i32::MAX)
            });
            match groups.back_mut() {
                Some(group) if fits => group.push(Arc::clone(segment)),
                _ => groups.push_back(vec![Arc::clone(segment)]),
            }
        }
        groups
    }

    /// Returns the statistics so far.
    pub fn stats(&self) -> CompactionStats {
        self.stats
    }

    /// One past the last offset that this round covers. Known after [`Compaction::index`].
    pub fn end(&self) -> Offset {
        self.mapped_end
    }

    /// Ends the round without a failure if retention has removed a segment during a read.
    fn unless_overtaken<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let result = work(self);
        if !matches!(result, Err(LogError::Io { .. } | LogError::Damaged { .. })) {
            return result;
        }
        let current = self.reader.segments.load();
        let listed = |segment: &Arc<Segment<D>>| current.iter().any(|other| Arc::ptr_eq(other, segment));
        let replaced = |segment: &Arc<Segment<D>>| {
            current.iter().any(|s| s.generation > 0 && s.base_offset <= segment.base_offset)
        };
        // A copy of another replica may have replaced all segments.
        let is_file_of = |path: &Path| {
            let kinds = [Kind::Log, Kind::Index, Kind::Header];
            current.iter().any(|segment| kinds.iter().any(|kind| segment.path(*kind) == path))
        };
        let is_gone = matches!(&result, Err(LogError::Io { path, source, .. })
            if source.kind() == std::io::ErrorKind::NotFound && !is_file_of(path));
        let sources = &self.segments[..self.eligible];
        if !is_gone && sources.iter().all(|segment| listed(segment) || replaced(segment)) {
            return result.inspect_err(|error| self.reader.condemn_by(error));
        }
        Err(LogError::CompactionStopped { reason: "a segment was removed in the meantime" })
    }
}

/// Returns `now` plus `ms` milliseconds, saturating.
fn later(now: TimestampMs, ms: i64) -> TimestampMs {
    TimestampMs(now.0.saturating_add(ms.max(0)))
}
