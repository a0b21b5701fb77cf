//! Membership of share groups (KIP-932): who is in a group, and which partitions each member fetches from.
//!
//! Members may share partitions, so nothing has to be given back before others use it: a member simply has its target. A
//! partition is assigned once the share coordinator (`crate::share`) has a state for it; the group asks for that by its
//! [`ShareWork`] and is told by [`ShareEvent::StatesInitialized`].

mod describe;
mod group;
mod heartbeat;
mod replay;

use std::sync::Arc;

use tailrace_types::TopicId;

pub use describe::{ShareDescription, ShareMemberDescription};
pub(crate) use group::ShareGroup;

use self::heartbeat::Turn;
use super::assignors::Partitions;
use super::consumer::{EPOCH_JOIN, EPOCH_LEAVE, Journal};
use super::group::Group;
use super::limits::check_group_id;
use super::offsets::append_in_batches;
use super::{
    ClientIdentity, GroupCoordinator, GroupError, GroupReply, GroupState, GroupWork, HeartbeatAnswer,
};
use crate::coordinator::{Effects, Moment, Token};

/// A request of the share protocol, or news of the states of a group's share-partitions.
#[derive(Debug)]
pub enum ShareEvent {
    /// A member joins, stays, or goes (ShareGroupHeartbeat).
    Heartbeat(ShareHeartbeat),
    /// Everything about the group (ShareGroupDescribe).
    Describe,
    /// States that were asked for are there ([`ShareWork::InitializeStates`]), or were made by an administrator who set offsets.
    StatesInitialized(Vec<(TopicId, Vec<i32>)>),
    /// States of whole topics are being deleted by an administrator: the topics are not assigned until they have states
    /// again. Refused while the group has members.
    StatesDeleted(Vec<TopicId>),
    /// An administrator sets offsets: the group must have no members. One that does not exist is made, without members, if `make` says so.
    Opened {
        /// Whether it is made.
        make: bool,
    },
    /// The partitions of the group that have a state.
    InitializedStates,
}

/// An answer to one.
#[derive(Clone, Debug, PartialEq)]
pub enum ShareReply {
    /// To [`ShareEvent::Heartbeat`].
    Heartbeat(Result<HeartbeatAnswer, GroupError>),
    /// To [`ShareEvent::Describe`].
    Describe(Result<ShareDescription, GroupError>),
    /// To [`ShareEvent::StatesInitialized`], [`ShareEvent::StatesDeleted`] and [`ShareEvent::Opened`].
    StatesChanged(Result<(), GroupError>),
    /// To [`ShareEvent::InitializedStates`].
    InitializedStates(Result<Partitions, GroupError>),
}

/// What a share group wants done elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub enum ShareWork {
    /// The share coordinator shall make states (`ShareRequest::Initialize`, without a start) and tell the group by
    /// [`ShareEvent::StatesInitialized`]. What it does not tell of is asked for again after
    /// `group.share.initialize.retry.interval.ms`.
    InitializeStates {
        /// The group.
        group: Arc<str>,
        /// The epoch of the states.
        state_epoch: i32,
        /// The partitions, by topic.
        topics: Vec<(TopicId, Vec<i32>)>,
    },
    /// A member was removed because it was silent: what it holds shall be released.
    ReleaseMember {
        /// The group.
        group: Arc<str>,
        /// The member.
        member: Arc<str>,
    },
    /// The group is gone, and so shall its states be (`ShareRequest::GroupDeleted`).
    DeleteStates {
        /// The group.
        group: Arc<str>,
    },
}

/// A heartbeat. What is `None` has not changed since the last one.
#[derive(Clone, Debug, Default)]
pub struct ShareHeartbeat {
    /// Where the member comes from.
    pub client: ClientIdentity,
    /// The member's id, which it has made itself.
    pub member: Arc<str>,
    /// Its epoch; 0 to join, -1 to leave.
    pub epoch: i32,
    /// Where it is.
    pub rack: Option<String>,
    /// Names of topics that it subscribes to.
    pub topics: Option<Vec<String>>,
}

/// What a share group waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ShareTimer {
    /// The time for the next assignment.
    Assign,
    /// A sign of life of a member.
    Session(Arc<str>),
}

