//! Ways to use subjects, and the subjects that a topic speaks on.

use std::borrow::Cow;

use super::Operation;
use crate::rules::{Wild, covers};

/// Name of the topic with the audit log.
pub const AUDIT_TOPIC: &str = "__tailrace_audit_log";

/// A way to use a subject, or the records of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Fetch or subscribe.
    Read,
    /// Produce or publish.
    Write,
}

impl Access {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Read, Self::Write];

    /// Returns the operation that rules name.
    pub const fn operation(self) -> Operation {
        match self {
            Self::Read => Operation::Read,
            Self::Write => Operation::Write,
        }
    }

    /// Returns the access that is this operation.
    pub(super) fn of(operation: Operation) -> Option<Self> {
        Self::ALL.into_iter().find(|access| access.operation() == operation)
    }

    /// Returns those whose ALLOW also allows an operation.
    pub(super) fn allowing(operation: Operation) -> &'static [Self] {
        match operation {
            Operation::Read => &[Self::Read],
            Operation::Write => &[Self::Write],
            Operation::Describe => &Self::ALL,
            _ => &[],
        }
    }
}

/// A topic, and the NATS subjects that are bound to it.
#[derive(Debug)]
pub struct TopicSubjects<'a, B> {
    /// The name of the topic.
    pub name: &'a str,
    /// Valid patterns.
    pub bindings: &'a [B],
}

impl<B> Clone for TopicSubjects<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for TopicSubjects<'_, B> {}

impl<'a, B: AsRef<[u8]>> TopicSubjects<'a, B> {
    /// Returns the patterns of all subjects that the topic's records may have.
    pub(super) fn patterns(self) -> impl Iterator<Item = Cow<'a, [u8]>> {
        let bindings = self.bindings.iter().map(|binding| Cow::Borrowed(binding.as_ref()));
        let own = move |below: bool| match (self.spoken(), below) {
            (name, true) => Cow::Owned([name.as_bytes(), b".>"].concat()),
            (Cow::Borrowed(name), false) => Cow::Borrowed(name.as_bytes()),
            (Cow::Owned(name), false) => Cow::Owned(name.into_bytes()),
        };
        let implied = [false, true].into_iter().filter(move |_| !is_silent(self.name));
        bindings.chain(implied.map(own))
    }

    /// Reports whether one of its patterns matches all subjects that `subject` matches.
    pub(super) fn covers(self, subject: &[u8]) -> bool {
        let name = self.spoken();
        let is_bound = || self.bindings.iter().any(|binding| covers(binding.as_ref(), subject));
        let below = || subject.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"."));
        let is_implied =
            || covers(name.as_bytes(), subject) || below().is_some_and(|rest| covers(b">", rest));
        is_bound() || (!is_silent(self.name) && is_implied())
    }

    fn spoken(self) -> Cow<'a, str> {
        subject_of_topic(self.name)
    }
}

/// Reports whether the name of a topic is no subject. That of replies (`_INBOX`, `_R_`), or one below it:
/// they are not data, and rights on a topic must not decide on them. And that of the audit log, which NATS
/// does not have.
pub fn is_silent(topic: &str) -> bool {
    topic == AUDIT_TOPIC || matches!(topic.split('.').next(), Some("_INBOX" | "_R_"))
}

/// Returns the subject of a topic's records that have no other one: the name of the topic. Kafka allows names
/// that are not subjects, such as `a..b`. Their records appear with `_` for `.`.
pub fn subject_of_topic(name: &str) -> Cow<'_, str> {
    match name.split('.').any(str::is_empty) {
        true => Cow::Owned(name.replace('.', "_")),
        false => Cow::Borrowed(name),
    }
}

/// A publication or a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubjectUse<'a> {
    /// To publish is [`Access::Write`], to subscribe is [`Access::Read`], and so is each delivery.
    pub access: Access,
    /// The subject. With wildcards for subscriptions.
    pub subject: &'a [u8],
    /// The queue group of the subscription.
    pub queue: Option<&'a [u8]>,
}

impl SubjectUse<'_> {
    pub(super) fn is_wild(&self) -> bool {
        let mut words = self.subject.split(|byte| *byte == b'.');
        self.access == Access::Read && words.any(|word| word == b"*" || word == b">")
    }

    /// How the subject is compared with the rules that allow it.
    pub(super) fn wild(&self) -> Wild {
        match self.access {
            Access::Read => Wild::Everything,
            Access::Write => Wild::Literal,
        }
    }
}
