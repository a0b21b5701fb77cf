//! ShareGroupHeartbeat, and the common steps of decisions about a share group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tailrace_records::internal::ShareGroupMember;
use tailrace_types::{TimestampMs, TopicId};

use super::event::OpenedStates;
use super::event::{ShareHeartbeat, ShareTimer, ShareWork};
use super::group::{Member, ShareGroup};
use super::states::{StateDeletion, States};
use crate::coordinator::{CoordinatorRecord, Moment};
use crate::groups::assignors::{AssignmentMember, AssignmentTask, Partitions, assign_shares};
use crate::groups::error::GroupError;
use crate::groups::journal::Journal;
use crate::groups::limits::{MEMBER_ID_BYTES_MAX, SUBSCRIBED_NAMES_MAX};
use crate::groups::member::{EPOCH_JOIN, EPOCH_LEAVE, HeartbeatAnswer};
use crate::groups::timers::{GroupTimer, Timers};
use crate::groups::topics::hash_of_topics;

/// Refuses requests that no group could accept.
pub(super) fn check(beat: &ShareHeartbeat) -> Result<(), GroupError> {
    let invalid = |reason: String| Err(GroupError::InvalidRequest { reason });
    if beat.member.is_empty() {
        return invalid("The member id must not be empty.".to_owned());
    }
    if beat.rack.as_deref().is_some_and(str::is_empty) {
        return invalid("The rack id must not be empty if it is given.".to_owned());
    }
    let names = [&*beat.member, &beat.client.client_id, beat.rack.as_deref().unwrap_or_default()];
    if names.iter().any(|name| name.len() > MEMBER_ID_BYTES_MAX) {
        return Err(GroupError::TooMany { what: "bytes of an id or name", max: MEMBER_ID_BYTES_MAX });
    }
    if beat.epoch < EPOCH_LEAVE {
        return invalid(format!("The member epoch is {}; the lowest valid epoch is -1.", beat.epoch));
    }
    match &beat.topics {
        Some(topics) if topics.len() > SUBSCRIBED_NAMES_MAX => {
            Err(GroupError::TooMany { what: "subscribed topics of a member", max: SUBSCRIBED_NAMES_MAX })
        }
        None if beat.epoch == EPOCH_JOIN => {
            invalid("A member must subscribe to names of topics when it joins.".to_owned())
        }
        Some(topics) if topics.is_empty() && beat.epoch == EPOCH_JOIN => {
            invalid("A member must subscribe to at least one topic when it joins.".to_owned())
        }
        _ => Ok(()),
    }
}

/// A group, with everything that a decision about it needs.
pub(super) struct Turn<'a> {
    id: &'a Arc<str>,
    group: &'a mut ShareGroup,
    timers: &'a mut Timers,
    moment: &'a Moment<'a>,
    journal: Journal<'a>,
    work: Vec<ShareWork>,
}

impl<'a> Turn<'a> {
    pub(super) fn new(
        id: &'a Arc<str>,
        group: &'a mut ShareGroup,
        timers: &'a mut Timers,
        moment: &'a Moment<'a>,
    ) -> Self {
        Self { id, group, timers, moment, journal: Journal::new(id), work: Vec::new() }
    }

    /// Returns the records to write and the work to do.
    pub(super) fn finish(self) -> (Vec<CoordinatorRecord>, Vec<ShareWork>) {
        (self.journal.into_records(), self.work)
    }

    fn set(&mut self, timer: ShareTimer, ms: i64) {
        let deadline = TimestampMs(self.moment.now.0.saturating_add(ms));
        self.timers.set(self.id, GroupTimer::Share(timer), deadline);
    }

    fn clear(&mut self, timer: ShareTimer) {
        self.timers.clear(self.id, GroupTimer::Share(timer));
    }

    /// Extends the member's session. A timer that expires earlier is not changed; when it expires, it is set
    /// again.
    fn keep_alive(&mut self, member: &Arc<str>) {
        let session = i64::from(self.moment.image.group_config(self.id).share_session_timeout_ms);
        let until = TimestampMs(self.moment.now.0.saturating_add(session));
        let Some(known) = self.group.members.get_mut(member) else { return };
        let before = known.alive_until.replace(until);
        if before.is_none_or(|before| until < before) {
            self.set(ShareTimer::Session(Arc::clone(member)), session);
        }
    }

    /// Reports whether the member's session has ended. If not, sets the timer again.
    pub(super) fn is_overdue(&mut self, member: &Arc<str>) -> bool {
        let until = self.group.members.get(member).and_then(|member| member.alive_until);
        let Some(until) = until else { return false };
        let left = until.since(self.moment.now);
        if left > 0 {
            self.set(ShareTimer::Session(Arc::clone(member)), left);
        }
        left <= 0
    }

