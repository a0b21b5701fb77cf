//! The consequences of a change of a classic group, shared by all requests.

use std::sync::Arc;

use bytes::Bytes;
use tailrace_records::internal::GroupKey;
use tailrace_types::TimestampMs;

use super::event::{ClassicReply, ClassicTimer, Joined, Synced};
use super::group::{ClassicGroup, InitialDelay};
use crate::coordinator::{CoordinatorRecord, Effects, Moment, Token};
use crate::groups::limits::MEMBERS_PER_GROUP_MAX;
use crate::groups::timers::{GroupTimer, Timers};
use crate::groups::{GroupCoordinator, GroupCounts, GroupError, GroupReply, GroupState};

/// How long a new member may wait for its first generation, in milliseconds. It has no id to send heartbeats
/// with, and a client that has abandoned its request would stay for ever. The value is Kafka's.
const NEW_MEMBER_JOIN_TIMEOUT_MS: i64 = 300_000;

/// An empty assignment.
const NO_ASSIGNMENT: Bytes = Bytes::new();

/// A group, with everything that a decision about it needs.
pub(super) struct Turn<'a> {
    pub(super) id: &'a Arc<str>,
    pub(super) group: &'a mut ClassicGroup,
    pub(super) timers: &'a mut Timers,
    pub(super) counts: &'a mut GroupCounts,
    pub(super) moment: &'a Moment<'a>,
    pub(super) effects: &'a mut Effects<GroupCoordinator>,
}

