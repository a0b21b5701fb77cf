//! A column for each fact about a message: its subject, its size, its time, and the next message of its
//! subject.
//!
//! Sequences without a message are holes. A block of them takes no memory.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::subjects::SubjectId;

/// Rows in a block.
const BLOCK_ROWS: u64 = 1 << 14;
/// The number of a subject in a row without a message.
const HOLE: u32 = u32::MAX;
/// A distance that does not fit, or is not known.
const FAR: u32 = u32::MAX;

/// What is known about one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) subject: SubjectId,
    /// Its size, as JetStream counts it.
    pub(super) bytes: u32,
    /// Milliseconds since 1970.
    pub(super) time_ms: i64,
}

/// The row after this one of the same subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// This row was the last of its subject when it was last written.
    None,
    At(u64),
    /// It exists, and has to be searched.
    Far,
}

/// The rows of consecutive sequences. The columns of a block grow together.
struct Block {
    /// The sequence of the first row.
    start: u64,
    base_time_ms: i64,
    subjects: Vec<u32>,
    bytes: Vec<u32>,
    /// Milliseconds from `base_time_ms`.
    times: Vec<i32>,
    /// The distance to the next row of the subject; 0 for none.
    next: Vec<u32>,
    live: u32,
}

impl Block {
    fn new(start: u64, base_time_ms: i64) -> Self {
        let (subjects, bytes, times, next) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { start, base_time_ms, subjects, bytes, times, next, live: 0 }
    }

    fn index(&self, seq: u64) -> Option<usize> {
        let at = usize::try_from(seq.checked_sub(self.start)?).ok()?;
        (*self.subjects.get(at)? != HOLE).then_some(at)
    }

    /// Adds a row after holes up to `at`.
    fn push(&mut self, at: usize, row: Row) {
        self.subjects.resize(at, HOLE);
        self.bytes.resize(at, 0);
        self.times.resize(at, 0);
        self.next.resize(at, 0);
        self.subjects.push(row.subject.0);
        self.bytes.push(row.bytes);
        // A clock that jumps by 24 days within one block is taken to have jumped by less.
        let since = row.time_ms.saturating_sub(self.base_time_ms);
        self.times.push(i32::try_from(since).unwrap_or(if since < 0 { i32::MIN } else { i32::MAX }));
        self.next.push(0);
        self.live += 1;
    }

    fn row(&self, at: usize) -> Row {
        let time_ms = self.base_time_ms.saturating_add(i64::from(self.times[at]));
        Row { subject: SubjectId(self.subjects[at]), bytes: self.bytes[at], time_ms }
    }
}

/// All rows of a stream.
#[derive(Default)]
pub(super) struct Rows {
    /// By the number of the block.
    blocks: BTreeMap<u64, Block>,
}

impl Rows {
    /// Adds a row. Its sequence must be above those of all others.
    pub(super) fn push(&mut self, seq: u64, row: Row) {
        let number = seq / BLOCK_ROWS;
        let start = number * BLOCK_ROWS;
        let block = self.blocks.entry(number).or_insert_with(|| Block::new(start, row.time_ms));
        let at = usize::try_from(seq - start).unwrap_or(usize::MAX);
        assert!(at >= block.subjects.len(), "rows are added in order: {seq}");
        block.push(at, row);
    }

    fn block(&self, seq: u64) -> Option<&Block> {
        self.blocks.get(&(seq / BLOCK_ROWS))
    }

    pub(super) fn get(&self, seq: u64) -> Option<Row> {
        let block = self.block(seq)?;
        block.index(seq).map(|at| block.row(at))
    }

    /// Makes a hole of a row, and returns what it was.
    pub(super) fn remove(&mut self, seq: u64) -> Option<Row> {
        let number = seq / BLOCK_ROWS;
        let block = self.blocks.get_mut(&number)?;
        let at = block.index(seq)?;
        let row = block.row(at);
        block.subjects[at] = HOLE;
        block.live -= 1;
        // The last block stays while it grows.
        let is_over = block.live == 0 && self.blocks.last_key_value().is_some_and(|(last, _)| *last > number);
        if is_over {
            self.blocks.remove(&number);
        }
        Some(row)
    }

    /// The row after `seq` of the same subject, as far as `seq` tells it. A hole still tells what was after
    /// the message that was there, which may be a hole by now, too.
    pub(super) fn next(&self, seq: u64) -> Next {
        let told = self.block(seq).and_then(|block| block.next.get(usize::try_from(seq - block.start).ok()?));
        match told {
            Some(0) => Next::None,
            None | Some(&FAR) => Next::Far,
            Some(distance) => Next::At(seq + u64::from(*distance)),
        }
    }

    /// Notes in the row of `seq` that the next row of its subject is at `next`.
    pub(super) fn link(&mut self, seq: u64, next: Option<u64>) {
        let Some(block) = self.blocks.get_mut(&(seq / BLOCK_ROWS)) else { return };
        let Some(at) = block.index(seq) else { return };
        block.next[at] = next.map_or(0, |next| u32::try_from(next - seq).unwrap_or(FAR));
    }

    /// The first row at or after `seq`.
    pub(super) fn at_or_after(&self, seq: u64) -> Option<(u64, Row)> {
        let mut found = None;
        self.scan(seq, |at, row| {
            found = Some((at, row));
            ControlFlow::Break(())
        });
        found
    }

    /// Shows the rows from `from` on to `see`, in order.
    pub(super) fn scan(&self, from: u64, mut see: impl FnMut(u64, Row) -> ControlFlow<()>) {
        for (_, block) in self.blocks.range(from / BLOCK_ROWS..) {
            let first = usize::try_from(from.saturating_sub(block.start)).unwrap_or(usize::MAX);
            for (at, subject) in block.subjects.iter().enumerate().skip(first) {
                if *subject != HOLE && see(block.start + at as u64, block.row(at)).is_break() {
                    return;
                }
            }
        }
    }

    /// Shows the numbers of the subjects of the rows from `from` on to `see`, in order. This is faster than
    /// [`scan`](Self::scan), as it reads one column only.
    pub(super) fn scan_subjects(&self, from: u64, mut see: impl FnMut(u64, SubjectId) -> ControlFlow<()>) {
        for (_, block) in self.blocks.range(from / BLOCK_ROWS..) {
            let first = usize::try_from(from.saturating_sub(block.start)).unwrap_or(usize::MAX);
            for (at, subject) in block.subjects.iter().enumerate().skip(first) {
                if *subject != HOLE && see(block.start + at as u64, SubjectId(*subject)).is_break() {
                    return;
                }
            }
        }
    }

    /// Shows the numbers of the subjects of the rows before `before` to `see`, the newest first.
    pub(super) fn scan_subjects_back(
        &self,
        before: u64,
        mut see: impl FnMut(u64, SubjectId) -> ControlFlow<()>,
    ) {
        for (_, block) in self.blocks.range(..=before / BLOCK_ROWS).rev() {
            let end = usize::try_from(before.saturating_sub(block.start)).unwrap_or(usize::MAX);
            let end = end.min(block.subjects.len());
            for at in (0..end).rev() {
                let subject = block.subjects[at];
                if subject != HOLE && see(block.start + at as u64, SubjectId(subject)).is_break() {
                    return;
                }
            }
        }
    }

    /// Memory of the columns, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.blocks.values().map(|block| size_of::<Block>() + block.subjects.capacity() * 16).sum()
    }
}
