//! JoinGroup: a member joins the next generation.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use tailrace_types::TimestampMs;

use super::member::ClassicMember;
use super::turn::Turn;
use super::{ClassicGroup, ClassicReply, ClassicTimer, JoinRequest};
use crate::coordinator::{Effects, Moment, Token};
use crate::groups::group::Group;
use crate::groups::limits::{
    GROUP_SUBSCRIPTION_BYTES_MAX, MEMBER_ID_BYTES_MAX, MEMBER_SUBSCRIPTION_BYTES_MAX, PENDING_MEMBERS_MAX,
    PROTOCOLS_PER_MEMBER_MAX,
};
use crate::groups::{GroupCoordinator, GroupError, GroupReply, GroupState};

impl GroupCoordinator {
    pub(super) fn join_classic(
        &mut self,
        token: Token,
        id: &Arc<str>,
        mut request: JoinRequest,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) {
        let refuse = |effects: &mut Effects<Self>, error| {
            effects.replies.push((token, GroupReply::Classic(ClassicReply::Join(Err(error)))));
        };
        if let Err(error) = check(&request, moment) {
            return refuse(effects, error);
        }
        keep_first_of_each_name(&mut request.protocols);
        match self.groups.get(id) {
            Some(Group::Share(_)) => {
                let reason = "it is a share group";
                return refuse(effects, GroupError::InconsistentProtocol { reason });
            }
            // The group is empty: requests to a consumer group with members are handled elsewhere.
            Some(group @ Group::Consumer(_)) => {
                effects.append(group.tombstones(id));
                self.groups.remove(id);
            }
            Some(Group::Classic(_)) | None => {}
        }
        if !self.groups.contains_key(id) {
            // A member that has an id belongs to a group that is gone. It must start again.
            if !request.member.is_empty() {
                let unknown = GroupError::UnknownMember { group: Arc::clone(id), member: request.member };
                return refuse(effects, unknown);
            }
            self.groups.insert(Arc::clone(id), Group::Classic(ClassicGroup::new(moment.now)));
        }
        if let Some(mut turn) = self.turn(id, moment, effects) {
            turn.join(token, request);
        }
    }
}

/// Refuses requests that no group could accept.
fn check(request: &JoinRequest, moment: &Moment<'_>) -> Result<(), GroupError> {
    let broker = moment.image.broker();
    let (min, max) = (broker.group_min_session_timeout_ms, broker.group_max_session_timeout_ms);
    let found = request.session_timeout_ms;
    if found < min || found > max {
        return Err(GroupError::InvalidSessionTimeout { found, min, max });
    }
    let too_many = |what, max| Err(GroupError::TooMany { what, max });
    let instance = request.instance.as_deref().unwrap_or_default();
    let names = [&*request.member, instance, &request.client.client_id, &request.protocol_type];
    let mut names = names.into_iter().chain(request.protocols.iter().map(|(name, _)| name.as_str()));
    if names.any(|name| name.len() > MEMBER_ID_BYTES_MAX) {
        return too_many("bytes of an id or name", MEMBER_ID_BYTES_MAX);
    }
    if request.protocols.len() > PROTOCOLS_PER_MEMBER_MAX {
        return too_many("protocols of a member", PROTOCOLS_PER_MEMBER_MAX);
    }
    let bytes: usize = request.protocols.iter().map(|(_, subscription)| subscription.len()).sum();
    if bytes > MEMBER_SUBSCRIPTION_BYTES_MAX {
        return too_many("bytes of a member's subscriptions", MEMBER_SUBSCRIPTION_BYTES_MAX);
    }
    Ok(())
}

/// Drops repeated names of protocols.
fn keep_first_of_each_name(protocols: &mut Vec<(String, Bytes)>) {
    let mut seen = BTreeSet::new();
    protocols.retain(|(name, _)| seen.insert(name.clone()));
}

