//! The context of decisions about a consumer group, and the steps that many of them share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tailrace_records::internal::ConsumerGroupMember;
use tailrace_types::{TimestampMs, TopicId};

use super::event::{ConsumerTimer, SeenTopics};
use super::expression;
use super::group::{ConsumerGroup, Resolved};
use super::member::expression_of;
use super::reconcile::{Goal, MemberState, Reported};
use super::settings::Settings;
use crate::coordinator::Moment;
use crate::groups::assignors::{AssignmentMember, AssignmentTask, ConsumerAssignor, Partitions};
use crate::groups::journal::Journal;
use crate::groups::timers::{GroupTimer, Timers};

/// Minimum time between two resolutions of regular expressions, in milliseconds. Topics that are created one
/// after the other cause one rebalance, not one each.
const REGEX_REFRESH_MIN_MS: i64 = 1_000;

/// A member's subscription.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Subscribed<'a> {
    /// Topic names.
    names: &'a [String],
    /// A regular expression.
    pattern: Option<&'a str>,
}

/// A group, with everything that a decision about it needs.
pub(super) struct Turn<'a> {
    pub(super) id: &'a Arc<str>,
    pub(super) group: &'a mut ConsumerGroup,
    pub(super) timers: &'a mut Timers,
    pub(super) moment: &'a Moment<'a>,
    pub(super) settings: Settings<'a>,
    pub(super) journal: Journal<'a>,
}

impl<'a> Turn<'a> {
    pub(super) fn new(
        id: &'a Arc<str>,
        group: &'a mut ConsumerGroup,
        timers: &'a mut Timers,
        moment: &'a Moment<'a>,
    ) -> Self {
        let settings = Settings::of(moment.image, id);
        Self { id, group, timers, moment, settings, journal: Journal::new(id) }
    }

    pub(super) fn set(&mut self, timer: ConsumerTimer, ms: i64) {
        let deadline = TimestampMs(self.moment.now.0.saturating_add(ms));
        self.timers.set(self.id, GroupTimer::Consumer(timer), deadline);
    }

    pub(super) fn is_set(&self, timer: ConsumerTimer) -> bool {
        self.timers.is_set(self.id, GroupTimer::Consumer(timer))
    }

    pub(super) fn clear(&mut self, timer: ConsumerTimer) {
        self.timers.clear(self.id, GroupTimer::Consumer(timer));
    }

    /// Returns the member's session timeout in milliseconds.
    fn session_of(&self, member: &str) -> i64 {
        let classic = self.group.members.get(member).and_then(|member| member.details.classic.as_ref());
        classic.map_or(self.settings.session_timeout_ms, |classic| classic.session_timeout_ms).into()
    }

    /// Extends the member's session. A timer that expires earlier is not changed; when it expires, it is set
    /// again.
    pub(super) fn keep_alive(&mut self, member: &Arc<str>) {
        let session = self.session_of(member);
        let until = TimestampMs(self.moment.now.0.saturating_add(session));
        let Some(known) = self.group.members.get_mut(member) else { return };
        let before = known.alive_until.replace(until);
        if before.is_none_or(|before| until < before) {
            self.set(ConsumerTimer::Session(Arc::clone(member)), session);
        }
    }

    /// Reports whether the member's session has ended. If not, sets the timer again.
    pub(super) fn is_overdue(&mut self, member: &Arc<str>) -> bool {
        let Some(until) = self.group.members.get(member).and_then(|member| member.alive_until) else {
            return false;
        };
        let left = until.since(self.moment.now);
        if left > 0 {
            self.set(ConsumerTimer::Session(Arc::clone(member)), left);
        }
        left <= 0
    }

    /// Clears all timers of the member.
    pub(super) fn clear_timers_of(&mut self, member: &Arc<str>) {
        for timer in
            [ConsumerTimer::Session, ConsumerTimer::Rebalance, ConsumerTimer::Join, ConsumerTimer::Sync]
        {
            self.clear(timer(Arc::clone(member)));
        }
    }

