//! Carries out what the engine asks for. Writes and truncates entries, saves votes, releases messages once
//! what they acknowledge is durable, and publishes what is committed.

use raft::eraftpb::{Entry, EntryType};
use raft::{RawNode, StateRole};
use tailrace_log::{Disk, LogError};
use tailrace_records::BatchHeader;
use tailrace_types::{HighWatermark, RaftIndex, TimestampMs};

use super::ballot::Ballot;
use super::members::MemberChange;
use super::replica::{Replica, Role};
#[cfg(feature = "deliberate-bugs")]
use super::state::DeliberateBug;
use super::state::Written;
use super::storage::{epoch_of, is_batch, log_start_of, side_payload};
use crate::policy::Durability;
use crate::rebuild::note_batch;

impl<D: Disk> Replica<D> {
    /// Truncates the log from `index` on.
    pub(super) fn take_back(&mut self, index: RaftIndex, now: TimestampMs) -> Result<(), LogError> {
        self.counters.truncations += 1;
        let committed = self.ledger().reader.high_watermark().offset();
        let ledger = self.ledger_mut();
        ledger.log.truncate_from(index)?;
        assert!(ledger.log.log_end().offset() >= committed, "what is committed was cut off");
        ledger.read_producers_again(now)?;
        let end = ledger.log.log_end().offset();
        self.uncommitted.cut_off(index.0);
        for written in &mut self.written {
            // The pending messages would acknowledge entries that are gone. What is left waits only for bytes
            // that still exist.
            written.messages.clear();
            written.end = written.end.min(end.into());
        }
        Ok(())
    }

