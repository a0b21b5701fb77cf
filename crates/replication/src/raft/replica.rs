//! One replica of a partition.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::path::Path;

use bytes::{Bytes, BytesMut};
use protobuf::Message as _;
use raft::eraftpb::{ConfChangeV2, Entry, EntryType, Message, MessageType};
use raft::{Config, RawNode, StateRole};
use tailrace_log::{
    Disk, ENTRY_BYTES_MAX, Indexed, Log, LogConfig, LogError, LogStore, PartitionIdentity, Recovery,
};
use tailrace_records::{BatchHeader, EndTransactionMarker, PREFIX_BYTES};
use tailrace_types::{HighWatermark, LeaderEpoch, LogEnd, Offset, RaftIndex, ReplicaId, TimestampMs};

use super::ballot::Ballot;
use super::fetch::Fetch;
use super::hibernation::Hibernation;
use super::members::{MemberChange, Members};
use super::offers::Offers;
use super::opening::{raise_log_start, settle_ballot};
use super::repair::{Mending, RELUCTANCE};
use super::storage::{LogStorage, epoch_of, is_batch, log_start_of, offset_at, side_payload, term_of};
use super::wire::{self, WireError};
use crate::ledger::{Ledger, refusal};
use crate::producers::{Producers, TransactionMarker};
use crate::reader::PartitionReader;
use crate::rebuild::{note_batch, rebuild_producers};
use crate::solo::{AppendError, Appended, Durability, Policy, SyncOutcome, SyncTicket};
use crate::verification::VerificationGuard;

/// What becomes of a batch that a leader took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Not known yet.
    Open,
    /// It stays.
    Committed,
    /// It was cut off here. Another leader may have it all the same: whoever waits must ask again.
    Lost,
}

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

