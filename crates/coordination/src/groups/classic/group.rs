//! The state of a classic group, and the state changes that send no replies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use tailrace_records::internal::{GroupKey, GroupMemberValue, GroupValue};
use tailrace_types::{TimestampMs, take_off};

use super::event::{ClassicDescription, ClassicMemberDescription, JoinRequest, JoinedMember};
use super::member::ClassicMember;
use super::subscription::subscribed_topics;
use crate::coordinator::{CoordinatorRecord, Token};
use crate::groups::error::GroupError;
use crate::groups::member::ClientIdentity;
use crate::groups::offsets::Committer;
use crate::groups::state::{GroupState, OffsetsExpire};

/// Protocol type of Kafka's consumers.
pub(in crate::groups) const CONSUMER_PROTOCOL: &str = "consumer";

/// The wait for more members before the first generation (Kafka's `InitialDelayedJoin`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InitialDelay {
    /// True if a member joined since the wait was last extended.
    pub(super) joined: bool,
    /// The current wait, in milliseconds.
    pub(super) delay_ms: i64,
    /// The time by which it may still be extended, in milliseconds.
    pub(super) remaining_ms: i64,
}

/// A classic group. Without a protocol type it is a "simple" group, which has offsets and no members.
#[derive(Debug)]
pub(in crate::groups) struct ClassicGroup {
    pub(super) state: GroupState,
    /// The previous state: a rebalance from [`GroupState::Empty`] waits for more members.
    pub(super) previous: GroupState,
    /// The time at which it entered its state. [`TimestampMs::NONE`] if unknown.
    pub(super) since: TimestampMs,
    pub(in crate::groups) generation: i32,
    pub(in crate::groups) protocol_type: Option<Arc<str>>,
    pub(in crate::groups) protocol: Option<Arc<str>>,
    pub(in crate::groups) leader: Option<Arc<str>>,
    pub(in crate::groups) members: BTreeMap<Arc<str>, ClassicMember>,
    /// Static identities, and the members that own them.
    pub(super) instances: BTreeMap<Arc<str>, Arc<str>>,
    /// Member ids that were given out and have not been used to join yet.
    pub(super) pending: BTreeSet<Arc<str>>,
    /// Members that have not asked for their assignment in this generation.
    pub(super) unsynced: BTreeSet<Arc<str>>,
    /// The number of members that wait for the join phase to end.
    pub(super) joining: usize,
    /// The number of members that support each protocol.
    supported: BTreeMap<Arc<str>, usize>,
    /// The total size of all members' subscriptions, in bytes.
    subscription_bytes: usize,
    /// The topics that the members read, if all their subscriptions are in the consumer's format.
    subscribed: Option<BTreeSet<String>>,
    pub(super) initial: InitialDelay,
    /// Whether the log has a record of the group.
    pub(super) is_written: bool,
}

impl ClassicGroup {
    /// Makes a group without members.
    pub(in crate::groups) fn new(now: TimestampMs) -> Self {
        Self {
            state: GroupState::Empty,
            previous: GroupState::Empty,
            since: now,
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: BTreeMap::new(),
            instances: BTreeMap::new(),
            pending: BTreeSet::new(),
            unsynced: BTreeSet::new(),
            joining: 0,
            supported: BTreeMap::new(),
            subscription_bytes: 0,
            subscribed: None,
            initial: InitialDelay::default(),
            is_written: false,
        }
    }

    /// Returns the tombstones of a group.
    pub(in crate::groups) fn tombstones(group: &Arc<str>) -> Vec<CoordinatorRecord> {
        vec![CoordinatorRecord { key: GroupKey { group }.encode(), value: None }]
    }

    /// Restores a group from its record. Members' sessions start when everything is loaded.
    pub(super) fn from_record(value: &GroupValue<'_>) -> Self {
        let text = |text: &str| Arc::<str>::from(text);
        let state = if value.members.is_empty() { GroupState::Empty } else { GroupState::Stable };
        let mut group = Self {
            state,
            previous: state,
            generation: value.generation,
            protocol_type: Some(value.protocol_type).filter(|text| !text.is_empty()).map(text),
            protocol: value.protocol.map(text),
            leader: value.leader.map(text),
            is_written: true,
            ..Self::new(TimestampMs(value.state_timestamp))
        };
        for member in &value.members {
            let known =
                (text(value.protocol.unwrap_or_default()), Bytes::copy_from_slice(member.subscription));
            let rebalance_timeout_ms = match member.rebalance_timeout_ms {
                -1 => member.session_timeout_ms,
                timeout => timeout,
            };
            let replayed = ClassicMember {
                instance: member.instance.map(text),
                client: ClientIdentity {
                    client_id: member.client_id.to_owned(),
                    client_host: member.client_host.to_owned(),
                },
                rebalance_timeout_ms,
                session_timeout_ms: member.session_timeout_ms,
                protocols: vec![known],
                assignment: Bytes::copy_from_slice(member.assignment),
                joining: None,
                syncing: None,
                is_new: false,
                alive_until: TimestampMs(i64::MAX),
            };
            group.insert(text(member.member), replayed);
        }
        group.leader = value.leader.map(text);
        group.resubscribe();
        group
    }

