//! The real disk of a node. Its files know which of their parts are in the page cache.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use tailrace_log::{DirEntry, Disk, DiskFile, OpenMode, RealDisk, RealFile};

use crate::residency;

/// A [`RealDisk`] whose files know which of their parts are in the page cache.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalDisk(RealDisk);

/// An open file of [`LocalDisk`].
#[derive(Debug)]
pub struct LocalFile(RealFile);

impl DiskFile for LocalFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.0.read_at(buf, position)
    }

    fn read_at_hand(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        residency::read_at_hand(self.0.as_fd(), buf, position)
    }

    fn write_all_at(&self, bufs: &[IoSlice<'_>], position: u64) -> io::Result<()> {
        self.0.write_all_at(bufs, position)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn preallocate(&self, position: u64, bytes: u64) -> io::Result<()> {
        self.0.preallocate(position, bytes)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn forget(&self, position: u64, bytes: u64) {
        self.0.forget(position, bytes);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }

    fn is_resident(&self, position: u64, bytes: u64) -> bool {
        residency::is_cached(self.0.as_fd(), position, bytes)
    }

    fn warm(&self, position: u64, bytes: u64) -> io::Result<()> {
        residency::read_ahead(self.0.as_fd(), position, bytes)
    }
}

impl Disk for LocalDisk {
    type File = LocalFile;

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<LocalFile> {
        self.0.open(path, mode).map(LocalFile)
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        self.0.len(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.0.exists(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.remove_file(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.0.create_dir(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.0.remove_dir(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.0.read_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.0.sync_dir(path)
    }

    fn sync_fs(&self, path: &Path) -> io::Result<()> {
        self.0.sync_fs(path)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.0.free_bytes(path)
    }
}
