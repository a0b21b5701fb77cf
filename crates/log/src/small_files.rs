//! Checks the files that are rarely written and read only at the next start. Files that are not what was
//! written are rewritten from memory.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use tailrace_types::RaftIndex;

use crate::damage::Damage;
use crate::disk::{Disk, read_file, remove_if_there, replace_file};
use crate::error::{IoContext, LogError};
use crate::format::checkpoint::{self, Checkpoint};
use crate::format::names::{self, Kind};
use crate::format::segment_header::{self, Compacted, SegmentHeader};
use crate::format::{identity, snapshot};
use crate::log::Log;
use crate::reader::LogReader;
use crate::sections::Sections;
use crate::segment::Segment;

impl<D: Disk> Log<D> {
    /// Reads the identity, the side file, the checkpoint, the snapshots and the header of every segment from
    /// the disk, and rewrites from memory what has changed. Removes damaged snapshots, and writes `sections`,
    /// those at the log end, in their place. Returns what was wrong. Blocks.
    ///
    /// # Errors
    /// Those of [`Log::append_entry`] and [`Log::checkpoint`].
    pub fn scrub_files(&mut self, sections: Option<Sections>) -> Result<Vec<Damage>, LogError> {
        self.check_writable()?;
        let mut found = Vec::new();
        let disk = self.reader.store.disk().clone();
        if let Some(damage) = self.reader.identity_differs()? {
            let path = self.reader.dir.join(names::IDENTITY);
            let bytes = identity::encode(&self.reader.identity);
            let result = replace_file(&disk, &path, &[IoSlice::new(&bytes)]);
            self.poison_unless_no_space(result)?;
            found.push(damage);
        }
        for segment in self.reader.segments.load_full().iter() {
            if let Some(damage) = self.reader.header_differs(segment)? {
                let result = self.reader.rewrite_header(segment);
                self.poison_unless_no_space(result)?;
                found.push(damage);
            }
        }
        if let Some(damage) = self.side.differs(&disk)? {
            let result = self.side.rewrite(&disk);
            self.poison_unless_no_space(result)?;
            found.push(damage);
        }
        if let Some(damage) = self.reader.damage_file_differs()? {
            self.reader.damage.set_unsaved();
            self.reader.save_damage()?;
            found.push(damage);
        }
        let snapshots = self.reader.damaged_snapshots()?;
        let checkpoint = self.reader.checkpoint_differs()?;
        if checkpoint.is_some() || !snapshots.is_empty() {
            // An identical checkpoint would not be written.
            self.reader.checkpoint.lock().written = None;
            self.checkpoint(sections)?;
        }
        found.extend(checkpoint.into_iter().chain(snapshots));
        Ok(found)
    }
}

impl<D: Disk> LogReader<D> {
    fn identity_differs(&self) -> Result<Option<Damage>, LogError> {
        if !self.folder_synced.load(Acquire) {
            return Ok(None);
        }
        let file = self.dir.join(names::IDENTITY);
        let read = read_file(self.store.disk(), &file, identity::BYTES_MAX).context("read", &file);
        let reason = match read.map(|read| read.map(|bytes| identity::decode(&bytes))) {
            Ok(Some(Ok(found))) if found == self.identity => return Ok(None),
            Ok(Some(Ok(_))) => "it names another partition".to_owned(),
            Ok(Some(Err(error))) => error.to_string(),
            Ok(None) => "it is missing".to_owned(),
            Err(error) => return Damage::of(&error).map(Some).ok_or(error),
        };
        Ok(Some(Damage { file, position: 0, reason }))
    }

    fn checkpoint_differs(&self) -> Result<Option<Damage>, LogError> {
        let written = self.checkpoint.lock();
        let Some(expected) = &written.written else { return Ok(None) };
        let file = self.dir.join(names::CHECKPOINT);
        let read = read_file(self.store.disk(), &file, checkpoint::BYTES_MAX).context("read", &file);
        let reason = match read.map(|read| read.as_deref().map(Checkpoint::decode)) {
            Ok(None) => "it is missing".to_owned(),
            Ok(Some(Err(error))) => error.to_string(),
            Ok(Some(Ok(found))) if found != *expected => "it is not the last one that was written".to_owned(),
            Ok(Some(Ok(_))) => return Ok(None),
            Err(error) => return Damage::of(&error).map(Some).ok_or(error),
        };
        Ok(Some(Damage { file, position: 0, reason }))
    }

    /// Removes snapshots that cannot be read from the list and from the disk, and returns their damage.
    fn damaged_snapshots(&self) -> Result<Vec<Damage>, LogError> {
        let mut written = self.checkpoint.lock();
        let (disk, mut found) = (self.store.disk(), Vec::new());
        for offset in written.snapshots.clone() {
            let file = names::path(&self.dir, offset, Kind::Snapshot);
            let read = read_file(disk, &file, snapshot::FILE_BYTES_MAX).context("read", &file);
            let reason = match read {
                Ok(Some(bytes)) => match snapshot::decode(&bytes.into(), offset) {
                    Ok(_) => continue,
                    Err(error) => error.to_string(),
                },
                Ok(None) => "it is missing".to_owned(),
                Err(error) => match Damage::of(&error) {
                    Some(damage) => damage.reason,
                    None => return Err(error),
                },
            };
            remove_if_there(disk, &file)?;
            written.snapshots.retain(|other| *other != offset);
            written.newest = None;
            found.push(Damage { file, position: 0, reason });
        }
        Ok(found)
    }

    /// Returns what is wrong with the header of a durable segment.
    pub(crate) fn header_differs(&self, segment: &Segment<D>) -> Result<Option<Damage>, LogError> {
        if !segment.created_synced.load(Acquire) {
            return Ok(None);
        }
        let file = segment.path(Kind::Header);
        let read = read_file(self.store.disk(), &file, segment_header::BYTES * 64).context("read", &file);
        let reason = match read.map(|read| read.as_deref().map(SegmentHeader::decode)) {
            Ok(Some(Ok(found))) if describes(&found, segment) => return Ok(None),
            Ok(Some(Ok(_))) => "it describes another segment".to_owned(),
            Ok(Some(Err(error))) => error.to_string(),
            Ok(None) => "it is missing".to_owned(),
            Err(error) => return Damage::of(&error).map(Some).ok_or(error),
        };
        Ok(Some(Damage { file, position: 0, reason }))
    }

    fn rewrite_header(&self, segment: &Arc<Segment<D>>) -> Result<(), LogError> {
        let compacted = match segment.generation {
            0 => None,
            generation => {
                let last = segment.last_row(&self.store)?;
                let next_raft_index =
                    last.map_or(segment.first_raft_index, |row| RaftIndex(row.raft_index.0 + 1));
                Some(Compacted { generation, end_offset: segment.end_offset(), next_raft_index })
            }
        };
        let header = SegmentHeader {
            base_offset: segment.base_offset,
            first_raft_index: segment.first_raft_index,
            created: segment.created,
            compacted,
        };
        replace_file(self.store.disk(), &segment.path(Kind::Header), &[IoSlice::new(&header.encode())])
    }
}

fn describes<D: Disk>(header: &SegmentHeader, segment: &Segment<D>) -> bool {
    let ends = |compacted: &Compacted| (compacted.generation, compacted.end_offset);
    let expected = (segment.generation > 0).then(|| (segment.generation, segment.end_offset()));
    header.base_offset == segment.base_offset
        && header.first_raft_index == segment.first_raft_index
        && header.compacted.as_ref().map(ends) == expected
}
