//! One replica of a partition.

use std::collections::VecDeque;
use std::fmt;

use raft::eraftpb::Message;
use raft::{RawNode, StateRole};
use tailrace_log::{Disk, LogError};
use tailrace_types::{LeaderEpoch, ReplicaId};

use super::members::Members;
use super::options::ReplicaOptions;
#[cfg(feature = "deliberate-bugs")]
use super::state::DeliberateBug;
use super::state::{Fetch, Hibernation, Mending, Offers, Pacing, Written};
use super::storage::{LogStorage, epoch_of};
use super::uncommitted::Uncommitted;
use crate::ledger::Ledger;
use crate::reader::PartitionReader;

/// What a replica is at the moment, as far as it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It appends, until it learns otherwise.
    Leader,
    /// It follows, if it knows whom.
    Follower(Option<ReplicaId>),
    /// It asks for votes.
    Candidate,
}

/// Messages with batches that a follower has not acknowledged yet. What is appended meanwhile goes with the next one. No more than
/// a receiver has room for: what it drops is sent again, with all that follows.
pub(super) const MESSAGES_IN_FLIGHT_MAX: usize = 8;
/// Ticks over which the elections of many groups are spread at most.
pub(super) const ELECTION_SPREAD_MAX: usize = 2000;

/// One replica. Calls block on the disk where a vote, a term, an entry without records or a truncation has to be durable.
pub struct Replica<D: Disk> {
    pub(super) node: RawNode<LogStorage<D>>,
    /// What stopped it was a full disk.
    pub(super) ran_out_of_room: bool,
    /// What stopped it was damage.
    pub(super) is_lost: bool,
    pub(super) mending: Mending<D>,
    /// The last term in which it led and an entry of that term is known to be committed.
    pub(super) counted_in: u64,
    pub(super) options: ReplicaOptions,
    pub(super) draws: u64,
    pub(super) drawn_for: (u64, StateRole),
    pub(super) timeout_ticks: usize,
    pub(super) led: bool,
    /// On a leader: who had answered by the last election timeout, since the one before.
    pub(super) answered: Vec<u64>,
    pub(super) written: VecDeque<Written>,
    pub(super) uncommitted: Uncommitted,
    pub(super) outgoing: Vec<Message>,
    pub(super) counters: Counters,
    pub(super) offers: Offers<D>,
    pub(super) fetch: Option<Fetch<D>>,
    pub(super) hibernation: Hibernation,
    pub(super) pacing: Pacing,
    #[cfg(feature = "deliberate-bugs")]
    pub(super) bug: Option<DeliberateBug>,
}

/// How often rare things happened since the replica was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The log's end was cut off, because it was not the leader's.
    pub truncations: u64,
    /// It was elected.
    pub elected: u64,
    /// Messages that were not taken: a batch with a wrong checksum, or of another term than its entry.
    pub refused_messages: u64,
    /// Snapshots that it offered, as the leader.
    pub snapshots_offered: u64,
    /// Snapshots that took the place of its log.
    pub snapshots_installed: u64,
    /// Snapshots that it began to fetch, or would have, and did without.
    pub snapshots_given_up: u64,
    /// Damaged segments that it has put together anew from what others have.
    pub segments_mended: u64,
}

impl<D: Disk> fmt::Debug for Replica<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replica")
            .field("id", &self.options.id)
            .field("role", &self.role())
            .field("reader", &self.ledger().reader)
            .finish_non_exhaustive()
    }
}

impl<D: Disk> Replica<D> {
    /// The reading side.
    pub fn reader(&self) -> PartitionReader<D> {
        self.ledger().reader.clone()
    }

    /// What it is at the moment.
    pub fn role(&self) -> Role {
        match self.node.raft.state {
            StateRole::Leader => Role::Leader,
            StateRole::Candidate | StateRole::PreCandidate => Role::Candidate,
            StateRole::Follower => {
                let leader = self.node.raft.leader_id;
                Role::Follower((leader != 0).then_some(ReplicaId(leader)))
            }
        }
    }

    /// The current term, as clients know it.
    pub fn epoch(&self) -> LeaderEpoch {
        epoch_of(self.node.raft.term)
    }

    /// The members as of the last change that was applied.
    pub fn members(&self) -> Members {
        Members::of(&self.node.store().ballot.members)
    }

    /// True on a leader if `replica` has durably all that is committed.
    pub fn has_caught_up(&self, replica: ReplicaId) -> bool {
        let raft = &self.node.raft;
        let progress = raft.prs().get(replica.0);
        self.role() == Role::Leader
            && progress.is_some_and(|progress| progress.matched >= raft.raft_log.committed)
    }

    /// How often rare things happened.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The failure that stopped it, if there was one. It then takes part in nothing, and has to be opened anew: after a full
    /// disk as soon as there is room.
    pub fn halted(&self) -> Option<&str> {
        self.ledger().log.poisoned()
    }

    /// True if it has stopped for want of room: opened anew, it goes on from what is there.
    pub fn ran_out_of_room(&self) -> bool {
        self.halted().is_some() && self.ran_out_of_room
    }

    /// Raft knows of entries that are not in the log now: it must start again from what is there.
    pub(super) fn fail(&mut self, error: &LogError) {
        self.ran_out_of_room |= error.is_no_space();
        self.is_lost |= matches!(error, LogError::Damaged { .. });
        self.ledger_mut().log.poison(error.to_string());
    }

    /// What raft could not read, and did not hear why.
    pub(super) fn note_failure(&mut self) {
        let failure = self.node.store().failure.borrow_mut().take();
        if let Some(error) = failure {
            self.fail(&error);
        }
    }

    /// Draws the election timeout anew, up to so many ticks above the least.
    pub(super) fn draw_timeout_within(&mut self, ticks: usize) {
        self.draws = self.draws.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.draws ^ (self.draws >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let ticks = ticks.min(self.options.election_ticks + ELECTION_SPREAD_MAX);
        let more = (mixed ^ (mixed >> 31)) % ticks as u64;
        self.timeout_ticks = self.options.election_ticks + more as usize;
        self.node.raft.set_randomized_election_timeout(self.timeout_ticks);
    }

    pub(super) fn ledger(&self) -> &Ledger<D> {
        &self.node.store().ledger
    }

    pub(super) fn ledger_mut(&mut self) -> &mut Ledger<D> {
        &mut self.node.mut_store().ledger
    }
}
