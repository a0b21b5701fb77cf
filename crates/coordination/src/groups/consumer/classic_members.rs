//! Members of a consumer group that still use JoinGroup and SyncGroup. The coordinator assigns their
//! partitions, too, and encodes the assignment in the embedded protocol, as if the group's leader had sent
//! it.
//!
//! Such a member has no other members to lead. It joins, gets its current epoch as its generation, and syncs
//! to get its partitions. When its assignment changes, it is told to join again.

use std::sync::Arc;

use bytes::Bytes;
use tailrace_records::internal::{ClassicMemberMetadata, ConsumerGroupMember};

use super::convert::{by_id, by_name};
use super::embedded::{PROTOCOL_TYPE, Subscription, encode_assignment};
use super::event::ConsumerTimer;
use super::member::{EPOCH_AWAY, Member, partitions_of};
use super::reconcile::MemberState;
use super::turn::Turn;
use crate::coordinator::{Effects, Moment, Token};
use crate::groups::assignors::Partitions;
use crate::groups::classic::{
    ClassicEvent, ClassicReply, JoinRequest, Joined, LeavingMember, MemberReference, SyncRequest, Synced,
};
use crate::groups::group::Group;
use crate::groups::limits::SUBSCRIBED_NAMES_MAX;
use crate::groups::{GroupCoordinator, GroupError, GroupReply};

impl GroupCoordinator {
    /// Handles a classic request to a consumer group that has members.
    pub(in crate::groups) fn classic_event_in_consumer_group(
        &mut self,
        token: Token,
        id: &Arc<str>,
        event: ClassicEvent,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) {
        let reply = match event {
            ClassicEvent::Join(request) => {
                if let Some(replaced) = self.last_modern_member(id, &request, moment) {
                    // The last member of the new protocol comes back with the old one. The consumer group is
                    // downgraded, and the request goes to the classic group.
                    self.remove_consumer_members(id, &[replaced], moment, effects);
                    return self.step_classic(token, id, ClassicEvent::Join(request), moment, effects);
                }
                let joined = self.consumer_turn(id, moment, effects, |turn| turn.join(&request));
                ClassicReply::Join(joined.unwrap_or_else(|| Err(unknown(id, &request.member))))
            }
            ClassicEvent::Sync(request) => {
                let synced = self.consumer_turn(id, moment, effects, |turn| turn.sync(&request));
                ClassicReply::Sync(synced.unwrap_or_else(|| Err(unknown(id, &request.by.member))))
            }
            ClassicEvent::Heartbeat(by) => {
                let beat = self.consumer_turn(id, moment, effects, |turn| turn.classic_heartbeat(&by));
                ClassicReply::Heartbeat(beat.unwrap_or_else(|| Err(unknown(id, &by.member))))
            }
            ClassicEvent::Leave(members) => {
                ClassicReply::Leave(Ok(self.leave_consumer(id, &members, moment, effects)))
            }
        };
        effects.replies.push((token, GroupReply::Classic(reply)));
    }

    /// Returns the last member of the new protocol, if it is a static member that this request replaces, and
    /// the group may be downgraded without it.
    fn last_modern_member(
        &self,
        id: &Arc<str>,
        request: &JoinRequest,
        moment: &Moment<'_>,
    ) -> Option<Arc<str>> {
        let Some(Group::Consumer(group)) = self.groups.get(id) else { return None };
        if !request.member.is_empty() || request.protocol_type != PROTOCOL_TYPE {
            return None;
        }
        let owner = group.instances.get(request.instance.as_ref()?)?;
        let alone = group.members.len() == 1 && !group.members.get(owner)?.is_classic();
        let may = alone || self.may_downgrade(id, std::slice::from_ref(owner), moment);
        may.then(|| Arc::clone(owner))
    }

    fn leave_consumer(
        &mut self,
        id: &Arc<str>,
        leaving: &[LeavingMember],
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) -> Vec<Result<(), GroupError>> {
        let mut gone = Vec::new();
        let mut replies = Vec::with_capacity(leaving.len());
        for member in leaving {
            let Some(Group::Consumer(group)) = self.groups.get(id) else { break };
            let known = match (&member.instance, member.member.is_empty()) {
                // An administrator removes a static member without knowing its id.
                (Some(instance), true) => group.instances.get(instance).cloned(),
                (Some(instance), false) => {
                    let owner = group.instances.get(instance);
                    if owner.is_some_and(|owner| *owner != member.member) {
                        replies.push(Err(GroupError::FencedInstance { instance: Arc::clone(instance) }));
                        continue;
                    }
                    owner.cloned()
                }
                (None, _) => {
                    let known = group.members.get(&member.member);
                    // Members of the new protocol leave by heartbeat.
                    known.filter(|known| known.is_classic()).map(|_| Arc::clone(&member.member))
                }
            };
            match known {
                Some(known) if !gone.contains(&known) => {
                    gone.push(known);
                    replies.push(Ok(()));
                }
                _ => replies.push(Err(unknown(id, &member.member))),
            }
        }
        self.remove_consumer_members(id, &gone, moment, effects);
        replies
    }
}

