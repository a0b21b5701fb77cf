//! The partition's log as raft's log.
//!
//! One raft entry is one record batch, or one entry of the side file. Nothing is stored twice: entries that
//! raft asks for are read from the segments.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;

use bytes::Bytes;
use raft::eraftpb::{Entry, EntryType, Snapshot};
use raft::{GetEntriesContext, RaftState, Storage, StorageError};
use tailrace_log::{Damage, Disk, Indexed, Log, LogError, Row, Sections};
use tailrace_types::{LeaderEpoch, Offset, RaftIndex};

use super::ballot::{Ballot, BallotFile, Point};
use crate::ledger::Ledger;

/// Approximate weight of an entry besides its data, in bytes.
const ENTRY_OVERHEAD_BYTES: u64 = 32;

/// First byte of a membership change in the side file.
const MEMBERS: u8 = 1;
/// First byte of a new log start in the side file. The offset follows, little endian.
const LOG_START: u8 = 2;
/// The whole payload of a barrier in the side file. Builds that do not know it take it for an empty entry,
/// which it is.
const BARRIER: u8 = 3;

/// The log with its derived state, and the ballot.
pub(super) struct LogStorage<D: Disk> {
    pub(super) ledger: Ledger<D>,
    pub(super) ballot: Ballot,
    pub(super) ballots: BallotFile,
    pub(super) disk: D,
    /// Raft index of the last entry that raft knows to be stored. The leader's log may briefly hold one more.
    pub(super) known: u64,
    /// Raft index up to which entries are applied, that is, committed and, with the strict policy, durable
    /// here.
    pub(super) applied: u64,
    /// Replicas that raft found to be too far behind for entries, since this was last taken.
    pub(super) behind: RefCell<BTreeSet<u64>>,
    /// The error of a read for raft. It stops the replica.
    pub(super) failure: RefCell<Option<LogError>>,
}

impl<D: Disk> LogStorage<D> {
    /// Returns the term of the entry at `index`. `None` if it does not exist.
    pub(super) fn term_at(&self, index: u64) -> Result<Option<u64>, LogError> {
        let start = self.ballot.start;
        if index <= start.index {
            return Ok((index == start.index).then_some(start.term));
        }
        // The most frequent query. A new engine also makes it, and panics without an answer.
        if index + 1 == self.ledger.log.next_raft_index().0 {
            return Ok(Some(term_of(self.ledger.log.last_epoch())));
        }
        let found = self.ledger.log.at_index(RaftIndex(index))?;
        Ok(found.map(|indexed| term_of(indexed.leader_epoch())))
    }

    /// Returns the offset of the first record that an entry at `index` or later has, or will have. `index`
    /// must be above the start of raft's log.
    pub(super) fn offset_at(&self, index: u64) -> Result<Offset, LogError> {
        offset_at(&self.ledger.log, index)
    }

    /// Returns the offset up to which the log may be trimmed or compacted.
    pub(super) fn applied_end(&self) -> Result<Offset, LogError> {
        self.offset_at(self.applied + 1)
    }

    /// Raises the start of raft's log to the batch that `last` describes, which is applied. Everything up to
    /// it counts as snapshot. Durable on return.
    pub(super) fn raise_start(&mut self, last: &Row) -> Result<(), LogError> {
        let index = last.raft_index.0;
        if index <= self.ballot.start.index {
            return Ok(());
        }
        assert!(index <= self.applied, "raft index {index} is not applied, only {}", self.applied);
        self.ballot.start = Point { index, term: term_of(last.leader_epoch) };
        self.ballot.commit = self.ballot.commit.max(index);
        self.write_ballot()
    }

    /// Saves the log start in the ballot, before anything is removed and before a checkpoint is the only
    /// place that has it. Durable on return.
    pub(super) fn keep_log_start(&mut self) -> Result<(), LogError> {
        let log_start = Some(self.ledger.log.log_start());
        if self.ballot.log_start >= log_start {
            return Ok(());
        }
        self.ballot.log_start = log_start;
        self.write_ballot()
    }

