//! Idle groups stop ticking and send nothing.
//!
//! Once all members have the whole log and know that it is committed, the leader's heartbeats ask them to
//! hibernate. A member that agrees stops its clock. Once all have agreed, the leader stops its own. From then
//! on nodes hold leases: each node sends one beat for all of its groups, with a number that is new at each
//! start (the lease number). A replica wakes when a node that it relies on falls silent, is lost, or beats
//! with another number ([`Beats`]). It also wakes when a message arrives or when it is asked for anything.
//!
//! No guarantee of raft depends on this. A replica that sleeps too long is late, and one that wakes too early
//! ticks in vain. Deliberately not here: which node beats, and how it reaches the others.

use std::collections::BTreeMap;

use bytes::{BufMut as _, Bytes, BytesMut};
use raft::StateRole;
use raft::eraftpb::{Message, MessageType};
use tailrace_log::Disk;
use tailrace_types::{NodeId, ReplicaId, TimestampMs};

use super::replica::Replica;
use super::state::{Lease, SleepState};

/// Idle election timeouts after which a leader asks its members to hibernate.
const QUIET_TIMEOUTS: usize = 2;

/// First byte of the context of a heartbeat that asks to hibernate. The response that agrees starts with
/// [`AGREES`]. A lease number (8) and a raft index (8) follow, little endian.
const ASKS: u8 = 1;
const AGREES: u8 = 2;
const NOTE_BYTES: usize = 17;

/// The note on hibernation that a heartbeat or its response carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Note {
    agrees: bool,
    lease: u64,
    index: u64,
}

impl Note {
    fn encode(self) -> Bytes {
        let mut out = BytesMut::with_capacity(NOTE_BYTES);
        out.put_u8(if self.agrees { AGREES } else { ASKS });
        out.put_u64_le(self.lease);
        out.put_u64_le(self.index);
        out.freeze()
    }

    /// Removes the note from a message, because raft must not see it.
    fn take(message: &mut Message) -> Option<Self> {
        let agrees = match message.get_msg_type() {
            MessageType::MsgHeartbeat => false,
            MessageType::MsgHeartbeatResponse => true,
            _ => return None,
        };
        let context = std::mem::take(&mut message.context);
        let (kind, lease, index) = (context.first()?, context.get(1..9)?, context.get(9..NOTE_BYTES)?);
        let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).ok();
        let expected = if agrees { AGREES } else { ASKS };
        let is_whole = *kind == expected && context.len() == NOTE_BYTES;
        Some(Self { agrees, lease: number(lease)?, index: number(index)? }).filter(|_| is_whole)
    }
}

impl<D: Disk> Replica<D> {
    /// Lets the replica hibernate from now on: its node holds a lease with this number. With `None` the node
    /// holds no lease, and the replica stays awake once it is awake.
    pub fn set_lease(&mut self, lease: Option<u64>) {
        self.hibernation.own = lease;
    }

    /// True if the replica needs no ticks until it is woken. All other calls wake it if needed.
    pub fn hibernates(&self) -> bool {
        self.hibernation.sleep.as_ref().is_some_and(|(sleep_state, _)| *sleep_state == self.sleep_state())
    }

    /// The leases that a sleeping replica relies on. [`Replica::wake`] is due as soon as one of them no
    /// longer holds ([`Beats`]).
    pub fn relies_on(&self) -> &[Lease] {
        match &self.hibernation.sleep {
            Some((sleep_state, nodes)) if *sleep_state == self.sleep_state() => nodes,
            _ => &[],
        }
    }

    /// Wakes the replica if it hibernates, because a node that it relied on is gone. A follower tells its
    /// leader that it is awake. It starts an election unless it hears from the leader within two heartbeats.
    /// The election starts up to an election timeout later, and up to `spread_ticks` more if many groups
    /// wake.
    pub fn wake(&mut self, spread_ticks: usize) {
        let slept = self.hibernates();
        self.wake_up();
        if !slept || self.node.raft.state != StateRole::Follower {
            return;
        }
        let patience = 2 * self.options.heartbeat_ticks;
        self.node.raft.election_elapsed = self.options.election_ticks.saturating_sub(patience);
        self.spread_election(spread_ticks);
        // The leader may be up and asleep.
        let raft = &self.node.raft;
        let mut sign = Message::default();
        sign.set_msg_type(MessageType::MsgHeartbeatResponse);
        (sign.from, sign.to) = (self.options.id.0, raft.leader_id);
        (sign.term, sign.commit) = (raft.term, raft.raft_log.committed);
        self.outgoing.push(sign);
    }

    /// Delays this follower's election by up to `ticks` more ticks.
    pub fn spread_election(&mut self, ticks: usize) {
        self.draw_timeout_within(self.options.election_ticks + ticks);
    }

