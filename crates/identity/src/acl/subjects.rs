//! One permission for two doors: the records of a topic are also messages on NATS subjects. A topic speaks on
//! its bindings, its own name, and everything below its name. A permission at one door must not be a way
//! around the lack of it at the other.
//!
//! * Kafka, READ (WRITE) of a topic: refused by a DENY for the topic, and by a DENY for a subject that
//!   collides with any of the topic's subjects. Allowed by an ALLOW for the topic, and by ALLOWs for subjects
//!   that cover all of the topic's subjects, each by one rule. Otherwise as in [`Authorizer::decide`], where
//!   rules for colliding subjects count as rules for the topic. A topic is read as a whole, so that records
//!   need not be selected one by one.
//! * NATS, READ (WRITE) of a subject of a topic: refused by a DENY for the subject or the topic, allowed by
//!   an ALLOW for one of them, otherwise the default.
//! * NATS, a subject of no topic: as in nats-server. A user without any ALLOW for this access may use every
//!   subject that no DENY matches. This opens no topic.
//!
//! Without rules for subjects, the first is StandardAuthorizer. Without rules for topics, the others are
//! nats-server's lists, with the difference that `rules` has. A user "has a list" if there is an ALLOW for
//! any address: a request from another address must not be freer. An ALLOW for everybody gives everybody a
//! list.

use std::borrow::Cow;
use std::cell::LazyCell;

use super::decide::{Authorizer, Decision, Reason, Requester, mask};
use super::lists::Listed;
use super::uses::{AUDIT_TOPIC, Access, SubjectUse, TopicSubjects};
use super::{Operation, ResourceKind};

/// What may be done with a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectAccess {
    /// Everything.
    Allowed,
    /// The subscription is let in, but some of its subjects are not allowed. Ask for each delivery.
    Filtered,
    /// Nothing.
    Refused,
}

/// The result of a decision on a subject, and the reason for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubjectDecision<'a> {
    /// What may be done.
    pub access: SubjectAccess,
    /// What decided: why nothing is allowed, or why something is.
    pub reason: Reason<'a>,
}

