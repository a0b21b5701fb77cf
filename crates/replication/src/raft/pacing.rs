//! A leader's pacing of new replicas that are to be brought up to date slowly.
//!
//! Raft assumes that a message is lost if it is not acknowledged by the next heartbeat, and sends it or its
//! successor again. A sender that delays messages to keep to a rate would collect ever more of them. So a
//! paced learner is sent one message with entries at a time. The next one follows when it has responded, or
//! has been silent for long. Only learners are paced, because a majority may depend on any voter.

use raft::StateRole;
use raft::eraftpb::{Message, MessageType};
use tailrace_log::Disk;
use tailrace_types::ReplicaId;

use super::message::PeerMessage;
use super::replica::{MESSAGES_IN_FLIGHT_MAX, Replica, Role};

/// Election timeouts after which an unanswered message counts as lost. Longer than both ends together may
/// delay a message.
const UNANSWERED_ELECTION_TIMEOUTS: usize = 25;
/// The same for a message that was not sent at all.
const UNSENT_ELECTION_TIMEOUTS: usize = 2;

impl<D: Disk> Replica<D> {
    /// Paces the learners that are behind and that `slowly` selects. They get one message with entries at a
    /// time, until `slowly` no longer selects them or they have caught up. Call it before
    /// [`Replica::take_messages`]. Does nothing on a replica that does not lead.
    pub fn pace(&mut self, slowly: impl Fn(ReplicaId) -> bool) {
        let learners = &self.node.store().ballot.members.learners;
        if learners.is_empty() && self.pacing.is_empty() {
            return;
        }
        let is_paced = |id: &u64| slowly(ReplicaId(*id)) && !self.has_caught_up(ReplicaId(*id));
        let paced: Vec<u64> = match self.role() {
            Role::Leader => learners.iter().copied().filter(is_paced).collect(),
            Role::Follower(_) | Role::Candidate => Vec::new(),
        };
        let raft = &mut self.node.raft;
        self.pacing.retain(|id, _| {
            let stays = paced.contains(id);
            if !stays {
                raft.adjust_max_inflight_msgs(*id, MESSAGES_IN_FLIGHT_MAX);
            }
            stays
        });
        for id in paced {
            self.pacing.entry(id).or_insert_with(|| {
                raft.adjust_max_inflight_msgs(id, 1);
                None
            });
        }
    }

    /// True for a learner that is being paced.
    pub fn is_paced(&self, replica: ReplicaId) -> bool {
        self.pacing.contains_key(&replica.0)
    }

    /// True if the replica is a voter, as far as it knows.
    pub fn votes(&self) -> bool {
        self.node.store().ballot.members.voters.contains(&self.options.id.0)
    }

    pub(super) fn note_sent(&mut self, messages: &[PeerMessage]) {
        if self.pacing.is_empty() {
            return;
        }
        for message in messages.iter().filter(|message| message.append_bytes().is_some()) {
            if let Some(unanswered) = self.pacing.get_mut(&message.0.to) {
                *unanswered = Some(0);
            }
        }
    }

    /// Records that a message was not sent after all.
    pub(super) fn note_unsent(&mut self, replica: ReplicaId) {
        let Some(unanswered) = self.pacing.get_mut(&replica.0) else { return };
        let timeouts = UNANSWERED_ELECTION_TIMEOUTS - UNSENT_ELECTION_TIMEOUTS;
        *unanswered = Some(timeouts * self.options.election_ticks);
        if let Some(progress) = self.node.raft.mut_prs().get_mut(replica.0) {
            progress.pause();
        }
    }

    /// True for a heartbeat response that raft must not take for a sign of loss. Its other content is
    /// recorded.
    pub(super) fn waits_for_answer(&mut self, message: &Message) -> bool {
        let raft = &mut self.node.raft;
        let Some(unanswered) = self.pacing.get_mut(&message.from) else { return false };
        if message.term != raft.term || raft.state != StateRole::Leader {
            return false;
        }
        match message.get_msg_type() {
            MessageType::MsgAppendResponse => *unanswered = None,
            MessageType::MsgHeartbeatResponse if unanswered.is_some() => {
                if let Some(progress) = raft.mut_prs().get_mut(message.from) {
                    progress.recent_active = true;
                    progress.update_committed(message.commit);
                }
                return true;
            }
            _ => {}
        }
        false
    }

    pub(super) fn tick_pacing(&mut self) {
        let timeout_ticks = UNANSWERED_ELECTION_TIMEOUTS * self.options.election_ticks;
        for unanswered in self.pacing.values_mut() {
            *unanswered = unanswered.map(|ticks| ticks + 1).filter(|ticks| *ticks < timeout_ticks);
        }
    }
}
