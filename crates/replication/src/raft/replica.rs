//! One replica of a partition.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::path::Path;

use bytes::{Bytes, BytesMut};
use raft::eraftpb::{Message, MessageType};
use raft::{Config, RawNode, StateRole};
use tailrace_log::{
    Disk, ENTRY_BYTES_MAX, Indexed, Log, LogConfig, LogError, LogStore, PartitionIdentity, Recovery,
};
use tailrace_types::{LeaderEpoch, RaftIndex, ReplicaId, TimestampMs};

use super::appending::ProposeError;
use super::fetch::Fetch;
use super::hibernation::Hibernation;
use super::members::{MemberChange, Members};
use super::offers::Offers;
use super::opening::{check_beginning, raise_log_start, settle_ballot};
use super::pacing::Pacing;
use super::ready::Written;
use super::repair::{Mending, RELUCTANCE};
use super::storage::{LogStorage, epoch_of, is_batch, offset_at, term_of};
use super::uncommitted::Uncommitted;
use super::wire::{self, WireError};
use crate::append::AppendError;
use crate::ledger::{Ledger, refusal};
use crate::policy::Policy;
use crate::reader::PartitionReader;
use crate::rebuild::rebuild_producers;
use crate::ticket::{SyncOutcome, SyncTicket};

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

/// How a replica is set up.
#[derive(Clone, Debug)]
pub struct ReplicaOptions {
    /// Its own id.
    pub id: ReplicaId,
    /// The members when the group was made, for a replica that is opened for the first time. What was changed since is in the log.
    pub members: Members,
    /// Ticks without word from a leader before it asks for votes: drawn anew out of this many to twice as many.
    pub election_ticks: usize,
    /// Ticks between a leader's heartbeats. Less than `election_ticks`.
    pub heartbeat_ticks: usize,
    /// What random numbers are made of.
    pub seed: u64,
}

/// A message from one replica of a group to another.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerMessage(pub(super) Message);

impl PeerMessage {
    /// Who sends it.
    pub fn from(&self) -> ReplicaId {
        ReplicaId(self.0.from)
    }

    /// Whom it is for.
    pub fn to(&self) -> ReplicaId {
        ReplicaId(self.0.to)
    }

    /// The size of a message with entries; `None` of any other.
    pub fn append_bytes(&self) -> Option<usize> {
        let has_entries = self.0.get_msg_type() == MessageType::MsgAppend && !self.0.entries.is_empty();
        has_entries.then(|| wire::encoded_bytes(&self.0))
    }

    /// Appends it to `out`, as bytes. The format is in docs/replication.md.
    pub fn encode(&self, out: &mut BytesMut) {
        let encoded = wire::encode(&self.0, out);
        assert!(encoded.is_some(), "a {:?} does not leave its replica", self.0.get_msg_type());
    }

    /// Reads one message, which must be all of `bytes`. Takes no more memory than these: batches are slices of it.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn decode(bytes: Bytes) -> Result<Self, WireError> {
        wire::decode(bytes).map(Self)
    }
}

/// Bytes of batches in one message, above one batch.
const MESSAGE_BYTES_MAX: u64 = 1 << 20;
/// Messages with batches that a follower has not acknowledged yet. What is appended meanwhile goes with the next one. No more than
/// a receiver has room for: what it drops is sent again, with all that follows.
pub(super) const MESSAGES_IN_FLIGHT_MAX: usize = 8;
/// Entries that are taken note of at once after they were committed, by the weight they have without their batches.
const COMMITTED_BYTES_PER_ROUND: u64 = 64 << 10;

/// Ticks over which the elections of many groups are spread at most.
const ELECTION_SPREAD_MAX: usize = 2000;