    /// Returns how many ticks may pass before one of them has an effect, at least 1.
    pub fn ticks_until_due(&self) -> usize {
        if self.halted().is_some() || self.hibernates() {
            return usize::MAX;
        }
        let raft = &self.node.raft;
        if !self.offers.is_empty() || self.fetch.is_some() || self.is_damaged() {
            return 1;
        }
        let due = match raft.state {
            StateRole::Leader => {
                let beat = self.options.heartbeat_ticks.saturating_sub(raft.heartbeat_elapsed());
                beat.min(self.options.election_ticks.saturating_sub(raft.election_elapsed))
            }
            _ => raft.randomized_election_timeout().saturating_sub(raft.election_elapsed),
        };
        due.max(1)
    }

    /// Runs after each tick. A leader counts how long the group has been idle, and asks its members to
    /// hibernate in the heartbeats that are due.
    pub(super) fn tick_hibernation(&mut self) {
        // A wake-up without a message leaves this state behind.
        self.wake_up();
        let index = self.node.raft.raft_log.last_index();
        let before = std::mem::replace(&mut self.hibernation.quiet_at, index);
        let (Some(lease), true) = (self.hibernation.own, before == index && self.is_quiet()) else {
            self.hibernation.quiet_ticks = 0;
            self.hibernation.agreed.clear();
            return;
        };
        self.hibernation.quiet_ticks += 1;
        if self.hibernation.quiet_ticks < QUIET_TIMEOUTS * self.options.election_ticks {
            return;
        }
        let note = Note { agrees: false, lease, index }.encode();
        for message in &mut self.outgoing {
            if message.get_msg_type() == MessageType::MsgHeartbeat && message.commit == index {
                message.context = note.clone();
            }
        }
        self.sleep_if_all_agree();
    }

    /// Steps raft with a message of another replica, and handles its note on hibernation.
    pub(super) fn step_awake(&mut self, mut message: Message, now: TimestampMs) {
        let (from, term) = (message.from, message.term);
        let note = Note::take(&mut message).filter(|_| term == self.node.raft.term);
        if note.is_none() {
            self.wake_up();
        }
        // A message that raft refuses counts as lost.
        let _ = self.engine(|node| node.step(message));
        self.carry_on(now);
        match note {
            Some(note) if note.agrees => self.note_agreement(from, note),
            Some(note) => self.consider_sleep(from, note),
            None => {}
        }
    }

    fn note_agreement(&mut self, from: u64, note: Note) {
        let is_asked = self.hibernation.own.is_some() && self.hibernation.quiet_at == note.index;
        if is_asked && self.is_quiet() && self.has_settled(note.index) {
            self.hibernation.agreed.insert(from, note.lease);
            self.sleep_if_all_agree();
        }
    }

    /// Puts a follower to sleep, and tells its leader, if it has everything that the leader has.
    fn consider_sleep(&mut self, leader: u64, note: Note) {
        let raft = &self.node.raft;
        let follows = raft.state == StateRole::Follower && raft.leader_id == leader;
        let (Some(own), true) = (self.hibernation.own, follows && self.has_settled(note.index)) else {
            return self.wake_up();
        };
        let lease = Lease { node: ReplicaId(leader).node(), number: note.lease };
        self.hibernation.sleep = Some((self.sleep_state(), vec![lease]));
        let answer = self.outgoing.iter_mut().rev();
        let mut answer =
            answer.filter(|m| m.get_msg_type() == MessageType::MsgHeartbeatResponse && m.to == leader);
        if let Some(answer) = answer.next() {
            answer.context = Note { agrees: true, lease: own, index: note.index }.encode();
        }
    }

    fn sleep_if_all_agree(&mut self) {
        let own = self.options.id.0;
        let agreed = &self.hibernation.agreed;
        let others = self.node.raft.prs().iter().map(|(id, _)| *id).filter(|id| *id != own);
        let relied = others
            .map(|id| agreed.get(&id).map(|lease| Lease { node: ReplicaId(id).node(), number: *lease }));
        if self.hibernation.quiet_ticks >= QUIET_TIMEOUTS * self.options.election_ticks
            && let Some(relied) = relied.collect::<Option<Vec<_>>>()
        {
            self.hibernation.sleep = Some((self.sleep_state(), relied));
        }
    }

    /// True for a leader with a committed entry of its term, whose members all have the whole log, and which
    /// has no work pending.
    fn is_quiet(&self) -> bool {
        let raft = &self.node.raft;
        let last = raft.raft_log.last_index();
        self.leads().is_some()
            && !raft.has_pending_conf()
            && self.offers.is_empty()
            && self.has_settled(last)
            && raft.prs().iter().all(|(id, p)| *id == self.options.id.0 || p.matched == last)
    }