    /// Returns the group's record.
    pub(super) fn to_record(&self) -> Bytes {
        let protocol = self.protocol.as_deref();
        let subscriptions: Vec<_> = self
            .members
            .values()
            .map(|member| protocol.map(|protocol| member.subscription(protocol)).unwrap_or_default())
            .collect();
        let members =
            self.members.iter().zip(&subscriptions).map(|((id, member), subscription)| GroupMemberValue {
                member: id,
                instance: member.instance.as_deref(),
                client_id: &member.client.client_id,
                client_host: &member.client.client_host,
                rebalance_timeout_ms: member.rebalance_timeout_ms,
                session_timeout_ms: member.session_timeout_ms,
                subscription,
                assignment: &member.assignment,
            });
        let value = GroupValue {
            protocol_type: self.protocol_type.as_deref().unwrap_or_default(),
            generation: self.generation,
            protocol,
            leader: self.leader.as_deref(),
            state_timestamp: self.since.0,
            members: members.collect(),
        };
        value.encode()
    }

    pub(in crate::groups) fn state(&self) -> GroupState {
        self.state
    }

    pub(in crate::groups) fn protocol_type(&self) -> Option<&str> {
        self.protocol_type.as_deref()
    }

    /// Reports whether the group can be dropped: it was never written, and no member is about to join.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_written && self.state == GroupState::Empty && self.pending.is_empty()
    }

    pub(super) fn enter(&mut self, state: GroupState, now: TimestampMs) {
        self.previous = self.state;
        self.state = state;
        self.since = now;
    }

    pub(super) fn is_leader(&self, member: &str) -> bool {
        self.leader.as_deref() == Some(member)
    }

    /// Returns the longest rebalance timeout of any member, in milliseconds.
    pub(super) fn rebalance_timeout_ms(&self) -> i64 {
        self.members.values().map(|member| i64::from(member.rebalance_timeout_ms)).max().unwrap_or(0)
    }

    pub(super) fn all_have_joined(&self) -> bool {
        self.members.len() <= self.joining && self.pending.is_empty()
    }

    /// Adds a member. The first one determines the protocol type and becomes the leader.
    pub(super) fn insert(&mut self, id: Arc<str>, member: ClassicMember) {
        self.pending.remove(&id);
        if let Some(instance) = &member.instance {
            self.instances.insert(Arc::clone(instance), Arc::clone(&id));
        }
        if self.leader.is_none() {
            self.leader = Some(Arc::clone(&id));
        }
        self.joining += usize::from(member.joining.is_some());
        self.count_protocols(&member);
        self.members.insert(id, member);
    }

    /// Removes a member, or an id that was given out and never used. The caller must answer the member's
    /// pending requests.
    pub(super) fn remove(&mut self, id: &str) -> Option<ClassicMember> {
        self.pending.remove(id);
        self.unsynced.remove(id);
        let member = self.members.remove(id)?;
        self.discount_protocols(&member);
        take_off(&mut self.joining, usize::from(member.joining.is_some()), "members that join");
        if let Some(instance) = &member.instance
            && self.instances.get(instance).is_some_and(|owner| **owner == *id)
        {
            self.instances.remove(instance);
        }
        if self.is_leader(id) {
            self.leader = self.members.keys().next().cloned();
        }
        Some(member)
    }

    fn count_protocols(&mut self, member: &ClassicMember) {
        self.subscription_bytes += member.subscription_bytes();
        for (name, _) in &member.protocols {
            *self.supported.entry(Arc::clone(name)).or_default() += 1;
        }
    }

    fn discount_protocols(&mut self, member: &ClassicMember) {
        take_off(&mut self.subscription_bytes, member.subscription_bytes(), "bytes of subscriptions");
        for (name, _) in &member.protocols {
            let count = self.supported.get_mut(name).expect("the protocols of all members are counted");
            take_off(count, 1, "members that know a protocol");
            if *count == 0 {
                self.supported.remove(name);
            }
        }
    }

    /// Changes a member, and keeps the counts of protocols and of joining members up to date.
    pub(super) fn update(&mut self, id: &str, change: impl FnOnce(&mut ClassicMember)) {
        let Some((id, mut member)) = self.members.remove_entry(id) else { return };
        self.discount_protocols(&member);
        take_off(&mut self.joining, usize::from(member.joining.is_some()), "members that join");
        change(&mut member);
        self.joining += usize::from(member.joining.is_some());
        self.count_protocols(&member);
        self.members.insert(id, member);
    }

    /// Takes the member's pending JoinGroup request.
    pub(super) fn take_joining(&mut self, id: &str) -> Option<Token> {
        let token = self.members.get_mut(id)?.joining.take()?;
        take_off(&mut self.joining, 1, "members that join");
        Some(token)
    }

    /// Returns the total size of all subscriptions, in bytes, after a request is accepted.
    pub(super) fn bytes_with(&self, request: &JoinRequest) -> usize {
        let before = self.members.get(&request.member).map_or(0, ClassicMember::subscription_bytes);
        let fresh: usize = request.protocols.iter().map(|(_, subscription)| subscription.len()).sum();
        let others = self.subscription_bytes.checked_sub(before);
        others.expect("the subscriptions of all members are counted") + fresh
    }

    /// Reports whether a member with these protocols can join. If there are no members, in any state, the
    /// first one decides.
    pub(super) fn accepts_protocols(&self, protocol_type: &str, protocols: &[(String, Bytes)]) -> bool {
        if self.members.is_empty() {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        let all = self.members.len();
        self.protocol_type.as_deref() == Some(protocol_type)
            && protocols.iter().any(|(name, _)| self.supported.get(name.as_str()) == Some(&all))
    }

    /// Returns the protocol that all members support and most prefer. In a tie, the first by name wins.
    pub(super) fn preferred_protocol(&self) -> Option<Arc<str>> {
        let all = self.members.len();
        let mut votes: BTreeMap<&Arc<str>, usize> = BTreeMap::new();
        for member in self.members.values() {
            let liked = member.protocols.iter().find(|(name, _)| self.supported.get(name) == Some(&all));
            if let Some((name, _)) = liked {
                *votes.entry(name).or_default() += 1;
            }
        }
        let most = votes.values().max().copied()?;
        votes.into_iter().find(|(_, count)| *count == most).map(|(name, _)| Arc::clone(name))
    }

    /// Makes one of the joined members the leader, if the current leader has not joined. Returns false if no
    /// member has joined.
    pub(super) fn elect(&mut self) -> bool {
        let Some(leader) = &self.leader else { return false };
        if self.members.get(leader).is_some_and(|member| member.joining.is_some()) {
            return true;
        }
        let joined = self.members.iter().find(|(_, member)| member.joining.is_some());
        let Some((id, _)) = joined else { return false };
        self.leader = Some(Arc::clone(id));
        true
    }

    /// Starts the next generation with the current members.
    pub(super) fn next_generation(&mut self, now: TimestampMs) {
        // Kafka lets it overflow. After two billion rebalances, which no group has, it starts again.
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        self.unsynced.clear();
        self.protocol = self.preferred_protocol();
        self.resubscribe();
        let next = if self.members.is_empty() { GroupState::Empty } else { GroupState::CompletingRebalance };
        self.enter(next, now);
    }

    pub(super) fn resubscribe(&mut self) {
        self.subscribed = match (&self.protocol_type, &self.protocol) {
            (None, _) => None,
            (Some(_), _) if self.members.is_empty() => Some(BTreeSet::new()),
            (Some(kind), Some(protocol)) if &**kind == CONSUMER_PROTOCOL => {
                subscribed_topics(self.members.values().map(|member| member.subscription(protocol)))
            }
            _ => None,
        };
    }

    /// Returns all members, as the leader sees them.
    pub(super) fn for_leader(&self) -> Vec<JoinedMember> {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let member = |(id, member): (&Arc<str>, &ClassicMember)| JoinedMember {
            member: Arc::clone(id),
            instance: member.instance.clone(),
            subscription: member.subscription(protocol),
        };
        self.members.iter().map(member).collect()
    }

    /// Checks that the member exists and owns its static identity.
    pub(super) fn check_member(
        &self,
        group: &Arc<str>,
        member: &Arc<str>,
        instance: Option<&Arc<str>>,
    ) -> Result<(), GroupError> {
        let unknown = || GroupError::UnknownMember { group: Arc::clone(group), member: Arc::clone(member) };
        if let Some(instance) = instance {
            let owner = self.instances.get(instance).ok_or_else(unknown)?;
            if owner != member {
                return Err(GroupError::FencedInstance { instance: Arc::clone(instance) });
            }
        }
        if self.members.contains_key(member) { Ok(()) } else { Err(unknown()) }
    }

    /// Checks that the request is of the current generation.
    pub(super) fn check_generation(&self, found: i32) -> Result<(), GroupError> {
        let expected = self.generation;
        if found == expected { Ok(()) } else { Err(GroupError::IllegalGeneration { expected, found }) }
    }

    /// Checks whether `by` may commit offsets now. Any client may while there are no members. Otherwise only
    /// members may, in their generation. Transactions from before KIP-447 name no member and are allowed.
    pub(in crate::groups) fn check_commit(&self, group: &Arc<str>, by: &Committer) -> Result<(), GroupError> {
        let empty = self.state == GroupState::Empty;
        let generation = by.generation_or_epoch;
        let in_transaction = by.transaction.is_some();
        if generation < 0 && empty {
            return Ok(());
        }
        if generation >= 0 || !by.member.is_empty() || by.instance.is_some() {
            self.check_member(group, &by.member, by.instance.as_ref())?;
            self.check_generation(generation)?;
        } else if !in_transaction && !empty {
            return Err(GroupError::UnknownMember {
                group: Arc::clone(group),
                member: Arc::clone(&by.member),
            });
        }
        // The member knows the new generation, but not its assignment yet.
        if !in_transaction && self.state == GroupState::CompletingRebalance {
            return Err(GroupError::RebalanceInProgress);
        }
        Ok(())
    }

    /// Allows deleting offsets of a group with members only if it is known which topics they read.
    pub(in crate::groups) fn check_offset_delete(&self, group: &Arc<str>) -> Result<(), GroupError> {
        let known = self.protocol_type() == Some(CONSUMER_PROTOCOL);
        if self.state == GroupState::Empty || known {
            return Ok(());
        }
        Err(GroupError::NonEmptyGroup { group: Arc::clone(group) })
    }

    /// Reports whether members read the topic, or might: consumers whose subscriptions are unreadable, or not
    /// decided yet.
    pub(in crate::groups) fn may_read(&self, topic: &str) -> bool {
        match &self.subscribed {
            Some(topics) => topics.contains(topic),
            None => self.protocol_type() == Some(CONSUMER_PROTOCOL),
        }
    }

    pub(in crate::groups) fn offsets_expire(&self) -> OffsetsExpire {
        match self.state {
            _ if self.protocol_type.is_none() => OffsetsExpire::SinceCommit,
            GroupState::Empty if self.since == TimestampMs::NONE => OffsetsExpire::SinceCommit,
            GroupState::Empty => OffsetsExpire::Since(self.since),
            GroupState::Stable if self.subscribed.is_some() => OffsetsExpire::SinceCommit,
            _ => OffsetsExpire::Never,
        }
    }

    /// Describes the group for DescribeGroups. Subscriptions are shown while the group is stable. As in
    /// Kafka, the last assignments are shown in any state.
    pub(in crate::groups) fn describe(&self) -> ClassicDescription {
        let stable = self.state == GroupState::Stable;
        let protocol = self.protocol.as_deref().filter(|_| stable).unwrap_or_default();
        let member = |(id, member): (&Arc<str>, &ClassicMember)| ClassicMemberDescription {
            member: Arc::clone(id),
            instance: member.instance.clone(),
            client: member.client.clone(),
            subscription: if stable { member.subscription(protocol) } else { Bytes::new() },
            assignment: member.assignment.clone(),
        };
        ClassicDescription {
            state: self.state,
            protocol_type: self.protocol_type().unwrap_or_default().to_owned(),
            protocol: protocol.to_owned(),
            members: self.members.iter().map(member).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "1 go of 0 members that join")]
    fn no_more_members_join_than_there_are() {
        let mut group = ClassicGroup::new(TimestampMs(0));
        let member = ClassicMember {
            instance: None,
            client: Default::default(),
            rebalance_timeout_ms: 1,
            session_timeout_ms: 1,
            protocols: Vec::new(),
            assignment: Bytes::new(),
            joining: Some(Token(1)),
            syncing: None,
            is_new: false,
            alive_until: TimestampMs(0),
        };
        group.insert("m".into(), member);
        group.joining = 0;
        group.remove("m");
    }
}