fn unknown(id: &Arc<str>, member: &Arc<str>) -> GroupError {
    GroupError::UnknownMember { group: Arc::clone(id), member: Arc::clone(member) }
}

/// A joining member: its id, and the static member that it replaces.
struct Joiner {
    id: Arc<str>,
    replaces: Option<Arc<str>>,
}

impl Turn<'_> {
    fn join(&mut self, request: &JoinRequest) -> Result<Joined, GroupError> {
        self.check_protocols(request)?;
        let joiner = self.joiner(request)?;
        let known = joiner.replaces.as_ref().unwrap_or(&joiner.id);
        if !self.group.members.contains_key(known) {
            self.refuse_if_full(&joiner.id)?;
        }
        let malformed = |_| GroupError::InconsistentProtocol { reason: "the subscription is malformed" };
        let first = request.protocols.first().map(|(_, bytes)| bytes.clone()).unwrap_or_default();
        let subscription = Subscription::decode(&first).map_err(malformed)?;
        if subscription.topics.len() > SUBSCRIBED_NAMES_MAX {
            return Err(GroupError::TooMany {
                what: "subscribed topics of a member",
                max: SUBSCRIBED_NAMES_MAX,
            });
        }
        if let Some(old) = joiner.replaces {
            self.replace(&old, &joiner.id);
        }
        let id = joiner.id;
        let reported: Vec<_> = by_id(&subscription.owned, self.moment.image).into_iter().collect();
        let changed = self.update_details(&id, self.classic_details(&id, request, subscription));
        self.bump_if(changed);
        self.assign_if_due();
        self.reconcile(&id, changed, &Some(reported));
        self.clear(ConsumerTimer::Join(Arc::clone(&id)));
        self.keep_alive(&id);
        self.set(ConsumerTimer::Sync(Arc::clone(&id)), request.rebalance_timeout_ms.max(0).into());
        let generation = self.group.members.get(&id).map_or(0, |member| member.standing.epoch);
        let protocol = request.protocols.first().map(|(name, _)| name.as_str().into());
        Ok(Joined {
            generation,
            protocol_type: Some(PROTOCOL_TYPE.into()),
            protocol,
            member: id,
            ..Joined::default()
        })
    }

    fn classic_details(
        &self,
        id: &Arc<str>,
        request: &JoinRequest,
        subscription: Subscription,
    ) -> ConsumerGroupMember {
        let before = self.group.members.get(id).map(|member| &member.details);
        let mut names = subscription.topics;
        names.sort_unstable();
        names.dedup();
        let instance = request.instance.as_deref().map(str::to_owned);
        ConsumerGroupMember {
            instance_id: instance.or_else(|| before?.instance_id.clone()),
            rack_id: subscription.rack.or_else(|| before?.rack_id.clone()),
            client_id: request.client.client_id.clone(),
            client_host: request.client.client_host.clone(),
            subscribed_topic_names: names,
            subscribed_topic_regex: None,
            rebalance_timeout_ms: request.rebalance_timeout_ms,
            server_assignor: before.and_then(|before| before.server_assignor.clone()),
            classic: Some(ClassicMemberMetadata {
                session_timeout_ms: request.session_timeout_ms,
                protocols: request.protocols.clone(),
            }),
        }
    }

    fn check_protocols(&self, request: &JoinRequest) -> Result<(), GroupError> {
        let reason = if request.protocol_type != PROTOCOL_TYPE {
            "this is a group of consumers"
        } else {
            let all = self.group.classic_members;
            let shared = |(name, _): &(String, Bytes)| {
                self.group.classic_protocols.get(name).copied().unwrap_or_default() == all
            };
            if request.protocols.iter().any(shared) {
                return Ok(());
            }
            "none of them is supported by all members of the group that use the classic protocol"
        };
        Err(GroupError::InconsistentProtocol { reason })
    }

    fn joiner(&self, request: &JoinRequest) -> Result<Joiner, GroupError> {
        let has_id = !request.member.is_empty();
        let id = Arc::clone(if has_id { &request.member } else { &request.fresh_member });
        let Some(instance) = &request.instance else {
            if !has_id && request.abilities.comes_back_with_id {
                return Err(GroupError::MemberIdRequired { member: id });
            }
            return Ok(Joiner { id, replaces: None });
        };
        match self.group.instances.get(instance) {
            Some(owner) if *owner == id => Ok(Joiner { id, replaces: None }),
            Some(_) if has_id => Err(GroupError::FencedInstance { instance: Arc::clone(instance) }),
            Some(owner) => Ok(Joiner { id, replaces: Some(Arc::clone(owner)) }),
            None if has_id => Err(self.unknown(&id)),
            None => Ok(Joiner { id, replaces: None }),
        }
    }

    /// Returns the member if it is known, uses the classic protocol, and is in this generation.
    fn classic_member(&self, by: &MemberReference) -> Result<&Member, GroupError> {
        if let Some(instance) = &by.instance {
            match self.group.instances.get(instance) {
                None => return Err(self.unknown(&by.member)),
                Some(owner) if *owner != by.member => {
                    return Err(GroupError::FencedInstance { instance: Arc::clone(instance) });
                }
                Some(_) => {}
            }
        }
        let member = self.group.members.get(&by.member).filter(|member| member.is_classic());
        let member = member.ok_or_else(|| self.unknown(&by.member))?;
        let expected = member.standing.epoch;
        if by.generation != expected || expected == EPOCH_AWAY {
            return Err(GroupError::IllegalGeneration { expected, found: by.generation });
        }
        Ok(member)
    }

    /// Reports whether the member has to join again because its assignment can change. While a new target
    /// assignment has not been computed, it does not have to.
    fn has_news_for(&self, id: &str, member: &Member) -> bool {
        member.standing.epoch < self.group.target_epoch
            || member.standing.state == MemberState::Unrevoked
            || (member.standing.state == MemberState::Unreleased && self.is_all_free_for(id))
    }

    /// Reports whether no other member has any partition of the member's target.
    fn is_all_free_for(&self, id: &str) -> bool {
        let none = Partitions::new();
        let target = self.group.targets.get(id).unwrap_or(&none);
        target.iter().all(|(topic, partitions)| {
            partitions.iter().all(|partition| self.group.is_free_for(id, *topic, *partition))
        })
    }

    fn sync(&mut self, request: &SyncRequest) -> Result<Synced, GroupError> {
        let by = &request.by;
        let member = self.classic_member(by)?;
        let protocol = member.protocols().first().map(|(name, _)| name.as_str()).unwrap_or_default();
        let inconsistent = |reason| Err(GroupError::InconsistentProtocol { reason });
        if request.protocol_type.as_deref().is_some_and(|found| found != PROTOCOL_TYPE) {
            return inconsistent("this is a group of consumers");
        }
        if request.protocol.as_deref().is_some_and(|found| found != protocol) {
            return inconsistent("it is not the one that the member was given when it joined");
        }
        let is_behind = member.standing.epoch < self.group.target_epoch;
        if is_behind && member.standing.state != MemberState::Unrevoked {
            self.expect_to_join(by);
            return Err(GroupError::RebalanceInProgress);
        }
        let partitions = by_name(&partitions_of(&member.standing.assigned), self.moment.image);
        let synced = Synced {
            protocol_type: Some(PROTOCOL_TYPE.into()),
            protocol: Some(protocol.into()),
            assignment: encode_assignment(member.embedded_version(), &partitions),
        };
        self.clear(ConsumerTimer::Sync(Arc::clone(&by.member)));
        self.keep_alive(&by.member);
        Ok(synced)
    }

    /// Gives the member the length of a rebalance timeout to join again.
    fn expect_to_join(&mut self, by: &MemberReference) {
        let timer = ConsumerTimer::Join(Arc::clone(&by.member));
        if !self.is_set(timer.clone()) {
            let timeout =
                self.group.members.get(&by.member).map(|member| member.details.rebalance_timeout_ms);
            self.set(timer, timeout.unwrap_or_default().max(0).into());
        }
    }

    fn classic_heartbeat(&mut self, by: &MemberReference) -> Result<(), GroupError> {
        let member = self.classic_member(by)?;
        let has_news = self.has_news_for(&by.member, member);
        self.keep_alive(&by.member);
        // Expressions are resolved with the heartbeats of members that subscribe with one.
        self.bump_if(false);
        self.assign_if_due();
        if has_news {
            self.expect_to_join(by);
            return Err(GroupError::RebalanceInProgress);
        }
        Ok(())
    }
}
