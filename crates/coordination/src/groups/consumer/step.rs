//! Dispatch of requests, timers and restarts to a consumer group.

use std::sync::Arc;

use super::event::{ConsumerEvent, ConsumerHeartbeat, ConsumerReply, ConsumerTimer};
use super::group::ConsumerGroup;
use super::member::{EPOCH_AWAY, Member};
use super::reconcile::MemberState;
use super::turn::Turn;
use super::{expression, heartbeat};
use crate::coordinator::{Effects, Moment, Token};
use crate::groups::coordinator::GroupCoordinator;
use crate::groups::error::GroupError;
use crate::groups::event::GroupReply;
use crate::groups::group::Group;
use crate::groups::limits::check_group_id;
use crate::groups::member::{EPOCH_JOIN, EPOCH_LEAVE, HeartbeatAnswer};
use crate::groups::timers::GroupTimer;

impl GroupCoordinator {
    pub(in crate::groups) fn step_consumer(
        &mut self,
        token: Token,
        group: &Arc<str>,
        event: ConsumerEvent,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) {
        let reply = match event {
            ConsumerEvent::Heartbeat(beat) => {
                ConsumerReply::Heartbeat(self.consumer_heartbeat(group, &beat, moment, effects))
            }
            ConsumerEvent::Describe => ConsumerReply::Describe(
                check_group_id(group, false).and_then(|()| self.describe_consumer(group, moment)),
            ),
        };
        effects.replies.push((token, GroupReply::Consumer(reply)));
    }

    fn consumer_heartbeat(
        &mut self,
        id: &Arc<str>,
        beat: &ConsumerHeartbeat,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) -> Result<HeartbeatAnswer, GroupError> {
        check_group_id(id, true)?;
        if id.is_empty() {
            let reason = "The group id must not be empty.".to_owned();
            return Err(GroupError::InvalidRequest { reason });
        }
        heartbeat::check(beat, &moment.image.broker().group_consumer_assignors)?;
        match beat.epoch {
            EPOCH_LEAVE | EPOCH_AWAY => return self.consumer_leave(id, beat, moment, effects),
            EPOCH_JOIN => self.open_consumer_group(id, beat, moment, effects)?,
            _ => {}
        }
        let answer = self.consumer_turn(id, moment, effects, |turn| turn.heartbeat(beat));
        if let Some(Group::Consumer(group)) = self.groups.get(id)
            && group.epoch == 0
            && group.is_empty()
        {
            self.groups.remove(id);
        }
        answer.unwrap_or_else(|| Err(not_found(id)))
    }

    /// Runs one decision about an existing group, and applies its consequences.
    pub(super) fn consumer_turn<T>(
        &mut self,
        id: &Arc<str>,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
        decide: impl FnOnce(&mut Turn<'_>) -> T,
    ) -> Option<T> {
        let Some(Group::Consumer(group)) = self.groups.get_mut(id) else { return None };
        let mut turn = Turn::new(id, group, &mut self.timers, moment);
        let decided = decide(&mut turn);
        let records = turn.journal.into_records();
        effects.append_in_batches(None, records);
        Some(decided)
    }

    /// Creates a consumer group, or upgrades a classic one, if there is none.
    fn open_consumer_group(
        &mut self,
        id: &Arc<str>,
        beat: &ConsumerHeartbeat,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) -> Result<(), GroupError> {
        match self.groups.get(id) {
            Some(Group::Consumer(_)) => Ok(()),
            Some(Group::Share(_)) => Err(not_found(id)),
            Some(Group::Classic(_)) => {
                // The group must not be converted for a member that is refused afterwards.
                if let Some(expression) = beat.expression.as_deref().filter(|one| !one.is_empty()) {
                    expression::check(expression)?;
                }
                self.upgrade(id, moment, effects)
            }
            None => {
                self.groups.insert(Arc::clone(id), Group::Consumer(ConsumerGroup::default()));
                Ok(())
            }
        }
    }

    fn consumer_leave(
        &mut self,
        id: &Arc<str>,
        beat: &ConsumerHeartbeat,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) -> Result<HeartbeatAnswer, GroupError> {
        let leaver = self.consumer_turn(id, moment, effects, |turn| {
            let leaver = turn.leaver(&beat.member, beat.instance.as_ref())?;
            if beat.epoch == EPOCH_AWAY {
                turn.go_away(&leaver);
            }
            Ok(leaver)
        });
        let leaver = leaver.unwrap_or_else(|| Err(not_found(id)))?;
        if beat.epoch == EPOCH_LEAVE {
            self.remove_consumer_members(id, &[leaver], moment, effects);
        }
        Ok(heartbeat::goodbye(beat))
    }

    /// Removes members. If all remaining ones use the classic protocol, the group is downgraded.
    pub(super) fn remove_consumer_members(
        &mut self,
        id: &Arc<str>,
        members: &[Arc<str>],
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) {
        if members.is_empty() {
            return;
        }
        if self.may_downgrade(id, members, moment) {
            self.downgrade(id, members, moment, effects);
        } else {
            self.consumer_turn(id, moment, effects, |turn| turn.remove(members));
        }
    }

    pub(in crate::groups) fn consumer_timer(
        &mut self,
        id: &Arc<str>,
        timer: ConsumerTimer,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) {
        let overdue = self.consumer_turn(id, moment, effects, |turn| match timer {
            ConsumerTimer::Assign => {
                turn.assign_if_due();
                None
            }
            ConsumerTimer::Session(member) => turn.is_overdue(&member).then_some(member),
            ConsumerTimer::Rebalance(member) => {
                let state = turn.group.members.get(&member).map(|member| member.standing.state);
                (state == Some(MemberState::Unrevoked)).then_some(member)
            }
            ConsumerTimer::Join(member) | ConsumerTimer::Sync(member) => {
                let classic = turn.group.members.get(&member).is_some_and(Member::is_classic);
                classic.then_some(member)
            }
        });
        if let Some(member) = overdue.flatten() {
            self.remove_consumer_members(id, &[member], moment, effects);
        }
    }

    /// Starts new sessions for the members of a replayed group, and new times to give partitions back.
    pub(in crate::groups) fn consumer_loaded(
        &mut self,
        id: &Arc<str>,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) {
        self.consumer_turn(id, moment, effects, |turn| {
            for member in turn.group.members.keys().cloned().collect::<Vec<_>>() {
                turn.keep_alive(&member);
                let Some(known) = turn.group.members.get(&member) else { continue };
                if known.standing.state == MemberState::Unrevoked && !known.is_classic() {
                    let timeout = known.details.rebalance_timeout_ms.max(0).into();
                    turn.set(ConsumerTimer::Rebalance(member), timeout);
                }
            }
            // An assignment that was due is made at the next heartbeat.
        });
    }

    /// Clears the timers of all members of a group.
    pub(super) fn clear_consumer_timers(&mut self, id: &Arc<str>) {
        let Some(Group::Consumer(group)) = self.groups.get(id) else { return };
        for member in group.members.keys() {
            for timer in
                [ConsumerTimer::Session, ConsumerTimer::Rebalance, ConsumerTimer::Join, ConsumerTimer::Sync]
            {
                self.timers.clear(id, GroupTimer::Consumer(timer(Arc::clone(member))));
            }
        }
        self.timers.clear(id, GroupTimer::Consumer(ConsumerTimer::Assign));
    }
}

/// The error for a consumer group that does not exist.
pub(super) fn not_found(id: &Arc<str>) -> GroupError {
    GroupError::GroupNotFound { group: Arc::clone(id), kind: "consumer " }
}
