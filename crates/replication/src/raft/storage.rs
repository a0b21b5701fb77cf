//! The partition's log as raft's log.
//!
//! One raft entry is one record batch, or an entry of the side file. Nothing is stored twice: what raft asks for is read from
//! the segments.

use std::path::Path;

use bytes::Bytes;
use raft::eraftpb::{Entry, EntryType, Snapshot};
use raft::{GetEntriesContext, RaftState, Storage, StorageError};
use tailrace_log::{Disk, Indexed, LogError};
use tailrace_types::{LeaderEpoch, RaftIndex};

use super::ballot::{Ballot, BallotFile};
use crate::ledger::Ledger;

/// What an entry weighs besides its data, in bytes, about.
const ENTRY_OVERHEAD_BYTES: u64 = 32;

/// First byte of what the side file holds of a change of the members.
const MEMBERS: u8 = 1;

/// The log with what follows from it, and the ballot.
pub(super) struct LogStorage<D: Disk> {
    pub(super) ledger: Ledger<D>,
    pub(super) ballot: Ballot,
    pub(super) ballots: BallotFile,
    pub(super) disk: D,
    /// Raft index of the last entry that raft knows to be stored. The leader's log may hold one more for a moment.
    pub(super) known: u64,
}

impl<D: Disk> LogStorage<D> {
    /// Term of the entry at `index`, if it is there.
    pub(super) fn term_at(&self, index: u64) -> Result<Option<u64>, LogError> {
        let found = self.ledger.log.at_index(RaftIndex(index))?;
        Ok(found.map(|indexed| term_of(indexed.leader_epoch())))
    }

    /// Makes the ballot durable. Blocks.
    pub(super) fn write_ballot(&mut self) -> Result<(), LogError> {
        self.ballots.write(&self.disk, &self.ballot)
    }

    /// The folder, for messages.
    pub(super) fn dir(&self) -> std::sync::Arc<Path> {
        std::sync::Arc::from(self.ledger.log.reader().dir())
    }

    /// An entry as it was proposed; a batch without its bytes unless `whole`.
    fn entry(&self, index: u64, whole: bool) -> raft::Result<Entry> {
        let found = self.ledger.log.at_index(RaftIndex(index)).map_err(store_error)?;
        let found = found.ok_or(raft::Error::Store(StorageError::Unavailable))?;
        let mut entry = Entry { index, term: term_of(found.leader_epoch()), ..Entry::default() };
        match found {
            Indexed::Entry(stored) => {
                let (kind, data) = side_entry(&stored.payload);
                entry.set_entry_type(kind);
                entry.data = data;
            }
            Indexed::Batch(row) if whole => {
                entry.data = self.ledger.log.batch_at(&row).map_err(store_error)?;
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
        if index == 0 {
            return Ok(0);
        }
        self.term_at(index).map_err(store_error)?.ok_or(raft::Error::Store(StorageError::Unavailable))
    }

    /// Nothing is removed from a replicated log's beginning yet.
    fn first_index(&self) -> raft::Result<u64> {
        Ok(1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.known)
    }

    fn snapshot(&self, _request_index: u64, _to: u64) -> raft::Result<Snapshot> {
        Err(raft::Error::Store(StorageError::SnapshotTemporarilyUnavailable))
    }
}

fn store_error(error: LogError) -> raft::Error {
    raft::Error::Store(StorageError::Other(Box::new(error)))
}

/// Epochs are terms. A log holds no negative ones.
pub(super) fn term_of(epoch: LeaderEpoch) -> u64 {
    u64::try_from(epoch.0).unwrap_or(0)
}

/// Terms beyond 2^31 would need as many elections.
pub(super) fn epoch_of(term: u64) -> LeaderEpoch {
    LeaderEpoch(i32::try_from(term).unwrap_or(i32::MAX))
}

/// What the side file holds of an entry: nothing for the one that begins a term, else its kind and its data.
pub(super) fn side_payload(entry: &Entry) -> Vec<u8> {
    match entry.get_entry_type() {
        EntryType::EntryNormal => Vec::new(),
        EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => [&[MEMBERS], &entry.data[..]].concat(),
    }
}

fn side_entry(payload: &Bytes) -> (EntryType, Bytes) {
    match payload.first() {
        Some(&MEMBERS) => (EntryType::EntryConfChangeV2, payload.slice(1..)),
        _ => (EntryType::EntryNormal, Bytes::new()),
    }
}

/// True for an entry that belongs into a segment.
pub(super) fn is_batch(entry: &Entry) -> bool {
    entry.get_entry_type() == EntryType::EntryNormal && !entry.data.is_empty()
}
