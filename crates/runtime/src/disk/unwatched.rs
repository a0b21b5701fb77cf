//! In place of the hook of tests: nobody watches.

use std::io::{self, IoSlice};
use std::path::Path;

/// Nobody.
#[derive(Clone, Debug)]
pub(super) struct Watch;

impl Watch {
    pub(super) fn nobody() -> Self {
        Self
    }

    pub(super) fn file(&self, _: &Path) -> WatchedFile {
        WatchedFile
    }

    pub(super) fn sync(&self, _: &Path, mut sync: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        sync()
    }
}

/// Nobody.
#[derive(Debug)]
pub(super) struct WatchedFile;

impl WatchedFile {
    pub(super) fn write(
        &self,
        _: u64,
        _: &[IoSlice<'_>],
        mut write: impl FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        write()
    }

    pub(super) fn sync(&self, mut sync: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        sync()
    }

    pub(super) fn before_preallocate(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
}
