//! Segments whose content is not what was written: known once somebody has read them, and from then on not read any more.
//!
//! The index rows of such a segment stay in use as far as their own checksums hold: which entries there are, and of which epochs, is
//! known without the batches.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Release;

use tailrace_types::{Offset, RaftIndex};

use crate::disk::Disk;
use crate::error::LogError;
use crate::log::Log;
use crate::reader::LogReader;
use crate::segment::Segment;

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// Where in it, in bytes.
    pub position: u64,
    /// What was expected and what was found.
    pub reason: String,
}

impl Damage {
    /// What an error says about damage. An unreadable sector is damage; no other failure of a disk is.
    pub(crate) fn of(error: &LogError) -> Option<Self> {
        match error {
            LogError::Damaged { file, position, reason } => {
                Some(Self { file: file.clone(), position: *position, reason: reason.clone() })
            }
            LogError::Io { action: "read", path, source } if is_unreadable(source) => {
                Some(Self { file: path.clone(), position: 0, reason: source.to_string() })
            }
            _ => None,
        }
    }

    fn to_error(&self) -> LogError {
        LogError::damaged(&self.file, self.position, self.reason.clone())
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.to_error())
    }
}

fn is_unreadable(error: &std::io::Error) -> bool {
    const EIO: i32 = 5;
    error.raw_os_error() == Some(EIO) || error.kind() == std::io::ErrorKind::UnexpectedEof
}

/// A segment that is out of service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedSegment {
    /// What it is named by.
    pub base_offset: Offset,
    /// One past its last offset.
    pub end_offset: Offset,
    /// Raft index of its first batch.
    pub first_raft_index: RaftIndex,
    /// What was found.
    pub damage: Damage,
}

impl<D: Disk> Segment<D> {
    /// Takes it out of service if `error` tells of damage. True if it was in service before.
    pub(crate) fn condemn(&self, reader: &LogReader<D>, error: &LogError) -> bool {
        let Some(damage) = Damage::of(error) else { return false };
        let is_new = self.damage.set(damage).is_ok();
        if is_new {
            reader.damaged_ever.store(true, Release);
        }
        is_new
    }

    /// # Errors
    /// [`LogError::Damaged`] if it is out of service.
    pub(crate) fn refuse_damaged(&self) -> Result<(), LogError> {
        self.damage.get().map_or(Ok(()), |damage| Err(damage.to_error()))
    }
}

impl<D: Disk> LogReader<D> {
    /// The segments that are out of service, oldest first. Cheap while there never were any.
    pub fn damaged(&self) -> Vec<DamagedSegment> {
        if !self.damaged_ever.load(std::sync::atomic::Ordering::Acquire) {
            return Vec::new();
        }
        let list = self.segments.load();
        let damaged = list.iter().filter_map(|segment| {
            Some(DamagedSegment {
                base_offset: segment.base_offset,
                end_offset: segment.end_offset(),
                first_raft_index: segment.first_raft_index,
                damage: segment.damage.get()?.clone(),
            })
        });
        damaged.collect()
    }

    /// Takes the segment out of service whose `.log` an error names.
    pub(crate) fn condemn_by(&self, error: &LogError) {
        let Some(damage) = Damage::of(error) else { return };
        let list = self.segments.load_full();
        let path = |segment: &Segment<D>| segment.path(crate::format::names::Kind::Log);
        if let Some(segment) = list.iter().find(|segment| path(segment) == damage.file) {
            segment.condemn(self, error);
        }
    }
}

impl<D: Disk> Log<D> {
    /// Lets the next append begin a segment, so that the segment that begins at `base` takes no more. Nothing if it does not anyway.
    pub fn seal(&mut self, base: Offset) {
        if self.active.as_ref().is_some_and(|active| active.base_offset == base && active.rows() > 0) {
            self.give_back_reserved();
            self.active = None;
        }
    }

    /// Reads the side file and the checkpoint as they lie on the disk, and writes anew from memory what is not as it was. Says what was
    /// wrong. Blocks.
    ///
    /// # Errors
    /// As [`Log::append_entry`] and [`Log::checkpoint`].
    pub fn scrub_files(&mut self) -> Result<Vec<Damage>, LogError> {
        self.check_writable()?;
        let mut found = Vec::new();
        let disk = self.reader.store.disk().clone();
        if let Some(damage) = self.side.differs(&disk)? {
            let result = self.side.rewrite(&disk);
            self.poison_unless_no_space(result)?;
            found.push(damage);
        }
        if let Some(damage) = self.checkpoint_differs()? {
            // One that says the same would not be written.
            crate::store::lock(&self.reader.checkpoint).written = None;
            self.checkpoint(None)?;
            found.push(damage);
        }
        Ok(found)
    }

    fn checkpoint_differs(&self) -> Result<Option<Damage>, LogError> {
        use crate::error::IoContext;
        use crate::format::checkpoint::{BYTES_MAX, Checkpoint};
        let file = crate::store::lock(&self.reader.checkpoint);
        let Some(written) = &file.written else { return Ok(None) };
        let path = self.reader.dir.join(crate::format::names::CHECKPOINT);
        let read =
            crate::disk::read_file(self.reader.store.disk(), &path, BYTES_MAX).context("read", &path)?;
        let reason = match read.as_deref().map(Checkpoint::decode) {
            None => "it is missing".to_owned(),
            Some(Err(error)) => error.to_string(),
            Some(Ok(found)) if found != *written => "it is not the last one that was written".to_owned(),
            Some(Ok(_)) => return Ok(None),
        };
        Ok(Some(Damage { file: path, position: 0, reason }))
    }
}

/// A segment out of service, for those who hold it by its `Arc`.
pub(crate) fn note<D: Disk, T>(
    reader: &LogReader<D>,
    segment: &Arc<Segment<D>>,
    result: Result<T, LogError>,
) -> Result<T, LogError> {
    if let Err(error) = &result {
        segment.condemn(reader, error);
    }
    result
}
