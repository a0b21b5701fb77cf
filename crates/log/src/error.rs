//! What can go wrong in a log.

use std::io;
use std::path::{Path, PathBuf};

use tailrace_records::BatchError;
use tailrace_types::{LeaderEpoch, LogEnd, Offset, RaftIndex};

/// Why the log refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The disk is full, or a quota is used up. Nothing was appended; later appends may work. Reads go on.
    #[error("no space left to {action} {}", .path.display())]
    NoSpace {
        /// What was tried, in the infinitive.
        action: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// A system call failed. If it was a write or a sync, the log is poisoned from now on.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// What was tried, in the infinitive.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// An earlier write or sync failed, so what lies on the disk is unknown. Writes are refused until the log is opened
    /// again; reads go on.
    #[error("the log takes no writes since: {reason}")]
    Poisoned {
        /// The failure that poisoned it.
        reason: String,
    },
    /// Bytes that were durable are gone or wrong. Nothing was changed on disk.
    #[error("{} is damaged at byte {position}: {reason}", .file.display())]
    Damaged {
        /// The damaged file.
        file: PathBuf,
        /// Where, in bytes from its start.
        position: u64,
        /// What was expected and what was found.
        reason: String,
    },
    /// The records of a batch expand to more than is looked into. It is no damage: the batch is whole, and is served as it is.
    #[error("{} has a batch at byte {position} whose records expand to more than {bytes_max} bytes", .file.display())]
    ExpandsTooLarge {
        /// The `.log`.
        file: PathBuf,
        /// Where the batch begins, in bytes from its start.
        position: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// The file was written by a newer tailrace.
    #[error("{} has format version {found}; this tailrace reads up to {supported}", .file.display())]
    NewerFormat {
        /// The file.
        file: PathBuf,
        /// Its version.
        found: u32,
        /// The newest known version.
        supported: u32,
    },
    /// The folder belongs to another partition, or to an earlier topic of the same name.
    #[error("{} belongs to {found}, not to {expected}", .file.display())]
    IdentityMismatch {
        /// The identity file.
        file: PathBuf,
        /// Topic, partition and topic id that were asked for.
        expected: String,
        /// Those found.
        found: String,
    },
    /// The offset is not in the log.
    #[error("offset {requested} is outside the log, which holds {log_start} up to, not including, {log_end}")]
    OutOfRange {
        /// The offset asked for.
        requested: Offset,
        /// First offset in the log.
        log_start: Offset,
        /// One past the last.
        log_end: LogEnd,
    },
    /// The log is being exchanged for another replica's, and which aborted transactions are in it can't be told until that is done. Nothing is
    /// wrong: try again.
    #[error("the log is being exchanged for another replica's")]
    BeingExchanged,
    /// The read goes no further than memory, and something is on the disk only. Nothing is wrong: read it where that may block.
    #[error("it has to be read from the disk")]
    NotAtHand,
    /// A batch or entry does not continue the log. A bug of the caller; nothing was appended.
    #[error(
        "append at offset {found_offset}, raft index {found_index}, epoch {found_epoch} does not continue the log at \
         offset {expected_offset}, raft index {expected_index}, epoch {expected_epoch} or higher"
    )]
    NotContinuous {
        /// The next offset.
        expected_offset: Offset,
        /// The next raft index.
        expected_index: RaftIndex,
        /// The newest epoch in the log.
        expected_epoch: LeaderEpoch,
        /// The batch's base offset.
        found_offset: Offset,
        /// The raft index passed in.
        found_index: RaftIndex,
        /// The batch's epoch.
        found_epoch: LeaderEpoch,
    },
    /// The bytes handed over are not the batch that the header describes. A bug of the caller; nothing was appended.
    #[error("the batch header says {expected} bytes, the batch has {found}")]
    BatchBytes {
        /// From the header.
        expected: u64,
        /// Handed over.
        found: u64,
    },
    /// A round of compaction ended early: what it has put in place stays, the rest is the next round's.
    #[error("compaction stopped: {reason}")]
    CompactionStopped {
        /// Why.
        reason: &'static str,
    },
    /// The memory for the keys of a round of compaction does not even hold those of one batch.
    #[error(
        "compaction has memory for {keys_max} keys, and the next batch alone has {records} records: raise \
         log.cleaner.dedupe.buffer.size, or lower log.cleaner.threads"
    )]
    KeyMapTooSmall {
        /// Keys that the map can hold.
        keys_max: u64,
        /// Records of the batch.
        records: u64,
    },
    /// A payload beyond a limit of the format.
    #[error("{what} has {bytes} bytes, more than {bytes_max}")]
    TooLarge {
        /// What was too large.
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
}

impl LogError {
    /// Wraps what the system said about `path` while trying to `action`.
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::NoSpace { action, path: path.to_owned() }
            }
            _ => Self::Io { action, path: path.to_owned(), source },
        }
    }

    /// The same failure, as one that lasts. A sync that failed for lack of space has failed like any other: what it should
    /// have written may be gone from memory, and a second sync would not tell.
    pub(crate) fn lasting(self) -> Self {
        match self {
            Self::NoSpace { action, path } => {
                Self::Io { action, path, source: io::ErrorKind::StorageFull.into() }
            }
            other => other,
        }
    }

    /// Something in `file` is not as it was written.
    pub fn damaged(file: &Path, position: u64, reason: impl Into<String>) -> Self {
        Self::Damaged { file: file.to_owned(), position, reason: reason.into() }
    }

    /// Why nobody can look into the batch at `position` of `file`.
    pub(crate) fn of_batch(file: &Path, position: u64, error: &BatchError) -> Self {
        match error {
            BatchError::ExpandsTooLarge { bytes_max } => {
                Self::ExpandsTooLarge { file: file.to_owned(), position, bytes_max: *bytes_max as u64 }
            }
            error => Self::damaged(file, position, error.to_string()),
        }
    }

    /// True for a full disk, after which later appends may work.
    pub fn is_no_space(&self) -> bool {
        matches!(self, Self::NoSpace { .. })
    }
}

/// Adds file and action to an [`io::Result`].
pub(crate) trait IoContext<T> {
    fn context(self, action: &'static str, path: &Path) -> Result<T, LogError>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn context(self, action: &'static str, path: &Path) -> Result<T, LogError> {
        self.map_err(|source| LogError::io(action, path, source))
    }
}
