//! A disk between the log and the kernel, with a watcher.
//!
//! The watcher sees every write and sync in order. It may refuse them, like a full or failing disk. It may
//! even swallow a sync, to prove that the tests would notice.

use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailrace_log::{DirEntry, Disk, DiskFile, OpenMode};
use tailrace_runtime::disk::LocalDisk;

/// Sees, and may refuse, what the server does to its files. Each method runs on the thread that does the
/// work.
pub trait DiskWatcher: Send + Sync + fmt::Debug {
    /// Called instead of writing `bufs` at `position` of the file. `write` carries out the write.
    ///
    /// # Errors
    /// The error of `write`, or any other error that the test wants the disk to return.
    fn write(
        &self,
        path: &Path,
        position: u64,
        bufs: &[IoSlice<'_>],
        write: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<()>;

    /// Called instead of a sync. `sync` carries out the sync.
    ///
    /// # Errors
    /// The error of `sync`, or any other error that the test wants the disk to return.
    fn sync(&self, path: &Path, sync: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()>;

    /// Called before blocks are reserved. If it returns an error, nothing is reserved.
    ///
    /// # Errors
    /// Any error that the test wants the disk to return.
    fn before_preallocate(&self, path: &Path, bytes: u64) -> io::Result<()>;
}

/// The real disk, behind a watcher.
#[derive(Clone)]
pub struct WatchedDisk {
    real: LocalDisk,
    watcher: Arc<dyn DiskWatcher>,
    has_descriptors: bool,
}

impl WatchedDisk {
    pub fn new(watcher: Arc<dyn DiskWatcher>) -> Self {
        Self { real: LocalDisk::default(), watcher, has_descriptors: true }
    }

    /// Returns such a disk whose files have no kernel descriptors, so that the kernel cannot send from them.
    pub fn without_descriptors(watcher: Arc<dyn DiskWatcher>) -> Self {
        Self { has_descriptors: false, ..Self::new(watcher) }
    }
}

/// An open file with its path.
pub struct WatchedFile {
    real: <LocalDisk as Disk>::File,
    path: PathBuf,
    watcher: Arc<dyn DiskWatcher>,
    has_descriptor: bool,
}

impl DiskFile for WatchedFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.real.read_at(buf, position)
    }

    fn read_at_hand(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.real.read_at_hand(buf, position)
    }

    fn write_all_at(&self, bufs: &[IoSlice<'_>], position: u64) -> io::Result<()> {
        self.watcher.write(&self.path, position, bufs, &mut || self.real.write_all_at(bufs, position))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.watcher.sync(&self.path, &mut || self.real.sync_data())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.watcher.sync(&self.path, &mut || self.real.sync_all())
    }

    fn preallocate(&self, position: u64, bytes: u64) -> io::Result<()> {
        self.watcher.before_preallocate(&self.path, bytes)?;
        self.real.preallocate(position, bytes)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.real.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.real.len()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.real.descriptor().filter(|_| self.has_descriptor)
    }

    fn is_resident(&self, position: u64, bytes: u64) -> bool {
        self.real.is_resident(position, bytes)
    }

    fn warm(&self, position: u64, bytes: u64) -> io::Result<()> {
        self.real.warm(position, bytes)
    }

    fn forget(&self, position: u64, bytes: u64) {
        self.real.forget(position, bytes);
    }
}

impl Disk for WatchedDisk {
    type File = WatchedFile;

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<WatchedFile> {
        let real = self.real.open(path, mode)?;
        let watcher = Arc::clone(&self.watcher);
        Ok(WatchedFile { real, path: path.to_owned(), watcher, has_descriptor: self.has_descriptors })
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        Disk::len(&self.real, path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.real.exists(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.real.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.real.remove_file(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.real.create_dir(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.real.remove_dir(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.real.read_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.watcher.sync(path, &mut || self.real.sync_dir(path))
    }

    fn sync_fs(&self, path: &Path) -> io::Result<()> {
        self.watcher.sync(path, &mut || self.real.sync_fs(path))
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.real.free_bytes(path)
    }
}