    /// Saves the progress of compaction in the ballot, once that progress is durable. Durable on return.
    pub(super) fn keep_first_dirty(&mut self) -> Result<(), LogError> {
        let first_dirty = self.ledger.log.reader().first_dirty();
        if self.ballot.first_dirty >= first_dirty {
            return Ok(());
        }
        self.ballot.first_dirty = first_dirty;
        self.write_ballot()
    }

    /// Makes the ballot durable. Blocks.
    pub(super) fn write_ballot(&mut self) -> Result<(), LogError> {
        self.ballots.write(&self.disk, &self.ballot)
    }

    /// The folder, for messages.
    pub(super) fn dir(&self) -> std::sync::Arc<Path> {
        std::sync::Arc::from(self.ledger.log.reader().dir())
    }

    /// The error for a damaged batch. Its segment is out of service until it is mended, and raft asks again.
    fn batch_error(&self, error: LogError) -> raft::Error {
        match error {
            LogError::Damaged { .. } if !self.ledger.log.reader().damaged().is_empty() => {
                raft::Error::Store(StorageError::LogTemporarilyUnavailable)
            }
            error => self.store_error(error),
        }
    }

    /// The error after which the replica has to be opened again. Raft panics, or continues as if the entries
    /// were compacted. None of that leaves the replica.
    fn store_error(&self, error: LogError) -> raft::Error {
        self.failure.borrow_mut().get_or_insert(error);
        raft::Error::Store(StorageError::Compacted)
    }

    /// The error for a missing entry. If the entry was written, another valid row is in place of its own: a
    /// misdirected write.
    fn missing(&self, index: u64) -> raft::Error {
        if index > self.known {
            return raft::Error::Store(StorageError::Unavailable);
        }
        let reason = format!("the log does not find raft index {index}, which was written");
        self.store_error(LogError::damaged(&self.dir(), 0, reason))
    }

    /// Checks the files that are rarely written, and rewrites those that have changed. `sections` are those
    /// at the log end, if they may be saved.
    pub(super) fn scrub_files(&mut self, sections: Option<Sections>) -> Result<Vec<Damage>, LogError> {
        let mut found = self.ledger.log.scrub_files(sections)?;
        if let Some(damage) = self.ballots.differs(&self.disk, &self.ballot) {
            // Both slots, one after the other.
            self.write_ballot()?;
            self.write_ballot()?;
            found.push(damage);
        }
        Ok(found)
    }

    /// Returns an entry as it was proposed. A batch comes without its bytes unless `whole`.
    fn entry(&self, index: u64, whole: bool) -> raft::Result<Entry> {
        let found = self.ledger.log.at_index(RaftIndex(index)).map_err(|error| self.store_error(error))?;
        let found = found.ok_or_else(|| self.missing(index))?;
        let mut entry = Entry { index, term: term_of(found.leader_epoch()), ..Entry::default() };
        match found {
            Indexed::Entry(stored) => {
                fill_from_side(&mut entry, &stored.payload);
            }
            Indexed::Batch(row) if whole => {
                entry.data = self.ledger.log.batch_at(&row).map_err(|error| self.batch_error(error))?;
            }
            Indexed::Batch(_) => {}
        }
        Ok(entry)
    }
}