impl Authorizer {
    /// Decides on an operation on a topic by Kafka. DESCRIBE is also allowed if subjects would allow READ or
    /// WRITE. All other operations are about the topic's name alone, except that rules for colliding subjects
    /// count as rules for the topic where the default is asked.
    pub fn topic_by_kafka<B: AsRef<[u8]>>(
        &self,
        who: &Requester<'_>,
        operation: Operation,
        topic: TopicSubjects<'_, B>,
    ) -> Decision<'_> {
        if topic.name == AUDIT_TOPIC {
            return self.audit_topic(who, operation);
        }
        if self.is_super_user(who.user) {
            return Decision::SUPER_USER;
        }
        let found = self.find(who, operation, ResourceKind::Topic, topic.name);
        let denied = |access| self.colliding_deny(who, access, topic.patterns(), None);
        if let Some(acl) = found.deny.or_else(|| Access::of(operation).and_then(denied)) {
            return Decision::deny(acl);
        }
        let covered = || {
            let accesses = Access::allowing(operation);
            accesses.iter().find_map(|access| self.covering_allow(who, *access, topic.patterns()))
        };
        match found.allow.or_else(covered) {
            Some(acl) => Decision::allow(acl),
            None => self.by_default(
                self.acls.has_rules(ResourceKind::Topic, topic.name)
                    || topic.patterns().any(|pattern| self.acls.has_subject_rules(&pattern)),
            ),
        }
    }

    /// Returns the operations on a topic that are allowed by Kafka, like
    /// [`Authorizer::authorized_operations`].
    pub fn topic_operations<B: AsRef<[u8]>>(&self, who: &Requester<'_>, topic: TopicSubjects<'_, B>) -> i32 {
        mask(ResourceKind::Topic, |operation| self.topic_by_kafka(who, operation, topic).allowed)
    }

    /// Decides on binding a pattern of subjects to a topic, whatever is published on them and by whom.
    /// Allowed by one rule that covers the pattern, and refused by a DENY for a subject that collides with
    /// it. Otherwise the default. Stricter than a subscription: that a user has no list allows nothing here.
    pub fn binding(&self, who: &Requester<'_>, access: Access, pattern: &[u8]) -> Decision<'_> {
        if self.is_super_user(who.user) {
            return Decision::SUPER_USER;
        }
        let patterns = || std::iter::once(Cow::Borrowed(pattern));
        if let Some(acl) = self.colliding_deny(who, access, patterns(), None) {
            return Decision::deny(acl);
        }
        match self.covering_allow(who, access, patterns()) {
            Some(acl) => Decision::allow(acl),
            None => self.by_default(self.acls.has_subject_rules(pattern)),
        }
    }

    /// Decides on a publication, a subscription or a delivery by NATS. `topics` are those with a subject that
    /// `wanted.subject` matches, including the subjects of their names. Takes time for each of them, but
    /// stops when the result is clear.
    ///
    /// The result for a subject without wildcards is never [`SubjectAccess::Filtered`].
    pub fn subject_by_nats<'t, B: AsRef<[u8]> + 't>(
        &self,
        who: &Requester<'_>,
        wanted: SubjectUse<'_>,
        topics: impl IntoIterator<Item = TopicSubjects<'t, B>>,
    ) -> SubjectDecision<'_> {
        if self.is_super_user(who.user) {
            return SubjectDecision { access: SubjectAccess::Allowed, reason: Reason::SuperUser };
        }
        let listed = self.listed(who, wanted);
        if let Some(acl) = self.matching_deny(who, wanted) {
            return SubjectDecision { access: SubjectAccess::Refused, reason: Reason::Rule(acl) };
        }
        if let Listed::OtherQueues(acl) = listed {
            return SubjectDecision { access: SubjectAccess::Refused, reason: Reason::Rule(acl) };
        }
        let parts = self.parts(who, wanted, listed, topics);
        let subject = [Cow::Borrowed(wanted.subject)].into_iter();
        let denied = || self.colliding_deny(who, wanted.access, subject, wanted.queue).is_some();
        parts.decision(wanted.is_wild(), denied)
    }

    /// Decides on the wanted subjects of each topic, and on those of no topic.
    fn parts<'a, 't, B: AsRef<[u8]> + 't>(
        &'a self,
        who: &Requester<'_>,
        wanted: SubjectUse<'_>,
        listed: Listed<'a>,
        topics: impl IntoIterator<Item = TopicSubjects<'t, B>>,
    ) -> Parts<'a> {
        // A search that finds nothing may visit all rules for subjects, so it is done once and not per topic.
        let has_subject_rules = LazyCell::new(|| self.acls.has_subject_rules(wanted.subject));
        let (is_wild, mut is_inside) = (wanted.is_wild(), false);
        let mut parts = Parts::default();
        for topic in topics {
            is_inside |= topic.covers(wanted.subject);
            let found = self.find(who, wanted.access.operation(), ResourceKind::Topic, topic.name);
            parts.add(match (found.decision(), listed) {
                (Some(decision), _) => decision,
                (None, Listed::Allowed(acl)) => Decision::allow(acl),
                (None, _) => {
                    let has_rules = self.acls.has_rules(ResourceKind::Topic, topic.name);
                    self.by_default(has_rules || *has_subject_rules)
                }
            });
            if is_wild && parts.is_mixed() {
                return parts;
            }
        }
        if !is_inside {
            parts.add(part_of_no_topic(listed));
        }
        parts
    }
}

/// Decides on those of the wanted subjects that belong to no topic.
fn part_of_no_topic(listed: Listed<'_>) -> Decision<'_> {
    let reason = |has_rules| Reason::Default { has_rules };
    match listed {
        Listed::Allowed(acl) => Decision::allow(acl),
        Listed::NoList => Decision { allowed: true, reason: reason(false) },
        Listed::Missing | Listed::OtherQueues(_) => Decision { allowed: false, reason: reason(true) },
    }
}

/// The first parts of the wanted subjects that are allowed, and that are not.
#[derive(Default)]
struct Parts<'a> {
    allowed: Option<Reason<'a>>,
    refused: Option<Reason<'a>>,
}

impl<'a> Parts<'a> {
    fn add(&mut self, part: Decision<'a>) {
        let place = if part.allowed { &mut self.allowed } else { &mut self.refused };
        place.get_or_insert(part.reason);
    }

    fn is_mixed(&self) -> bool {
        self.allowed.is_some() && self.refused.is_some()
    }

    /// Decides on all parts together. `denied` says whether a DENY for subjects is about some of them.
    fn decision(self, is_wild: bool, denied: impl FnOnce() -> bool) -> SubjectDecision<'a> {
        let (access, reason) = match (self.allowed, self.refused) {
            (Some(reason), None) if is_wild && denied() => (SubjectAccess::Filtered, reason),
            (Some(reason), None) => (SubjectAccess::Allowed, reason),
            (Some(reason), Some(_)) if is_wild => (SubjectAccess::Filtered, reason),
            (_, Some(reason)) => (SubjectAccess::Refused, reason),
            (None, None) => (SubjectAccess::Refused, Reason::Default { has_rules: false }),
        };
        SubjectDecision { access, reason }
    }
}
