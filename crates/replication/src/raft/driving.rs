//! The inputs that drive a replica: opening, ticks, messages, syncs and closing.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::Path;

use raft::eraftpb::{Message, MessageType};
use raft::{Config, RawNode, StateRole};
use tailrace_log::{
    Disk, ENTRY_BYTES_MAX, Indexed, Log, LogConfig, LogError, LogStore, PartitionIdentity, Recovery,
};
use tailrace_types::{RaftIndex, ReplicaId, TimestampMs};

use super::message::PeerMessage;
use super::opening::{check_beginning, raise_log_start, settle_ballot};
use super::options::ReplicaOptions;
use super::replica::{Counters, ELECTION_SPREAD_MAX, MESSAGES_IN_FLIGHT_MAX, Replica, Role};
use super::state::{Hibernation, Mending, Offers, Pacing, RELUCTANCE};
use super::storage::{LogStorage, epoch_of, is_batch, offset_at};
use super::uncommitted::Uncommitted;
use crate::append::AppendError;
use crate::ledger::{Ledger, refusal};
use crate::policy::Policy;
use crate::rebuild::rebuild_producers;
use crate::ticket::{SyncOutcome, SyncTicket};

/// The most bytes of batches in one message, if it has more than one batch.
const MESSAGE_BYTES_MAX: u64 = 1 << 20;
/// The most committed entries processed at once, by their weight without batches.
const COMMITTED_BYTES_PER_ROUND: u64 = 64 << 10;

impl<D: Disk> Replica<D> {
    /// Opens the replica in folder `dir`. Creates it if it does not exist. If the folder's partition had a
    /// single replica so far, it is taken over, and everything in it counts as committed. Blocks.
    ///
    /// # Errors
    /// The log's errors. [`LogError::Damaged`] if the folder belongs to another replica, or if its log lacks
    /// entries that it knew to be committed. Such a replica must join again under a new id.
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
        // A lost checkpoint recorded it too.
        log.raise_first_dirty(ballot.first_dirty);
        raise_log_start(&mut log, ballot.commit);
        // The log start never passes the committed end, but the ballot may be behind.
        let committed = offset_at(&log, ballot.commit + 1)?.max(log.log_start());
        let rebuilt = rebuild_producers(&mut log, &mut recovery, policy, committed, now)?;
        let ledger = Ledger::partial(log, rebuilt, policy, committed, epoch_of(ballot.term));
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

    /// Takes the messages to send now, in order per receiver. They may be lost, duplicated and reordered.
    pub fn take_messages(&mut self) -> Vec<PeerMessage> {
        let messages: Vec<_> = std::mem::take(&mut self.outgoing).into_iter().map(PeerMessage).collect();
        self.note_sent(&messages);
        messages
    }

    /// Lets one tick pass. Does nothing while the replica hibernates.
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

    /// Handles a message of another replica. Drops an invalid one.
    pub fn receive(&mut self, message: PeerMessage, now: TimestampMs) {
        if self.halted().is_some() {
            return;
        }
        if !is_sound(&message.0) {
            self.counters.refused_messages += 1;
            return;
        }
        if self.has_forgotten(&message.0) {
            let reason = "the log lacks entries that the leader knows to be here: the replica has to join again, under a new id";
            self.is_lost = true;
            self.ledger_mut().log.poison(reason);
            return;
        }
        if message.0.get_msg_type() == MessageType::MsgTimeoutNow && self.is_damaged() {
            // The leader that transfers leadership will abort the transfer.
            return;
        }
        if message.0.get_msg_type() == MessageType::MsgSnapshot {
            self.wake_up();
            return self.consider_offer(message.0, now);
        }
        if !self.waits_for_answer(&message.0) {
            self.step_awake(message.0, now);
        }
    }

    /// A leader's heartbeat never commits more than this replica has acknowledged. If it does, this replica
    /// lost entries, and raft would panic.
    fn has_forgotten(&self, message: &Message) -> bool {
        message.get_msg_type() == MessageType::MsgHeartbeat
            && message.term >= self.node.raft.term
            && message.commit > self.node.raft.raft_log.last_index()
    }

    /// Records that a message could not be delivered.
    pub fn unreachable(&mut self, replica: ReplicaId, now: TimestampMs) {
        if self.halted().is_none() {
            self.engine(|node| node.report_unreachable(replica.0));
            self.note_unsent(replica);
            self.carry_on(now);
        }
    }

    /// Starts an election without waiting for the leader to fall silent.
    pub fn campaign(&mut self, now: TimestampMs) {
        if self.halted().is_none() {
            let _ = self.engine(RawNode::campaign);
            self.carry_on(now);
        }
    }

    /// Transfers leadership to `to`, if this is the leader and `to` follows closely enough.
    pub fn transfer_leadership(&mut self, to: ReplicaId, now: TimestampMs) {
        if self.halted().is_none() && self.role() == Role::Leader {
            self.engine(|node| node.transfer_leader(to.0));
            self.carry_on(now);
        }
    }