/// Why a leader did not take a batch. Nothing of it is stored.
#[derive(Debug, thiserror::Error)]
pub enum ProposeError {
    /// Another replica leads, or none does.
    #[error("this replica does not lead the partition")]
    NotLeader {
        /// Who does, if that is known.
        leader: Option<ReplicaId>,
    },
    /// Too much is not committed yet, leadership is being handed over, or another change of the members is under way. Try again.
    #[error("the partition's leader takes nothing at the moment")]
    Busy,
    /// A leader cannot remove itself: leadership has to be handed over before.
    #[error("a leader cannot be removed from its group")]
    OwnRemoval,
    /// As with a single replica.
    #[error(transparent)]
    Append(#[from] AppendError),
}

/// Bytes of batches in one message, above one batch.
const MESSAGE_BYTES_MAX: u64 = 1 << 20;
/// Messages with batches that a follower has not acknowledged yet.
const MESSAGES_IN_FLIGHT_MAX: usize = 256;
/// Bytes appended and not committed, above one batch. Beyond it appends are refused.
const UNCOMMITTED_BYTES_MAX: u64 = 64 << 20;
/// Entries that are taken note of at once after they were committed, by the weight they have without their batches.
const COMMITTED_BYTES_PER_ROUND: u64 = 64 << 10;

/// Ticks over which the elections of many groups are spread at most.
const ELECTION_SPREAD_MAX: usize = 2000;

/// What was written, and waits to be durable before others may know.
pub(super) struct Written {
    number: u64,
    end: LogEnd,
    messages: Vec<Message>,
}

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
    led: bool,
    pub(super) written: VecDeque<Written>,
    /// Raft index of each batch above the commit index, and one past its last offset.
    pub(super) uncommitted: VecDeque<(u64, Offset)>,
    pub(super) outgoing: Vec<Message>,
    pub(super) counters: Counters,
    pub(super) offers: Offers<D>,
    pub(super) fetch: Option<Fetch<D>>,
    pub(super) hibernation: Hibernation,
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
        let (ballot, ballots) = settle_ballot(&mut log, &disk, dir, &options)?;
        raise_log_start(&mut log, ballot.commit);
        // The log start moves over nothing but what is committed. The ballot may not know of that any more.
        let committed = offset_at(&log, ballot.commit + 1)?.max(log.log_start());
        let producers = rebuild_producers(&log, &mut recovery, policy, committed, now)?;
        let ledger = Ledger::new(log, producers, policy, committed, epoch_of(ballot.term));
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
            draws: options.seed,
            options,
            written: VecDeque::new(),
            uncommitted: VecDeque::new(),
            outgoing: Vec::new(),
            counters: Counters::default(),
            offers: Offers::new(),
            fetch: None,
            hibernation: Hibernation::default(),
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
        std::mem::take(&mut self.outgoing).into_iter().map(PeerMessage).collect()
    }

    /// Lets one tick pass. Nothing happens while it hibernates.
    pub fn tick(&mut self, now: TimestampMs) {
        if self.halted().is_none() && !self.hibernates() {
            self.draw_timeout();
            self.node.tick();
            self.carry_on(now);
            self.tick_offers();
            self.tick_fetch(now);
            self.tick_repair(now);
            self.tick_hibernation();
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
        self.step_awake(message.0, now);
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
            self.node.report_unreachable(replica.0);
            self.carry_on(now);
        }
    }

    /// Asks for votes without waiting for the leader's silence.
    pub fn campaign(&mut self, now: TimestampMs) {
        if self.halted().is_none() {
            let _ = self.node.campaign();
            self.carry_on(now);
        }
    }

    /// Hands leadership over, if this is the leader and `to` follows closely enough.
    pub fn transfer_leadership(&mut self, to: ReplicaId, now: TimestampMs) {
        if self.halted().is_none() && self.role() == Role::Leader {
            self.node.transfer_leader(to.0);
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
        self.node.propose_conf_change(Vec::new(), change.to_raft()).map_err(|_| ProposeError::Busy)?;
        self.carry_on(now);
        Ok(())
    }

    /// Appends one validated batch of a client on the leader, or recognises it as a repeated one. It counts when it is committed.
    ///
    /// # Errors
    /// As [`Solo::append_verified`](crate::Solo::append_verified); [`ProposeError::NotLeader`], [`ProposeError::Busy`]. Nothing of
    /// the batch is stored then.
    pub fn append(
        &mut self,
        header: &BatchHeader,
        bytes: Bytes,
        guard: Option<VerificationGuard>,
        now: TimestampMs,
    ) -> Result<Appended, ProposeError> {
        self.lead()?;
        if let Some(original) = self.ledger().check(header, guard)? {
            return Ok(self.ledger().duplicate(original));
        }
        self.propose(header, bytes, now, |producers, stamped| producers.remember(stamped, now))
    }

    /// What became of an append. The high watermark alone does not tell: behind a new leader something else may lie there.
    pub fn fate(&self, appended: &Appended) -> Fate {
        let end = appended.committed_at.offset();
        let ledger = self.ledger();
        let epoch = ledger.log.reader().epoch_at(end.plus(-1));
        if ledger.log.log_end().offset() < end || epoch != Some(appended.epoch) {
            return Fate::Lost;
        }
        if ledger.reader.high_watermark().offset() < end { Fate::Open } else { Fate::Committed }
    }

    /// Appends the marker that ends a producer's transaction, on the leader.
    ///
    /// # Errors
    /// As [`Solo::append_marker`](crate::Solo::append_marker); [`ProposeError::NotLeader`], [`ProposeError::Busy`].
    ///
    /// # Panics
    /// If the producer has no id.
    pub fn append_marker(
        &mut self,
        marker: &TransactionMarker,
        now: TimestampMs,
    ) -> Result<Appended, ProposeError> {
        self.lead()?;
        assert!(marker.producer_id.get() >= 0, "a marker without a producer");
        let checked = self.ledger().producers.check_marker(marker);
        #[cfg(feature = "deliberate-bugs")]
        let checked = checked.or_else(|error| if self.forgives(&error) { Ok(()) } else { Err(error) });
        checked.map_err(AppendError::from)?;
        let (committed, coordinator_epoch) = (marker.committed, marker.coordinator_epoch);
        let end = EndTransactionMarker { committed, coordinator_epoch };
        let (header, bytes) = end.build(marker.producer_id, marker.producer_epoch, now);
        let appended = self.propose(&header, bytes, now, |producers, stamped| {
            producers.remember_marker(stamped, end, now);
        })?;
        self.ledger().reader.publish_aborted(self.ledger().producers.aborted());
        Ok(appended)
    }

    /// Writes first and proposes then: a full disk refuses the batch before raft has heard of it.
    fn propose(
        &mut self,
        header: &BatchHeader,
        bytes: Bytes,
        now: TimestampMs,
        remember: impl FnOnce(&mut Producers, &BatchHeader),
    ) -> Result<Appended, ProposeError> {
        let mut stamped = *header;
        stamped.base_offset = self.ledger().log.log_end().offset();
        stamped.leader_epoch = self.epoch();
        let data = stamp(&stamped, bytes);
        let index = self.ledger().log.next_raft_index();
        let entry = Entry { data: data.clone(), ..Entry::default() };
        let mut message = Message::default();
        message.set_msg_type(MessageType::MsgPropose);
        message.from = self.options.id.0;
        message.set_entries(vec![entry].into());
        let rolled = self.ledger_mut().write(&stamped, index, &data, now, remember)?;
        if self.node.raft.step(message).is_err() {
            self.take_back(index, now).map_err(|error| ProposeError::Append(refusal(error)))?;
            return Err(ProposeError::Busy);
        }
        self.uncommitted.push_back((index.0, stamped.next_offset()));
        self.carry_on(now);
        Ok(Appended {
            base_offset: stamped.base_offset,
            committed_at: HighWatermark(stamped.next_offset().get()),
            epoch: stamped.leader_epoch,
            duplicate: None,
            sync_due: self.ledger().sync_due(),
            checkpoint_due: rolled,
        })
    }

    /// Only the leader appends; not while it hands leadership over, nor with too much uncommitted.
    pub(super) fn lead(&self) -> Result<(), ProposeError> {
        self.ledger().refuse_if_halted()?;
        let raft = &self.node.raft;
        match self.role() {
            Role::Leader if raft.lead_transferee.is_some() => Err(ProposeError::Busy),
            Role::Leader if raft.uncommitted_size() as u64 >= UNCOMMITTED_BYTES_MAX => {
                Err(ProposeError::Busy)
            }
            Role::Leader => Ok(()),
            Role::Follower(leader) => Err(ProposeError::NotLeader { leader }),
            Role::Candidate => Err(ProposeError::NotLeader { leader: None }),
        }
    }

    /// Removes what was written from `index` on.
    fn take_back(&mut self, index: RaftIndex, now: TimestampMs) -> Result<(), LogError> {
        self.counters.truncations += 1;
        let committed = self.ledger().reader.high_watermark().offset();
        let ledger = self.ledger_mut();
        ledger.log.truncate_from(index)?;
        assert!(ledger.log.log_end().offset() >= committed, "what is committed was cut off");
        let mut recovery = Recovery::default();
        let end = ledger.log.log_end().offset();
        recovery.producer_snapshot = ledger.log.producer_snapshot(end, &mut recovery.notes)?;
        ledger.producers = rebuild_producers(&ledger.log, &mut recovery, ledger.policy, committed, now)?;
        ledger.reader.publish_aborted(ledger.producers.aborted());
        self.uncommitted.retain(|(at, _)| *at < index.0);
        for written in &mut self.written {
            // Nobody may be told that they are here. Nor does what is left of them wait for bytes that are gone.
            written.messages.clear();
            written.end = written.end.min(end.into());
        }
        Ok(())
    }

    /// Does all that raft asks for.
    pub(super) fn carry_on(&mut self, now: TimestampMs) {
        self.draw_timeout();
        self.note_failure();
        while self.halted().is_none() && self.node.has_ready() {
            if let Err(error) = self.handle_ready(now) {
                self.fail(&error);
            }
            self.note_failure();
            self.draw_timeout();
        }
        self.publish_commit();
        self.make_offers();
    }

    fn handle_ready(&mut self, now: TimestampMs) -> Result<(), LogError> {
        let was_leader = self.led;
        let mut ready = self.node.ready();
        // The term first: a log with entries of a later one would not be taken for this replica's.
        if let Some(state) = ready.hs() {
            let ballot = &self.node.store().ballot;
            if (state.term, state.vote) != (ballot.term, ballot.vote) {
                let (term, vote) = (state.term, state.vote);
                self.save(|ballot| (ballot.term, ballot.vote) = (term, vote))?;
            }
        }
        let installs = !ready.snapshot().is_empty();
        if installs {
            self.install(now)?;
        }
        self.store(&ready.take_entries(), now)?;
        self.led = self.role() == Role::Leader;
        self.counters.elected += u64::from(self.led && !was_leader);
        self.ledger().reader.set_epoch(self.epoch());
        self.outgoing.extend(ready.take_messages());
        let messages = ready.take_persisted_messages();
        let committed = ready.take_committed_entries();
        let number = ready.number();
        self.node.advance_append_async(ready);
        if installs {
            // All that is in the log is durable, and what was before is gone.
            self.node.on_persist_ready(number);
        }
        for entry in committed {
            self.apply(&entry)?;
        }
        self.node.advance_apply();
        self.written.push_back(Written { number, end: self.ledger().log.log_end(), messages });
        self.release();
        Ok(())
    }

    /// Writes entries to the log, cutting off first what contradicts them.
    fn store(&mut self, entries: &[Entry], now: TimestampMs) -> Result<(), LogError> {
        for entry in entries {
            let index = RaftIndex(entry.index);
            if index < self.ledger().log.next_raft_index() {
                if self.node.store().term_at(entry.index)? == Some(entry.term) {
                    // The leader wrote it before it proposed it.
                    self.node.mut_store().known = entry.index;
                    continue;
                }
                #[cfg(feature = "deliberate-bugs")]
                if self.bug == Some(super::bugs::DeliberateBug::SkipTruncation) {
                    self.node.mut_store().known = entry.index;
                    continue;
                }
                self.take_back(index, now)?;
            }
            self.write(entry, now)?;
            self.node.mut_store().known = entry.index;
        }
        Ok(())
    }

    fn write(&mut self, entry: &Entry, now: TimestampMs) -> Result<(), LogError> {
        let index = RaftIndex(entry.index);
        if !is_batch(entry) {
            let epoch = epoch_of(entry.term);
            return self.ledger_mut().log.append_entry(index, epoch, &side_payload(entry));
        }
        let dir = self.node.store().dir();
        let header = BatchHeader::parse(&entry.data)
            .map_err(|error| LogError::damaged(&dir, entry.index, error.to_string()))?;
        let ledger = self.ledger_mut();
        ledger.log.append(&header, index, &entry.data, now)?;
        ledger.unsynced += u64::try_from(header.record_count).unwrap_or(0);
        ledger.unsynced_since.get_or_insert(now);
        note_batch(&mut ledger.producers, &header, &entry.data, now);
        if header.attributes.is_control() {
            ledger.reader.publish_aborted(ledger.producers.aborted());
        }
        self.uncommitted.push_back((entry.index, header.next_offset()));
        Ok(())
    }

    /// Takes note of a committed entry: of changes of the members, and of a log start. What changes of the members say must be
    /// durable here before it is applied.
    fn apply(&mut self, entry: &Entry) -> Result<(), LogError> {
        self.node.mut_store().applied = entry.index;
        if entry.get_entry_type() == EntryType::EntryNormal {
            if let Some(to) = log_start_of(&entry.context) {
                let ledger = self.ledger_mut();
                ledger.log.raise_log_start(to);
                ledger.publish_stable();
            }
            return Ok(());
        }
        let dir = self.node.store().dir();
        let damaged = |reason: String| LogError::damaged(&dir, entry.index, reason);
        let change =
            ConfChangeV2::parse_from_bytes(&entry.data).map_err(|error| damaged(error.to_string()))?;
        self.ledger_mut().log.sync()?;
        let members = self.node.apply_conf_change(&change).map_err(|error| damaged(error.to_string()))?;
        let is_out = !members.voters.contains(&self.options.id.0);
        self.save(|ballot| ballot.members = members)?;
        if is_out && self.role() == Role::Leader {
            // A leader before it had begun this. Raft would let it lead on, and take no proposal ever after.
            let term = self.node.raft.term;
            self.node.raft.become_follower(term, raft::INVALID_ID);
        }
        Ok(())
    }

    /// Changes the ballot, durably, with what is applied here: the members are those as of then.
    fn save(&mut self, change: impl FnOnce(&mut Ballot)) -> Result<(), LogError> {
        let storage = self.node.mut_store();
        change(&mut storage.ballot);
        storage.ballot.commit = storage.ballot.commit.max(storage.applied);
        storage.write_ballot()
    }

    /// Tells raft, and then others, what is durable.
    pub(super) fn release(&mut self) {
        let strict = self.ledger().policy.durability == Durability::Strict;
        let durable = self.ledger().log.durable_end();
        while let Some(written) = self.written.front() {
            if strict && written.end.offset() > durable.offset() {
                return;
            }
            let Some(written) = self.written.pop_front() else { return };
            self.node.on_persist_ready(written.number);
            self.outgoing.extend(written.messages);
        }
    }

    fn publish_commit(&mut self) {
        let raft = &self.node.raft;
        let committed = raft.raft_log.committed;
        // Looked up once for each term: the log has to be read for it.
        if raft.state == StateRole::Leader && self.counted_in != raft.term && raft.commit_to_current_term() {
            self.counted_in = raft.term;
        }
        #[cfg(feature = "deliberate-bugs")]
        let committed = self.counted().map_or(committed, |counted| counted.max(committed));
        let mut end = None;
        while let Some((index, next)) = self.uncommitted.front().copied()
            && index <= committed
        {
            end = Some(next);
            self.uncommitted.pop_front();
        }
        if let Some(end) = end {
            let ledger = self.ledger_mut();
            let end = end.max(ledger.log.log_start());
            ledger.commit(HighWatermark(end.get()));
        }
    }

    /// Plans a sync of everything written so far.
    pub fn begin_sync(&mut self, checkpoint: bool) -> Option<SyncTicket<D>> {
        // The table of producers may be ahead of what is committed. Should the log's end be cut off, the table goes with it.
        let producers = if checkpoint { self.ledger().snapshot() } else { None };
        self.ledger_mut().begin_sync(checkpoint, producers)
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
        let LogStorage { ledger, .. } = self.node.raft.r.raft_log.store;
        let producers = ledger.snapshot();
        ledger.log.close(producers).map_err(refusal)
    }

    /// Raft knows of entries that are not in the log now: it must start again from what is there.
    pub(super) fn fail(&mut self, error: &LogError) {
        self.ran_out_of_room |= error.is_no_space();
        self.is_lost |= matches!(error, LogError::Damaged { .. });
        self.ledger_mut().log.poison(error.to_string());
    }

    /// What raft could not read, and did not hear why.
    fn note_failure(&mut self) {
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
                self.uncommitted.push_back((index, row.next_offset()));
            }
        }
        Ok(())
    }

    /// Raft draws the election timeout from the thread's random numbers; here it follows from the seed. It is the same until
    /// term or state change, however often raft draws.
    fn draw_timeout(&mut self) {
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

/// The batch as it will lie in the log. Without a copy, unless somebody else holds the bytes.
fn stamp(header: &BatchHeader, bytes: Bytes) -> Bytes {
    let mut bytes = bytes.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
    bytes[..PREFIX_BYTES].copy_from_slice(&header.prefix());
    bytes.freeze()
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
        max_uncommitted_size: UNCOMMITTED_BYTES_MAX,
        max_committed_size_per_ready: COMMITTED_BYTES_PER_ROUND,
        ..Config::default()
    };
    let dir = storage.dir();
    let logger = slog::Logger::root(slog::Discard, slog::o!());
    RawNode::new(&config, storage, &logger).map_err(|error| LogError::damaged(&dir, 0, error.to_string()))
}
