//! A leader's timeout_ticks with new replicas that somebody wants to be brought up to date slowly.
//!
//! Raft takes what is not answered by the next heartbeat for lost, and sends it again, or what follows it. Whoever holds up messages to
//! keep to a rate would have ever more of them to hold up. So a learner that is paced is sent one message with entries at a time,
//! and the next one when it has answered, or has been silent for long. Only learners are paced: a majority may wait for any voter.

use raft::StateRole;
use raft::eraftpb::{Message, MessageType};
use tailrace_log::Disk;
use tailrace_types::ReplicaId;

use super::message::PeerMessage;
use super::replica::{MESSAGES_IN_FLIGHT_MAX, Replica, Role};

/// Times the election timeout after which what is unanswered is taken for lost. Longer than a message may be held up on both ends together.
const UNANSWERED_ELECTION_TIMEOUTS: usize = 25;
/// The same for what was not sent at all.
const UNSENT_ELECTION_TIMEOUTS: usize = 2;

impl<D: Disk> Replica<D> {
    /// Sends those learners that are behind and that `slowly` names one message with entries at a time, until they are named no more or
    /// have caught up. To be called before [`Replica::take_messages`]; does nothing on a replica that does not lead.
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

    /// True of a learner that [`Replica::pace`] has found to be behind.
    pub fn is_paced(&self, replica: ReplicaId) -> bool {
        self.pacing.contains_key(&replica.0)
    }

    /// True of a replica that is a voting member, as far as it knows.
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

    /// A message was not sent after all.
    pub(super) fn note_unsent(&mut self, replica: ReplicaId) {
        let Some(unanswered) = self.pacing.get_mut(&replica.0) else { return };
        let timeouts = UNANSWERED_ELECTION_TIMEOUTS - UNSENT_ELECTION_TIMEOUTS;
        *unanswered = Some(timeouts * self.options.election_ticks);
        if let Some(progress) = self.node.raft.mut_prs().get_mut(replica.0) {
            progress.pause();
        }
    }

    /// True of a heartbeat's answer that raft must not take for a sign of loss. What else it says is noted.
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
