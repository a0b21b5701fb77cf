//! The state of a share group, and its changes. Every change writes a record, and replaying the record makes
//! the same change.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use tailrace_metadata::MetadataImage;
use tailrace_records::internal::{
    ShareCurrentMemberAssignment, ShareGroupKey, ShareGroupMember, ShareGroupMetadata,
    TargetAssignmentMember, TargetAssignmentMetadata,
};
use tailrace_types::{TimestampMs, take_off};

use super::states::States;
use crate::coordinator::CoordinatorRecord;
use crate::groups::assignors::Partitions;
use crate::groups::journal::Journal;
use crate::groups::state::GroupState;

/// A member of a share group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Member {
    /// The details that it sent, in the form of its record.
    pub(super) details: ShareGroupMember,
    pub(super) epoch: i32,
    /// The previous epoch, which the member may still send if it missed the reply with the new one.
    pub(super) previous_epoch: i32,
    pub(super) assigned: Partitions,
    /// The time by which it must send a heartbeat.
    pub(super) alive_until: Option<TimestampMs>,
}

/// A share group.
#[derive(Debug, Default)]
pub(crate) struct ShareGroup {
    /// Incremented when members, subscriptions, topics or states change.
    pub(super) epoch: i32,
    /// Hash of the topics that it reads, to detect changes.
    pub(super) metadata_hash: i64,
    /// The epoch of the target assignment.
    pub(super) target_epoch: i32,
    /// The time of the target assignment. 0 for never.
    pub(super) target_made_at: i64,
    pub(super) members: BTreeMap<Arc<str>, Member>,
    /// The target assignment of each member.
    pub(super) targets: BTreeMap<Arc<str>, Partitions>,
    /// The number of members that subscribe to each topic name.
    pub(super) names: BTreeMap<String, usize>,
    pub(super) states: States,
    /// True if there are new states that may not be assigned yet.
    pub(super) has_fresh_states: bool,
    /// The metadata that the group's topics were last compared with.
    pub(super) seen: Weak<MetadataImage>,
}

/// Writes a record of the group.
fn record(
    journal: &mut Journal<'_>,
    key: impl FnOnce(String) -> ShareGroupKey,
    value: impl FnOnce() -> Option<bytes::Bytes>,
) {
    if let Some(group) = journal.group() {
        let key = key(group.to_owned()).encode();
        journal.push(CoordinatorRecord { key, value: value() });
    }
}

impl ShareGroup {
    /// Reports whether it was created for a member that was then refused.
    pub(super) fn is_blank(&self) -> bool {
        self.epoch == 0 && self.members.is_empty() && !self.states.are_left()
    }

    pub(super) fn set_details(
        &mut self,
        id: &Arc<str>,
        details: ShareGroupMember,
        journal: &mut Journal<'_>,
    ) {
        let member = || (**id).to_owned();
        record(journal, |group| ShareGroupKey::Member { group, member: member() }, || Some(details.encode()));
        for name in &details.subscribed_topic_names {
            *self.names.entry(name.clone()).or_default() += 1;
        }
        let known = self.members.entry(Arc::clone(id)).or_default();
        let before = std::mem::replace(&mut known.details, details);
        self.uncount(&before);
    }

    fn uncount(&mut self, details: &ShareGroupMember) {
        for name in &details.subscribed_topic_names {
            let count = self.names.get_mut(name).expect("the subscriptions of all members are counted");
            take_off(count, 1, "members that are subscribed to a topic");
            if *count == 0 {
                self.names.remove(name);
            }
        }
    }

    pub(super) fn set_current(
        &mut self,
        id: &Arc<str>,
        epoch: i32,
        previous_epoch: i32,
        assigned: Partitions,
        journal: &mut Journal<'_>,
    ) {
        let member = || (**id).to_owned();
        record(
            journal,
            |group| ShareGroupKey::CurrentMember { group, member: member() },
            || {
                let assigned =
                    assigned.iter().map(|(topic, partitions)| (topic.0, partitions.clone())).collect();
                Some(ShareCurrentMemberAssignment { epoch, previous_epoch, state: 1, assigned }.encode())
            },
        );
        let known = self.members.entry(Arc::clone(id)).or_default();
        (known.epoch, known.previous_epoch, known.assigned) = (epoch, previous_epoch, assigned);
    }

