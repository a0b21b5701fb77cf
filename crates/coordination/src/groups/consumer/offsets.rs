//! Checks on commits and fetches of a consumer group's offsets.

use std::sync::Arc;

use tailrace_types::TopicId;

use super::group::ConsumerGroup;
use super::member::Member;
use crate::groups::{Committer, GroupError};

impl ConsumerGroup {
    /// Checks whether a client may commit offsets at all. Any client may while there are no members.
    /// Otherwise only members may. A previous epoch of a member is still valid for partitions that it has had
    /// ever since (KIP-1251): see [`ConsumerGroup::check_commit_of`].
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
                // Only a client that knows member epochs can be told that its epoch is stale.
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

    /// Checks whether a client, which passed [`ConsumerGroup::check_commit`], may commit the offset of this
    /// partition. In a previous epoch, a member may commit for partitions that it has had since then.
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

    /// Checks whether a client may read offsets. Tools name no member.
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
