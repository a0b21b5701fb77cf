//! ConsumerGroupHeartbeat: a member joins, stays, or leaves.

use std::sync::Arc;

use tailrace_records::internal::ConsumerGroupMember;

use super::event::ConsumerHeartbeat;
use super::expression;
use super::member::{EPOCH_AWAY, Member, expression_of, partitions_of, shared};
use super::reconcile::{Held, Reported, Standing};
use super::turn::Turn;
use crate::groups::GroupError;
use crate::groups::assignors::ConsumerAssignor;
use crate::groups::limits::{MEMBER_ID_BYTES_MAX, SUBSCRIBED_NAMES_MAX};
use crate::groups::member::{EPOCH_JOIN, HeartbeatAnswer};

fn invalid(reason: impl Into<String>) -> GroupError {
    GroupError::InvalidRequest { reason: reason.into() }
}

/// Refuses requests that no group could accept.
pub(super) fn check(beat: &ConsumerHeartbeat, assignors: &[String]) -> Result<(), GroupError> {
    let set_but_empty = |text: Option<&str>| text.is_some_and(str::is_empty);
    if beat.member.is_empty() {
        return Err(invalid("The member id must not be empty."));
    }
    if set_but_empty(beat.instance.as_deref()) {
        return Err(invalid("The instance id must not be empty if it is given."));
    }
    if set_but_empty(beat.rack.as_deref()) {
        return Err(invalid("The rack id must not be empty if it is given."));
    }
    let names = [&*beat.member, beat.instance.as_deref().unwrap_or_default(), &beat.client.client_id];
    let names = names.into_iter().chain([beat.rack.as_deref().unwrap_or_default()]);
    if names.into_iter().any(|name| name.len() > MEMBER_ID_BYTES_MAX) {
        return Err(GroupError::TooMany { what: "bytes of an id or name", max: MEMBER_ID_BYTES_MAX });
    }
    match beat.epoch {
        EPOCH_JOIN => check_join(beat)?,
        EPOCH_AWAY if beat.instance.is_none() => {
            return Err(invalid("Only a static member, which has an instance id, leaves with epoch -2."));
        }
        epoch if epoch < EPOCH_AWAY => {
            return Err(invalid(format!("The member epoch is {epoch}; the lowest valid epoch is -2.")));
        }
        _ => {}
    }
    if beat.topics.as_ref().is_some_and(|topics| topics.len() > SUBSCRIBED_NAMES_MAX) {
        return Err(GroupError::TooMany { what: "subscribed topics of a member", max: SUBSCRIBED_NAMES_MAX });
    }
    match &beat.assignor {
        Some(name) if !assignors.contains(name) || ConsumerAssignor::of_name(name).is_none() => {
            let known = assignors.join(", ");
            let reason = format!("The server assignor '{name}' is not supported, only these are: {known}.");
            Err(GroupError::UnsupportedAssignor { reason })
        }
        _ => Ok(()),
    }
}

fn check_join(beat: &ConsumerHeartbeat) -> Result<(), GroupError> {
    if beat.rebalance_timeout_ms.is_none() {
        return Err(invalid("A member must give its rebalance timeout when it joins."));
    }
    if beat.owned.as_ref().is_none_or(|owned| !owned.is_empty()) {
        return Err(invalid("A member must report that it has no partitions when it joins."));
    }
    if beat.topics.is_none() && beat.expression.is_none() {
        return Err(invalid(
            "A member must subscribe to names of topics or to a regular expression when it joins.",
        ));
    }
    Ok(())
}

/// Checks the member's epoch. The previous epoch is accepted, too, from a member that missed its last reply
/// and owns only partitions of its assignment.
fn check_epoch(member: &Member, epoch: i32, owned: &Reported) -> Result<(), GroupError> {
    let standing = &member.standing;
    let is_behind = epoch == standing.previous_epoch && epoch < standing.epoch;
    if epoch == EPOCH_JOIN || epoch == standing.epoch || (is_behind && is_part(owned, &standing.assigned)) {
        return Ok(());
    }
    Err(GroupError::FencedMemberEpoch { expected: standing.epoch, found: epoch })
}

fn is_part(owned: &Reported, assigned: &Held) -> bool {
    let Some(owned) = owned else { return false };
    owned.iter().all(|(topic, partitions)| {
        let assigned = assigned.get(topic);
        partitions.iter().all(|partition| assigned.is_some_and(|assigned| assigned.contains_key(partition)))
    })
}