    pub(super) fn loaded(&mut self) {
        self.group.has_fresh_states = true;
        for member in self.group.members.keys().cloned().collect::<Vec<_>>() {
            self.keep_alive(&member);
        }
        self.delete_again();
    }

    /// Handles a member that joins or stays. A refusal changes nothing.
    pub(super) fn heartbeat(&mut self, beat: &ShareHeartbeat) -> Result<HeartbeatAnswer, GroupError> {
        let id = &beat.member;
        match self.group.members.get(id) {
            Some(member) => check_epoch(member, beat.epoch)?,
            None if beat.epoch == EPOCH_JOIN => self.refuse_if_full()?,
            None => return Err(self.unknown(id)),
        }
        let before = self.group.members.get(id).cloned().unwrap_or_default();
        let details = details_after(&before.details, beat);
        let changed = before.details.subscribed_topic_names != details.subscribed_topic_names;
        if before.details != details || !self.group.members.contains_key(id) {
            self.group.set_details(id, details, &mut self.journal);
        }
        self.drop_states_of_deleted_topics();
        self.delete_again();
        let is_new = self.group.epoch == 0;
        let has_more = std::mem::take(&mut self.group.has_fresh_states) && self.has_unassigned_states();
        self.bump_if(is_new || changed || has_more);
        self.ask_for_states();
        self.assign_if_due();
        self.catch_up(id);
        self.keep_alive(id);
        Ok(self.answer(beat, &before))
    }

    fn answer(&self, beat: &ShareHeartbeat, before: &Member) -> HeartbeatAnswer {
        let now = self.group.members.get(&beat.member).cloned().unwrap_or_default();
        let wanted = beat.epoch == EPOCH_JOIN || beat.topics.is_some() || before.assigned != now.assigned;
        HeartbeatAnswer {
            member: Arc::clone(&beat.member),
            epoch: now.epoch,
            heartbeat_interval_ms: self.moment.image.group_config(self.id).share_heartbeat_interval_ms,
            assignment: wanted.then_some(now.assigned),
        }
    }

    pub(super) fn leave(&mut self, beat: &ShareHeartbeat) -> Result<HeartbeatAnswer, GroupError> {
        if !self.group.members.contains_key(&beat.member) {
            return Err(self.unknown(&beat.member));
        }
        self.remove(&beat.member);
        let (member, epoch) = (Arc::clone(&beat.member), beat.epoch);
        Ok(HeartbeatAnswer { member, epoch, ..HeartbeatAnswer::default() })
    }

    /// Removes a member.
    pub(super) fn remove(&mut self, id: &Arc<str>) {
        self.clear(ShareTimer::Session(Arc::clone(id)));
        self.group.forget_current(id, &mut self.journal);
        self.group.forget_target(id, &mut self.journal);
        self.group.forget_details(id, &mut self.journal);
        self.bump_if(true);
    }

    /// Removes a member whose session has ended, and releases its records.
    pub(super) fn remove_silent(&mut self, member: Arc<str>) {
        self.remove(&member);
        self.work.push(ShareWork::ReleaseMember { group: Arc::clone(self.id), member });
    }

    fn refuse_if_full(&self) -> Result<(), GroupError> {
        let max = usize::try_from(self.moment.image.broker().group_share_max_size).unwrap_or(0);
        if self.group.members.len() >= max { Err(GroupError::GroupFull { max }) } else { Ok(()) }
    }

    fn unknown(&self, member: &Arc<str>) -> GroupError {
        GroupError::UnknownMember { group: Arc::clone(self.id), member: Arc::clone(member) }
    }

    /// Starts another epoch if something has changed, or the topics that the members name.
    fn bump_if(&mut self, changed: bool) {
        let seen = self.group.seen.upgrade();
        if !changed && seen.is_some_and(|seen| Arc::ptr_eq(&seen, self.moment.image)) {
            return;
        }
        self.group.seen = Arc::downgrade(self.moment.image);
        let hash = hash_of_topics(self.group.names.keys().map(String::as_str), self.moment.image);
        if changed || hash != self.group.metadata_hash {
            let epoch = self.group.epoch.checked_add(1).unwrap_or(1);
            self.group.set_epoch(epoch, hash, &mut self.journal);
        }
    }

    /// Returns the existing topics that members read, with the partitions that have a state.
    fn assignable(&self) -> Partitions {
        let topics = self.group.names.keys().filter_map(|name| self.moment.image.topic(name));
        let states = topics.filter_map(|topic| {
            let states = self.group.states.topics.get(&topic.id)?;
            let ready = states.initialized.iter().copied().filter(|number| *number < topic.partitions);
            Some((topic.id, ready.collect::<Vec<_>>()))
        });
        states.filter(|(_, partitions)| !partitions.is_empty()).collect()
    }