impl Turn<'_> {
    fn join(&mut self, token: Token, request: JoinRequest) {
        if !self.has_room_for(&request.member) {
            self.remove(&request.member);
            self.reply_join(token, Err(GroupError::GroupFull { max: self.size_max() }));
            return self.complete_if_all_joined();
        }
        if self.group.bytes_with(&request) > GROUP_SUBSCRIPTION_BYTES_MAX {
            let too_many = GroupError::TooMany {
                what: "bytes of the subscriptions of a group's members",
                max: GROUP_SUBSCRIPTION_BYTES_MAX,
            };
            return self.reply_join(token, Err(too_many));
        }
        if !self.group.accepts_protocols(&request.protocol_type, &request.protocols) {
            let reason = "the group is of another type, or no protocol is supported by all members";
            return self.reply_join(token, Err(GroupError::InconsistentProtocol { reason }));
        }
        if request.member.is_empty() {
            self.join_without_id(token, request);
        } else if self.group.pending.contains(&request.member) {
            if request.instance.is_some() {
                let reason = "a static member must first join without a member id".to_owned();
                return self.reply_join(token, Err(GroupError::InvalidRequest { reason }));
            }
            self.add(token, Arc::clone(&request.member), request);
        } else {
            self.join_again(token, request);
        }
    }

    /// Reports whether the group has room for a member. Only new members count against the limit. While the
    /// group prepares a rebalance, it counts the joined members instead, so that a group that has become too
    /// large loses the last ones.
    fn has_room_for(&self, member: &str) -> bool {
        let (group, max) = (&self.group, self.size_max());
        let known = group.members.get(member);
        match group.state {
            GroupState::PreparingRebalance => {
                known.is_some_and(|member| member.joining.is_some()) || group.joining < max
            }
            GroupState::CompletingRebalance | GroupState::Stable => {
                known.is_some() || group.members.len() < max
            }
            _ => true,
        }
    }

    /// Handles a JoinGroup request without a member id.
    fn join_without_id(&mut self, token: Token, request: JoinRequest) {
        let fresh = Arc::clone(&request.fresh_member);
        if let Some(instance) = &request.instance {
            match self.group.instances.get(instance).cloned() {
                Some(before) => self.replace_static(token, &before, request),
                None => self.add(token, fresh, request),
            }
        } else if request.abilities.comes_back_with_id {
            if self.group.pending.len() >= PENDING_MEMBERS_MAX {
                return self.reply_join(token, Err(GroupError::GroupFull { max: PENDING_MEMBERS_MAX }));
            }
            self.expect_pending(Arc::clone(&fresh), request.session_timeout_ms.into());
            self.reply_join(token, Err(GroupError::MemberIdRequired { member: fresh }));
        } else {
            self.add(token, fresh, request);
        }
    }

    fn add(&mut self, token: Token, id: Arc<str>, request: JoinRequest) {
        if self.group.members.is_empty() {
            self.group.protocol_type = Some(request.protocol_type.into());
        }
        if self.group.state == GroupState::PreparingRebalance && self.group.previous == GroupState::Empty {
            self.group.initial.joined = true;
        }
        let member = ClassicMember {
            instance: request.instance,
            client: request.client,
            rebalance_timeout_ms: request.rebalance_timeout_ms,
            session_timeout_ms: request.session_timeout_ms,
            protocols: shared(request.protocols),
            assignment: Bytes::new(),
            joining: Some(token),
            syncing: None,
            is_new: true,
            alive_until: TimestampMs(i64::MAX),
        };
        self.group.insert(Arc::clone(&id), member);
        self.keep_alive_new(&id);
        self.rebalance_or_complete();
    }

    /// Handles a JoinGroup request of a member with its id.
    fn join_again(&mut self, token: Token, request: JoinRequest) {
        let id = Arc::clone(&request.member);
        if let Err(error) = self.group.check_member(self.id, &id, request.instance.as_ref()) {
            return self.reply_join(token, Err(error));
        }
        let unchanged = self.group.members.get(&id).is_some_and(|member| member.says(&request.protocols));
        let present = match self.group.state {
            // It may have missed the reply.
            GroupState::CompletingRebalance => unchanged,
            // The leader asks for a new assignment by joining again.
            GroupState::Stable => unchanged && !self.group.is_leader(&id),
            _ => false,
        };
        if present {
            let joined = self.joined(&id);
            return self.reply_join(token, Ok(joined));
        }
        self.update(token, &id, request);
        self.rebalance_or_complete();
    }

    /// Updates a member from its request, and lets it wait. An earlier pending request of the same member is
    /// refused.
    fn update(&mut self, token: Token, id: &Arc<str>, request: JoinRequest) {
        let mut superseded = None;
        self.group.update(id, |member| {
            member.protocols = shared(request.protocols);
            member.rebalance_timeout_ms = request.rebalance_timeout_ms;
            member.session_timeout_ms = request.session_timeout_ms;
            superseded = member.joining.replace(token);
        });
        if let Some(token) = superseded {
            self.reply_join(token, Err(GroupError::RebalanceInProgress));
        }
    }

    /// Handles a static member that comes back without its id. It gets a new id, and a client with the old id
    /// is fenced. While the group is stable nothing else changes, unless the chosen protocol would.
    fn replace_static(&mut self, token: Token, before: &Arc<str>, request: JoinRequest) {
        let id = Arc::clone(&request.fresh_member);
        let leader_before = self.group.leader.clone();
        self.take_over(before, &id, &request);
        let skips_assignment = request.abilities.skips_assignment;
        self.update(token, &id, request);
        match self.group.state {
            GroupState::Stable if self.group.preferred_protocol() == self.group.protocol => {
                self.group.take_joining(&id);
                self.write();
                let mut joined = self.joined(&id);
                if skips_assignment {
                    joined.skip_assignment = self.group.is_leader(&id);
                } else {
                    // If it were told that it is the leader, it would assign. So it is told that its former
                    // id is the leader.
                    joined.leader = leader_before.unwrap_or_default();
                    joined.members = Vec::new();
                }
                self.reply_join(token, Ok(joined));
            }
            // The leader may already be assigning to the old id.
            GroupState::Stable | GroupState::CompletingRebalance => self.prepare_rebalance(),
            _ => self.complete_if_all_joined(),
        }
    }

    fn take_over(&mut self, before: &Arc<str>, id: &Arc<str>, request: &JoinRequest) {
        let led = self.group.is_leader(before);
        let unsynced = self.group.unsynced.contains(before);
        self.clear(ClassicTimer::Session(Arc::clone(before)));
        let Some(mut member) = self.group.remove(before) else { return };
        let fenced = || GroupError::FencedInstance { instance: request.instance.clone().unwrap_or_default() };
        if let Some(token) = member.joining.take() {
            self.reply_join(token, Err(fenced()));
        }
        if let Some(token) = member.syncing.take() {
            self.reply_sync(token, Err(fenced()));
        }
        member.is_new = false;
        member.client = request.client.clone();
        self.group.insert(Arc::clone(id), member);
        if led {
            self.group.leader = Some(Arc::clone(id));
        }
        if unsynced {
            self.group.unsynced.insert(Arc::clone(id));
        }
        self.keep_alive(id);
    }
}

fn shared(protocols: Vec<(String, Bytes)>) -> Vec<(Arc<str>, Bytes)> {
    protocols.into_iter().map(|(name, subscription)| (name.into(), subscription)).collect()
}