    pub(super) fn set_target(&mut self, id: &Arc<str>, target: Partitions, journal: &mut Journal<'_>) {
        let member = || (**id).to_owned();
        record(
            journal,
            |group| ShareGroupKey::TargetMember { group, member: member() },
            || {
                let partitions =
                    target.iter().map(|(topic, partitions)| (topic.0, partitions.clone())).collect();
                Some(TargetAssignmentMember { partitions }.encode())
            },
        );
        self.targets.insert(Arc::clone(id), target);
    }

    pub(super) fn set_target_epoch(&mut self, epoch: i32, made_at: i64, journal: &mut Journal<'_>) {
        let metadata = TargetAssignmentMetadata { epoch, timestamp_ms: made_at };
        record(journal, |group| ShareGroupKey::TargetMetadata { group }, || Some(metadata.encode()));
        (self.target_epoch, self.target_made_at) = (epoch, made_at);
    }

    pub(super) fn set_epoch(&mut self, epoch: i32, metadata_hash: i64, journal: &mut Journal<'_>) {
        let metadata = ShareGroupMetadata { epoch, metadata_hash };
        record(journal, |group| ShareGroupKey::Group { group }, || Some(metadata.encode()));
        (self.epoch, self.metadata_hash) = (epoch, metadata_hash);
    }

    /// Sets the share-partitions that have states, that have requested ones, and whose states are being
    /// deleted.
    pub(super) fn set_states(&mut self, states: States, journal: &mut Journal<'_>) {
        record(
            journal,
            |group| ShareGroupKey::StatePartitions { group },
            || Some(states.to_record().encode()),
        );
        self.states = states;
    }

    pub(super) fn forget_current(&mut self, id: &Arc<str>, journal: &mut Journal<'_>) {
        let member = || (**id).to_owned();
        record(journal, |group| ShareGroupKey::CurrentMember { group, member: member() }, || None);
        if let Some(member) = self.members.get_mut(id) {
            (member.epoch, member.previous_epoch, member.assigned) = (0, 0, Partitions::new());
        }
    }

    pub(super) fn forget_target(&mut self, id: &Arc<str>, journal: &mut Journal<'_>) {
        let member = || (**id).to_owned();
        record(journal, |group| ShareGroupKey::TargetMember { group, member: member() }, || None);
        self.targets.remove(id);
    }

    pub(super) fn forget_details(&mut self, id: &Arc<str>, journal: &mut Journal<'_>) {
        let member = || (**id).to_owned();
        record(journal, |group| ShareGroupKey::Member { group, member: member() }, || None);
        if let Some(member) = self.members.remove(id) {
            self.uncount(&member.details);
        }
    }

    /// Returns the tombstones of the group.
    ///
    /// # Panics
    /// If states are left: no record would mention them any more.
    pub(crate) fn tombstones(&self, id: &Arc<str>) -> Vec<CoordinatorRecord> {
        assert!(!self.has_states(), "a share group goes after its states");
        let journal = &mut Journal::new(id);
        let name = |member: &Arc<str>| (**member).to_owned();
        for member in self.members.keys() {
            record(journal, |group| ShareGroupKey::CurrentMember { group, member: name(member) }, || None);
        }
        for member in self.targets.keys() {
            record(journal, |group| ShareGroupKey::TargetMember { group, member: name(member) }, || None);
        }
        record(journal, |group| ShareGroupKey::TargetMetadata { group }, || None);
        for member in self.members.keys() {
            record(journal, |group| ShareGroupKey::Member { group, member: name(member) }, || None);
        }
        record(journal, |group| ShareGroupKey::StatePartitions { group }, || None);
        record(journal, |group| ShareGroupKey::Group { group }, || None);
        journal.take()
    }

    /// Returns its state.
    pub(crate) fn state(&self) -> GroupState {
        if self.members.is_empty() { GroupState::Empty } else { GroupState::Stable }
    }

    /// Reports whether a share coordinator may hold states of the group. It cannot be removed then.
    pub(crate) fn has_states(&self) -> bool {
        self.states.are_left()
    }

    /// Returns the partitions that have a state.
    pub(super) fn initialized_partitions(&self) -> Partitions {
        let states = self.states.topics.iter().filter(|(_, states)| !states.initialized.is_empty());
        states.map(|(topic, states)| (*topic, states.initialized.iter().copied().collect())).collect()
    }
}
