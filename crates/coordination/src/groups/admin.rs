//! Administrative requests that apply to all kinds of groups: list, describe, delete.

use std::sync::Arc;

use super::group::Group;
use super::limits::check_group_id;
use super::{ClassicDescription, GroupCoordinator, GroupError, GroupFilter, GroupSummary};
use crate::coordinator::Effects;

impl GroupFilter {
    fn takes(&self, group: &Group) -> bool {
        let among = |names: &[String], name: &str| {
            names.is_empty() || names.iter().any(|wanted| wanted.eq_ignore_ascii_case(name))
        };
        among(&self.states, group.state().name()) && among(&self.kinds, group.kind().name())
    }
}

impl GroupCoordinator {
    pub(super) fn list(&self, filter: &GroupFilter) -> Vec<GroupSummary> {
        let wanted = self.groups.iter().filter(|(_, group)| filter.takes(group));
        let summary = |(id, group): (&Arc<str>, &Group)| GroupSummary {
            group: Arc::clone(id),
            protocol_type: group.protocol_type().to_owned(),
            state: group.state(),
            kind: group.kind(),
        };
        wanted.map(summary).collect()
    }

    pub(super) fn describe(&self, ids: &[Arc<str>]) -> Vec<Result<ClassicDescription, GroupError>> {
        let describe = |id: &Arc<str>| match self.groups.get(id) {
            Some(Group::Classic(group)) => Ok(group.describe()),
            Some(_) => Err(GroupError::GroupNotFound { group: Arc::clone(id), kind: "classic " }),
            None => Err(GroupError::GroupNotFound { group: Arc::clone(id), kind: "" }),
        };
        ids.iter().map(describe).collect()
    }

    pub(super) fn delete_groups(
        &mut self,
        ids: &[Arc<str>],
        effects: &mut Effects<Self>,
    ) -> Vec<Result<(), GroupError>> {
        ids.iter().map(|id| self.delete_group(id, effects)).collect()
    }

    fn delete_group(&mut self, id: &Arc<str>, effects: &mut Effects<Self>) -> Result<(), GroupError> {
        check_group_id(id, true)?;
        let group = self.groups.get(id);
        let group = group.ok_or_else(|| GroupError::GroupNotFound { group: Arc::clone(id), kind: "" })?;
        if !group.is_empty() {
            return Err(GroupError::NonEmptyGroup { group: Arc::clone(id) });
        }
        if matches!(group, Group::Share(group) if group.has_states()) {
            return Err(GroupError::StatesLeft { group: Arc::clone(id) });
        }
        self.delete_all_offsets(id, effects);
        self.remove_group(id, effects);
        Ok(())
    }

    /// Removes an empty group, of any kind, and writes its tombstones.
    pub(super) fn remove_group(&mut self, id: &Arc<str>, effects: &mut Effects<Self>) {
        self.drop_classic_timers(id);
        if let Some(group) = self.groups.remove(id) {
            effects.append(group.tombstones(id));
        }
    }
}
