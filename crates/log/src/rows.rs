//! Reads a segment's rows by pread: a window of a few rows, and binary search.

use crate::disk::Disk;
use crate::error::LogError;
use crate::format::row::{ROW_BYTES, Row};
use crate::reach::Reach;
use crate::segment::{Segment, SegmentFiles};

/// Rows per read at the end of a segment. A reader at the tail needs no more.
const TAIL_ROWS: u32 = 16;
/// Rows per read elsewhere: one page.
const WINDOW_ROWS: u32 = 64;

/// The first `count` rows of a segment.
pub(crate) struct Rows<'s, D: Disk> {
    segment: &'s Segment<D>,
    files: &'s SegmentFiles<D>,
    reach: Reach,
    /// Rows that were published when this was created.
    pub(crate) count: u32,
    window: [u8; WINDOW_ROWS as usize * ROW_BYTES],
    window_first: u32,
    window_rows: u32,
}

impl<'s, D: Disk> Rows<'s, D> {
    pub(crate) fn new(segment: &'s Segment<D>, files: &'s SegmentFiles<D>) -> Self {
        Self::within(Reach::Disk, segment, files)
    }

    /// Like [`Rows::new`], within `reach`.
    pub(crate) fn within(reach: Reach, segment: &'s Segment<D>, files: &'s SegmentFiles<D>) -> Self {
        Self {
            segment,
            files,
            reach,
            count: segment.rows(),
            window: [0; WINDOW_ROWS as usize * ROW_BYTES],
            window_first: 0,
            window_rows: 0,
        }
    }

    /// Returns row `number`, which must be below `count`.
    pub(crate) fn get(&self, number: u32) -> Result<Row, LogError> {
        if number >= self.window_first && number - self.window_first < self.window_rows {
            let at = (number - self.window_first) as usize * ROW_BYTES;
            return self.segment.decode_row(number, &self.window[at..]);
        }
        let mut row = [0; ROW_BYTES];
        let bytes = self.segment.read_rows_within(self.reach, self.files, number, &mut row)?;
        self.segment.decode_row(number, bytes)
    }

    /// Returns the last row from `first` on for which `fits` holds, or `first` itself. `fits` must be true up
    /// to some row and false from there on. Starts in the window, because most reads end near where they
    /// start.
    pub(crate) fn last_where(&mut self, first: u32, fits: impl Fn(&Row) -> bool) -> Result<Row, LogError> {
        self.get_ahead(first)?;
        let mut window_end = self.window_first + self.window_rows;
        if window_end - first < TAIL_ROWS && window_end < self.count {
            window_end = self.count.min(first.saturating_add(WINDOW_ROWS));
            self.load(first, window_end)?;
        }
        let last_of_window = self.get(window_end - 1)?;
        if !fits(&last_of_window) {
            let end = self.search(first, window_end, |row| !fits(row))?;
            return self.get(end.max(first + 1) - 1);
        }
        if window_end == self.count {
            return Ok(last_of_window);
        }
        let last = self.get(self.count - 1)?;
        if fits(&last) {
            return Ok(last);
        }
        let end = self.first_between(window_end, self.count, |row| !fits(row))?;
        self.get(end - 1)
    }

    /// Returns row `number`, with readahead of the rows after it.
    pub(crate) fn get_ahead(&mut self, number: u32) -> Result<Row, LogError> {
        if number < self.window_first || number - self.window_first >= self.window_rows {
            self.load(number, self.count.min(number.saturating_add(WINDOW_ROWS)))?;
        }
        self.get(number)
    }

    /// Returns the number of the first row for which `wanted` holds, or `count`. `wanted` must be false up to
    /// some row and true from there on. Starts at the end, where most readers are.
    pub(crate) fn first_where(&mut self, wanted: impl Fn(&Row) -> bool) -> Result<u32, LogError> {
        if self.count == 0 {
            return Ok(0);
        }
        let tail = self.count.saturating_sub(TAIL_ROWS);
        self.load(tail, self.count)?;
        if tail > 0 && wanted(&self.get(tail)?) {
            return self.first_between(0, tail, wanted);
        }
        self.search(tail, self.count, wanted)
    }

    /// Like [`Rows::first_where`], within `low..high`. Returns `high` if there is no such row.
    pub(crate) fn first_between(
        &mut self,
        mut low: u32,
        mut high: u32,
        wanted: impl Fn(&Row) -> bool,
    ) -> Result<u32, LogError> {
        while high - low > WINDOW_ROWS {
            let middle = low + (high - low) / 2;
            if wanted(&self.get(middle)?) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        if low < high {
            self.load(low, high)?;
        }
        self.search(low, high, wanted)
    }

    /// Binary search among the rows of the window.
    fn search(&self, mut low: u32, mut high: u32, wanted: impl Fn(&Row) -> bool) -> Result<u32, LogError> {
        while low < high {
            let middle = low + (high - low) / 2;
            if wanted(&self.get(middle)?) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(low)
    }

    fn load(&mut self, first: u32, end: u32) -> Result<(), LogError> {
        let bytes = (end - first) as usize * ROW_BYTES;
        self.window_rows = 0;
        self.segment.read_rows_within(self.reach, self.files, first, &mut self.window[..bytes])?;
        self.window_first = first;
        self.window_rows = end - first;
        Ok(())
    }
}
