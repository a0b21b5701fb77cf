//! A member of a consumer group.

use std::sync::Arc;

use tailrace_records::internal::{self, ConsumerGroupMember, CurrentMemberAssignment, HeldPartitions};
use tailrace_types::{TimestampMs, TopicId};

use super::embedded::Subscription;
use super::reconcile::{Held, MemberState, Standing};
use crate::groups::assignors::Partitions;

/// Epoch of a static member that has left and will come back.
pub(crate) const EPOCH_AWAY: i32 = -2;

/// A member: its details, its current assignment, and its session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Member {
    /// The details that it sent, in the form of its record.
    pub(crate) details: ConsumerGroupMember,
    /// Its current assignment.
    pub(crate) standing: Standing,
    /// The time by which it must send a heartbeat. A timer that expires earlier is set again.
    pub(crate) alive_until: Option<TimestampMs>,
}

impl Member {
    pub(crate) fn instance(&self) -> Option<&str> {
        self.details.instance_id.as_deref()
    }

    /// Returns the regular expression that it subscribes with.
    pub(crate) fn expression(&self) -> Option<&str> {
        expression_of(&self.details)
    }

    /// Reports whether it uses JoinGroup and SyncGroup.
    pub(crate) fn is_classic(&self) -> bool {
        self.details.classic.is_some()
    }

    /// Returns the protocols of a classic member.
    pub(crate) fn protocols(&self) -> &[(String, bytes::Bytes)] {
        self.details.classic.as_ref().map_or(&[], |classic| &classic.protocols)
    }

    /// Returns the version in which a classic member parses assignments.
    pub(crate) fn embedded_version(&self) -> i16 {
        let first = self.protocols().first();
        first
            .and_then(|(_, bytes)| Subscription::decode(bytes).ok())
            .map_or(0, |subscription| subscription.version)
    }

    /// Reports whether it has reached the target of this epoch.
    pub(crate) fn has_arrived(&self, epoch: i32) -> bool {
        self.standing.state == MemberState::Stable && self.standing.epoch == epoch
    }
}

/// Returns the regular expression of a subscription. An empty one counts as none: that is how a member
/// removes it.
pub(crate) fn expression_of(details: &ConsumerGroupMember) -> Option<&str> {
    details.subscribed_topic_regex.as_deref().filter(|expression| !expression.is_empty())
}

/// Returns the record of a member's current assignment.
pub(crate) fn standing_to_record(standing: &Standing) -> CurrentMemberAssignment {
    CurrentMemberAssignment {
        epoch: standing.epoch,
        previous_epoch: standing.previous_epoch,
        state: standing.state.number(),
        assigned: held_to_record(&standing.assigned),
        pending_revocation: held_to_record(&standing.revoking),
    }
}

fn held_to_record(held: &Held) -> Vec<HeldPartitions> {
    let topic = |(topic, partitions): (&TopicId, &std::collections::BTreeMap<i32, i32>)| HeldPartitions {
        topic: topic.0,
        partitions: partitions.keys().copied().collect(),
        epochs: Some(partitions.values().copied().collect()),
    };
    held.iter().map(topic).collect()
}

/// Restores a member's current assignment from its record. Partitions without an epoch get the member's.
pub(crate) fn standing_of_record(record: &CurrentMemberAssignment) -> Standing {
    Standing {
        epoch: record.epoch,
        previous_epoch: record.previous_epoch,
        state: MemberState::of_number(record.state),
        assigned: held_of_record(&record.assigned, record.epoch),
        revoking: held_of_record(&record.pending_revocation, record.epoch),
    }
}

fn held_of_record(held: &[HeldPartitions], epoch: i32) -> Held {
    let mut topics = Held::new();
    for topic in held.iter().filter(|topic| !topic.partitions.is_empty()) {
        let epochs = topic.epochs.as_deref().unwrap_or_default();
        let epochs = epochs.iter().copied().chain(std::iter::repeat(epoch));
        topics.entry(TopicId(topic.topic)).or_default().extend(topic.partitions.iter().copied().zip(epochs));
    }
    topics
}

/// Returns the record of a target.
pub(crate) fn target_to_record(target: &Partitions) -> internal::TargetAssignmentMember {
    let partitions = target.iter().map(|(topic, partitions)| (topic.0, partitions.clone())).collect();
    internal::TargetAssignmentMember { partitions }
}

/// Restores partitions from a record, sorted.
pub(crate) fn partitions_of_record(listed: Vec<([u8; 16], Vec<i32>)>) -> Partitions {
    let listed = listed.into_iter().filter(|(_, partitions)| !partitions.is_empty());
    let sorted = listed.map(|(topic, mut partitions)| {
        partitions.sort_unstable();
        partitions.dedup();
        (TopicId(topic), partitions)
    });
    sorted.collect()
}

/// Returns a member's partitions without their epochs.
pub(crate) fn partitions_of(held: &Held) -> Partitions {
    held.iter().map(|(topic, partitions)| (*topic, partitions.keys().copied().collect())).collect()
}

/// Returns a text that is kept for every member.
pub(crate) fn shared(text: &str) -> Arc<str> {
    Arc::from(text)
}