    /// Reports whether partitions with a state are missing from the last target assignment.
    fn has_unassigned_states(&self) -> bool {
        if self.group.members.is_empty() || self.group.epoch > self.group.target_epoch {
            return false;
        }
        let mut assigned: BTreeMap<TopicId, BTreeSet<i32>> = BTreeMap::new();
        for (topic, partitions) in self.group.targets.values().flatten() {
            assigned.entry(*topic).or_default().extend(partitions);
        }
        self.assignable().iter().any(|(topic, partitions)| {
            assigned
                .get(topic)
                .is_none_or(|assigned| partitions.iter().any(|number| !assigned.contains(number)))
        })
    }

    /// Requests the states of partitions that are read and have none, and repeats requests that were not
    /// answered.
    fn ask_for_states(&mut self) {
        let retry = i64::from(self.moment.image.broker().group_share_initialize_retry_interval_ms);
        let now = self.moment.now;
        let mut states = None;
        let mut wanted = Vec::new();
        for topic in self.group.names.keys().filter_map(|name| self.moment.image.topic(name)) {
            // States that are being deleted are requested again once they are gone.
            if self.group.states.is_deleting(topic.id) {
                continue;
            }
            let known = self.group.states.topics.get(&topic.id);
            let is_missing = |number: &i32| {
                known.is_none_or(|known| {
                    let asked = known.asked.get(number);
                    let waits = asked.is_some_and(|at| *at != TimestampMs::NONE && now.since(*at) < retry);
                    !known.initialized.contains(number) && !waits
                })
            };
            let missing: Vec<i32> = (0..topic.partitions).filter(is_missing).collect();
            if missing.is_empty() {
                continue;
            }
            let states = states.get_or_insert_with(|| self.group.states.clone());
            states.ask(topic, &missing, now, self.moment);
            wanted.push((topic.id, missing));
        }
        if let Some(states) = states {
            let (group, generation) = (Arc::clone(self.id), states.generation);
            self.group.set_states(states, &mut self.journal);
            self.work.push(ShareWork::InitializeStates { group, generation, topics: wanted });
        }
    }

    /// Repeats deletions of states that were started and not confirmed.
    fn delete_again(&mut self) {
        if !self.group.states.deletes_some() {
            return;
        }
        let retry = i64::from(self.moment.image.broker().group_share_initialize_retry_interval_ms);
        let mut states = self.group.states.clone();
        let Some(deletion) = states.overdue(retry, self.moment) else { return };
        self.put_states(states);
        self.work.push(ShareWork::DeleteStates { group: Arc::clone(self.id), deletion });
    }

    /// Stores states, and writes them if their record has changed.
    fn put_states(&mut self, states: States) {
        if states.to_record() == self.group.states.to_record() {
            self.group.states = states;
        } else {
            self.group.set_states(states, &mut self.journal);
        }
    }

    /// Drops the states of deleted topics. The share coordinator drops them by itself, too.
    fn drop_states_of_deleted_topics(&mut self) {
        if self.group.states.all_exist_in(self.moment.image) {
            return;
        }
        let mut states = self.group.states.clone();
        states.drop_topics_without(self.moment.image);
        self.group.set_states(states, &mut self.journal);
    }

    /// Records that states have been initialized.
    pub(super) fn states_initialized(&mut self, generation: i64, topics: &[(TopicId, Vec<i32>)]) {
        if generation != self.group.states.generation {
            return;
        }
        let mut states = self.group.states.clone();
        states.made(topics, self.moment.image);
        if states != self.group.states {
            self.group.set_states(states, &mut self.journal);
            self.group.has_fresh_states = true;
        }
    }

    /// Prepares the group for an administrator that sets offsets. A group created for that has no members and
    /// an empty assignment.
    pub(super) fn open(&mut self, topics: &[(TopicId, Vec<i32>)]) -> Result<OpenedStates, GroupError> {
        self.refuse_members()?;
        if self.group.is_blank() {
            self.bump_if(true);
            let (epoch, now) = (self.group.epoch, self.moment.now.0);
            self.group.set_target_epoch(epoch, now, &mut self.journal);
        }
        self.delete_again();
        let mut states = self.group.states.clone();
        let (mut asked, mut deleting) = (BTreeSet::new(), Vec::new());
        for (id, partitions) in topics {
            let Some(topic) = self.moment.image.topic_by_id(*id) else { continue };
            if states.is_deleting(*id) {
                deleting.push(*id);
                continue;
            }
            let known = states.topics.get(id);
            let has_state = |number: &i32| known.is_some_and(|known| known.initialized.contains(number));
            let is_missing = |number: &i32| (0..topic.partitions).contains(number) && !has_state(number);
            let missing: Vec<i32> = partitions.iter().copied().filter(is_missing).collect();
            if !missing.is_empty() {
                states.ask(topic, &missing, TimestampMs::NONE, self.moment);
            }
            asked.extend(missing.into_iter().map(|number| (*id, number)));
        }
        let generation = states.generation;
        self.put_states(states);
        Ok(OpenedStates { generation, missing: asked, deleting })
    }