/// One replica. Calls block on the disk where a vote, a term, an entry without records or a truncation has to be durable.
pub struct Replica<D: Disk> {
    pub(super) node: RawNode<LogStorage<D>>,
    /// What stopped it was a full disk.
    ran_out_of_room: bool,
    /// What stopped it was damage.
    pub(super) is_lost: bool,
    pub(super) mending: Mending<D>,
    /// The last term in which it led and an entry of that term is known to be committed.
    pub(super) counted_in: u64,
    pub(super) options: ReplicaOptions,
    draws: u64,
    drawn_for: (u64, StateRole),
    timeout_ticks: usize,
    pub(super) led: bool,
    /// On a leader: who had answered by the last election timeout, since the one before.
    answered: Vec<u64>,
    pub(super) written: VecDeque<Written>,
    pub(super) uncommitted: Uncommitted,
    pub(super) outgoing: Vec<Message>,
    pub(super) counters: Counters,
    pub(super) offers: Offers<D>,
    pub(super) fetch: Option<Fetch<D>>,
    pub(super) hibernation: Hibernation,
    pub(super) pacing: Pacing,
    #[cfg(feature = "deliberate-bugs")]
    pub(super) bug: Option<super::bugs::DeliberateBug>,
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
    /// Opens the replica in folder `dir`, creating it if absent. A folder of a partition that had one replica so far is taken
    /// over, with everything in it committed. Blocks.
    ///
    /// # Errors
    /// The log's. [`LogError::Damaged`] if the folder belongs to another replica, or its log lacks what it knew to be
    /// committed: such a replica must join again under a new id.
    pub fn open(
        store: &LogStore<D>,
        dir: &Path,
        identity: &PartitionIdentity,
        config: LogConfig,
        policy: Policy,
        options: ReplicaOptions,
        now: TimestampMs,
    ) -> Result<(Self, Recovery), LogError> {
        let (mut log, mut recovery) = Log::open(store, dir, identity, config, now)?;
        let disk = store.disk().clone();
        let (mut ballot, ballots) = settle_ballot(&mut log, &disk, dir, &options)?;
        check_beginning(&mut ballot, &log, dir, &mut recovery.notes)?;
        // A checkpoint that was lost said it, too.
        log.raise_first_dirty(ballot.first_dirty);
        raise_log_start(&mut log, ballot.commit);
        // The log start moves over nothing but what is committed. The ballot may not know of that any more.
        let committed = offset_at(&log, ballot.commit + 1)?.max(log.log_start());
        let producers = rebuild_producers(&mut log, &mut recovery, policy, committed, now)?;
        let ledger = Ledger::partial(log, producers, policy, committed, epoch_of(ballot.term));
        let storage = LogStorage {
            known: ledger.log.next_raft_index().0 - 1,
            applied: ballot.commit,
            behind: RefCell::default(),
            failure: RefCell::default(),
            ledger,
            ballot,
            ballots,
            disk,
        };
        let mut replica = Self {
            node: node(storage, &options)?,
            ran_out_of_room: false,
            is_lost: false,
            mending: Mending::new(),
            counted_in: 0,
            drawn_for: (u64::MAX, StateRole::Follower),
            timeout_ticks: options.election_ticks,
            led: false,
            answered: Vec::new(),
            draws: options.seed,
            options,
            written: VecDeque::new(),
            uncommitted: Uncommitted::default(),
            outgoing: Vec::new(),
            counters: Counters::default(),
            offers: Offers::new(),
            fetch: None,
            hibernation: Hibernation::default(),
            pacing: Pacing::new(),
            #[cfg(feature = "deliberate-bugs")]
            bug: None,
        };
        replica.list_uncommitted()?;
        replica.draw_timeout();
        Ok((replica, recovery))
    }

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

    /// True on a leader if `replica` answers, too: it was heard of within about two elections' time. One that is gone may have all that
    /// is committed for as long as nothing is appended.
    pub fn keeps_up(&self, replica: ReplicaId) -> bool {
        let progress = self.node.raft.prs().get(replica.0);
        let answers = progress.is_some_and(|progress| progress.recent_active)
            || self.answered.contains(&replica.0)
            || replica == self.options.id
            || self.hibernates();
        answers && self.has_caught_up(replica)
    }

