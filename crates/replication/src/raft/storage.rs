//! The partition's log as raft's log.
//!
//! One raft entry is one record batch, or an entry of the side file. Nothing is stored twice: what raft asks for is read from
//! the segments.

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

/// What an entry weighs besides its data, in bytes, about.
const ENTRY_OVERHEAD_BYTES: u64 = 32;

/// First byte of what the side file holds of a change of the members.
const MEMBERS: u8 = 1;
/// First byte of what it holds of a new log start; the offset follows, little endian.
const LOG_START: u8 = 2;
/// All that it holds of a barrier. Builds that do not know it take it for an entry that says nothing, which it is.
const BARRIER: u8 = 3;

/// The log with what follows from it, and the ballot.
pub(super) struct LogStorage<D: Disk> {
    pub(super) ledger: Ledger<D>,
    pub(super) ballot: Ballot,
    pub(super) ballots: BallotFile,
    pub(super) disk: D,
    /// Raft index of the last entry that raft knows to be stored. The leader's log may hold one more for a moment.
    pub(super) known: u64,
    /// Raft index up to which entries are applied: committed and, with the strict policy, durable here.
    pub(super) applied: u64,
    /// Replicas that cannot be brought up to date by entries, as raft found since it was last asked.
    pub(super) behind: RefCell<BTreeSet<u64>>,
    /// What raft could not read, which stops the replica.
    pub(super) failure: RefCell<Option<LogError>>,
}

impl<D: Disk> LogStorage<D> {
    /// Term of the entry at `index`, if it is there.
    pub(super) fn term_at(&self, index: u64) -> Result<Option<u64>, LogError> {
        let start = self.ballot.start;
        if index <= start.index {
            return Ok((index == start.index).then_some(start.term));
        }
        // Asked for most often, and by an engine that is being made and panics where it gets no answer.
        if index + 1 == self.ledger.log.next_raft_index().0 {
            return Ok(Some(term_of(self.ledger.log.last_epoch())));
        }
        let found = self.ledger.log.at_index(RaftIndex(index))?;
        Ok(found.map(|indexed| term_of(indexed.leader_epoch())))
    }

    /// The offset of the first record that an entry at `index` or later has, or will have. Above the start of raft's log.
    pub(super) fn offset_at(&self, index: u64) -> Result<Offset, LogError> {
        offset_at(&self.ledger.log, index)
    }

    /// Up to where the log may be trimmed or compacted.
    pub(super) fn applied_end(&self) -> Result<Offset, LogError> {
        self.offset_at(self.applied + 1)
    }

    /// Declares everything up to the batch that `last` describes, which is applied, to be snapshot. Durable on return.
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

    /// Has the ballot know where the log begins now, before anything of it is removed, and before a checkpoint is all that tells.
    /// Durable on return.
    pub(super) fn keep_log_start(&mut self) -> Result<(), LogError> {
        let log_start = Some(self.ledger.log.log_start());
        if self.ballot.log_start >= log_start {
            return Ok(());
        }
        self.ballot.log_start = log_start;
        self.write_ballot()
    }

    /// Has the ballot know how far compaction has come, once that is durable. Durable on return.
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

    /// For a batch that is not what was written. Its segment is out of service until it is mended, and raft asks again.
    fn batch_error(&self, error: LogError) -> raft::Error {
        match error {
            LogError::Damaged { .. } if !self.ledger.log.reader().damaged().is_empty() => {
                raft::Error::Store(StorageError::LogTemporarilyUnavailable)
            }
            error => self.store_error(error),
        }
    }

    /// For what can go on only after the replica was opened anew. Raft panics, or goes on with what it believes to be compacted:
    /// nothing of it leaves the replica.
    fn store_error(&self, error: LogError) -> raft::Error {
        self.failure.borrow_mut().get_or_insert(error);
        raft::Error::Store(StorageError::Compacted)
    }

    /// For an entry that is not there. Where it was written, a good row stands in the place of its own: a write that landed elsewhere.
    fn missing(&self, index: u64) -> raft::Error {
        if index > self.known {
            return raft::Error::Store(StorageError::Unavailable);
        }
        let reason = format!("the log does not find raft index {index}, which was written");
        self.store_error(LogError::damaged(&self.dir(), 0, reason))
    }

    /// Looks at the files that are written once in a while, and writes anew what is not as it was.
    /// `sections` are those as of the log end, if they may be kept.
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

    /// An entry as it was proposed; a batch without its bytes unless `whole`.
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

    /// Batches come with their bytes only where they are to be sent: raft looks at everything that is committed, too, but there
    /// only membership is of interest.
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

    /// Raft has no part in snapshots: it is only heard that `to` needs one. What raft would do about it (it waits for news of the
    /// snapshot, and for ever if that gets lost) `offers.rs` does without waiting.
    fn snapshot(&self, _request_index: u64, to: u64) -> raft::Result<Snapshot> {
        self.behind.borrow_mut().insert(to);
        Err(raft::Error::Store(StorageError::SnapshotTemporarilyUnavailable))
    }
}

/// The offset of the first record that an entry at `index` or later has, or will have.
pub(super) fn offset_at<D: Disk>(log: &Log<D>, index: u64) -> Result<Offset, LogError> {
    Ok(match log.at_index(RaftIndex(index))? {
        Some(Indexed::Batch(row)) => row.base_offset,
        Some(Indexed::Entry(entry)) => entry.offset,
        None => log.log_end().offset(),
    })
}

/// Epochs are terms. What a log's files say of an epoch that is negative is of none: no entry has term 0.
pub(super) fn term_of(epoch: LeaderEpoch) -> u64 {
    u64::try_from(epoch.0).unwrap_or(0)
}

/// # Panics
/// The term is beyond [`TERM_MAX`](super::wire::TERM_MAX): no message brings one, and as many elections take longer than disks last.
pub(super) fn epoch_of(term: u64) -> LeaderEpoch {
    LeaderEpoch(i32::try_from(term).expect("terms have 31 bits"))
}

/// What the side file holds of an entry: nothing for the one that begins a term, else its kind and its data.
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

/// An entry that moves the log start. Raft knows it as one without data: what it says is in its context.
pub(super) fn log_start_entry(to: Offset) -> Entry {
    let context = [&[LOG_START], &to.get().to_le_bytes()[..]].concat();
    Entry { context: context.into(), ..Entry::default() }
}

/// An entry that says nothing; see [`Barrier`](super::Barrier).
pub(super) fn barrier_entry() -> Entry {
    Entry { context: Bytes::from_static(&[BARRIER]), ..Entry::default() }
}

/// The log start that a side file's payload, or an entry's context, asks for.
pub(super) fn log_start_of(payload: &[u8]) -> Option<Offset> {
    let (&LOG_START, offset) = payload.split_first()? else { return None };
    Some(Offset(i64::from_le_bytes(offset.try_into().ok()?)))
}

/// True for an entry that belongs into a segment.
pub(super) fn is_batch(entry: &Entry) -> bool {
    entry.get_entry_type() == EntryType::EntryNormal && !entry.data.is_empty()
}
