//! What a disk holds, and what is known of its use.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::fault::{Faults, OpKind};
use super::file::Inode;
use super::folder::Folder;
use crate::Rng;

/// How much of what was not synced survives a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashMode {
    /// Nothing: the worst that can be promised against.
    LoseAll,
    /// Everything: a kill of the process, not of the machine. What was not synced may be lost with the power later.
    KeepAll,
    /// A random part.
    Random,
}

/// One operation, as it was recorded after it was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// What.
    pub kind: OpKind,
    /// On which file or folder, by the name it was opened with.
    pub path: PathBuf,
    /// Where; 0 if that means nothing.
    pub position: u64,
    /// How much; 0 if that means nothing.
    pub bytes: u64,
    /// Whether it succeeded, as far as the caller knows.
    pub ok: bool,
}

/// Counts of what was done.
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
    /// Reads that were not to wait, and would have had to.
    pub would_wait: u64,
}

pub(super) type Observer = Arc<dyn Fn(&Op) + Send + Sync>;

pub(super) struct State {
    pub(super) rng: Rng,
    pub(super) inodes: Vec<Inode>,
    /// 0 is the root.
    pub(super) folders: Vec<Folder>,
    pub(super) faults: Faults,
    /// In so many of a hundred cases what is read is not in memory.
    pub(super) cold_percent: u64,
    pub(super) stats: Stats,
    pub(super) recording: Option<Vec<Op>>,
    pub(super) observer: Option<Observer>,
}

impl State {
    /// How much of what is read is in memory.
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
