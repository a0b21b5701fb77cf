//! The disk that the server's logs use: the real one, with an optional watcher between log and kernel.
//!
//! The watcher exists for tests of the whole server: it sees every write and sync in the order in which they happen,
//! may refuse them (a full disk, a failing one), and may even swallow a sync, to prove that the tests would notice.

use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::space::Refusals;
use tailrace_log::{DirEntry, Disk, DiskFile, OpenMode, RealDisk, RealFile};

/// Sees, and may refuse, what the server does to its files. All methods are called on the thread that does it.
pub trait DiskWatcher: Send + Sync + fmt::Debug {
    /// Called in place of writing `bufs` at `position` of the file. `write` carries it out.
    ///
    /// # Errors
    /// That of `write`, or whatever the test wants the disk to answer.
    fn write(
        &self,
        path: &Path,
        position: u64,
        bufs: &[IoSlice<'_>],
        write: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<()>;

    /// Called in place of a sync. `sync` carries it out.
    ///
    /// # Errors
    /// That of `sync`, or whatever the test wants the disk to answer.
    fn sync(&self, path: &Path, sync: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()>;

    /// Called before blocks are reserved; an error is returned in place of reserving.
    ///
    /// # Errors
    /// Whatever the test wants the disk to answer.
    fn before_preallocate(&self, path: &Path, bytes: u64) -> io::Result<()>;
}

/// See the module documentation. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ServerDisk {
    real: RealDisk,
    watcher: Option<Arc<dyn DiskWatcher>>,
    refusals: Arc<Refusals>,
}

impl ServerDisk {
    /// The disk as it is.
    pub fn real() -> Self {
        Self { real: RealDisk, watcher: None, refusals: Arc::default() }
    }

    /// The disk with a watcher before it.
    pub fn watched(watcher: Arc<dyn DiskWatcher>) -> Self {
        Self { real: RealDisk, watcher: Some(watcher), refusals: Arc::default() }
    }

    /// Writes that found no space.
    pub(crate) fn refusals(&self) -> &Refusals {
        &self.refusals
    }
}

/// An open file of [`ServerDisk`].
#[derive(Debug)]
pub struct ServerFile {
    real: RealFile,
    /// Only kept where somebody watches.
    watched: Option<(PathBuf, Arc<dyn DiskWatcher>)>,
    refusals: Arc<Refusals>,
}

impl AsFd for ServerFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.real.as_fd()
    }
}

impl ServerFile {
    fn synced(&self, mut sync: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        self.refusals.note(match &self.watched {
            Some((path, watcher)) => watcher.sync(path, &mut sync),
            None => sync(),
        })
    }
}

impl DiskFile for ServerFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.real.read_at(buf, position)
    }

    fn write_all_at(&self, bufs: &[IoSlice<'_>], position: u64) -> io::Result<()> {
        let mut write = || self.real.write_all_at(bufs, position);
        self.refusals.note(match &self.watched {
            Some((path, watcher)) => watcher.write(path, position, bufs, &mut write),
            None => write(),
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.synced(|| self.real.sync_data())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.synced(|| self.real.sync_all())
    }

    fn preallocate(&self, position: u64, bytes: u64) -> io::Result<()> {
        if let Some((path, watcher)) = &self.watched {
            watcher.before_preallocate(path, bytes)?;
        }
        self.real.preallocate(position, bytes)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.real.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.real.len()
    }

    fn start_writeback(&self, position: u64, bytes: u64) {
        self.real.start_writeback(position, bytes);
    }
}

impl Disk for ServerDisk {
    type File = ServerFile;

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<ServerFile> {
        let watched = self.watcher.as_ref().map(|watcher| (path.to_owned(), Arc::clone(watcher)));
        let real = self.refusals.note(self.real.open(path, mode))?;
        Ok(ServerFile { real, watched, refusals: Arc::clone(&self.refusals) })
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        self.real.len(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.real.exists(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.refusals.note(self.real.rename(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.real.remove_file(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.refusals.note(self.real.create_dir(path))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.real.remove_dir(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.real.read_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.refusals.note(match &self.watcher {
            Some(watcher) => watcher.sync(path, &mut || self.real.sync_dir(path)),
            None => self.real.sync_dir(path),
        })
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.real.free_bytes(path)
    }
}