/// Returns the member's details after a heartbeat. Fields that it does not send have not changed.
fn details_after(before: &ConsumerGroupMember, beat: &ConsumerHeartbeat) -> ConsumerGroupMember {
    let mut details = before.clone();
    details.client_id.clone_from(&beat.client.client_id);
    details.client_host.clone_from(&beat.client.client_host);
    details.classic = None;
    if let Some(instance) = &beat.instance {
        details.instance_id = Some((**instance).to_owned());
    }
    if let Some(rack) = &beat.rack {
        details.rack_id = Some(rack.clone());
    }
    if let Some(timeout) = beat.rebalance_timeout_ms {
        details.rebalance_timeout_ms = timeout;
    }
    if let Some(topics) = &beat.topics {
        details.subscribed_topic_names.clone_from(topics);
        details.subscribed_topic_names.sort_unstable();
        details.subscribed_topic_names.dedup();
    }
    if let Some(expression) = &beat.expression {
        details.subscribed_topic_regex = Some(expression.clone());
    }
    if let Some(assignor) = &beat.assignor {
        details.server_assignor = Some(assignor.clone());
    }
    details
}

/// The sender of a heartbeat.
enum Sender {
    /// A known member, perhaps under the id of a static member that it replaced.
    Known(Arc<str>),
    /// A member that takes the place of a static one.
    Replaces(Arc<str>),
    New,
}

