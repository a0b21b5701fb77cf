//! The errors of a log.

use std::io;
use std::path::{Path, PathBuf};

use tailrace_records::BatchError;
use tailrace_types::{LeaderEpoch, LogEnd, Offset, RaftIndex};

/// The reason why the log refused an operation or failed.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The disk is full, or a quota is used up. Nothing was appended, and later appends may succeed. Reads
    /// continue.
    #[error("no space left to {action} {}", .path.display())]
    NoSpace {
        /// The attempted action, as an infinitive.
        action: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// A system call failed. If it was a write or a sync, the log is poisoned from now on.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// The attempted action, as an infinitive.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// An earlier write or sync failed, so the content of the disk is unknown. Writes are refused until the
    /// log is opened again. Reads continue.
    #[error("the log accepts no writes after a failure: {reason}")]
    Poisoned {
        /// The failure that poisoned it.
        reason: String,
    },
    /// Durable bytes are missing or wrong. Nothing was changed on disk.
    #[error("{} is damaged at byte {position}: {reason}", .file.display())]
    Damaged {
        /// The damaged file.
        file: PathBuf,
        /// The position in bytes from the start of the file.
        position: u64,
        /// What was expected and what was found.
        reason: String,
    },
    /// The records of a batch expand to more than the limit. This is no damage: the batch is whole and is
    /// served unchanged.
    #[error("{} has a batch at byte {position} whose records expand to more than {bytes_max} bytes", .file.display())]
    ExpandsTooLarge {
        /// The `.log`.
        file: PathBuf,
        /// The position of the batch in bytes from the start of the file.
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
        /// The expected topic, partition and topic id.
        expected: String,
        /// The ones found.
        found: String,
    },
    /// The offset is not in the log.
    #[error("offset {requested} is outside the log, which holds {log_start} up to, not including, {log_end}")]
    OutOfRange {
        /// The requested offset.
        requested: Offset,
        /// The first offset in the log.
        log_start: Offset,
        /// One past the last offset.
        log_end: LogEnd,
    },
    /// The log is being replaced with another replica's, and until that is done its aborted transactions are
    /// unknown. Nothing is wrong: retry.
    #[error("the log is being replaced with another replica's")]
    BeingExchanged,
    /// The read is limited to memory, and some of the data is only on disk. Nothing is wrong: read it where
    /// that may block.
    #[error("the read needs the disk")]
    NotAtHand,
    /// A batch or entry does not continue the log. A bug in the caller. Nothing was appended.
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
    /// The bytes are not the batch that the header describes. A bug in the caller. Nothing was appended.
    #[error("the batch header says {expected} bytes, the batch has {found}")]
    BatchBytes {
        /// The length in the header.
        expected: u64,
        /// The length of the bytes.
        found: u64,
    },
    /// A round of compaction ended early. What it has put in place stays, and the rest is left to the next
    /// round.
    #[error("compaction stopped: {reason}")]
    CompactionStopped {
        /// The reason.
        reason: &'static str,
    },
    /// The memory for the keys of a round of compaction cannot even hold those of one batch.
    #[error(
        "compaction has memory for {keys_max} keys, and the next batch alone has {records} records: raise \
         log.cleaner.dedupe.buffer.size, or lower log.cleaner.threads"
    )]
    KeyMapTooSmall {
        /// The most keys that the map can hold.
        keys_max: u64,
        /// Records in the batch.
        records: u64,
    },
    /// A payload exceeds a limit of the format.
    #[error("{what} has {bytes} bytes, more than {bytes_max}")]
    TooLarge {
        /// The name of the payload.
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
}

impl LogError {
    /// Wraps the system's error about `path` during `action`.
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::NoSpace { action, path: path.to_owned() }
            }
            _ => Self::Io { action, path: path.to_owned(), source },
        }
    }

    /// Returns the same failure as a lasting one. A sync that failed for lack of space has failed like any
    /// other: the data may be gone from memory, and a second sync would not report it.
    pub(crate) fn lasting(self) -> Self {
        match self {
            Self::NoSpace { action, path } => {
                Self::Io { action, path, source: io::ErrorKind::StorageFull.into() }
            }
            other => other,
        }
    }

    /// Returns the error for bytes in `file` that are not what was written.
    pub fn damaged(file: &Path, position: u64, reason: impl Into<String>) -> Self {
        Self::Damaged { file: file.to_owned(), position, reason: reason.into() }
    }

    /// Returns the reason why the batch at `position` of `file` cannot be decoded.
    pub(crate) fn of_batch(file: &Path, position: u64, error: &BatchError) -> Self {
        match error {
            BatchError::ExpandsTooLarge { bytes_max } => {
                Self::ExpandsTooLarge { file: file.to_owned(), position, bytes_max: *bytes_max as u64 }
            }
            error => Self::damaged(file, position, error.to_string()),
        }
    }

    /// True for a full disk, after which later appends may succeed.
    pub fn is_no_space(&self) -> bool {
        matches!(self, Self::NoSpace { .. })
    }
}

/// Adds the file and the action to an [`io::Result`].
pub(crate) trait IoContext<T> {
    fn context(self, action: &'static str, path: &Path) -> Result<T, LogError>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn context(self, action: &'static str, path: &Path) -> Result<T, LogError> {
        self.map_err(|source| LogError::io(action, path, source))
    }
}
