//! Whether the disk of the data folder has room: measured once a second, and noted where a write was refused for want of it.
//! `/healthz` warns, `/metrics` shows the free bytes. Nothing is refused here: that is the disk's business.

mod watch;

use std::sync::atomic::{AtomicU64, Ordering};

use tailrace_log::{Disk, folders_aside};

pub(crate) use self::watch::watch;
use crate::disk::NodeDisk;

/// What is known of one server's disk.
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

    /// Free bytes at the last look; `None` before the first.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        Some(self.free_bytes.load(Ordering::Relaxed)).filter(|bytes| *bytes != u64::MAX)
    }

    /// Writes refused for want of space since the start.
    pub(crate) fn refused(&self) -> u64 {
        self.disk.refusals().count()
    }

    /// What somebody should know about the room on the disk of `folder`; below `bound` free bytes it is too little.
    pub(crate) fn warning(&self, folder: &std::path::Path, bound: u64) -> Option<String> {
        let folder = folder.display();
        let free =
            self.free_bytes().map_or_else(|| "an unknown number of".to_owned(), |free| free.to_string());
        if self.disk.refusals().is_recent() {
            return Some(format!(
                "the disk of {folder} is full: writes are refused, {free} bytes are free; they go on by themselves \
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
            Err(error) => tracing::debug!(%error, "asking for the room on the disk failed"),
        }
    }
}

impl DiskSpace {
    /// Removes the oldest folder that was set aside: those who still live need the room more.
    fn give_room(&self, folder: &std::path::Path) {
        let Some(oldest) = folders_aside(&self.disk, folder).ok().and_then(|aside| aside.into_iter().next())
        else {
            return;
        };
        match self.disk.remove_dir(&oldest) {
            Ok(()) => {
                tracing::warn!(folder = %oldest.display(), "the disk is full: what was set aside is removed");
            }
            Err(error) => tracing::debug!(folder = %oldest.display(), %error, "it could not be removed"),
        }
    }
}
