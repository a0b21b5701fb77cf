//! Keeps the known damage over a restart, in a file next to the log, until it is mended or the loss is
//! accepted.

use std::io::IoSlice;

use tailrace_types::Offset;

use crate::damage::{Damage, DamagedRange};
use crate::disk::{Disk, OpenMode, read_file, remove_if_there, replace_file};
use crate::error::{IoContext, LogError};
use crate::format::names::Kind;
use crate::format::{FormatError, damage, names};
use crate::reader::{LogReader, segment_of};
use crate::rows::Rows;

/// Ranges that [`LogReader::recheck_damage`] reads per call. Most are one batch of up to 1 MiB.
const RECHECKED_AT_ONCE: usize = 16;

impl<D: Disk> LogReader<D> {
    /// Saves the known damage if it has changed. Cheap if not. Blocks on the disk.
    ///
    /// # Errors
    /// The disk's errors. The next call tries again.
    pub fn save_damage(&self) -> Result<(), LogError> {
        if !self.damage.take_unsaved() {
            return Ok(());
        }
        self.write_damage(&self.damage.all()).inspect_err(|_| self.damage.set_unsaved())
    }

    pub(crate) fn write_damage(&self, ranges: &[DamagedRange]) -> Result<(), LogError> {
        let (disk, path) = (self.store.disk(), self.dir.join(names::DAMAGE));
        if ranges.is_empty() {
            remove_if_there(disk, &path).and_then(|()| {
                disk.sync_dir(&self.dir).map_err(|error| LogError::io("sync", &self.dir, error))
            })
        } else {
            replace_file(disk, &path, &[IoSlice::new(&damage::encode(ranges))])
        }
    }

    /// Returns what is wrong with the file on disk, if it does not match the known damage.
    pub(crate) fn damage_file_differs(&self) -> Result<Option<Damage>, LogError> {
        let ranges = self.damage.all();
        if ranges.is_empty() || self.damage.is_unsaved() {
            return Ok(None);
        }
        let file = self.dir.join(names::DAMAGE);
        let read = read_file(self.store.disk(), &file, damage::BYTES_MAX).context("read", &file);
        let reason = match read {
            Ok(Some(bytes)) if bytes == damage::encode(&ranges) => return Ok(None),
            Ok(Some(_)) => "it does not match the known damage".to_owned(),
            Ok(None) => "it is missing".to_owned(),
            Err(error) => return Damage::of(&error).map(Some).ok_or(error),
        };
        Ok(Some(Damage { file, position: 0, reason }))
    }

    /// Loads the damage known before the last stop, if it still exists. Adds a note to `notes` for each range
    /// that was mended since.
    pub(crate) fn load_damage(&self, notes: &mut Vec<String>) -> Result<(), LogError> {
        let path = self.dir.join(names::DAMAGE);
        let Some(bytes) = read_file(self.store.disk(), &path, damage::BYTES_MAX).context("read", &path)?
        else {
            return Ok(());
        };
        let known = match damage::decode(&bytes, &self.dir) {
            Ok(known) => known,
            Err(error @ FormatError::Newer(_)) => return Err(error.in_file(&path)),
            Err(error) => {
                // The scrubber will find any remaining damage again. The file is replaced.
                self.damage.set_unsaved();
                notes.push(format!("{} was skipped: {error}", path.display()));
                return Ok(());
            }
        };
        let (start, end) = (self.log_start(), self.log_end().offset());
        for range in known {
            let clipped = DamagedRange {
                base_offset: range.base_offset.max(Offset(0)),
                end_offset: range.end_offset.min(end),
                ..range.clone()
            };
            if clipped.end_offset <= clipped.base_offset.max(start) {
                continue;
            }
            if !range.is_lost && self.is_whole(&clipped) {
                notes.push(format!("{range}: it is whole again"));
            } else {
                self.damage.add(&clipped);
            }
        }
        Ok(())
    }

    /// Checks the damaged ranges again, and returns how many are whole and served now. If there are many,
    /// each call checks some of them in turn. Blocks on the disk.
    pub fn recheck_damage(&self) -> usize {
        let known = self.damaged();
        let wrong: Vec<_> = known.iter().filter(|range| !range.is_lost).collect();
        if wrong.is_empty() {
            return 0;
        }
        let first = self.damage.next_recheck(RECHECKED_AT_ONCE);
        let some = wrong.iter().cycle().skip(first % wrong.len()).take(wrong.len().min(RECHECKED_AT_ONCE));
        let whole = some.filter(|range| self.is_whole(range));
        whole.filter(|range| self.damage.forget(range.base_offset, range.end_offset)).count()
    }

    /// Makes later reads of a range open the files that have their names now.
    pub(crate) fn open_again(&self, range: &DamagedRange) {
        let list = self.segments.load();
        let touched = list.iter().skip(segment_of(&list, range.base_offset));
        let within = touched.take_while(|segment| segment.base_offset < range.end_offset);
        // A file with unsynced data stays open, because its sync may still fail and must be noticed.
        for segment in within.filter(|segment| segment.is_log_synced()) {
            segment.close();
            segment.verified.forget();
        }
    }

    /// True if whole batches cover the entire range.
    fn is_whole(&self, range: &DamagedRange) -> bool {
        let list = self.segments.load_full();
        let mut next = range.base_offset;
        for segment in list.iter().skip(segment_of(&list, range.base_offset)) {
            if segment.base_offset >= range.end_offset {
                break;
            }
            let checked = segment.files(&self.store).and_then(|files| {
                // Opened by name: the open file may have been removed or replaced in the meantime.
                let path = segment.path(Kind::Log);
                let log = self.store.disk().open(&path, OpenMode::Read).context("open", &path)?;
                let mut rows = Rows::new(segment, &files);
                for number in rows.first_where(|row| row.next_offset() > next)?..rows.count {
                    let row = rows.get_ahead(number)?;
                    if next >= range.end_offset || row.base_offset > next {
                        break;
                    }
                    let mut bytes = vec![0; row.batch_bytes as usize];
                    crate::batches::read_batch_from(segment, &log, &row, &mut bytes)?;
                    next = row.next_offset();
                }
                Ok(())
            });
            if checked.is_err() {
                return false;
            }
        }
        let is_whole = next >= range.end_offset;
        if is_whole {
            self.open_again(range);
        }
        is_whole
    }
}

impl<D: Disk> crate::Log<D> {
    /// Adds `range` to the damage here, although this copy has never had it: other replicas have lost it too.
    pub fn note_lost(&mut self, range: &DamagedRange) {
        self.reader.damage.add(&DamagedRange { is_lost: true, ..range.clone() });
    }
}
