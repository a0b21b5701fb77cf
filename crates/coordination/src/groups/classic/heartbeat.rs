//! Heartbeat: keeps a member's session alive, and tells the member whether it has to join again.

use std::sync::Arc;

use super::MemberReference;
use crate::coordinator::{Effects, Moment};
use crate::groups::group::Group;
use crate::groups::{GroupCoordinator, GroupError, GroupState};

impl GroupCoordinator {
    pub(super) fn heartbeat_classic(
        &mut self,
        id: &Arc<str>,
        by: &MemberReference,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) -> Result<(), GroupError> {
        let unknown = || GroupError::UnknownMember { group: Arc::clone(id), member: Arc::clone(&by.member) };
        let mut turn = self.turn(id, moment, effects).ok_or_else(unknown)?;
        turn.group.check_member(id, &by.member, by.instance.as_ref())?;
        turn.group.check_generation(by.generation)?;
        turn.keep_alive(&by.member);
        match turn.group.state() {
            GroupState::PreparingRebalance => Err(GroupError::RebalanceInProgress),
            _ => Ok(()),
        }
    }

    /// Counts a commit as a heartbeat of the member, where Kafka does: not while the leader computes the
    /// assignment.
    pub(in crate::groups) fn committed_in_classic(
        &mut self,
        id: &Arc<str>,
        member: &Arc<str>,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) {
        let Some(Group::Classic(group)) = self.groups.get(id) else { return };
        if matches!(group.state(), GroupState::Stable | GroupState::PreparingRebalance)
            && let Some(mut turn) = self.turn(id, moment, effects)
        {
            turn.keep_alive(member);
        }
    }
}