    /// Raft forgets at each election timeout who has answered.
    fn note_answers(&mut self) {
        let raft = &self.node.raft;
        if raft.state != StateRole::Leader {
            self.answered.clear();
        } else if raft.election_elapsed + 1 >= self.options.election_ticks {
            let active = raft.prs().iter().filter(|(_, progress)| progress.recent_active);
            self.answered = active.map(|(id, _)| *id).collect();
        }
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

    /// Messages that may be sent now, in this order for each receiver. They may be lost, doubled and reordered.
    pub fn take_messages(&mut self) -> Vec<PeerMessage> {
        let messages: Vec<_> = std::mem::take(&mut self.outgoing).into_iter().map(PeerMessage).collect();
        self.note_sent(&messages);
        messages
    }

    /// Lets one tick pass. Nothing happens while it hibernates.
    pub fn tick(&mut self, now: TimestampMs) {
        if self.halted().is_none() && !self.hibernates() {
            self.draw_timeout();
            self.note_answers();
            self.engine(RawNode::tick);
            self.carry_on(now);
            if self.halted().is_some() {
                return;
            }
            self.tick_offers();
            self.tick_fetch(now);
            self.tick_repair(now);
            self.tick_hibernation();
            self.tick_pacing();
        }
    }

    /// Takes a message of another replica. One that makes no sense is dropped.
    pub fn receive(&mut self, message: PeerMessage, now: TimestampMs) {
        if self.halted().is_some() {
            return;
        }
        if !is_sound(&message.0) {
            self.counters.refused_messages += 1;
            return;
        }
        if self.has_forgotten(&message.0) {
            let reason = "the log lacks what the leader knows to be here: the replica has to join again, under a new id";
            self.is_lost = true;
            self.ledger_mut().log.poison(reason);
            return;
        }
        if message.0.get_msg_type() == MessageType::MsgTimeoutNow && self.is_damaged() {
            // Whoever hands over takes it back.
            return;
        }
        if message.0.get_msg_type() == MessageType::MsgSnapshot {
            self.rouse();
            return self.consider_offer(message.0, now);
        }
        if !self.waits_for_answer(&message.0) {
            self.step_awake(message.0, now);
        }
    }

    /// A leader tells in its heartbeats only what this replica has acknowledged. Raft would panic.
    fn has_forgotten(&self, message: &Message) -> bool {
        message.get_msg_type() == MessageType::MsgHeartbeat
            && message.term >= self.node.raft.term
            && message.commit > self.node.raft.raft_log.last_index()
    }

    /// Takes note that a message could not be delivered.
    pub fn unreachable(&mut self, replica: ReplicaId, now: TimestampMs) {
        if self.halted().is_none() {
            self.engine(|node| node.report_unreachable(replica.0));
            self.note_unsent(replica);
            self.carry_on(now);
        }
    }

    /// Asks for votes without waiting for the leader's silence.
    pub fn campaign(&mut self, now: TimestampMs) {
        if self.halted().is_none() {
            let _ = self.engine(RawNode::campaign);
            self.carry_on(now);
        }
    }

    /// Hands leadership over, if this is the leader and `to` follows closely enough.
    pub fn transfer_leadership(&mut self, to: ReplicaId, now: TimestampMs) {
        if self.halted().is_none() && self.role() == Role::Leader {
            self.engine(|node| node.transfer_leader(to.0));
            self.carry_on(now);
        }
    }

    /// Proposes a change of the members.
    ///
    /// # Errors
    /// [`ProposeError::NotLeader`]; [`ProposeError::Busy`] while another change is under way; [`ProposeError::OwnRemoval`].
    pub fn change_members(&mut self, change: MemberChange, now: TimestampMs) -> Result<(), ProposeError> {
        self.lead()?;
        if change == MemberChange::Remove(self.options.id) {
            return Err(ProposeError::OwnRemoval);
        }
        if self.node.raft.has_pending_conf() {
            return Err(ProposeError::Busy);
        }
        let proposed = self.engine(|node| node.propose_conf_change(Vec::new(), change.to_raft()));
        self.ledger().refuse_if_halted()?;
        proposed.and_then(Result::ok).ok_or(ProposeError::Busy)?;
        self.carry_on(now);
        Ok(())
    }

    /// Plans a sync of everything written so far.
    pub fn begin_sync(&mut self, checkpoint: bool) -> Option<SyncTicket<D>> {
        // The table of producers may be ahead of what is committed. Should the log's end be cut off, the table goes with it.
        let keeps_table = checkpoint && self.may_keep_table();
        let sections = if keeps_table { self.ledger().sections() } else { None };
        self.ledger_mut().begin_sync(checkpoint, sections)
    }

    /// Takes note of a sync's end, and carries on with what waited for it.
    pub fn finish_sync(
        &mut self,
        ticket: &SyncTicket<D>,
        result: &Result<(), LogError>,
        now: TimestampMs,
    ) -> SyncOutcome {
        let outcome = self.ledger_mut().finish_sync(ticket, result);
        let outcome = outcome.map_or_else(|outcome| outcome, |_| self.ledger().sync_outcome());
        if outcome != SyncOutcome::Halted {
            self.release();
            self.carry_on(now);
        }
        outcome
    }

    /// Syncs everything and leaves a mark that makes the next start quick. Blocks.
    ///
    /// # Errors
    /// The disk's; the next start then recovers as after a crash.
    pub fn close(mut self) -> Result<(), AppendError> {
        self.ledger().refuse_if_halted()?;
        self.ledger_mut().log.sync().map_err(refusal)?;
        self.save(|_| ()).map_err(refusal)?;
        let keeps_table = self.may_keep_table();
        let LogStorage { ledger, .. } = self.node.raft.r.raft_log.store;
        let sections = if keeps_table { ledger.sections() } else { None };
        ledger.log.close(sections).map_err(refusal)
    }

    /// True if the table of producers may be kept with the log. At the next start the high watermark is where the ballot says, and the table
    /// must know of every transaction that is not decided below that. So the ballot goes first, where it has to; it blocks then. False if
    /// the table would be ahead of what can be said for sure, or the log cannot tell: then the next start reads more of it.
    pub(super) fn may_keep_table(&mut self) -> bool {
        if self.ledger().partial_from.is_some() {
            return false;
        }
        let is_ahead = |replica: &Self| -> Result<bool, LogError> {
            let storage = replica.node.store();
            let Some(settled) = storage.ledger.newest_settled else { return Ok(false) };
            Ok(settled >= storage.offset_at(storage.ballot.commit + 1)?)
        };
        match is_ahead(self) {
            Ok(true) => {}
            Ok(false) => return true,
            Err(_) => return false,
        }
        let durable = self.ledger().log.durable_end().offset();
        let is_durable = self.node.store().applied_end().is_ok_and(|applied| applied <= durable);
        if !is_durable || self.halted().is_some() {
            return false;
        }
        if let Err(error) = self.save(|_| ()) {
            self.fail(&error);
            return false;
        }
        is_ahead(self).is_ok_and(|ahead| !ahead)
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

    /// The batches above the commit index, after a start.
    fn list_uncommitted(&mut self) -> Result<(), LogError> {
        let storage = self.node.store();
        for index in storage.ballot.commit + 1..=storage.known {
            if let Some(Indexed::Batch(row)) = storage.ledger.log.at_index(RaftIndex(index))? {
                self.uncommitted.push(index, row.next_offset(), row.batch_bytes as usize);
            }
        }
        Ok(())
    }

    /// Raft draws the election timeout from the thread's random numbers; here it follows from the seed. It is the same until
    /// term or state change, however often raft draws.
    pub(super) fn draw_timeout(&mut self) {
        let now = (self.node.raft.term, self.node.raft.state);
        if now != self.drawn_for {
            self.drawn_for = now;
            self.draw_timeout_within(self.options.election_ticks);
        }
        // Others lead better than one that cannot send all it has.
        let times = if self.is_damaged() { RELUCTANCE } else { 1 };
        self.node.raft.set_randomized_election_timeout(self.timeout_ticks * times);
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

/// Batches are whole, and of their entry's term; what else there is fits the side file; proposals come from clients only.
fn is_sound(message: &Message) -> bool {
    message.get_msg_type() != MessageType::MsgPropose
        && message.entries.iter().all(|entry| {
            if !is_batch(entry) {
                return entry.data.len() + entry.context.len() < ENTRY_BYTES_MAX;
            }
            tailrace_records::check(&entry.data).is_ok_and(|header| {
                header.total_bytes() == entry.data.len() && term_of(header.leader_epoch) == entry.term
            })
        })
}

fn node<D: Disk>(
    storage: LogStorage<D>,
    options: &ReplicaOptions,
) -> Result<RawNode<LogStorage<D>>, LogError> {
    let config = Config {
        id: options.id.0,
        election_tick: options.election_ticks,
        // The bound of what is set here: twice as long at most, more where many groups are spread, and much more of one that is damaged.
        max_election_tick: RELUCTANCE * (2 * options.election_ticks + ELECTION_SPREAD_MAX),
        heartbeat_tick: options.heartbeat_ticks,
        applied: storage.ballot.commit,
        max_size_per_msg: MESSAGE_BYTES_MAX,
        max_inflight_msgs: MESSAGES_IN_FLIGHT_MAX,
        check_quorum: true,
        pre_vote: true,
        batch_append: true,
        max_committed_size_per_ready: COMMITTED_BYTES_PER_ROUND,
        ..Config::default()
    };
    let dir = storage.dir();
    let logger = slog::Logger::root(slog::Discard, slog::o!());
    RawNode::new(&config, storage, &logger).map_err(|error| LogError::damaged(&dir, 0, error.to_string()))
}