    /// Updates a member's details. Returns true if its subscription has changed.
    pub(super) fn update_details(&mut self, id: &Arc<str>, details: ConsumerGroupMember) -> bool {
        let before = self.group.members.get(id).map(|member| &member.details);
        let (names, pattern) = before
            .map_or((&[][..], None), |before| (&before.subscribed_topic_names[..], expression_of(before)));
        let changed = names != details.subscribed_topic_names || pattern != expression_of(&details);
        if before != Some(&details) {
            self.group.set_details(id, details, &mut self.journal);
        }
        if changed {
            self.group.forget_unused_expressions(&mut self.journal);
        }
        changed
    }

    /// Resolves the group's expressions again, if their matches may have changed. Returns true if they have.
    ///
    /// As in Kafka, the member whose heartbeat comes first decides which topics are `seen`.
    pub(super) fn refresh_expressions(&mut self, seen: &SeenTopics) -> bool {
        if self.group.expressions.is_empty() {
            return false;
        }
        let oldest = self.group.resolved.values().map(|resolved| resolved.at).min();
        let age = oldest.map_or(i64::MAX, |oldest| self.moment.now.since(oldest));
        let unresolved = self.group.expressions.keys().any(|one| !self.group.resolved.contains_key(one));
        let stale = is_other(&self.group.seen_by_expressions, self.moment) && age >= REGEX_REFRESH_MIN_MS;
        let due = stale || age >= self.settings.regex_refresh_interval_ms.into();
        if !unresolved && !due {
            return false;
        }
        if due {
            self.group.seen_by_expressions = Arc::downgrade(self.moment.image);
        }
        // A new expression is no reason to resolve all others again: compiling them takes long.
        let is_wanted = |one: &&String| due || !self.group.resolved.contains_key(*one);
        let wanted: Vec<_> = self.group.expressions.keys().filter(is_wanted).cloned().collect();
        let mut changed = false;
        for one in wanted {
            let topics = expression::resolve(&one, self.moment.image, seen);
            let differs = self.group.resolved.get(&one).is_none_or(|before| before.topics != topics);
            changed |= differs;
            if differs {
                let resolved = Resolved { topics, at: self.moment.now };
                self.group.set_resolved(&one, resolved, &mut self.journal);
            } else if let Some(same) = self.group.resolved.get_mut(&one) {
                // Not worth a record: after a restart it is resolved again.
                same.at = self.moment.now;
            }
        }
        changed
    }

    /// Starts another epoch if the subscriptions have changed, or the topics that they name.
    pub(super) fn bump_if(&mut self, changed: bool) {
        if !changed && !is_other(&self.group.seen, self.moment) {
            return;
        }
        self.group.seen = Arc::downgrade(self.moment.image);
        let hash = self.group.hash_of_topics(self.moment.image);
        if changed || hash != self.group.metadata_hash {
            self.bump_to(hash);
        }
    }

    fn bump_to(&mut self, hash: i64) {
        let epoch = self.group.epoch.checked_add(1).unwrap_or(1);
        self.group.set_epoch(epoch, hash, &mut self.journal);
    }

    /// Starts another epoch.
    pub(super) fn bump(&mut self) {
        let hash = self.group.hash_of_topics(self.moment.image);
        self.bump_to(hash);
    }

    /// Computes a new target assignment if there is another epoch and it is time.
    pub(super) fn assign_if_due(&mut self) {
        if self.group.epoch <= self.group.target_epoch || self.group.members.is_empty() {
            return;
        }
        let interval = i64::from(self.settings.assignment_interval_ms);
        let since = self.moment.now.0.saturating_sub(self.group.target_made_at);
        if self.group.target_made_at == 0 || interval == 0 || !(0..interval).contains(&since) {
            self.assign();
        } else if !self.is_set(ConsumerTimer::Assign) {
            self.set(ConsumerTimer::Assign, interval - since);
        }
    }

    fn assign(&mut self) {
        self.clear(ConsumerTimer::Assign);
        let assignments = self.compute_targets();
        for (id, target) in assignments {
            if self.group.targets.get(&id) != Some(&target) {
                self.group.set_target(&id, target, &mut self.journal);
            }
        }
        // The epoch comes last. If the log ends before it, the assignment is computed again.
        let (epoch, now) = (self.group.epoch, self.moment.now.0);
        self.group.set_target_epoch(epoch, now, &mut self.journal);
    }

