//! The state of a consumer group, and its changes. Every change writes a record, and replaying the record
//! makes the same change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use tailrace_metadata::MetadataImage;
use tailrace_records::internal::{
    ConsumerGroupKey, ConsumerGroupMember, ConsumerGroupMetadata, RegularExpression, TargetAssignmentMetadata,
};
use tailrace_types::{TimestampMs, TopicId, take_off};

use super::member::{Member, expression_of, standing_to_record, target_to_record};
use super::reconcile::{Held, Standing};
use crate::coordinator::CoordinatorRecord;
use crate::groups::assignors::Partitions;
use crate::groups::journal::Journal;
use crate::groups::state::{GroupState, OffsetsExpire};
use crate::groups::topics::hash_of_topics;

/// The topics that a regular expression matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) topics: BTreeSet<String>,
    pub(crate) at: TimestampMs,
}

/// A consumer group.
#[derive(Debug, Default)]
pub(crate) struct ConsumerGroup {
    /// Incremented when members, subscriptions or topics change.
    pub(super) epoch: i32,
    /// Hash of the topics that it reads, to detect changes.
    pub(super) metadata_hash: i64,
    /// The epoch of the target assignment.
    pub(super) target_epoch: i32,
    /// The time of the target assignment. 0 for never.
    pub(super) target_made_at: i64,
    pub(super) members: BTreeMap<Arc<str>, Member>,
    /// Static identities, and the members that own them.
    pub(super) instances: BTreeMap<Arc<str>, Arc<str>>,
    /// The target assignment of each member.
    pub(super) targets: BTreeMap<Arc<str>, Partitions>,
    /// The member that has each partition, or has not given it back yet. It is used for lookups only, so its
    /// order does not matter.
    owners: HashMap<(TopicId, i32), Arc<str>>,
    /// The number of members that subscribe to each topic name.
    pub(super) names: BTreeMap<String, usize>,
    /// The number of members that subscribe with each expression.
    pub(super) expressions: BTreeMap<String, usize>,
    pub(super) resolved: BTreeMap<String, Resolved>,
    /// The number of members that use the classic protocol.
    pub(super) classic_members: usize,
    /// The number of classic members that support each of their protocols.
    pub(super) classic_protocols: BTreeMap<String, usize>,
    /// True if the log has a record of Kafka 4.0 that must get a tombstone.
    pub(super) has_legacy_metadata: bool,
    /// The metadata that the group's topics were last compared with.
    pub(super) seen: Weak<MetadataImage>,
    /// The metadata that the expressions were last resolved against.
    pub(super) seen_by_expressions: Weak<MetadataImage>,
}

impl Journal<'_> {
    /// Writes a record of a consumer group.
    fn write(&mut self, key: impl FnOnce(String) -> ConsumerGroupKey, value: impl FnOnce() -> Option<Bytes>) {
        if let Some(group) = self.group() {
            let key = key(group.to_owned()).encode();
            self.push(CoordinatorRecord { key, value: value() });
        }
    }
}

fn member_key(member: &str) -> impl FnOnce(String) -> ConsumerGroupKey {
    move |group| ConsumerGroupKey::Member { group, member: member.to_owned() }
}

fn target_key(member: &str) -> impl FnOnce(String) -> ConsumerGroupKey {
    move |group| ConsumerGroupKey::TargetMember { group, member: member.to_owned() }
}

fn current_key(member: &str) -> impl FnOnce(String) -> ConsumerGroupKey {
    move |group| ConsumerGroupKey::CurrentMember { group, member: member.to_owned() }
}

fn expression_key(expression: &str) -> impl FnOnce(String) -> ConsumerGroupKey {
    move |group| ConsumerGroupKey::RegularExpression { group, expression: expression.to_owned() }
}

fn count(counts: &mut BTreeMap<String, usize>, name: &str) {
    match counts.get_mut(name) {
        Some(count) => *count += 1,
        None => {
            counts.insert(name.to_owned(), 1);
        }
    }
}

fn discount(counts: &mut BTreeMap<String, usize>, name: &str) {
    let count = counts.get_mut(name).expect("what members have said is counted");
    take_off(count, 1, "members that have said so");
    if *count == 0 {
        counts.remove(name);
    }
}

