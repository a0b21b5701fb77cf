//! A hook of the tests of the whole server, between log and kernel; builds without the feature `test-hooks` have none.
//!
//! The watcher sees every write and sync in the order in which they happen, may refuse them (a full disk, a failing one), and may even
//! swallow a sync, to prove that the tests would notice.

use std::fmt;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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

/// Who watches a disk, if anybody does.
#[derive(Clone, Debug)]
pub(super) struct Watch(Option<Arc<dyn DiskWatcher>>);

impl Watch {
    pub(super) fn nobody() -> Self {
        Self(None)
    }

    pub(super) fn by(watcher: Arc<dyn DiskWatcher>) -> Self {
        Self(Some(watcher))
    }

    /// The watch over a file.
    pub(super) fn file(&self, path: &Path) -> WatchedFile {
        WatchedFile(self.0.as_ref().map(|watcher| (path.to_owned(), Arc::clone(watcher))))
    }

    pub(super) fn sync(&self, path: &Path, mut sync: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        match &self.0 {
            Some(watcher) => watcher.sync(path, &mut sync),
            None => sync(),
        }
    }
}

/// Who watches a file, and its path, which is kept for nobody else.
#[derive(Debug)]
pub(super) struct WatchedFile(Option<(PathBuf, Arc<dyn DiskWatcher>)>);

impl WatchedFile {
    pub(super) fn write(
        &self,
        position: u64,
        bufs: &[IoSlice<'_>],
        mut write: impl FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        match &self.0 {
            Some((path, watcher)) => watcher.write(path, position, bufs, &mut write),
            None => write(),
        }
    }

    pub(super) fn sync(&self, mut sync: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        match &self.0 {
            Some((path, watcher)) => watcher.sync(path, &mut sync),
            None => sync(),
        }
    }

    pub(super) fn before_preallocate(&self, bytes: u64) -> io::Result<()> {
        match &self.0 {
            Some((path, watcher)) => watcher.before_preallocate(path, bytes),
            None => Ok(()),
        }
    }
}