    fn compute_targets(&self) -> Vec<(Arc<str>, Partitions)> {
        let group = &*self.group;
        let mut subscriptions: BTreeMap<Subscribed<'_>, Arc<[TopicId]>> = BTreeMap::new();
        let mut topics = Partitions::new();
        let mut members = Vec::with_capacity(group.members.len());
        for (id, member) in &group.members {
            let names = &member.details.subscribed_topic_names[..];
            let subscribed = Subscribed { names, pattern: member.expression() };
            let read =
                subscriptions.entry(subscribed).or_insert_with(|| self.topics_of(subscribed, &mut topics));
            members.push(AssignmentMember {
                id,
                instance: member.instance(),
                topics: Arc::clone(read),
                current: group.targets.get(id),
            });
        }
        let task = AssignmentTask { topics: &topics, members };
        let targets = self.assignor().assign(&task);
        group.members.keys().cloned().zip(targets).collect()
    }

    /// Returns the ids of the existing topics of a subscription, and adds their partitions to `known`.
    fn topics_of(&self, subscribed: Subscribed<'_>, known: &mut Partitions) -> Arc<[TopicId]> {
        let resolved = subscribed.pattern.and_then(|pattern| self.group.resolved.get(pattern));
        let matched = resolved.into_iter().flat_map(|resolved| resolved.topics.iter());
        let found = subscribed.names.iter().chain(matched).filter_map(|name| self.moment.image.topic(name));
        let mut ids = BTreeSet::new();
        for topic in found {
            ids.insert(topic.id);
            known.entry(topic.id).or_insert_with(|| (0..topic.partitions).collect());
        }
        ids.into_iter().collect()
    }

    /// Returns the name of the group's current assignor.
    pub(super) fn assignor_name(&self) -> &str {
        let preferred =
            self.group.preferred_assignor().filter(|name| ConsumerAssignor::of_name(name).is_some());
        preferred.or(self.settings.assignors.first().map(String::as_str)).unwrap_or("uniform")
    }

    fn assignor(&self) -> ConsumerAssignor {
        ConsumerAssignor::of_name(self.assignor_name()).unwrap_or(ConsumerAssignor::Uniform)
    }

    /// Moves a member as far towards its target as possible. `changed` means that its subscription has
    /// changed.
    pub(super) fn reconcile(&mut self, id: &Arc<str>, changed: bool, reported: &Reported) {
        let Some(member) = self.group.members.get(id) else { return };
        if !changed && member.has_arrived(self.group.target_epoch) {
            return;
        }
        let none = Partitions::new();
        let image = self.moment.image;
        let reads = |topic| {
            image
                .topic_by_id(topic)
                .is_some_and(|topic| self.group.lets_read(&member.details, topic.name.as_str()))
        };
        let goal = Goal {
            epoch: self.group.target_epoch,
            target: self.group.targets.get(id).unwrap_or(&none),
            reads: &reads,
            subscription_changed: changed,
            is_free: &|topic, partition| self.group.is_free_for(id, topic, partition),
            reported,
        };
        let next = member.standing.next(&goal);
        if next == member.standing {
            return;
        }
        let is_classic = member.is_classic();
        let timeout = i64::from(member.details.rebalance_timeout_ms.max(0));
        let revokes = next.state == MemberState::Unrevoked;
        self.group.set_standing(id, next, &mut self.journal);
        // Classic members have their own time limits.
        if revokes && !is_classic {
            self.set(ConsumerTimer::Rebalance(Arc::clone(id)), timeout);
        } else {
            self.clear(ConsumerTimer::Rebalance(Arc::clone(id)));
        }
    }

    /// Removes members. Their partitions are free from now on.
    pub(super) fn remove(&mut self, members: &[Arc<str>]) {
        for id in members {
            self.clear_timers_of(id);
            self.group.remove_member(id, &mut self.journal);
        }
        self.group.forget_unused_expressions(&mut self.journal);
        self.bump();
    }
}

/// Reports whether the metadata has changed since it was seen.
fn is_other(seen: &std::sync::Weak<tailrace_metadata::MetadataImage>, moment: &Moment<'_>) -> bool {
    seen.upgrade().is_none_or(|seen| !Arc::ptr_eq(&seen, moment.image))
}
