//! Decisions on publications, subscriptions and deliveries of NATS clients.

use std::borrow::Cow;
use std::sync::{Arc, Weak};

use tailrace_identity::acl::{
    Access, Authorizer, Decision, Requester, ResourceKind, SubjectAccess, SubjectDecision, SubjectUse,
};
use tailrace_metadata::MetadataImage;

use super::Rights;
use super::audit::{Refusal, RefusedBy};
use super::decide::requester;
use super::topic_index::{Indexed, TopicIndex};
use crate::caller::Caller;
use crate::node::Node;

/// What decisions on subjects depend on. A decision by other versions may no longer hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubjectVersions {
    topics: u64,
    rules: u64,
    /// Whether the rules are only tried.
    is_tried: bool,
}

impl super::Access {
    /// Returns the topics of these metadata, by subject. Makes the index when topics have changed.
    pub(super) fn topics(&self, image: &Arc<MetadataImage>) -> Arc<TopicIndex> {
        let known = self.topics.load();
        if known.is_of(image) {
            return Arc::clone(&known.index);
        }
        let _guard = self.replacing.lock();
        let known = self.topics.load();
        if known.is_of(image) {
            return Arc::clone(&known.index);
        }
        let indexed: Arc<Indexed> = Arc::new(known.follow(image));
        self.topics.store(Arc::clone(&indexed));
        Arc::clone(&indexed.index)
    }
}

impl Node {
    /// Reports whether these are the metadata of now. Nothing that was decided by them has changed then.
    #[inline]
    pub fn is_at(&self, image: &Weak<MetadataImage>) -> bool {
        std::ptr::eq(image.as_ptr(), Arc::as_ptr(&self.controller.image_now()))
    }

    /// Returns the subjects of what a record with this key replaces, or deletes, in the topics of a subject.
    /// With or without rules.
    pub fn replaced_by_key<'k>(&self, subject: &[u8], key: &'k [u8]) -> Vec<Cow<'k, [u8]>> {
        self.access.topics(&self.image()).replaced(subject, key)
    }

    /// Returns the versions of what decisions on subjects depend on.
    pub fn subject_versions(&self) -> SubjectVersions {
        let image = self.image();
        SubjectVersions {
            topics: self.access.topics(&image).version(),
            rules: image.access().version(),
            is_tried: image.broker().tailrace_authorizer_report_only,
        }
    }
}

impl Node {
    /// Records that a NATS user's own lists do not allow what a client asks for. Rules record what they
    /// refuse themselves.
    pub fn not_permitted(&self, caller: &Caller, access: Access, subject: &[u8]) {
        let (operation, kind, by) = (access.operation(), ResourceKind::Subject, RefusedBy::Permissions);
        let name = &*String::from_utf8_lossy(subject);
        let refusal = Refusal { caller, operation, kind, name, by };
        let reason = "the user's permissions do not allow it, or the subject is the server's";
        self.access.audit.refused(&refusal, &reason, self.access.now());
    }
}

impl Rights<'_> {
    /// Decides on a publication or a subscription that the caller asked for. Logs and counts a refusal. What
    /// is not a subject is refused.
    pub fn subject(&self, wanted: SubjectUse<'_>) -> SubjectAccess {
        self.decided_subject(wanted, true)
    }

    /// Decides on a delivery, or on what the caller did not ask for: a refusal is neither logged nor counted.
    pub fn hears(&self, wanted: SubjectUse<'_>) -> SubjectAccess {
        self.decided_subject(wanted, false)
    }

    /// Reports whether records of some topic may have this subject.
    pub fn is_of_topic(&self, subject: &[u8]) -> bool {
        self.topics().of_subject(subject).is_ok_and(|topics| !topics.is_empty())
    }

    /// Returns the subjects of what a record with this key replaces, or deletes, in the topics of a subject.
    pub fn replaced_by_key<'k>(&self, subject: &[u8], key: &'k [u8]) -> Vec<Cow<'k, [u8]>> {
        self.topics().replaced(subject, key)
    }

    fn topics(&self) -> Arc<TopicIndex> {
        match &self.rules {
            Some(rules) => self.node.access.topics(&rules.image),
            None => self.node.access.topics(&self.node.image()),
        }
    }

    fn decided_subject(&self, wanted: SubjectUse<'_>, is_asked: bool) -> SubjectAccess {
        let Some(rules) = &self.rules else { return SubjectAccess::Allowed };
        let authorizer = rules.authorizer(&self.node.access);
        let (who, index) = (requester(self.caller), self.topics());
        let Some(decision) = decide(authorizer, &index, &who, wanted) else {
            return if rules.is_tried() { SubjectAccess::Allowed } else { SubjectAccess::Refused };
        };
        if is_asked {
            let allowed = decision.access != SubjectAccess::Refused;
            let name = String::from_utf8_lossy(wanted.subject);
            let told = Decision { allowed, reason: decision.reason };
            self.tell(rules, told, wanted.access.operation(), ResourceKind::Subject, &name);
        }
        if rules.is_tried() { SubjectAccess::Allowed } else { decision.access }
    }
}

/// Decides on a publication, a subscription or a delivery. `None` if it is about no subject.
pub(super) fn decide<'a>(
    authorizer: &'a Authorizer,
    topics: &TopicIndex,
    who: &Requester<'_>,
    wanted: SubjectUse<'_>,
) -> Option<SubjectDecision<'a>> {
    let is_pattern = wanted.access == Access::Read
        && wanted.subject.split(|byte| *byte == b'.').any(|word| matches!(word, b"*" | b">"));
    Some(if is_pattern {
        authorizer.subject_by_nats(who, wanted, topics.of_pattern(wanted.subject).ok()?)
    } else {
        authorizer.subject_by_nats(who, wanted, topics.of_subject(wanted.subject).ok()?)
    })
}
