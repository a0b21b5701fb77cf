//! Who of a consumer group may commit and read offsets.

use std::sync::Arc;

use tailrace_types::TopicId;

use super::group::ConsumerGroup;
use super::member::Member;
use crate::groups::{Committer, GroupError};

impl ConsumerGroup {
    /// May this one commit offsets at all? Everybody may while there are no members; else only members may. An epoch
    /// that a member has left behind is still good for partitions that it has had all the time (KIP-1251): see
    /// [`ConsumerGroup::check_commit_of`].
    pub(crate) fn check_commit(&self, id: &Arc<str>, by: &Committer) -> Result<(), GroupError> {
        let found = by.generation_or_epoch;
        if found < 0 && self.is_empty() {
            return Ok(());
        }
        // Transactions from before KIP-447 name no member.
        if by.transaction.is_some() && found < 0 && by.member.is_empty() && by.instance.is_none() {
            return Ok(());
        }
        let member = self.committer(id, &by.member)?;
        let expected = member.standing.epoch;
        if found == expected {
            return if member.is_classic() || by.knows_epochs || by.transaction.is_some() {
                Ok(())
            } else {
                // Whoever is told that an epoch is stale must know what that is.
                Err(GroupError::StaleMemberEpoch { expected, found })
            };
        }
        if member.is_classic() {
            return Err(GroupError::IllegalGeneration { expected, found });
        }
        if (0..expected).contains(&found) && by.knows_epochs {
            return Ok(());
        }
        Err(GroupError::StaleMemberEpoch { expected, found })
    }

    /// May this one, who may commit, commit the offset of this partition? In an epoch that has passed a member may for
    /// what it has had since then.
    pub(crate) fn check_commit_of(
        &self,
        by: &Committer,
        topic: TopicId,
        partition: i32,
    ) -> Result<(), GroupError> {
        let found = by.generation_or_epoch;
        let Some(member) = self.members.get(&by.member) else { return Ok(()) };
        let expected = member.standing.epoch;
        if found == expected || found < 0 {
            return Ok(());
        }
        let held = [&member.standing.assigned, &member.standing.revoking];
        let since = held.into_iter().find_map(|held| held.get(&topic)?.get(&partition));
        if since.is_some_and(|since| *since <= found) {
            return Ok(());
        }
        Err(GroupError::StaleMemberEpoch { expected, found })
    }

    /// May a member see the offsets? Tools name none.
    pub(crate) fn check_fetch(
        &self,
        id: &Arc<str>,
        member: Option<&str>,
        epoch: i32,
    ) -> Result<(), GroupError> {
        let Some(member) = member.filter(|member| !member.is_empty()) else { return Ok(()) };
        if epoch < 0 {
            return Ok(());
        }
        let member = self.committer(id, member)?;
        let expected = member.standing.epoch;
        if epoch == expected {
            return Ok(());
        }
        if member.is_classic() {
            return Err(GroupError::IllegalGeneration { expected, found: epoch });
        }
        Err(GroupError::StaleMemberEpoch { expected, found: epoch })
    }

    fn committer(&self, id: &Arc<str>, member: &str) -> Result<&Member, GroupError> {
        let unknown = || GroupError::UnknownMember { group: Arc::clone(id), member: member.into() };
        self.members.get(member).ok_or_else(unknown)
    }
}