    /// Carries out everything that raft asks for.
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
        // After a failure, committed entries may not have been written, and their place may hold something
        // else.
        if self.halted().is_none() {
            self.publish_commit();
            self.make_offers();
        }
    }

    fn handle_ready(&mut self, now: TimestampMs) -> Result<(), LogError> {
        let was_leader = self.led;
        let Some(mut ready) = self.engine(RawNode::ready) else { return Ok(()) };
        // Save the term first: this replica would not accept a log with entries of a later term as its own.
        if let Some(state) = ready.hs() {
            let ballot = &self.node.store().ballot;
            if (state.term, state.vote) != (ballot.term, ballot.vote) {
                if state.term != ballot.term {
                    self.ledger_mut().verifications.clear();
                }
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
        self.ledger().reader.raise_epoch(self.epoch());
        self.outgoing.extend(ready.take_messages());
        let messages = ready.take_persisted_messages();
        let committed = ready.take_committed_entries();
        let number = ready.number();
        self.engine(|node| node.advance_append_async(ready));
        if installs {
            // Everything in the log is durable, and what was before is gone.
            self.engine(|node| node.on_persist_ready(number));
        }
        for entry in committed {
            self.apply(&entry)?;
        }
        self.engine(RawNode::advance_apply);
        self.written.push_back(Written { number, end: self.ledger().log.log_end(), messages });
        self.release();
        Ok(())
    }

    /// Writes entries to the log, after truncating entries that contradict them.
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
                if self.bug == Some(DeliberateBug::SkipTruncation) {
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
        ledger.unsynced += header.records();
        ledger.unsynced_since.get_or_insert(now);
        note_batch(&mut ledger.producers, &header, &entry.data, now);
        if header.attributes.is_control() {
            ledger.reader.publish_aborted(ledger.producers.aborted());
        }
        self.uncommitted.push(entry.index, header.next_offset(), entry.data.len());
        Ok(())
    }

    /// Applies a committed entry: a membership change or a log start. Everything that a membership change
    /// relies on must be durable here before it is applied.
    fn apply(&mut self, entry: &Entry) -> Result<(), LogError> {
        let storage = self.node.mut_store();
        let applied = storage.applied;
        assert!(entry.index == applied + 1, "raft index {} is applied after {applied}", entry.index);
        storage.applied = entry.index;
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
        let change = MemberChange::decode(&entry.data)
            .ok_or_else(|| damaged("a change of the members that no replica makes".to_owned()))?;
        self.ledger_mut().log.sync()?;
        let Some(applied) = self.engine(|node| node.apply_conf_change(&change.to_raft())) else {
            return Ok(());
        };
        let members = applied.map_err(|error| damaged(error.to_string()))?;
        let is_out = !members.voters.contains(&self.options.id.0);
        self.save(|ballot| ballot.members = members)?;
        if is_out && self.role() == Role::Leader {
            // A leader from before this started. Raft would let it lead on but never accept a proposal again.
            let term = self.node.raft.term;
            self.node.raft.become_follower(term, raft::INVALID_ID);
        }
        Ok(())
    }

    /// Changes the ballot durably, together with the applied index and the members at that point.
    ///
    /// # Panics
    /// If the term went back, or if the vote of a term changed.
    pub(super) fn save(&mut self, change: impl FnOnce(&mut Ballot)) -> Result<(), LogError> {
        let storage = self.node.mut_store();
        let (term, vote) = (storage.ballot.term, storage.ballot.vote);
        change(&mut storage.ballot);
        storage.ballot.assert_follows(term, vote);
        storage.ballot.commit = storage.ballot.commit.max(storage.applied);
        storage.write_ballot()
    }

    /// Reports to raft, and then to other replicas, what is durable.
    pub(super) fn release(&mut self) {
        let strict = self.ledger().policy.durability == Durability::Strict;
        let durable = self.ledger().log.durable_end();
        let is_durable = |written: &mut Written| !strict || written.end.offset() <= durable.offset();
        while let Some(written) = self.written.pop_front_if(is_durable) {
            if self.engine(|node| node.on_persist_ready(written.number)).is_none() {
                return;
            }
            self.outgoing.extend(written.messages);
        }
    }

    fn publish_commit(&mut self) {
        let raft = &self.node.raft;
        let committed = raft.raft_log.committed;
        // Looked up once per term, because it reads the log.
        if raft.state == StateRole::Leader && self.counted_in != raft.term && raft.commit_to_current_term() {
            self.counted_in = raft.term;
        }
        #[cfg(feature = "deliberate-bugs")]
        let committed = self.counted().map_or(committed, |counted| counted.max(committed));
        if let Some(end) = self.uncommitted.commit(committed) {
            let ledger = self.ledger_mut();
            let end = end.max(ledger.log.log_start());
            ledger.commit(HighWatermark(end.get()));
        }
    }
}

#[cfg(test)]
mod tests {
    use raft::eraftpb::{Message, MessageType};
    use tailrace_log::{LogConfig, LogStore, PartitionIdentity, RealDisk};
    use tailrace_records::TimestampType;
    use tailrace_types::{PartitionId, ReplicaId, TopicId, TopicName, TopicPartition};

    use super::*;
    use crate::policy::Policy;
    use crate::raft::{Members, PeerMessage, ReplicaOptions};

    const NOW: TimestampMs = TimestampMs(1);

    /// Replica 2 of four.
    fn open(folder: &tempfile::TempDir) -> Replica<RealDisk> {
        let topic_partition = TopicPartition::new(TopicName::new("t").unwrap(), PartitionId(0));
        let identity = PartitionIdentity { topic_id: TopicId([1; 16]), topic_partition };
        let policy = Policy {
            durability: Durability::Strict,
            producer_expiration_ms: i64::MAX,
            timestamp_type: TimestampType::CreateTime,
        };
        let members = Members { voters: [1, 2, 3, 4].map(ReplicaId).to_vec(), learners: Vec::new() };
        let options =
            ReplicaOptions { id: ReplicaId(2), members, election_ticks: 10, heartbeat_ticks: 2, seed: 1 };
        let (dir, store) = (folder.path().join("t-0"), LogStore::new(RealDisk, 16));
        let opened = Replica::open(&store, &dir, &identity, LogConfig::default(), policy, options, NOW);
        opened.expect("a folder of this replica").0
    }

    fn message(kind: MessageType, from: u64, term: u64) -> Message {
        let mut message = Message::default();
        message.set_msg_type(kind);
        (message.from, message.to, message.term) = (from, 2, term);
        message
    }

    /// True if the replica votes for `from`, whose log ends at `index`, in `term`.
    fn votes(replica: &mut Replica<RealDisk>, from: u64, term: u64, index: u64) -> bool {
        let mut asks = message(MessageType::MsgRequestVote, from, term);
        (asks.index, asks.log_term) = (index, index.min(1));
        // A leadership transfer, so that the replica listens although there is a leader.
        asks.context = raft::CAMPAIGN_TRANSFER.into();
        replica.receive(PeerMessage(asks), NOW);
        let said = replica.take_messages();
        let [PeerMessage(answer)] = &said[..] else { panic!("one answer: {said:?}") };
        assert_eq!((answer.get_msg_type(), answer.to), (MessageType::MsgRequestVoteResponse, from));
        !answer.reject
    }

    /// The term is known already, from a candidate that got no vote.
    #[test]
    fn a_vote_in_a_term_that_is_known_already_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut replica = open(&folder);
        let mut append = message(MessageType::MsgAppend, 1, 1);
        append.set_entries(vec![Entry { term: 1, index: 1, ..Entry::default() }].into());
        replica.receive(PeerMessage(append), NOW);
        drop(replica.take_messages());
        assert!(!votes(&mut replica, 3, 2, 0), "what it has, the other one has not");
        assert!(votes(&mut replica, 1, 2, 1));
        drop(replica);
        let mut again = open(&folder);
        assert!(!votes(&mut again, 4, 2, 1), "it has voted for another one in this term");
        assert!(votes(&mut again, 4, 3, 1));
    }
}