    /// True on a leader if `replica` responds, which means that it was heard from within about two election
    /// timeouts. As long as nothing is appended, even a member that is gone may have everything committed.
    pub fn keeps_up(&self, replica: ReplicaId) -> bool {
        let progress = self.node.raft.prs().get(replica.0);
        let answers = progress.is_some_and(|progress| progress.recent_active)
            || self.answered.contains(&replica.0)
            || replica == self.options.id
            || self.hibernates();
        answers && self.has_caught_up(replica)
    }

    /// Raft forgets at each election timeout which members have responded.
    fn note_answers(&mut self) {
        let raft = &self.node.raft;
        if raft.state != StateRole::Leader {
            self.answered.clear();
        } else if raft.election_elapsed + 1 >= self.options.election_ticks {
            let active = raft.prs().iter().filter(|(_, progress)| progress.recent_active);
            self.answered = active.map(|(id, _)| *id).collect();
        }
    }

    /// Plans a sync of everything written so far.
    pub fn begin_sync(&mut self, checkpoint: bool) -> Option<SyncTicket<D>> {
        // The table of producers may be ahead of what is committed. If the log's end is truncated, the table
        // goes with it.
        let keeps_table = checkpoint && self.may_keep_table();
        let sections = if keeps_table { self.ledger().sections() } else { None };
        self.ledger_mut().begin_sync(checkpoint, sections)
    }

    /// Records the end of a sync, and continues with what waited for it.
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

    /// Syncs everything and leaves a mark that makes the next start fast. Blocks.
    ///
    /// # Errors
    /// The disk's errors. The next start then recovers as after a crash.
    pub fn close(mut self) -> Result<(), AppendError> {
        self.ledger().refuse_if_halted()?;
        self.ledger_mut().log.sync().map_err(refusal)?;
        self.save(|_| ()).map_err(refusal)?;
        let keeps_table = self.may_keep_table();
        let LogStorage { ledger, .. } = self.node.raft.r.raft_log.store;
        let sections = if keeps_table { ledger.sections() } else { None };
        ledger.log.close(sections).map_err(refusal)
    }

    /// Reports whether the table of producers may be saved with the log. At the next start, the high
    /// watermark is the ballot's commit index, and the table must list every transaction that is not decided
    /// below it. So this writes the ballot first if needed, and blocks then. False if the table would be
    /// ahead of what the ballot can claim, or if the log cannot tell. The next start then reads more of the
    /// log.
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

    /// Lists the batches above the commit index, after a start.
    fn list_uncommitted(&mut self) -> Result<(), LogError> {
        let storage = self.node.store();
        for index in storage.ballot.commit + 1..=storage.known {
            if let Some(Indexed::Batch(row)) = storage.ledger.log.at_index(RaftIndex(index))? {
                self.uncommitted.push(index, row.next_offset(), row.batch_bytes as usize);
            }
        }
        Ok(())
    }

    /// Raft draws the election timeout from a thread-local random generator. Here it is derived from the seed
    /// instead. It stays the same until the term or the state changes, however often raft draws.
    pub(super) fn draw_timeout(&mut self) {
        let now = (self.node.raft.term, self.node.raft.state);
        if now != self.drawn_for {
            self.drawn_for = now;
            self.draw_timeout_within(self.options.election_ticks);
        }
        // A replica that cannot send everything is a worse leader than the others.
        let times = if self.is_damaged() { RELUCTANCE } else { 1 };
        self.node.raft.set_randomized_election_timeout(self.timeout_ticks * times);
    }
}

/// True if batches are whole and of their entry's term, other entries fit the side file, and the message is
/// no proposal. Proposals come from clients only.
fn is_sound(message: &Message) -> bool {
    message.get_msg_type() != MessageType::MsgPropose
        && message.entries.iter().all(|entry| {
            if !is_batch(entry) {
                return entry.data.len() + entry.context.len() < ENTRY_BYTES_MAX;
            }
            tailrace_records::check(&entry.data).is_ok_and(|header| {
                header.total_bytes() == entry.data.len()
                    && u64::try_from(header.leader_epoch.0) == Ok(entry.term)
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
        // The bound of the timeouts set here: normally twice the election timeout, more if elections of many
        // groups are spread, and much more on a damaged replica.
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

#[cfg(test)]
mod tests {
    use raft::eraftpb::Entry;
    use tailrace_records::{BatchBuilder, BatchOptions};
    use tailrace_types::LeaderEpoch;

    use super::*;

    fn message(epoch: i32, term: u64) -> Message {
        let mut builder = BatchBuilder::new(BatchOptions::default());
        builder.push(TimestampMs(1), None, Some(b"v"), &[]).unwrap();
        let (mut header, bytes) = builder.build_with_header();
        header.leader_epoch = LeaderEpoch(epoch);
        let mut data = bytes.to_vec();
        data[..tailrace_records::PREFIX_BYTES].copy_from_slice(&header.prefix());
        let mut message = Message::default();
        message.set_msg_type(MessageType::MsgAppend);
        message.set_entries(vec![Entry { term, data: data.into(), ..Entry::default() }].into());
        message
    }

    #[test]
    fn the_epoch_of_a_batch_is_the_term_of_its_entry() {
        assert!(is_sound(&message(3, 3)));
        assert!(!is_sound(&message(3, 4)));
        assert!(!is_sound(&message(-1, 0)), "an epoch that is not known is no term");
    }
}
