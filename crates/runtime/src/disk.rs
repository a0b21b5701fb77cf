//! The disk that the server's logs use: the real one. Tests of the whole server put a watcher between log and kernel.

mod refusals;
#[cfg(not(feature = "test-hooks"))]
mod unwatched;
#[cfg(feature = "test-hooks")]
mod watch;

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use tailrace_log::{DirEntry, Disk, DiskFile, OpenMode, RealDisk, RealFile};

use refusals::Refusals;
#[cfg(not(feature = "test-hooks"))]
use unwatched::{Watch, WatchedFile};
#[cfg(feature = "test-hooks")]
pub use watch::DiskWatcher;
#[cfg(feature = "test-hooks")]
use watch::{Watch, WatchedFile};

/// See the module documentation. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ServerDisk {
    real: RealDisk,
    watch: Watch,
    refusals: Arc<Refusals>,
}

impl ServerDisk {
    /// The disk as it is.
    pub fn real() -> Self {
        Self { real: RealDisk, watch: Watch::nobody(), refusals: Arc::default() }
    }

    /// The disk with a watcher before it.
    #[cfg(feature = "test-hooks")]
    pub fn watched(watcher: Arc<dyn DiskWatcher>) -> Self {
        Self { watch: Watch::by(watcher), ..Self::real() }
    }

    /// Writes that found no space.
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }
}

/// An open file of [`ServerDisk`].
#[derive(Debug)]
pub struct ServerFile {
    real: RealFile,
    watched: WatchedFile,
    refusals: Arc<Refusals>,
}

impl AsFd for ServerFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.real.as_fd()
    }
}

impl ServerFile {
    fn synced(&self, sync: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        self.refusals.note(self.watched.sync(sync))
    }
}

impl DiskFile for ServerFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.real.read_at(buf, position)
    }

    fn write_all_at(&self, bufs: &[IoSlice<'_>], position: u64) -> io::Result<()> {
        let write = || self.real.write_all_at(bufs, position);
        self.refusals.note(self.watched.write(position, bufs, write))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.synced(|| self.real.sync_data())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.synced(|| self.real.sync_all())
    }

    fn preallocate(&self, position: u64, bytes: u64) -> io::Result<()> {
        self.watched.before_preallocate(bytes)?;
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
        let watched = self.watch.file(path);
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
        self.refusals.note(self.watch.sync(path, || self.real.sync_dir(path)))
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.real.free_bytes(path)
    }
}
