//! Iteration over all batches of a folder.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use tailrace_records::BatchHeader;

use super::foreign::{counting, read_checkpoint};
use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::{IoContext, LogError};
use crate::format::names::{self, Kind};
use crate::listing::Listing;
use crate::scan::{BatchScanner, Scanned};

/// One batch of a dump.
#[derive(Clone, Debug)]
pub struct DumpedBatch {
    /// The `.log` that holds it.
    pub file: PathBuf,
    /// Its position.
    pub position: u64,
    /// Its header.
    pub header: BatchHeader,
    /// The whole batch. Its CRC is right.
    pub bytes: Bytes,
}

/// Iterates over the batches of a folder in order. See [`dump_dir`].
pub struct Dump<D: Disk> {
    disk: D,
    /// Remaining `.log` files, last first.
    files: Vec<PathBuf>,
    open: Option<(D::File, PathBuf, u64, u64)>,
}

/// Iterates over all batches of a partition's folder, or over those of one `.log` if `path` is one. A bad
/// batch yields an error, and the iteration continues with the next segment.
///
/// # Errors
/// If the folder cannot be listed.
pub fn dump_dir<D: Disk>(disk: &D, path: &Path) -> Result<Dump<D>, LogError> {
    let is_segment = path.extension().is_some_and(|extension| extension == "log");
    let mut files = if is_segment {
        vec![path.to_owned()]
    } else {
        let mut listing = Listing::read(disk, path)?;
        // An unreadable checkpoint is ignored, because only the log itself is inspected.
        let checkpoint = read_checkpoint(disk, path)?.and_then(Result::ok);
        let names = counting(disk, path, &mut listing, checkpoint.as_ref())?;
        names
            .iter()
            .map(|name| names::path_of(path, name.base, name.generation, Kind::Log))
            .collect::<Vec<_>>()
    };
    files.reverse();
    Ok(Dump { disk: disk.clone(), files, open: None })
}

impl<D: Disk> Dump<D> {
    fn advance(&mut self) -> Result<Option<DumpedBatch>, LogError> {
        loop {
            if self.open.is_none() {
                let Some(path) = self.files.pop() else { return Ok(None) };
                let file = self.disk.open(&path, OpenMode::Read).context("open", &path)?;
                let len = file.len().context("read the length of", &path)?;
                self.open = Some((file, path, 0, len));
            }
            let Some((file, path, position, len)) = &mut self.open else { continue };
            let mut scanner = BatchScanner::new(file, *position, *len);
            scanner.read_exactly();
            match scanner.next().context("read", path)? {
                Scanned::Batch { header, position: at, bytes } => {
                    let bytes = Bytes::copy_from_slice(bytes);
                    let dumped = DumpedBatch { file: path.clone(), position: at, header, bytes };
                    *position = at + dumped.bytes.len() as u64;
                    return Ok(Some(dumped));
                }
                Scanned::End => self.open = None,
                Scanned::Bad { position, reason } => {
                    let error = LogError::damaged(path, position, reason);
                    self.open = None;
                    return Err(error);
                }
            }
        }
    }
}

impl<D: Disk> Iterator for Dump<D> {
    type Item = Result<DumpedBatch, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.advance() {
            Ok(dumped) => dumped.map(Ok),
            Err(error) => {
                self.open = None;
                Some(Err(error))
            }
        }
    }
}