impl<D: Disk> Storage for LogStorage<D> {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let mut state = RaftState::default();
        state.hard_state.term = self.ballot.term;
        state.hard_state.vote = self.ballot.vote;
        state.hard_state.commit = self.ballot.commit;
        state.conf_state = self.ballot.members.clone();
        Ok(state)
    }

    /// Batches come with their bytes only if they are to be sent. Raft also reads everything committed, but
    /// only membership matters there.
    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        context: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low < self.first_index()? {
            return Err(raft::Error::Store(StorageError::Compacted));
        }
        let whole = context.can_async();
        let bytes_max = max_size.into().unwrap_or(u64::MAX);
        let mut bytes = 0_u64;
        let mut entries = Vec::new();
        for index in low..high {
            let entry = self.entry(index, whole)?;
            bytes = bytes.saturating_add(entry.data.len() as u64 + ENTRY_OVERHEAD_BYTES);
            if bytes > bytes_max && !entries.is_empty() {
                break;
            }
            entries.push(entry);
        }
        Ok(entries)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        if index < self.ballot.start.index {
            return Err(raft::Error::Store(StorageError::Compacted));
        }
        let term = self.term_at(index).map_err(|error| self.store_error(error))?;
        term.ok_or_else(|| self.missing(index))
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.ballot.start.index + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.known)
    }

    /// Raft takes no part in snapshots. It only reports that `to` needs one. Raft itself would wait for a
    /// report on the snapshot, for ever if that gets lost. `offers.rs` does the same work without waiting.
    fn snapshot(&self, _request_index: u64, to: u64) -> raft::Result<Snapshot> {
        self.behind.borrow_mut().insert(to);
        Err(raft::Error::Store(StorageError::SnapshotTemporarilyUnavailable))
    }
}

/// Returns the offset of the first record that an entry at `index` or later has, or will have.
pub(super) fn offset_at<D: Disk>(log: &Log<D>, index: u64) -> Result<Offset, LogError> {
    Ok(match log.at_index(RaftIndex(index))? {
        Some(Indexed::Batch(row)) => row.base_offset,
        Some(Indexed::Entry(entry)) => entry.offset,
        None => log.log_end().offset(),
    })
}

/// Returns the term of an epoch. A negative epoch in a log's files becomes term 0, which no entry has.
pub(super) fn term_of(epoch: LeaderEpoch) -> u64 {
    u64::try_from(epoch.0).unwrap_or(0)
}

/// # Panics
/// If the term is beyond [`TERM_MAX`](super::wire::TERM_MAX). No message carries such a term, and that many
/// elections take longer than disks last.
pub(super) fn epoch_of(term: u64) -> LeaderEpoch {
    LeaderEpoch(i32::try_from(term).expect("terms have 31 bits"))
}

/// Returns the side file's payload for an entry: empty for the entry that starts a term, otherwise its kind
/// and its data.
pub(super) fn side_payload(entry: &Entry) -> Vec<u8> {
    match entry.get_entry_type() {
        EntryType::EntryNormal => entry.context.to_vec(),
        EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => [&[MEMBERS], &entry.data[..]].concat(),
    }
}

fn fill_from_side(entry: &mut Entry, payload: &Bytes) {
    match payload.first() {
        Some(&MEMBERS) => {
            entry.set_entry_type(EntryType::EntryConfChangeV2);
            entry.data = payload.slice(1..);
        }
        _ => entry.context = payload.clone(),
    }
}

/// Returns an entry that moves the log start. Raft sees an entry without data: the payload is in its context.
pub(super) fn log_start_entry(to: Offset) -> Entry {
    let context = [&[LOG_START], &to.get().to_le_bytes()[..]].concat();
    Entry { context: context.into(), ..Entry::default() }
}

/// Returns an empty entry. See [`Barrier`](super::Barrier).
pub(super) fn barrier_entry() -> Entry {
    Entry { context: Bytes::from_static(&[BARRIER]), ..Entry::default() }
}

/// Returns the log start in a side file's payload or in an entry's context.
pub(super) fn log_start_of(payload: &[u8]) -> Option<Offset> {
    let (&LOG_START, offset) = payload.split_first()? else { return None };
    Some(Offset(i64::from_le_bytes(offset.try_into().ok()?)))
}

/// True for an entry that belongs in a segment.
pub(super) fn is_batch(entry: &Entry) -> bool {
    entry.get_entry_type() == EntryType::EntryNormal && !entry.data.is_empty()
}