impl Turn<'_> {
    /// Handles a member that joins or stays. A refusal changes nothing.
    pub(super) fn heartbeat(&mut self, beat: &ConsumerHeartbeat) -> Result<HeartbeatAnswer, GroupError> {
        let sender = self.sender(beat)?;
        if matches!(sender, Sender::New) {
            self.refuse_if_full(&beat.member)?;
        }
        let known = match &sender {
            Sender::Known(id) | Sender::Replaces(id) => self.group.members.get(id),
            Sender::New => None,
        };
        let blank = ConsumerGroupMember { rebalance_timeout_ms: -1, ..ConsumerGroupMember::default() };
        let before = known.map_or(&blank, |member| &member.details);
        let details = details_after(before, beat);
        self.check_expression(&details)?;

        let had = known.map(|member| member.standing.assigned.clone()).unwrap_or_default();
        let id = &beat.member;
        if let Sender::Replaces(old) = &sender {
            self.replace(old, id);
        }
        let is_new = self.group.epoch == 0;
        let changed = self.update_details(id, details);
        let resolved = self.refresh_expressions(&beat.seen);
        self.bump_if(is_new || changed || resolved);
        self.assign_if_due();
        self.reconcile(id, changed, &beat.owned);
        self.clear(super::ConsumerTimer::Join(Arc::clone(id)));
        self.clear(super::ConsumerTimer::Sync(Arc::clone(id)));
        self.keep_alive(id);
        Ok(self.answer(beat, &had))
    }

    /// Returns the reply: the member's whole assignment if it has changed, or if the member asks for it.
    fn answer(&self, beat: &ConsumerHeartbeat, had: &Held) -> HeartbeatAnswer {
        let standing = self.group.members.get(&beat.member).map(|member| member.standing.clone());
        let standing = standing.unwrap_or_default();
        let is_full = beat.rebalance_timeout_ms.is_some()
            && (beat.topics.is_some() || beat.expression.is_some())
            && beat.owned.is_some();
        let wanted =
            is_full || beat.epoch == EPOCH_JOIN || partitions_of(had) != partitions_of(&standing.assigned);
        HeartbeatAnswer {
            member: Arc::clone(&beat.member),
            epoch: standing.epoch,
            heartbeat_interval_ms: self.settings.heartbeat_interval_ms,
            assignment: wanted.then(|| partitions_of(&standing.assigned)),
        }
    }

    pub(super) fn refuse_if_full(&self, member: &str) -> Result<(), GroupError> {
        let max = self.settings.members_max;
        if self.group.members.len() >= max && !self.group.members.contains_key(member) {
            return Err(GroupError::GroupFull { max });
        }
        Ok(())
    }

    pub(super) fn unknown(&self, member: &Arc<str>) -> GroupError {
        GroupError::UnknownMember { group: Arc::clone(self.id), member: Arc::clone(member) }
    }

    fn sender(&self, beat: &ConsumerHeartbeat) -> Result<Sender, GroupError> {
        let joins = beat.epoch == EPOCH_JOIN;
        let Some(instance) = &beat.instance else {
            return match self.group.members.get(&beat.member) {
                Some(member) => {
                    check_epoch(member, beat.epoch, &beat.owned)?;
                    Ok(Sender::Known(Arc::clone(&beat.member)))
                }
                None if joins => Ok(Sender::New),
                None => Err(self.unknown(&beat.member)),
            };
        };
        let owner = self.group.instances.get(instance);
        match owner.and_then(|id| Some((id, self.group.members.get(id)?))) {
            None if joins => Ok(Sender::New),
            None => Err(self.unknown(&beat.member)),
            Some((id, member)) if *id == beat.member => {
                check_epoch(member, beat.epoch, &beat.owned)?;
                Ok(Sender::Known(Arc::clone(id)))
            }
            Some((id, member)) if joins => {
                // A classic member never announced that it would come back.
                if member.standing.epoch != EPOCH_AWAY && !member.is_classic() {
                    let (instance, owner) = (Arc::clone(instance), Arc::clone(id));
                    return Err(GroupError::UnreleasedInstance { instance, owner });
                }
                Ok(Sender::Replaces(Arc::clone(id)))
            }
            Some(_) => Err(GroupError::FencedInstance { instance: Arc::clone(instance) }),
        }
    }

    fn check_expression(&self, details: &ConsumerGroupMember) -> Result<(), GroupError> {
        let Some(pattern) = expression_of(details) else { return Ok(()) };
        if self.group.expressions.contains_key(pattern) {
            return Ok(());
        }
        let max = expression::EXPRESSIONS_PER_GROUP_MAX;
        if self.group.expressions.len() >= max {
            let reason = format!("The group already has {max} different regular expressions, the maximum.");
            return Err(GroupError::InvalidRegularExpression { reason });
        }
        expression::check(pattern)
    }

    /// Puts a member in the place of a static one. It gets the other's partitions, and has to catch up with
    /// the group.
    pub(super) fn replace(&mut self, old: &Arc<str>, new: &Arc<str>) {
        let Some(member) = self.group.members.get(old) else { return };
        let details = member.details.clone();
        let mut standing = member.standing.clone();
        (standing.epoch, standing.previous_epoch) = (EPOCH_JOIN, EPOCH_JOIN);
        standing.revoking = Held::new();
        standing.state = super::reconcile::MemberState::Stable;
        let target = self.group.targets.get(old).cloned();
        self.clear_timers_of(old);
        self.group.remove_member(old, &mut self.journal);
        self.group.set_details(new, details, &mut self.journal);
        if let Some(target) = target {
            self.group.set_target(new, target, &mut self.journal);
        }
        self.group.set_standing(new, standing, &mut self.journal);
    }

    /// Returns the member that wants to leave. Its epoch is not checked: any client that knows a member's id
    /// may remove it.
    pub(super) fn leaver(
        &self,
        member: &Arc<str>,
        instance: Option<&Arc<str>>,
    ) -> Result<Arc<str>, GroupError> {
        let Some(instance) = instance else {
            let known = self.group.members.get_key_value(member);
            return known.map(|(id, _)| Arc::clone(id)).ok_or_else(|| self.unknown(member));
        };
        match self.group.instances.get(instance) {
            None => Err(self.unknown(member)),
            Some(owner) if owner != member => {
                Err(GroupError::FencedInstance { instance: Arc::clone(instance) })
            }
            Some(owner) => Ok(Arc::clone(owner)),
        }
    }

    /// Handles a static member that leaves and will come back. It keeps its partitions until its session
    /// ends.
    pub(super) fn go_away(&mut self, id: &Arc<str>) {
        let Some(member) = self.group.members.get(id) else { return };
        let standing = Standing { epoch: EPOCH_AWAY, revoking: Held::new(), ..member.standing.clone() };
        self.group.set_standing(id, standing, &mut self.journal);
        self.clear(super::ConsumerTimer::Rebalance(Arc::clone(id)));
    }
}

/// Returns the reply to a member that leaves.
pub(super) fn goodbye(beat: &ConsumerHeartbeat) -> HeartbeatAnswer {
    HeartbeatAnswer {
        member: shared(&beat.member),
        epoch: beat.epoch,
        heartbeat_interval_ms: 0,
        assignment: None,
    }
}
