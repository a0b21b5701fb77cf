//! Consumer groups (KIP-848): members send heartbeats, the coordinator assigns, and members are taken to their assignment one
//! by one, so that nobody has to stop for the others.
//!
//! `group.rs` has the state and its records, `turn.rs` the steps that decisions are made of, `reconcile.rs` how a member gets
//! from what it has to what it shall have; `heartbeat.rs` is the one request of the protocol, `classic_members.rs` those of
//! members that still use JoinGroup, `convert.rs` the change of a group from one kind to the other.
//!
//! Everything is written, so that members do not notice a restart: they get a new session and go on.

mod classic_members;
mod convert;
mod describe;
mod embedded;
mod expression;
mod group;
mod heartbeat;
mod member;
mod offsets;
mod reconcile;
mod replay;
mod settings;
mod turn;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use tailrace_types::TopicId;

pub(crate) use describe::named;
pub use describe::{ConsumerDescription, ConsumerMemberDescription, NamedPartitions};
pub use expression::{EXPRESSION_BYTES_MAX, EXPRESSIONS_PER_GROUP_MAX};
pub(crate) use group::{ConsumerGroup, Journal, hash_of_topics};
pub(crate) use heartbeat::{EPOCH_JOIN, EPOCH_LEAVE, SUBSCRIBED_NAMES_MAX};
pub(crate) use member::{EPOCH_AWAY, partitions_of_record};

use self::expression::check as check_expression;
use self::reconcile::MemberState;
use self::turn::Turn;
use super::group::Group;
use super::limits::check_group_id;
use super::offsets::append_in_batches;
use super::timers::GroupTimer;
use super::{ClientIdentity, GroupCoordinator, GroupError, GroupReply, HeartbeatAnswer};
use crate::coordinator::{Effects, Moment, Token};

/// A request of the consumer protocol.
#[derive(Debug)]
pub enum ConsumerEvent {
    /// A member joins, stays, or goes (ConsumerGroupHeartbeat).
    Heartbeat(Box<ConsumerHeartbeat>),
    /// Everything about the group (ConsumerGroupDescribe).
    Describe,
}

/// An answer to one.
#[derive(Clone, Debug, PartialEq)]
pub enum ConsumerReply {
    /// To [`ConsumerEvent::Heartbeat`].
    Heartbeat(Result<HeartbeatAnswer, GroupError>),
    /// To [`ConsumerEvent::Describe`].
    Describe(Result<ConsumerDescription, GroupError>),
}

/// A heartbeat. What is `None` has not changed since the last one.
#[derive(Clone, Debug, Default)]
pub struct ConsumerHeartbeat {
    /// Where the member comes from.
    pub client: ClientIdentity,
    /// The member's id. A member of an old client that has none yet gets a fresh one before it comes here.
    pub member: Arc<str>,
    /// Its epoch; 0 to join, -1 to leave, -2 to leave and come back as the same static member.
    pub epoch: i32,
    /// Its static identity.
    pub instance: Option<Arc<str>>,
    /// Where it is.
    pub rack: Option<String>,
    /// How long it may take to give partitions back, in milliseconds.
    pub rebalance_timeout_ms: Option<i32>,
    /// Names of topics that it subscribes to.
    pub topics: Option<Vec<String>>,
    /// Regular expression that it subscribes with; the empty one takes that back.
    pub expression: Option<String>,
    /// The assignor that it would like.
    pub assignor: Option<String>,
    /// The partitions that it has.
    pub owned: Option<Vec<(TopicId, Vec<i32>)>>,
}

/// What a consumer group waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConsumerTimer {
    /// The time for the next assignment.
    Assign,
    /// A sign of life of a member.
    Session(Arc<str>),
    /// A member to give partitions back.
    Rebalance(Arc<str>),
    /// A classic member to join again.
    Join(Arc<str>),
    /// A classic member to ask for its assignment.
    Sync(Arc<str>),
}

impl GroupCoordinator {
    pub(super) fn step_consumer(
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

    /// One decision about a group that is there, and what follows from it.
    fn consumer_turn<T>(
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
        append_in_batches(effects, None, records);
        Some(decided)
    }

    /// Makes sure that there is a consumer group to join.
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
                // The group must not change its kind for one who is refused then.
                if let Some(expression) = beat.expression.as_deref().filter(|one| !one.is_empty()) {
                    check_expression(expression)?;
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

    /// Lets members go. If those that are left use the classic protocol, the group becomes a classic one.
    fn remove_consumer_members(
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

    pub(super) fn consumer_timer(
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
                let classic = turn.group.members.get(&member).is_some_and(member::Member::is_classic);
                classic.then_some(member)
            }
        });
        if let Some(member) = overdue.flatten() {
            self.remove_consumer_members(id, &[member], moment, effects);
        }
    }

    /// Members of a group that was replayed get a fresh session, and fresh time to give partitions back.
    pub(super) fn consumer_loaded(
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

    /// Nobody waits for the members of a group any more.
    fn clear_consumer_timers(&mut self, id: &Arc<str>) {
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

/// There is no such consumer group.
fn not_found(id: &Arc<str>) -> GroupError {
    GroupError::GroupNotFound { group: Arc::clone(id), kind: "consumer " }
}
