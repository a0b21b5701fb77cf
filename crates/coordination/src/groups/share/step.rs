//! Dispatch of requests, timers and restarts to a share group.

use std::sync::Arc;

use tailrace_types::TopicId;

use super::event::{OpenedStates, ShareEvent, ShareHeartbeat, ShareReply, ShareTimer};
use super::group::ShareGroup;
use super::heartbeat::{self, Turn};
use crate::coordinator::{Effects, Moment, Token};
use crate::groups::coordinator::GroupCoordinator;
use crate::groups::error::GroupError;
use crate::groups::event::{GroupReply, GroupWork};
use crate::groups::group::Group;
use crate::groups::limits::check_group_id;
use crate::groups::member::{EPOCH_JOIN, EPOCH_LEAVE, HeartbeatAnswer};
use crate::groups::state::GroupState;

impl GroupCoordinator {
    pub(in crate::groups) fn step_share(
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
            ShareEvent::StatesInitialized { generation, topics } => {
                let tell = |turn: &mut Turn<'_>| turn.states_initialized(generation, &topics);
                let changed = self.share_turn(id, moment, effects, tell);
                ShareReply::StatesChanged(changed.ok_or_else(missing))
            }
            ShareEvent::DeleteStates { topics } => {
                let delete = |turn: &mut Turn<'_>| turn.delete_states(topics.as_deref());
                let begun = self.share_turn(id, moment, effects, delete);
                ShareReply::DeleteStates(begun.unwrap_or_else(|| Err(missing())))
            }
            ShareEvent::StatesDeleted { upto, topics } => {
                let changed = self.share_turn(id, moment, effects, |turn| turn.states_deleted(upto, &topics));
                ShareReply::StatesChanged(changed.ok_or_else(missing))
            }
            ShareEvent::Open { make, topics } => {
                ShareReply::Open(self.open_share_group(id, make, &topics, moment, effects))
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

    /// Removes a classic group without members, offsets and protocol, to make room for a share group.
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
        topics: &[(TopicId, Vec<i32>)],
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) -> Result<OpenedStates, GroupError> {
        check_group_id(id, false)?;
        if make {
            self.close_if_blank(id, moment, effects);
            let fresh = || Group::Share(ShareGroup::default());
            self.groups.entry(Arc::clone(id)).or_insert_with(fresh);
        } else if !self.groups.contains_key(id) {
            return Ok(OpenedStates::default());
        }
        self.share_turn(id, moment, effects, |turn| turn.open(topics)).unwrap_or_else(|| Err(not_found(id)))
    }

    /// Runs one decision about an existing group, and applies its consequences.
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
        effects.append_in_batches(None, records);
        effects.work.extend(work.into_iter().map(GroupWork::Share));
        Some(decided)
    }

    pub(in crate::groups) fn share_timer(
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

    /// Starts new sessions for the members of a replayed group. Requests for states are repeated, and so are
    /// deletions.
    pub(in crate::groups) fn share_loaded(
        &mut self,
        id: &Arc<str>,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) {
        self.share_turn(id, moment, effects, |turn| turn.loaded());
    }
}

/// The error for a share group that does not exist.
fn not_found(id: &Arc<str>) -> GroupError {
    GroupError::GroupNotFound { group: Arc::clone(id), kind: "share " }
}
