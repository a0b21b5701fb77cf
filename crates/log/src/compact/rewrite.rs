//! The second half of a round: each group of segments becomes one.

use std::sync::Arc;

use tailrace_records::BatchRewriter;
use tailrace_types::Offset;

use super::fate::{Fate, Judge};
use super::key_map::KeyMap;
use super::output::{Output, remove_files};
use super::source::Source;
use super::{Compaction, Pace};
use crate::disk::Disk;
use crate::error::LogError;
use crate::format::row::Row;
use crate::reader::LogReader;
use crate::segment::Segment;

/// The replacement of some segments. It is durable, but does not count until [`Log::install_compacted`] has
/// put it in place.
///
/// [`Log::install_compacted`]: crate::Log::install_compacted
pub struct Rewritten<D: Disk> {
    pub(crate) reader: Arc<LogReader<D>>,
    pub(crate) sources: Vec<Arc<Segment<D>>>,
    /// `None` if the round ended without another change.
    pub(crate) segment: Option<Arc<Segment<D>>>,
    /// The end of what the round has covered. Set in its last group.
    pub(crate) first_dirty: Option<Offset>,
    pub(crate) removed_aborts: Vec<Offset>,
    /// In a mended segment: the offsets of all its markers, ascending.
    pub(crate) markers: Option<Vec<Offset>>,
    pub(crate) _token: Arc<()>,
}

/// A new segment, and the offsets of the abort markers that were removed from it.
type Group<D> = (Arc<Segment<D>>, Vec<Offset>);

impl<D: Disk> Rewritten<D> {
    /// Offsets of the removed abort markers, ascending. Their transactions can be forgotten.
    pub fn removed_aborts(&self) -> &[Offset] {
        &self.removed_aborts
    }

    /// True for a mended segment, false for a compacted one.
    pub fn is_mended(&self) -> bool {
        self.markers.is_some()
    }

    /// Returns those of `offsets` (ascending, of former markers) that are within a mended segment and no
    /// longer in it. The other replica's batches may have been compacted once more.
    pub fn lost_markers(&self, offsets: impl Iterator<Item = Offset>) -> Vec<Offset> {
        let (Some(markers), Some(segment)) = (&self.markers, &self.segment) else { return Vec::new() };
        let range = segment.base_offset..segment.end_offset();
        offsets.filter(|offset| range.contains(offset) && markers.binary_search(offset).is_err()).collect()
    }

    /// Returns the index row of its last batch, which is also the last batch of its sources. `None` if there
    /// is no new segment.
    ///
    /// # Errors
    /// The disk's errors. [`LogError::Damaged`] for a row with a wrong checksum.
    pub fn last_row(&self) -> Result<Option<Row>, LogError> {
        self.segment.as_ref().map_or(Ok(None), |segment| segment.last_row(&self.reader.store))
    }

    /// Removes the files again. What cannot be removed now is removed at the next start.
    pub(crate) fn discard(&self) {
        if let Some(segment) = &self.segment {
            segment.close();
            remove_files(&self.reader, segment);
        }
    }
}

impl<D: Disk> Compaction<D> {
    /// The second half, group by group: writes the next group that changes, durably. `None` at the end of the
    /// round. Put each group in place before you ask for the next.
    ///
    /// # Errors
    /// Those of [`Compaction::index`], and [`LogError::NoSpace`]. Groups already put in place stay. The round
    /// is over.
    pub fn rewrite_next(
        &mut self,
        map: &KeyMap,
        pace: &mut impl Pace,
    ) -> Result<Option<Rewritten<D>>, LogError> {
        self.unless_overtaken(|this| this.next_group(map, pace))
    }

    fn next_group(&mut self, map: &KeyMap, pace: &mut impl Pace) -> Result<Option<Rewritten<D>>, LogError> {
        while let Some(sources) = self.groups.pop_front() {
            let is_last = self.groups.is_empty();
            let (segment, removed_aborts) = match self.rewrite(&sources, map, pace)? {
                Some((segment, removed)) => (Some(segment), removed),
                None => (None, Vec::new()),
            };
            if segment.is_none() && !is_last {
                continue;
            }
            return Ok(Some(Rewritten {
                reader: Arc::clone(&self.reader),
                sources: if segment.is_some() { sources } else { Vec::new() },
                segment,
                first_dirty: is_last.then_some(self.mapped_end),
                removed_aborts,
                markers: None,
                _token: Arc::clone(&self.token),
            }));
        }
        Ok(None)
    }

    /// Returns `None` if a lone segment would not change.
    fn rewrite(
        &mut self,
        sources: &[Arc<Segment<D>>],
        map: &KeyMap,
        pace: &mut impl Pace,
    ) -> Result<Option<Group<D>>, LogError> {
        let reader = Arc::clone(&self.reader);
        let mut output = Output::create(&reader, sources, self.settings.limits.now)?;
        let (changed, removed_aborts) = match self.fill(&mut output, sources, map, pace) {
            Ok((changed, removed)) => (changed || sources.len() > 1, removed),
            Err(error) => {
                output.abandon();
                return Err(error);
            }
        };
        let before: u64 = sources.iter().map(|s| u64::from(s.bytes())).sum();
        self.stats.bytes_before += before;
        self.stats.bytes_after += if changed { u64::from(output.bytes()) } else { before };
        if !changed {
            sources.iter().for_each(|source| source.set_next_horizon(output.next_horizon));
            output.abandon();
            return Ok(None);
        }
        output.finish(sources, pace).map(|segment| Some((segment, removed_aborts)))
    }

    /// Returns whether anything changed, and the removed abort markers.
    fn fill(
        &mut self,
        output: &mut Output<D>,
        sources: &[Arc<Segment<D>>],
        map: &KeyMap,
        pace: &mut impl Pace,
    ) -> Result<(bool, Vec<Offset>), LogError> {
        let io_bytes = self.settings.io_bytes;
        let mut judge = Judge {
            map,
            first_dirty: self.first_dirty,
            mapped_end: self.mapped_end,
            settings: &self.settings,
            aborted: &self.aborted,
            seen: &mut self.seen,
            stats: &mut self.stats,
            removed_aborts: Vec::new(),
            scratch: Vec::new(),
            rewriter: BatchRewriter::default(),
            hashes: Vec::new(),
            kept: Vec::new(),
        };
        let mut changed = false;
        for (number, segment) in sources.iter().enumerate() {
            let mut source = Source::open(&self.reader, segment, io_bytes)?;
            while let Some(row) = source.next_row()? {
                let is_last = number + 1 == sources.len() && source.is_at_end();
                let batch = source.batch(&row, pace)?;
                let header = match judge.judge(&batch, is_last, &mut output.pending)? {
                    Fate::Goes => {
                        changed = true;
                        continue;
                    }
                    Fate::Stays => {
                        output.pending.extend_from_slice(batch.bytes);
                        batch.header
                    }
                    Fate::Changed(header) => {
                        changed = true;
                        header
                    }
                };
                output.push(&header, row.raft_index, io_bytes, pace)?;
            }
        }
        Ok((changed, judge.removed_aborts))
    }
}
