//! LeaveGroup: one or several members leave at once.

use std::sync::Arc;

use super::turn::Turn;
use super::{ClassicReply, LeavingMember};
use crate::coordinator::{Effects, Moment, Token};
use crate::groups::{GroupCoordinator, GroupError, GroupReply, GroupState};

impl GroupCoordinator {
    pub(super) fn leave_classic(
        &mut self,
        token: Token,
        id: &Arc<str>,
        members: &[LeavingMember],
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) {
        let gone = match self.turn(id, moment, effects) {
            Some(mut turn) => {
                let before = turn.group.members.len();
                let gone: Vec<_> = members.iter().map(|member| turn.let_go(member)).collect();
                let fewer = turn.group.members.len() < before;
                turn.somebody_left(fewer);
                gone
            }
            // As in Kafka, each of them is reported as unknown.
            None => {
                let unknown = |member: &LeavingMember| {
                    Err(GroupError::UnknownMember {
                        group: Arc::clone(id),
                        member: Arc::clone(&member.member),
                    })
                };
                members.iter().map(unknown).collect()
            }
        };
        effects.replies.push((token, GroupReply::Classic(ClassicReply::Leave(Ok(gone)))));
    }
}

impl Turn<'_> {
    fn let_go(&mut self, leaving: &LeavingMember) -> Result<(), GroupError> {
        let (member, instance) = (&leaving.member, leaving.instance.as_ref());
        // An administrator removes a static member without knowing its id.
        if member.is_empty() {
            let owner = instance.and_then(|instance| self.group.instances.get(instance)).cloned();
            let owner = owner.ok_or_else(|| self.unknown(member))?;
            self.remove(&owner);
            return Ok(());
        }
        if !self.group.pending.contains(member) {
            self.group.check_member(self.id, member, instance)?;
        }
        self.remove(member);
        Ok(())
    }

    /// Starts a rebalance, so that the remaining members share the work. An id that was given out and never
    /// used only matters to members that wait for it.
    fn somebody_left(&mut self, fewer_members: bool) {
        match self.group.state() {
            GroupState::Stable | GroupState::CompletingRebalance if fewer_members => self.prepare_rebalance(),
            _ => self.complete_if_all_joined(),
        }
    }
}
