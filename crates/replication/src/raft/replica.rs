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

/// The current role of a replica, as far as it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It appends until it learns of another leader.
    Leader,
    /// It follows this leader, if known.
    Follower(Option<ReplicaId>),
    /// It is asking for votes.
    Candidate,
}

/// Unacknowledged messages with batches per follower. Appends in the meantime go with the next message.
/// Bounded by the receiver's queue: if the receiver drops a message, that message and all later ones are sent
/// again.
pub(super) const MESSAGES_IN_FLIGHT_MAX: usize = 8;
/// The most ticks over which the elections of many groups are spread.
pub(super) const ELECTION_SPREAD_MAX: usize = 2000;

/// One replica. Its calls block on the disk if a vote, a term, an entry without records or a truncation has
/// to be durable.
pub struct Replica<D: Disk> {
    pub(super) node: RawNode<LogStorage<D>>,
    /// True if a full disk stopped the replica.
    pub(super) ran_out_of_room: bool,
    /// True if damage stopped the replica.
    pub(super) is_lost: bool,
    pub(super) mending: Mending<D>,
    /// The last term in which it led and had an entry of that term committed.
    pub(super) counted_in: u64,
    pub(super) options: ReplicaOptions,
    pub(super) draws: u64,
    pub(super) drawn_for: (u64, StateRole),
    pub(super) timeout_ticks: usize,
    pub(super) led: bool,
    /// On a leader: the members that responded between the last two election timeouts.
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

/// Counters of rare events since the replica was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Truncations of the log's end because it was not the leader's.
    pub truncations: u64,
    /// Elections won.
    pub elected: u64,
    /// Refused messages: a batch with a wrong checksum, or of another term than its entry.
    pub refused_messages: u64,
    /// Snapshots offered, as the leader.
    pub snapshots_offered: u64,
    /// Snapshots that replaced the log.
    pub snapshots_installed: u64,
    /// Snapshots abandoned, before or during the fetch.
    pub snapshots_given_up: u64,
    /// Damaged segments rebuilt from other replicas' batches.
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
    /// Returns a reader of the partition.
    pub fn reader(&self) -> PartitionReader<D> {
        self.ledger().reader.clone()
    }

    /// Returns the current role.
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

    /// True on a leader if `replica` durably has everything that is committed.
    pub fn has_caught_up(&self, replica: ReplicaId) -> bool {
        let raft = &self.node.raft;
        let progress = raft.prs().get(replica.0);
        self.role() == Role::Leader
            && progress.is_some_and(|progress| progress.matched >= raft.raft_log.committed)
    }

    /// Returns the counters of rare events.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The failure that stopped it, if there was one. A halted replica takes part in nothing and has to be
    /// opened again. After a full disk, open it again as soon as there is room.
    pub fn halted(&self) -> Option<&str> {
        self.ledger().log.poisoned()
    }

    /// True if it stopped because the disk was full. Opened again, it continues from what is on disk.
    pub fn ran_out_of_room(&self) -> bool {
        self.halted().is_some() && self.ran_out_of_room
    }

    /// Halts the replica. Raft knows of entries that are not in the log now, so it must start again from what
    /// is on disk.
    pub(super) fn fail(&mut self, error: &LogError) {
        self.ran_out_of_room |= error.is_no_space();
        self.is_lost |= matches!(error, LogError::Damaged { .. });
        self.ledger_mut().log.poison(error.to_string());
    }

    /// Halts the replica after an error that the storage could not pass through raft.
    pub(super) fn note_failure(&mut self) {
        let failure = self.node.store().failure.borrow_mut().take();
        if let Some(error) = failure {
            self.fail(&error);
        }
    }

    /// Draws the election timeout again, between the minimum and up to `ticks` more.
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
