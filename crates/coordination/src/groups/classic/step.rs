//! Dispatch of requests, timers, restarts and log records to a classic group.

use std::sync::Arc;

use tailrace_records::internal::{GroupKey, GroupValue, InternalRecordError};

use super::event::{ClassicEvent, ClassicReply, ClassicTimer};
use super::group::ClassicGroup;
use super::turn::Turn;
use crate::coordinator::{Effects, Moment, ReplayError, Token};
use crate::groups::coordinator::GroupCoordinator;
use crate::groups::event::GroupReply;
use crate::groups::group::Group;
use crate::groups::limits::check_group_id;
use crate::groups::timers::GroupTimer;

impl GroupCoordinator {
    pub(in crate::groups) fn step_classic(
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

    /// Prepares a decision about a classic group. `None` if there is no such group.
    pub(super) fn turn<'a>(
        &'a mut self,
        id: &'a Arc<str>,
        moment: &'a Moment<'a>,
        effects: &'a mut Effects<Self>,
    ) -> Option<Turn<'a>> {
        let Some(Group::Classic(group)) = self.groups.get_mut(id) else { return None };
        Some(Turn { id, group, timers: &mut self.timers, counts: &mut self.counts, moment, effects })
    }

    /// Reports whether a member is about to join.
    pub(in crate::groups) fn is_awaited(&self, id: &Arc<str>) -> bool {
        matches!(self.groups.get(id), Some(Group::Classic(group)) if !group.pending.is_empty())
    }

    /// Drops a group that a client asked to join and no client has joined.
    pub(in crate::groups) fn forget_idle_classic(&mut self, id: &Arc<str>) {
        if let Some(Group::Classic(group)) = self.groups.get(id)
            && group.is_idle()
            && !self.offsets.has_any(id)
        {
            self.groups.remove(id);
        }
    }

    pub(in crate::groups) fn classic_timer(
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

    /// Starts new sessions for the members of a replayed group.
    pub(in crate::groups) fn classic_loaded(
        &mut self,
        id: &Arc<str>,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) {
        let Some(mut turn) = self.turn(id, moment, effects) else { return };
        let members: Vec<_> = turn.group.members.keys().cloned().collect();
        for member in &members {
            turn.keep_alive(member);
        }
        if turn.group.members.len() > turn.size_max() {
            turn.prepare_rebalance();
        }
    }

    pub(in crate::groups) fn replay_classic(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), ReplayError> {
        let failure = |error: InternalRecordError| ReplayError(error.to_string());
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

    /// Clears all timers of a classic group. Its offsets stay. Must not be used while members have pending
    /// requests.
    pub(in crate::groups) fn drop_classic_timers(&mut self, id: &Arc<str>) {
        let Some(Group::Classic(group)) = self.groups.get(id) else { return };
        for member in group.members.keys().chain(&group.pending) {
            self.timers.clear(id, GroupTimer::Classic(ClassicTimer::Session(Arc::clone(member))));
        }
        for timer in [ClassicTimer::Join, ClassicTimer::Sync] {
            self.timers.clear(id, GroupTimer::Classic(timer));
        }
    }
}