impl ConsumerGroup {
    /// Sets a member's details. Adds the member if it is unknown.
    pub(super) fn set_details(
        &mut self,
        id: &Arc<str>,
        details: ConsumerGroupMember,
        journal: &mut Journal<'_>,
    ) {
        journal.write(member_key(id), || Some(details.encode()));
        if let Some(before) = self.members.get(id).map(|member| member.details.clone()) {
            self.uncount(id, &before);
        }
        if let Some(instance) = &details.instance_id {
            self.instances.insert(instance.as_str().into(), Arc::clone(id));
        }
        for name in &details.subscribed_topic_names {
            count(&mut self.names, name);
        }
        if let Some(expression) = expression_of(&details) {
            count(&mut self.expressions, expression);
        }
        if let Some(classic) = &details.classic {
            self.classic_members += 1;
            for (name, _) in &classic.protocols {
                count(&mut self.classic_protocols, name);
            }
        }
        self.members.entry(Arc::clone(id)).or_default().details = details;
    }

    fn uncount(&mut self, id: &Arc<str>, details: &ConsumerGroupMember) {
        if let Some(instance) = &details.instance_id
            && self.instances.get(instance.as_str()).is_some_and(|owner| owner == id)
        {
            self.instances.remove(instance.as_str());
        }
        for name in &details.subscribed_topic_names {
            discount(&mut self.names, name);
        }
        if let Some(expression) = expression_of(details) {
            discount(&mut self.expressions, expression);
        }
        if let Some(classic) = &details.classic {
            take_off(&mut self.classic_members, 1, "classic members");
            for (name, _) in &classic.protocols {
                discount(&mut self.classic_protocols, name);
            }
        }
    }

    /// Sets a member's current assignment. Adds the member if it is unknown.
    pub(super) fn set_standing(&mut self, id: &Arc<str>, standing: Standing, journal: &mut Journal<'_>) {
        journal.write(current_key(id), || Some(standing_to_record(&standing).encode()));
        self.release(id);
        for partition in each(&standing.assigned).chain(each(&standing.revoking)) {
            self.owners.insert(partition, Arc::clone(id));
        }
        self.members.entry(Arc::clone(id)).or_default().standing = standing;
    }

    /// Releases the partitions that this member had.
    fn release(&mut self, id: &Arc<str>) {
        let Some(member) = self.members.get(id) else { return };
        for partition in each(&member.standing.assigned).chain(each(&member.standing.revoking)) {
            if self.owners.get(&partition).is_some_and(|owner| owner == id) {
                self.owners.remove(&partition);
            }
        }
    }

    /// Reports whether no other member has the partition.
    pub(super) fn is_free_for(&self, id: &str, topic: TopicId, partition: i32) -> bool {
        self.owners.get(&(topic, partition)).is_none_or(|owner| **owner == *id)
    }

    /// Sets a member's target assignment.
    pub(super) fn set_target(&mut self, id: &Arc<str>, target: Partitions, journal: &mut Journal<'_>) {
        journal.write(target_key(id), || Some(target_to_record(&target).encode()));
        self.targets.insert(Arc::clone(id), target);
    }

    /// Sets the epoch of all members' targets.
    pub(super) fn set_target_epoch(&mut self, epoch: i32, made_at: i64, journal: &mut Journal<'_>) {
        let metadata = TargetAssignmentMetadata { epoch, timestamp_ms: made_at };
        journal.write(|group| ConsumerGroupKey::TargetMetadata { group }, || Some(metadata.encode()));
        (self.target_epoch, self.target_made_at) = (epoch, made_at);
    }

    /// Starts another epoch.
    pub(super) fn set_epoch(&mut self, epoch: i32, metadata_hash: i64, journal: &mut Journal<'_>) {
        let metadata = ConsumerGroupMetadata { epoch, metadata_hash };
        if self.has_legacy_metadata {
            journal.write(|group| ConsumerGroupKey::PartitionMetadata { group }, || None);
            self.has_legacy_metadata = false;
        }
        journal.write(|group| ConsumerGroupKey::Group { group }, || Some(metadata.encode()));
        (self.epoch, self.metadata_hash) = (epoch, metadata_hash);
    }

    /// Sets the topics that an expression matches.
    pub(super) fn set_resolved(&mut self, expression: &str, resolved: Resolved, journal: &mut Journal<'_>) {
        journal.write(expression_key(expression), || {
            let topics = resolved.topics.iter().cloned().collect();
            Some(RegularExpression { topics, version: 0, timestamp_ms: resolved.at.0 }.encode())
        });
        self.resolved.insert(expression.to_owned(), resolved);
    }

    /// Removes an expression.
    pub(super) fn forget_expression(&mut self, expression: &str, journal: &mut Journal<'_>) {
        journal.write(expression_key(expression), || None);
        self.resolved.remove(expression);
    }

