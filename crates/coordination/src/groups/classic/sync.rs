//! SyncGroup: members ask for their assignment, and the leader brings the assignments of all members.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::turn::Turn;
use super::{ClassicReply, SyncRequest, Synced};
use crate::coordinator::{Effects, Moment, Token};
use crate::groups::limits::GROUP_SUBSCRIPTION_BYTES_MAX;
use crate::groups::{GroupCoordinator, GroupError, GroupReply, GroupState};

impl GroupCoordinator {
    pub(super) fn sync_classic(
        &mut self,
        token: Token,
        id: &Arc<str>,
        request: &SyncRequest,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) {
        match self.turn(id, moment, effects) {
            Some(mut turn) => turn.sync(token, request),
            None => {
                let member = Arc::clone(&request.by.member);
                let unknown = GroupError::UnknownMember { group: Arc::clone(id), member };
                effects.replies.push((token, GroupReply::Classic(ClassicReply::Sync(Err(unknown)))));
            }
        }
    }
}

impl Turn<'_> {
    fn sync(&mut self, token: Token, request: &SyncRequest) {
        if let Err(error) = self.check_sync(request) {
            return self.reply_sync(token, Err(error));
        }
        let member = &request.by.member;
        match self.group.state {
            GroupState::CompletingRebalance => {
                self.has_synced(member);
                self.wait_for_assignment(token, member);
                if self.group.is_leader(member) {
                    self.assign(&request.assignments);
                }
            }
            GroupState::Stable => {
                self.has_synced(member);
                let synced = self.synced(member);
                self.reply_sync(token, Ok(synced));
            }
            GroupState::PreparingRebalance => self.reply_sync(token, Err(GroupError::RebalanceInProgress)),
            _ => {
                let unknown = self.unknown(member);
                self.reply_sync(token, Err(unknown));
            }
        }
    }

    fn check_sync(&self, request: &SyncRequest) -> Result<(), GroupError> {
        let by = &request.by;
        self.group.check_member(self.id, &by.member, by.instance.as_ref())?;
        self.group.check_generation(by.generation)?;
        let differs = |said: &Option<String>, known: &Option<Arc<str>>| match (said, known) {
            (Some(said), Some(known)) => **said != **known,
            (Some(_), None) => true,
            (None, _) => false,
        };
        let bytes: usize = request.assignments.iter().map(|(_, assignment)| assignment.len()).sum();
        if bytes > GROUP_SUBSCRIPTION_BYTES_MAX {
            let what = "bytes of the assignments of a group's members";
            return Err(GroupError::TooMany { what, max: GROUP_SUBSCRIPTION_BYTES_MAX });
        }
        if differs(&request.protocol_type, &self.group.protocol_type) {
            return Err(GroupError::InconsistentProtocol { reason: "the group is of another type" });
        }
        if differs(&request.protocol, &self.group.protocol) {
            return Err(GroupError::InconsistentProtocol { reason: "the group has another protocol" });
        }
        Ok(())
    }

    fn wait_for_assignment(&mut self, token: Token, member: &Arc<str>) {
        let Some(known) = self.group.members.get_mut(member) else { return };
        if let Some(superseded) = known.syncing.replace(token) {
            self.reply_sync(superseded, Err(GroupError::RebalanceInProgress));
        }
    }

    /// Stores the leader's assignments and makes the group stable. Members that the leader left out get an
    /// empty assignment.
    fn assign(&mut self, assignments: &[(Arc<str>, Bytes)]) {
        let mut assignments: BTreeMap<&Arc<str>, &Bytes> =
            assignments.iter().map(|(id, bytes)| (id, bytes)).collect();
        for (id, member) in &mut self.group.members {
            member.assignment = assignments.remove(id).cloned().unwrap_or_default();
        }
        self.group.enter(GroupState::Stable, self.moment.now);
        self.counts.classic_rebalances += 1;
        self.write();
        let members: Vec<_> = self.group.members.keys().cloned().collect();
        for id in members {
            let waiting = self.group.members.get_mut(&id).and_then(|member| member.syncing.take());
            if let Some(token) = waiting {
                let synced = self.synced(&id);
                self.reply_sync(token, Ok(synced));
                self.keep_alive(&id);
            }
        }
    }

    fn synced(&self, member: &str) -> Synced {
        let assignment = self.group.members.get(member).map(|member| member.assignment.clone());
        Synced {
            protocol_type: self.group.protocol_type.clone(),
            protocol: self.group.protocol.clone(),
            assignment: assignment.unwrap_or_default(),
        }
    }
}