    /// True if its log ends at `index` and is all durable, committed and applied.
    fn has_settled(&self, index: u64) -> bool {
        let log = &self.node.raft.raft_log;
        self.halted().is_none()
            && !self.is_damaged()
            && (log.last_index(), log.committed, log.applied) == (index, index, index)
            && self.written.is_empty()
            && self.uncommitted.is_empty()
            && self.fetch.is_none()
    }

    /// Ends its sleep, if it sleeps. A leader gets a whole election timeout to hear from its members again.
    pub(super) fn wake_up(&mut self) {
        if self.hibernation.sleep.take().is_none() {
            return;
        }
        self.hibernation.quiet_ticks = 0;
        self.hibernation.agreed.clear();
        if self.node.raft.state == StateRole::Leader {
            self.node.raft.election_elapsed = 0;
        }
    }

    fn sleep_state(&self) -> SleepState {
        let raft = &self.node.raft;
        SleepState {
            term: raft.term,
            state: raft.state,
            leader: raft.leader_id,
            last_index: raft.raft_log.last_index(),
            committed: raft.raft_log.committed,
            is_disturbed: raft.lead_transferee.is_some() || self.halted().is_some() || self.is_damaged(),
        }
    }
}

/// The leases that hold, as far as one node has heard.
#[derive(Clone, Debug)]
pub struct Beats {
    silence_ticks: u32,
    nodes: BTreeMap<NodeId, Beat>,
}

#[derive(Clone, Copy, Debug)]
struct Beat {
    lease: u64,
    silent_ticks: u32,
}

impl Beats {
    /// Creates the tracker. A node that has not beaten for `silence_ticks` has lost its lease.
    pub fn new(silence_ticks: u32) -> Self {
        Self { silence_ticks, nodes: BTreeMap::new() }
    }

    /// Records a beat of a node. Returns true if its lease number has changed, in which case every replica
    /// that relied on the node has to wake.
    pub fn heard(&mut self, node: NodeId, lease: u64) -> bool {
        let before = self.nodes.insert(node, Beat { lease, silent_ticks: 0 });
        before.is_some_and(|before| before.lease != lease)
    }

    /// Records that the link to a node is down. Returns true if a replica may rely on it.
    pub fn lost(&mut self, node: NodeId) -> bool {
        self.nodes.remove(&node).is_some()
    }

    /// Lets a tick pass. Returns true if a node has fallen silent.
    pub fn tick(&mut self) -> bool {
        let before = self.nodes.len();
        let silence = self.silence_ticks;
        self.nodes.retain(|_, beat| {
            beat.silent_ticks += 1;
            beat.silent_ticks <= silence
        });
        self.nodes.len() < before
    }

    /// True if no lease holds.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// True as long as the node beats with that number.
    pub fn holds(&self, lease: &Lease) -> bool {
        self.nodes.get(&lease.node).is_some_and(|beat| beat.lease == lease.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Lease = Lease { node: NodeId(1), number: 7 };

    #[test]
    fn a_node_holds_while_it_beats_with_its_number() {
        let mut beats = Beats::new(3);
        assert!(!beats.holds(&LEASE));
        assert!(!beats.heard(NodeId(1), 7));
        assert!(beats.holds(&LEASE));
        for _ in 0..3 {
            assert!(!beats.tick());
        }
        assert!(!beats.heard(NodeId(1), 7), "the same number is no news");
        for _ in 0..3 {
            assert!(!beats.tick() && beats.holds(&LEASE));
        }
        assert!(beats.tick() && !beats.holds(&LEASE));
        assert!(!beats.tick() && !beats.lost(NodeId(1)), "told once");
    }

    #[test]
    fn a_restarted_node_answers_for_nothing_from_before() {
        let mut beats = Beats::new(3);
        beats.heard(NodeId(1), 7);
        assert!(beats.heard(NodeId(1), 8));
        assert!(!beats.holds(&LEASE));
        assert!(beats.lost(NodeId(1)));
        assert!(!beats.heard(NodeId(1), 7), "who relied on it was woken when it was lost");
    }

    #[test]
    fn a_note_comes_back_and_raft_does_not_see_it() {
        let note = Note { agrees: false, lease: 3, index: 9 };
        let mut message = Message::default();
        message.set_msg_type(MessageType::MsgHeartbeat);
        message.context = note.encode();
        assert_eq!(Note::take(&mut message), Some(note));
        assert!(message.context.is_empty());
        for bytes in [
            &b""[..],
            b"\x01",
            b"\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            b"\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        ] {
            message.context = Bytes::copy_from_slice(bytes);
            assert_eq!(Note::take(&mut message), None, "{bytes:?}");
        }
    }
}