    /// Starts to delete the states of topics, or all states if `topics` is `None`.
    pub(super) fn delete_states(&mut self, topics: Option<&[TopicId]>) -> Result<StateDeletion, GroupError> {
        self.refuse_members()?;
        self.drop_states_of_deleted_topics();
        let mut states = self.group.states.clone();
        let deletion = states.delete(topics, self.moment);
        self.put_states(states);
        Ok(deletion)
    }

    /// Records that the states of topics have been deleted.
    pub(super) fn states_deleted(&mut self, upto: i64, topics: &[TopicId]) {
        let mut states = self.group.states.clone();
        states.deleted(upto, topics);
        self.put_states(states);
    }

    fn refuse_members(&self) -> Result<(), GroupError> {
        if self.group.members.is_empty() {
            Ok(())
        } else {
            Err(GroupError::NonEmptyGroup { group: Arc::clone(self.id) })
        }
    }

    /// Computes a new target assignment if there is another epoch and it is time.
    pub(super) fn assign_if_due(&mut self) {
        if self.group.epoch <= self.group.target_epoch || self.group.members.is_empty() {
            return;
        }
        let interval = i64::from(self.moment.image.group_config(self.id).share_assignment_interval_ms);
        let since = self.moment.now.0.saturating_sub(self.group.target_made_at);
        if self.group.target_made_at == 0 || !(0..interval).contains(&since) {
            self.assign();
        } else if !self.timers.is_set(self.id, GroupTimer::Share(ShareTimer::Assign)) {
            self.set(ShareTimer::Assign, interval - since);
        }
    }

    fn assign(&mut self) {
        self.clear(ShareTimer::Assign);
        let topics = self.assignable();
        let mut subscriptions: BTreeMap<&[String], Arc<[TopicId]>> = BTreeMap::new();
        let mut members = Vec::with_capacity(self.group.members.len());
        for (id, member) in &self.group.members {
            let names = &member.details.subscribed_topic_names[..];
            let read = subscriptions.entry(names).or_insert_with(|| {
                let known =
                    names.iter().filter_map(|name| self.moment.image.topic(name)).map(|topic| topic.id);
                known.collect::<BTreeSet<_>>().into_iter().collect()
            });
            let current = self.group.targets.get(id);
            members.push(AssignmentMember { id, instance: None, topics: Arc::clone(read), current });
        }
        let targets = assign_shares(&AssignmentTask { topics: &topics, members });
        let ids: Vec<_> = self.group.members.keys().cloned().collect();
        for (id, target) in ids.iter().zip(targets) {
            if self.group.targets.get(id) != Some(&target) {
                self.group.set_target(id, target, &mut self.journal);
            }
        }
        // The epoch comes last. If the log ends before it, the assignment is computed again.
        let (epoch, now) = (self.group.epoch, self.moment.now.0);
        self.group.set_target_epoch(epoch, now, &mut self.journal);
    }

    /// Gives the member its target assignment.
    fn catch_up(&mut self, id: &Arc<str>) {
        let Some(member) = self.group.members.get(id) else { return };
        let target = self.group.targets.get(id).cloned().unwrap_or_default();
        let reads = |topic: &TopicId| {
            let name = self.moment.image.topic_by_id(*topic).map(|topic| topic.name.as_str().to_owned());
            name.is_some_and(|name| member.details.subscribed_topic_names.binary_search(&name).is_ok())
        };
        let assigned: Partitions = target.into_iter().filter(|(topic, _)| reads(topic)).collect();
        let epoch = self.group.target_epoch;
        if member.epoch != epoch || member.assigned != assigned {
            let previous = member.epoch;
            self.group.set_current(id, epoch, previous, assigned, &mut self.journal);
        }
    }
}

fn check_epoch(member: &Member, epoch: i32) -> Result<(), GroupError> {
    if epoch == EPOCH_JOIN || epoch == member.epoch || epoch == member.previous_epoch && epoch < member.epoch
    {
        return Ok(());
    }
    Err(GroupError::FencedMemberEpoch { expected: member.epoch, found: epoch })
}

fn details_after(before: &ShareGroupMember, beat: &ShareHeartbeat) -> ShareGroupMember {
    let mut details = before.clone();
    details.client_id.clone_from(&beat.client.client_id);
    details.client_host.clone_from(&beat.client.client_host);
    if let Some(rack) = &beat.rack {
        details.rack_id = Some(rack.clone());
    }
    if let Some(topics) = &beat.topics {
        details.subscribed_topic_names.clone_from(topics);
        details.subscribed_topic_names.sort_unstable();
        details.subscribed_topic_names.dedup();
    }
    details
}