impl Turn<'_> {
    pub(super) fn reply(&mut self, token: Token, reply: ClassicReply) {
        self.effects.replies.push((token, GroupReply::Classic(reply)));
    }

    pub(super) fn reply_join(&mut self, token: Token, result: Result<Joined, GroupError>) {
        self.reply(token, ClassicReply::Join(result));
    }

    pub(super) fn reply_sync(&mut self, token: Token, result: Result<Synced, GroupError>) {
        self.reply(token, ClassicReply::Sync(result));
    }

    pub(super) fn unknown(&self, member: &Arc<str>) -> GroupError {
        GroupError::UnknownMember { group: Arc::clone(self.id), member: Arc::clone(member) }
    }

    /// Returns the maximum number of members.
    pub(super) fn size_max(&self) -> usize {
        let setting = usize::try_from(self.moment.image.broker().group_max_size).unwrap_or(0);
        setting.min(MEMBERS_PER_GROUP_MAX)
    }

    fn after(&self, ms: i64) -> TimestampMs {
        TimestampMs(self.moment.now.0.saturating_add(ms))
    }

    fn set(&mut self, timer: ClassicTimer, ms: i64) {
        let deadline = self.after(ms);
        self.timers.set(self.id, GroupTimer::Classic(timer), deadline);
    }

    pub(super) fn clear(&mut self, timer: ClassicTimer) {
        self.timers.clear(self.id, GroupTimer::Classic(timer));
    }

    /// Writes the current state of the group.
    pub(super) fn write(&mut self) {
        self.group.is_written = true;
        let key = GroupKey { group: self.id }.encode();
        self.effects.append(vec![CoordinatorRecord { key, value: Some(self.group.to_record()) }]);
    }

    /// Extends the member's session, after a heartbeat or a reply that the member needs time for.
    pub(super) fn keep_alive(&mut self, member: &Arc<str>) {
        let Some(timeout) = self.group.members.get(member).map(|member| member.session_timeout_ms) else {
            return;
        };
        self.expect_until(member, timeout.into());
    }

    /// Starts the wait of a new member, which cannot send heartbeats.
    pub(super) fn keep_alive_new(&mut self, member: &Arc<str>) {
        self.expect_until(member, NEW_MEMBER_JOIN_TIMEOUT_MS);
    }

    /// Moves the member's deadline. A timer that expires earlier is not changed; when it expires, it is set
    /// again. That makes a heartbeat very cheap.
    fn expect_until(&mut self, member: &Arc<str>, ms: i64) {
        let deadline = self.after(ms);
        let timer = GroupTimer::Classic(ClassicTimer::Session(Arc::clone(member)));
        let known = self.group.members.get_mut(member);
        let before = known.map(|member| std::mem::replace(&mut member.alive_until, deadline));
        if before.is_none_or(|before| deadline < before) || !self.timers.is_set(self.id, timer.clone()) {
            self.timers.set(self.id, timer, deadline);
        }
    }

    /// Reserves an id that was given out and has not been used yet.
    pub(super) fn expect_pending(&mut self, member: Arc<str>, ms: i64) {
        self.set(ClassicTimer::Session(Arc::clone(&member)), ms);
        self.group.pending.insert(member);
    }

    /// Removes a member. Its pending requests are answered with "unknown member".
    pub(super) fn remove(&mut self, member: &Arc<str>) {
        self.clear(ClassicTimer::Session(Arc::clone(member)));
        let Some(gone) = self.group.remove(member) else { return };
        if let Some(token) = gone.joining {
            self.reply_join(token, Err(self.unknown(member)));
        }
        if let Some(token) = gone.syncing {
            self.reply_sync(token, Err(self.unknown(member)));
        }
    }

    /// Reacts to a change of the membership.
    pub(super) fn rebalance_or_complete(&mut self) {
        match self.group.state {
            GroupState::Empty | GroupState::Stable | GroupState::CompletingRebalance => {
                self.prepare_rebalance()
            }
            _ => self.complete_if_all_joined(),
        }
    }

    /// Starts to wait for members to join. The first generation also waits for new members.
    pub(super) fn prepare_rebalance(&mut self) {
        if self.group.state == GroupState::CompletingRebalance {
            self.send_back_those_who_sync();
        }
        self.group.unsynced.clear();
        self.clear(ClassicTimer::Sync);
        let from_empty = self.group.state == GroupState::Empty;
        self.group.enter(GroupState::PreparingRebalance, self.moment.now);
        let timeout = self.group.rebalance_timeout_ms();
        if from_empty {
            let delay_ms = i64::from(self.moment.image.broker().group_initial_rebalance_delay_ms);
            let remaining_ms = (timeout - delay_ms).max(0);
            self.group.initial = InitialDelay { joined: false, delay_ms, remaining_ms };
            self.set(ClassicTimer::Join, delay_ms);
        } else if self.group.all_have_joined() {
            self.complete_join();
        } else {
            self.set(ClassicTimer::Join, timeout);
        }
    }

    fn send_back_those_who_sync(&mut self) {
        let mut waiting = Vec::new();
        for (id, member) in &mut self.group.members {
            member.assignment = NO_ASSIGNMENT;
            if let Some(token) = member.syncing.take() {
                waiting.push((Arc::clone(id), token));
            }
        }
        for (member, token) in waiting {
            self.reply_sync(token, Err(GroupError::RebalanceInProgress));
            self.keep_alive(&member);
        }
    }

    /// Completes the join phase if no member is missing. The first generation waits for its delay to end.
    pub(super) fn complete_if_all_joined(&mut self) {
        let group = &self.group;
        let waiting = group.state == GroupState::PreparingRebalance && group.previous != GroupState::Empty;
        if waiting && group.all_have_joined() {
            self.complete_join();
        }
    }

    /// Handles the end of the time to join.
    pub(super) fn join_is_over(&mut self) {
        if self.group.state != GroupState::PreparingRebalance {
            return;
        }
        let initial = self.group.initial;
        if self.group.previous == GroupState::Empty && initial.joined && initial.remaining_ms > 0 {
            let longest = i64::from(self.moment.image.broker().group_initial_rebalance_delay_ms);
            let delay_ms = longest.min(initial.remaining_ms);
            let remaining_ms = (initial.remaining_ms - initial.delay_ms).max(0);
            self.group.initial = InitialDelay { joined: false, delay_ms, remaining_ms };
            self.set(ClassicTimer::Join, delay_ms);
            return;
        }
        self.complete_join();
    }

    /// Starts the next generation with the members that have joined. Static members may be late; they stay.
    fn complete_join(&mut self) {
        self.clear(ClassicTimer::Join);
        let missing: Vec<_> = self
            .group
            .members
            .iter()
            .filter(|(_, member)| member.joining.is_none() && member.instance.is_none())
            .map(|(id, _)| Arc::clone(id))
            .collect();
        for member in &missing {
            self.remove(member);
        }
        if !self.group.members.is_empty() && !self.group.elect() {
            // No member has joined. Either sessions expire, or a member joins.
            let timeout = self.group.rebalance_timeout_ms();
            return self.set(ClassicTimer::Join, timeout);
        }
        self.group.next_generation(self.moment.now);
        if self.group.state == GroupState::Empty {
            return self.write();
        }
        self.answer_those_who_joined();
        let timeout = self.group.rebalance_timeout_ms();
        self.set(ClassicTimer::Sync, timeout);
    }

    fn answer_those_who_joined(&mut self) {
        let members: Vec<_> = self.group.members.keys().cloned().collect();
        for id in members {
            let token = self.group.take_joining(&id);
            if let Some(member) = self.group.members.get_mut(&id) {
                member.is_new = false;
            }
            self.group.unsynced.insert(Arc::clone(&id));
            if let Some(token) = token {
                let joined = self.joined(&id);
                self.reply_join(token, Ok(joined));
            }
            self.keep_alive(&id);
        }
    }

    /// Returns the JoinGroup reply for a member in the current generation.
    pub(super) fn joined(&self, member: &Arc<str>) -> Joined {
        let group = &self.group;
        Joined {
            generation: group.generation,
            protocol_type: group.protocol_type.clone(),
            protocol: group.protocol.clone(),
            leader: group.leader.clone().unwrap_or_default(),
            member: Arc::clone(member),
            skip_assignment: false,
            members: if group.is_leader(member) { group.for_leader() } else { Vec::new() },
        }
    }

    /// Records that the member has asked for its assignment.
    pub(super) fn has_synced(&mut self, member: &Arc<str>) {
        self.group.unsynced.remove(member);
        if self.group.unsynced.is_empty() {
            self.clear(ClassicTimer::Sync);
        }
    }

    /// Handles the end of the time to sync: members that have not asked for their assignment are removed.
    pub(super) fn sync_is_over(&mut self) {
        let running = matches!(self.group.state, GroupState::CompletingRebalance | GroupState::Stable);
        if !running || self.group.unsynced.is_empty() {
            return;
        }
        for member in std::mem::take(&mut self.group.unsynced) {
            self.remove(&member);
        }
        self.prepare_rebalance();
    }

    /// Handles the end of the session of a member, or of an id that was never used.
    pub(super) fn session_is_over(&mut self, member: &Arc<str>) {
        if self.group.pending.remove(member) {
            return self.complete_if_all_have_come();
        }
        let Some(known) = self.group.members.get(member) else { return };
        if known.alive_until > self.moment.now {
            let until = known.alive_until;
            let timer = GroupTimer::Classic(ClassicTimer::Session(Arc::clone(member)));
            return self.timers.set(self.id, timer, until);
        }
        // A member with a pending request gets a new session with the reply.
        if known.is_excused() {
            return;
        }
        self.remove(member);
        match self.group.state {
            GroupState::Stable | GroupState::CompletingRebalance => self.prepare_rebalance(),
            _ => self.complete_if_all_have_come(),
        }
    }

    /// Works as [`Turn::complete_if_all_joined`], but also for the first generation. If every awaited member
    /// is gone, there is nothing to wait for.
    fn complete_if_all_have_come(&mut self) {
        if self.group.state == GroupState::PreparingRebalance && self.group.all_have_joined() {
            self.complete_join();
        }
    }
}