    /// Removes expressions that no member subscribes with any more.
    pub(super) fn forget_unused_expressions(&mut self, journal: &mut Journal<'_>) {
        let unused = self.resolved.keys().filter(|expression| !self.expressions.contains_key(*expression));
        for expression in unused.cloned().collect::<Vec<_>>() {
            self.forget_expression(&expression, journal);
        }
    }

    /// Removes a member.
    pub(super) fn remove_member(&mut self, id: &Arc<str>, journal: &mut Journal<'_>) {
        self.forget_standing(id, journal);
        self.forget_target(id, journal);
        self.forget_details(id, journal);
    }

    pub(super) fn forget_standing(&mut self, id: &Arc<str>, journal: &mut Journal<'_>) {
        journal.write(current_key(id), || None);
        self.release(id);
        if let Some(member) = self.members.get_mut(id) {
            member.standing = Standing::default();
        }
    }

    pub(super) fn forget_target(&mut self, id: &Arc<str>, journal: &mut Journal<'_>) {
        journal.write(target_key(id), || None);
        self.targets.remove(id);
    }

    pub(super) fn forget_details(&mut self, id: &Arc<str>, journal: &mut Journal<'_>) {
        journal.write(member_key(id), || None);
        self.release(id);
        if let Some(member) = self.members.remove(id) {
            self.uncount(id, &member.details);
        }
    }

    /// Returns the tombstones of the group and all of its members.
    pub(crate) fn tombstones(&self, group: &Arc<str>) -> Vec<CoordinatorRecord> {
        let mut journal = Journal::new(group);
        for id in self.members.keys() {
            journal.write(current_key(id), || None);
        }
        for id in self.targets.keys() {
            journal.write(target_key(id), || None);
        }
        journal.write(|group| ConsumerGroupKey::TargetMetadata { group }, || None);
        for id in self.members.keys() {
            journal.write(member_key(id), || None);
        }
        for expression in self.resolved.keys() {
            journal.write(expression_key(expression), || None);
        }
        if self.has_legacy_metadata {
            journal.write(|group| ConsumerGroupKey::PartitionMetadata { group }, || None);
        }
        journal.write(|group| ConsumerGroupKey::Group { group }, || None);
        journal.into_records()
    }

    /// Returns its state.
    pub(crate) fn state(&self) -> GroupState {
        if self.members.is_empty() {
            GroupState::Empty
        } else if self.epoch > self.target_epoch {
            GroupState::Assigning
        } else if self.members.values().all(|member| member.has_arrived(self.target_epoch)) {
            GroupState::Stable
        } else {
            GroupState::Reconciling
        }
    }

    /// Reports whether it has no members.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Reports whether a member reads the topic.
    pub(crate) fn reads(&self, topic: &str) -> bool {
        self.names.contains_key(topic)
            || self.expressions.keys().any(|expression| {
                self.resolved.get(expression).is_some_and(|resolved| resolved.topics.contains(topic))
            })
    }

    /// Reports whether a member with these details reads the topic.
    pub(super) fn lets_read(&self, details: &ConsumerGroupMember, topic: &str) -> bool {
        details.subscribed_topic_names.binary_search_by(|name| name.as_str().cmp(topic)).is_ok()
            || expression_of(details)
                .and_then(|expression| self.resolved.get(expression))
                .is_some_and(|resolved| resolved.topics.contains(topic))
    }

    pub(crate) fn offsets_expire(&self) -> OffsetsExpire {
        OffsetsExpire::SinceCommit
    }

    /// Returns the assignor that most members prefer. In a tie, the first by name wins. `None` if no member
    /// names one.
    pub(super) fn preferred_assignor(&self) -> Option<&str> {
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for assignor in self.members.values().filter_map(|member| member.details.server_assignor.as_deref()) {
            *votes.entry(assignor).or_default() += 1;
        }
        let most = votes.values().max().copied()?;
        votes.into_iter().find(|(_, count)| *count == most).map(|(assignor, _)| assignor)
    }

    /// Returns the hash of all topics that the group reads, as they are now. 0 for none.
    pub(super) fn hash_of_topics(&self, image: &MetadataImage) -> i64 {
        let expressions = self.expressions.keys().filter_map(|expression| self.resolved.get(expression));
        let mut names: BTreeSet<&str> =
            expressions.flat_map(|resolved| resolved.topics.iter().map(String::as_str)).collect();
        names.extend(self.names.keys().map(String::as_str));
        hash_of_topics(names.into_iter(), image)
    }
}

fn each(held: &Held) -> impl Iterator<Item = (TopicId, i32)> + '_ {
    held.iter().flat_map(|(topic, partitions)| partitions.keys().map(|partition| (*topic, *partition)))
}
