//! The location of bytes of a log, for callers that send them without inspecting them.
//!
//! Only this module knows the representation, which is a part of an open segment. A sender first loads the
//! extent into memory, which may block, and then uses its descriptor.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use tailrace_types::usize_of;

use crate::disk::{Disk, DiskFile, read_full_at};
use crate::segment::SegmentFiles;

/// A part of a segment. Keeps its file open even after the segment was deleted.
pub struct Extent<D: Disk> {
    files: Arc<SegmentFiles<D>>,
    position: u64,
    bytes: u64,
}

impl<D: Disk> Clone for Extent<D> {
    fn clone(&self) -> Self {
        Self { files: Arc::clone(&self.files), ..*self }
    }
}

impl<D: Disk> std::fmt::Debug for Extent<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Extent")
            .field("position", &self.position)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl<D: Disk> Extent<D> {
    pub(crate) fn new(files: Arc<SegmentFiles<D>>, position: u64, bytes: u64) -> Self {
        Self { files, position, bytes }
    }

    /// The number of bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The position in the file, in bytes.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The file's descriptor, for sendfile(2). `None` if the disk has none.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.files.log.descriptor()
    }

    /// True if all of it can be read without waiting for the device, as far as can be determined.
    pub fn is_resident(&self) -> bool {
        self.files.log.is_resident(self.position, self.bytes)
    }

    /// Reads it into memory and starts readahead of what follows. Blocks.
    ///
    /// # Errors
    /// The device's error.
    pub fn warm(&self) -> io::Result<()> {
        self.files.log.warm(self.position, self.bytes)
    }

    /// Returns a part of the extent, in bytes from its start.
    ///
    /// # Panics
    /// If the range exceeds the extent.
    #[must_use]
    pub fn part(&self, range: Range<u64>) -> Self {
        assert!(range.start <= range.end && range.end <= self.bytes, "{range:?} of {} bytes", self.bytes);
        Self::new(Arc::clone(&self.files), self.position + range.start, range.end - range.start)
    }

    /// Drops the first `bytes` bytes.
    ///
    /// # Panics
    /// If the extent is shorter.
    pub fn advance(&mut self, bytes: u64) {
        assert!(bytes <= self.bytes, "{bytes} of {} bytes", self.bytes);
        self.position += bytes;
        self.bytes -= bytes;
    }

    /// Reads into `buf` from byte `at` up to the extent's end. A read shorter than that means that the file
    /// is shorter than its index says. Blocks on the disk.
    ///
    /// # Errors
    /// Those of [`DiskFile::read_at`](crate::DiskFile::read_at).
    pub fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        let left = self.bytes.saturating_sub(at);
        let wanted = buf.len().min(usize_of(left));
        read_full_at(&self.files.log, &mut buf[..wanted], self.position + at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RealDisk;
    use crate::disk::OpenMode;

    fn extent(folder: &std::path::Path) -> Extent<RealDisk> {
        let path = folder.join("log");
        std::fs::write(&path, b"0123456789").unwrap();
        let open = || RealDisk.open(&path, OpenMode::Read).unwrap();
        Extent::new(Arc::new(SegmentFiles { log: open(), index: open() }), 2, 6)
    }

    fn content(extent: &Extent<RealDisk>, at: u64) -> Vec<u8> {
        let mut buf = [0; 20];
        let read = extent.read_at(&mut buf, at).unwrap();
        buf[..read].to_vec()
    }

    #[test]
    fn reads_end_with_the_extent_and_parts_lie_within() {
        let folder = tempfile::TempDir::new().unwrap();
        let mut extent = extent(folder.path());
        assert_eq!(content(&extent, 0), b"234567");
        assert_eq!(content(&extent, 4), b"67");
        assert_eq!(content(&extent, 7), b"");
        assert_eq!(content(&extent.part(1..3), 0), b"34");
        extent.advance(4);
        assert_eq!((extent.bytes(), extent.position()), (2, 6));
        assert_eq!(content(&extent.part(1..2), 0), b"7");
        extent.advance(2);
        assert_eq!(content(&extent, 0), b"");
        let beyond = std::panic::catch_unwind(move || extent.part(0..1));
        assert!(beyond.is_err());
    }
}