impl GroupCoordinator {
    pub(super) fn step_share(
        &mut self,
        token: Token,
        id: &Arc<str>,
        event: ShareEvent,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) {
        let missing = || not_found(id);
        let reply = match event {
            ShareEvent::Heartbeat(beat) => {
                ShareReply::Heartbeat(self.share_heartbeat(id, &beat, moment, effects))
            }
            ShareEvent::Describe => ShareReply::Describe(match self.groups.get(id) {
                Some(Group::Share(group)) => Ok(group.describe(moment.image)),
                _ => check_group_id(id, false).and_then(|()| Err(missing())),
            }),
            ShareEvent::StatesInitialized(topics) => {
                let changed = self.share_turn(id, moment, effects, |turn| turn.states_initialized(&topics));
                ShareReply::StatesChanged(changed.ok_or_else(missing))
            }
            ShareEvent::StatesDeleted(topics) => {
                let changed = self.share_turn(id, moment, effects, |turn| turn.states_deleted(&topics));
                ShareReply::StatesChanged(changed.unwrap_or_else(|| Err(missing())))
            }
            ShareEvent::Opened { make } => {
                ShareReply::StatesChanged(self.open_share_group(id, make, moment, effects))
            }
            ShareEvent::InitializedStates => ShareReply::InitializedStates(match self.groups.get(id) {
                Some(Group::Share(group)) => Ok(group.initialized_partitions()),
                _ => Err(missing()),
            }),
        };
        effects.replies.push((token, GroupReply::Share(reply)));
    }

    fn share_heartbeat(
        &mut self,
        id: &Arc<str>,
        beat: &ShareHeartbeat,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) -> Result<HeartbeatAnswer, GroupError> {
        check_group_id(id, true)?;
        if id.is_empty() {
            let reason = "The group id must not be empty.".to_owned();
            return Err(GroupError::InvalidRequest { reason });
        }
        heartbeat::check(beat)?;
        if beat.epoch == EPOCH_JOIN {
            self.close_if_blank(id, moment, effects);
            let fresh = || Group::Share(ShareGroup::default());
            self.groups.entry(Arc::clone(id)).or_insert_with(fresh);
        }
        let answer = self.share_turn(id, moment, effects, |turn| match beat.epoch {
            EPOCH_LEAVE => turn.leave(beat),
            _ => turn.heartbeat(beat),
        });
        if let Some(Group::Share(group)) = self.groups.get(id)
            && group.is_blank()
        {
            self.groups.remove(id);
        }
        answer.unwrap_or_else(|| Err(not_found(id)))
    }

    /// A classic group without members, offsets and a protocol is nothing: it makes room.
    fn close_if_blank(&mut self, id: &Arc<str>, moment: &Moment<'_>, effects: &mut Effects<Self>) {
        let is_simple = matches!(self.groups.get(id), Some(Group::Classic(group))
            if group.state() == GroupState::Empty && group.protocol_type().is_none());
        if is_simple && !self.offsets.has_any(id) {
            self.close_classic(id, moment, effects);
        }
    }

    fn open_share_group(
        &mut self,
        id: &Arc<str>,
        make: bool,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) -> Result<(), GroupError> {
        check_group_id(id, false)?;
        if make {
            self.close_if_blank(id, moment, effects);
            let fresh = || Group::Share(ShareGroup::default());
            self.groups.entry(Arc::clone(id)).or_insert_with(fresh);
        } else if !self.groups.contains_key(id) {
            return Ok(());
        }
        self.share_turn(id, moment, effects, |turn| turn.open()).unwrap_or_else(|| Err(not_found(id)))
    }

    /// One decision about a group that is there, and what follows from it.
    fn share_turn<T>(
        &mut self,
        id: &Arc<str>,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
        decide: impl FnOnce(&mut Turn<'_>) -> T,
    ) -> Option<T> {
        let Some(Group::Share(group)) = self.groups.get_mut(id) else { return None };
        let mut turn = Turn::new(id, group, &mut self.timers, moment);
        let decided = decide(&mut turn);
        let (records, work) = turn.finish();
        append_in_batches(effects, None, records);
        effects.work.extend(work.into_iter().map(GroupWork::Share));
        Some(decided)
    }

    pub(super) fn share_timer(
        &mut self,
        id: &Arc<str>,
        timer: ShareTimer,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) {
        self.share_turn(id, moment, effects, |turn| match timer {
            ShareTimer::Assign => turn.assign_if_due(),
            ShareTimer::Session(member) => {
                if turn.is_overdue(&member) {
                    turn.remove_silent(member);
                }
            }
        });
    }

    /// An empty share group was deleted; its tombstones are written.
    pub(super) fn share_group_removed(
        &mut self,
        id: &Arc<str>,
        _group: &ShareGroup,
        _moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) {
        effects.work.push(GroupWork::Share(ShareWork::DeleteStates { group: Arc::clone(id) }));
    }

    /// Members of a group that was replayed get a fresh session. States that were asked for are asked for again.
    pub(super) fn share_loaded(&mut self, id: &Arc<str>, moment: &Moment<'_>, effects: &mut Effects<Self>) {
        self.share_turn(id, moment, effects, |turn| turn.loaded());
    }
}

/// There is no such share group.
fn not_found(id: &Arc<str>) -> GroupError {
    GroupError::GroupNotFound { group: Arc::clone(id), kind: "share " }
}
