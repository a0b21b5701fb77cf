//! Whether the disk of the data folder has room: measured once a second, and noted when a write fails because
//! it is full. `/healthz` warns, `/metrics` shows the free bytes. Nothing is refused here. Only the disk
//! refuses writes.

mod watch;

use std::sync::atomic::{AtomicU64, Ordering};

use tailrace_log::{Disk, folders_aside};

pub(crate) use self::watch::watch;
use crate::disk::NodeDisk;

/// What is known about the disk of one server.
#[derive(Debug)]
pub(crate) struct DiskSpace {
    disk: NodeDisk,
    /// `u64::MAX` until it is known.
    free_bytes: AtomicU64,
}

impl DiskSpace {
    pub(crate) fn new(disk: NodeDisk) -> Self {
        Self { disk, free_bytes: AtomicU64::new(u64::MAX) }
    }

    /// Returns the free bytes at the last check. `None` before the first.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        Some(self.free_bytes.load(Ordering::Relaxed)).filter(|bytes| *bytes != u64::MAX)
    }

    /// Returns how many writes a full disk has refused since the start.
    pub(crate) fn refused(&self) -> u64 {
        self.disk.refusals().count()
    }

    /// Returns a warning if the disk of `folder` is full or has fewer than `bound` free bytes.
    pub(crate) fn warning(&self, folder: &std::path::Path, bound: u64) -> Option<String> {
        let folder = folder.display();
        let free =
            self.free_bytes().map_or_else(|| "an unknown number of".to_owned(), |free| free.to_string());
        if self.disk.refusals().is_recent() {
            return Some(format!(
                "the disk of {folder} is full: writes are refused, {free} bytes are free; they resume by themselves \
                 when there is room"
            ));
        }
        (self.free_bytes()? < bound).then(|| {
            format!(
                "the disk of {folder} is nearly full: {free} bytes are free, fewer than \
                 tailrace.disk.free.warning.bytes ({bound})"
            )
        })
    }

    fn look(&self, folder: &std::path::Path) {
        if self.disk.refusals().is_recent() {
            self.give_room(folder);
        }
        match self.disk.free_bytes(folder) {
            Ok(free) => self.free_bytes.store(free, Ordering::Relaxed),
            Err(error) => tracing::debug!(%error, "could not measure the free space on the disk"),
        }
    }
}

impl DiskSpace {
    /// Removes the oldest folder that was set aside, because live partitions need the room more.
    fn give_room(&self, folder: &std::path::Path) {
        let Some(oldest) = folders_aside(&self.disk, folder).ok().and_then(|aside| aside.into_iter().next())
        else {
            return;
        };
        match self.disk.remove_dir(&oldest) {
            Ok(()) => {
                tracing::warn!(folder = %oldest.display(), "the disk is full: removed a folder that was set aside");
            }
            Err(error) => tracing::debug!(folder = %oldest.display(), %error, "could not remove the folder"),
        }
    }
}
