//! The content of a disk, and statistics of its use.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::fault::{Faults, OpKind};
use super::file::Inode;
use super::folder::Folder;
use crate::Rng;

/// How much of the unsynced data survives a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashMode {
    /// None of it: the worst case that must be survived.
    LoseAll,
    /// All of it: the process is killed, but not the machine. A later power failure may still take the
    /// unsynced data.
    KeepAll,
    /// A random part of it.
    Random,
}

/// A recorded operation. It was recorded after it was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// The kind of operation.
    pub kind: OpKind,
    /// The file or folder, by the name it was opened with.
    pub path: PathBuf,
    /// The position in the file; 0 if the operation has none.
    pub position: u64,
    /// The number of bytes; 0 if the operation has none.
    pub bytes: u64,
    /// Whether the operation succeeded, as far as the caller knows.
    pub ok: bool,
}

/// Counts of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Reads of files.
    pub reads: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Syncs of files and folders.
    pub syncs: u64,
    /// Files opened or created.
    pub opens: u64,
    /// Non-blocking reads that would have had to wait.
    pub would_wait: u64,
}

pub(super) type Observer = Arc<dyn Fn(&Op) + Send + Sync>;

pub(super) struct State {
    pub(super) rng: Rng,
    pub(super) inodes: Vec<Inode>,
    /// Folder 0 is the root.
    pub(super) folders: Vec<Folder>,
    pub(super) faults: Faults,
    /// Percentage of non-blocking reads whose data is not in memory.
    pub(super) cold_percent: u64,
    pub(super) stats: Stats,
    pub(super) recording: Option<Vec<Op>>,
    pub(super) observer: Option<Observer>,
}

impl State {
    /// Returns how many of the wanted bytes are in memory.
    pub(super) fn at_hand(&mut self, wanted: usize) -> io::Result<usize> {
        if self.cold_percent == 0 || !self.rng.percent(self.cold_percent) {
            return Ok(wanted);
        }
        self.stats.would_wait += 1;
        match self.rng.below(4) {
            0 => Ok(0),
            1 => Ok(self.rng.below(wanted as u64) as usize),
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}
