//! Classic groups: members join, their leader assigns, everybody syncs (Kafka's protocol of JoinGroup and SyncGroup).
//!
//! `group.rs` has the state, `turn.rs` what follows from a change of it (rebalances, answers, deadlines), and `join.rs`,
//! `sync.rs`, `heartbeat.rs`, `leave.rs` one request each. A group is written to the log when it is stable or empty; what happens in
//! between lives in memory, and after a restart members find themselves in the generation that was written last.

mod convert;
mod event;
mod group;
mod heartbeat;
mod join;
mod leave;
mod member;
mod subscription;
mod sync;
mod turn;

use std::sync::Arc;

use bytes::Bytes;
use tailrace_records::internal::{GroupKey, GroupValue};

pub(in crate::groups) use convert::ClassicSeed;
pub use event::{
    ClassicDescription, ClassicEvent, ClassicMemberDescription, ClassicReply, JoinAbilities, JoinRequest,
    Joined, JoinedMember, LeavingMember, MemberReference, SyncRequest, Synced,
};
pub(in crate::groups) use group::{CONSUMER_PROTOCOL, ClassicGroup};
use turn::Turn;

use crate::coordinator::{CoordinatorRecord, Effects, Moment, ReplayError, Token};
use crate::groups::group::Group;
use crate::groups::limits::check_group_id;
use crate::groups::timers::GroupTimer;
use crate::groups::{GroupCoordinator, GroupError, GroupReply};

/// How long a new member may wait for its first generation, in milliseconds. It has no id to send heartbeats with, and a
/// client that gave up would stay for ever. Kafka's constant.
pub(super) const NEW_MEMBER_JOIN_TIMEOUT_MS: i64 = 300_000;

/// What a classic group waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ClassicTimer {
    /// Members to join.
    Join,
    /// Members to ask for their assignment.
    Sync,
    /// A sign of life of a member.
    Session(Arc<str>),
}

/// Removes a group from the log.
pub(crate) fn tombstones(group: &Arc<str>) -> Vec<CoordinatorRecord> {
    vec![CoordinatorRecord { key: GroupKey { group }.encode(), value: None }]
}

impl ClassicReply {
    /// The refusal of a request of the same kind.
    fn refusal(event: &ClassicEvent, error: GroupError) -> Self {
        match event {
            ClassicEvent::Join(_) => Self::Join(Err(error)),
            ClassicEvent::Sync(_) => Self::Sync(Err(error)),
            ClassicEvent::Heartbeat(_) => Self::Heartbeat(Err(error)),
            ClassicEvent::Leave(_) => Self::Leave(Err(error)),
        }
    }
}

impl GroupCoordinator {
    pub(super) fn step_classic(
        &mut self,
        token: Token,
        group: &Arc<str>,
        event: ClassicEvent,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) {
        if let Err(error) = check_group_id(group, false) {
            let reply = ClassicReply::refusal(&event, error);
            return effects.replies.push((token, GroupReply::Classic(reply)));
        }
        if let Some(Group::Consumer(consumer)) = self.groups.get(group)
            && !consumer.is_empty()
        {
            return self.classic_event_in_consumer_group(token, group, event, moment, effects);
        }
        match event {
            ClassicEvent::Join(request) => self.join_classic(token, group, request, moment, effects),
            ClassicEvent::Sync(request) => self.sync_classic(token, group, &request, moment, effects),
            ClassicEvent::Heartbeat(by) => {
                let reply = self.heartbeat_classic(group, &by, moment, effects);
                effects.replies.push((token, GroupReply::Classic(ClassicReply::Heartbeat(reply))));
            }
            ClassicEvent::Leave(members) => self.leave_classic(token, group, &members, moment, effects),
        }
        self.forget_idle_classic(group);
    }

    /// A classic group at work; `None` if there is none of this id.
    fn turn<'a>(
        &'a mut self,
        id: &'a Arc<str>,
        moment: &'a Moment<'a>,
        effects: &'a mut Effects<Self>,
    ) -> Option<Turn<'a>> {
        let Some(Group::Classic(group)) = self.groups.get_mut(id) else { return None };
        Some(Turn { id, group, timers: &mut self.timers, counts: &mut self.counts, moment, effects })
    }

    /// True if somebody is about to join.
    pub(super) fn is_awaited(&self, id: &Arc<str>) -> bool {
        matches!(self.groups.get(id), Some(Group::Classic(group)) if !group.pending.is_empty())
    }

    /// Drops a group that somebody asked to join and nobody did.
    pub(super) fn forget_idle_classic(&mut self, id: &Arc<str>) {
        if let Some(Group::Classic(group)) = self.groups.get(id)
            && group.is_idle()
            && !self.offsets.has_any(id)
        {
            self.groups.remove(id);
        }
    }

    pub(super) fn classic_timer(
        &mut self,
        id: &Arc<str>,
        timer: ClassicTimer,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) {
        let Some(mut turn) = self.turn(id, moment, effects) else { return };
        match timer {
            ClassicTimer::Join => turn.join_is_over(),
            ClassicTimer::Sync => turn.sync_is_over(),
            ClassicTimer::Session(member) => turn.session_is_over(&member),
        }
        self.forget_idle_classic(id);
    }

    /// Members of a group that was replayed get a fresh session.
    pub(super) fn classic_loaded(&mut self, id: &Arc<str>, moment: &Moment<'_>, effects: &mut Effects<Self>) {
        let Some(mut turn) = self.turn(id, moment, effects) else { return };
        let members: Vec<_> = turn.group.members.keys().cloned().collect();
        for member in &members {
            turn.keep_alive(member);
        }
        if turn.group.members.len() > turn.size_max() {
            turn.prepare_rebalance();
        }
    }

    pub(super) fn replay_classic(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), ReplayError> {
        let failure = |error: tailrace_records::internal::InternalRecordError| ReplayError(error.to_string());
        let id = GroupKey::decode(key).map_err(failure)?.group;
        match value {
            None => {
                self.groups.remove(id);
            }
            Some(value) => {
                let value = GroupValue::decode(value).map_err(failure)?;
                self.groups.insert(id.into(), Group::Classic(ClassicGroup::from_record(&value)));
            }
        }
        Ok(())
    }

    /// Forgets a classic group and everything it waits for. Its offsets stay. Not for groups in which somebody waits for an
    /// answer.
    pub(super) fn drop_classic_timers(&mut self, id: &Arc<str>) {
        let Some(Group::Classic(group)) = self.groups.get(id) else { return };
        for member in group.members.keys().chain(&group.pending) {
            self.timers.clear(id, GroupTimer::Classic(ClassicTimer::Session(Arc::clone(member))));
        }
        for timer in [ClassicTimer::Join, ClassicTimer::Sync] {
            self.timers.clear(id, GroupTimer::Classic(timer));
        }
    }
}

/// An assignment of nothing.
const NO_ASSIGNMENT: Bytes = Bytes::new();
