//! What the rules of the cluster say about one connection. `tailrace_node::access` decides, and this caches
//! recent decisions until topics or rules change.

mod images;

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tailrace_identity::acl::{Access, SubjectAccess, SubjectUse};
use tailrace_identity::nats_accounts::ShareKind;
use tailrace_metadata::MetadataImage;
use tailrace_node::access::{Rights, SubjectVersions};
use tailrace_node::{Caller, Node};

pub(crate) use self::images::{Images, Source};
use crate::auth::decisions::{Delivered, REMEMBERED_BYTES_MAX, remember};

/// Whether a message may be published with a reply subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyRight {
    /// Yes, and topics may acknowledge it there.
    Acknowledged,
    /// Yes, but the publisher may neither publish nor subscribe there, so the server does not either.
    Silent,
    /// No: a topic has the reply subject, and the publisher may not write it. Another client's answer would
    /// be stored in the topic.
    Refused,
}

/// The rules for one connection. A weak reference to the node, because caches of threads outlive it.
pub(crate) struct SubjectRights {
    node: Weak<Node>,
    caller: Caller,
    /// Where its account reaches topics by imports.
    images: Option<Images>,
    decided: Mutex<Decisions>,
}

/// Recent decisions by some versions of topics and rules.
#[derive(Default)]
struct Decisions {
    /// The metadata by which `versions` were last found to be current.
    seen: Weak<MetadataImage>,
    versions: Option<SubjectVersions>,
    published: HashMap<Box<[u8]>, bool>,
    replies: HashMap<Box<[u8]>, ReplyRight>,
    delivered: HashMap<Box<[u8]>, bool>,
    delivered_to_queues: HashMap<Delivered, bool>,
}

impl Decisions {
    /// Forgets the decisions by other versions.
    fn renew(&mut self, versions: SubjectVersions) {
        if self.versions != Some(versions) {
            *self = Self { versions: Some(versions), ..Self::default() };
        }
    }
}

impl SubjectRights {
    pub(super) fn new(node: &Weak<Node>, caller: Caller, images: Option<Images>) -> Self {
        Self { node: Weak::clone(node), caller, images, decided: Mutex::default() }
    }

    /// Forgets what was decided.
    pub(super) fn forget(&self) {
        *self.decided.lock() = Decisions::default();
    }

    /// Asks about the subjects of topics behind a subject of another account.
    fn images(&self, kind: ShareKind, subject: &[u8], allows: impl Fn(&[u8]) -> bool) -> bool {
        self.images.as_ref().is_none_or(|images| images.all(kind, subject, allows))
    }

    /// Reports whether the connection may publish to a subject.
    pub(crate) fn may_publish(&self, subject: &[u8]) -> bool {
        let decide = |rights: &Rights<'_>| {
            let may = |subject: &[u8]| rights.subject(publishing(subject)) == SubjectAccess::Allowed;
            may(subject) && self.images(ShareKind::Service, subject, may)
        };
        self.cached(
            subject.len(),
            false,
            |known| known.published.get(subject).copied(),
            decide,
            |known, is| {
                remember(&mut known.published, subject.into(), is);
            },
        )
    }

    /// Reports whether the connection may publish a message with this reply subject.
    pub(crate) fn reply(&self, reply: &[u8]) -> ReplyRight {
        let decide = |rights: &Rights<'_>| {
            let may = |wanted: SubjectUse<'_>| rights.hears(wanted) == SubjectAccess::Allowed;
            // Behind an imported service, the answer would be a record of a topic.
            let may_answer = |image: &[u8]| may(publishing(image)) || !rights.is_of_topic(image);
            if !self.images(ShareKind::Service, reply, may_answer) {
                return ReplyRight::Refused;
            }
            match (may(publishing(reply)), rights.is_of_topic(reply)) {
                (true, _) => ReplyRight::Acknowledged,
                (false, true) => ReplyRight::Refused,
                (false, false) if may(hearing(reply, None)) => ReplyRight::Acknowledged,
                (false, false) => ReplyRight::Silent,
            }
        };
        self.cached(
            reply.len(),
            ReplyRight::Refused,
            |known| known.replies.get(reply).copied(),
            decide,
            |known, right| remember(&mut known.replies, reply.into(), right),
        )
    }

    /// Reports whether a message with this subject may have this key. A key that is a subject of the same
    /// topic must be one that the connection may publish to. In a compacted topic, so must the subject of
    /// what the key replaces.
    pub(crate) fn may_use_key(&self, subject: &[u8], key: &[u8]) -> bool {
        let Some(node) = self.node.upgrade() else { return false };
        let rights = node.rights(&self.caller);
        let may_write = |key: &[u8]| rights.subject(publishing(key)) == SubjectAccess::Allowed;
        rights.replaced_by_key(subject, key).iter().all(|replaced| self.may_publish(replaced))
            && self.images(ShareKind::Service, subject, |image| {
                rights.replaced_by_key(image, key).iter().all(|replaced| may_write(replaced))
            })
    }

    /// Reports whether rules forbid to publish, without recording a refusal.
    pub(crate) fn forbids_publishing(&self, subject: &[u8]) -> bool {
        let Some(node) = self.node.upgrade() else { return true };
        let rights = node.rights(&self.caller);
        let may = |subject: &[u8]| rights.hears(publishing(subject)) == SubjectAccess::Allowed;
        !(may(subject) && self.images(ShareKind::Service, subject, may))
    }

    /// The same for a subscription.
    pub(crate) fn forbids_subscribing(&self, pattern: &[u8], queue: Option<&[u8]>) -> bool {
        let Some(node) = self.node.upgrade() else { return true };
        node.rights(&self.caller).hears(hearing(pattern, queue)) == SubjectAccess::Refused
    }

    /// Decides on a subscription.
    pub(crate) fn subscription(&self, pattern: &[u8], queue: Option<&[u8]>) -> SubjectAccess {
        match self.node.upgrade() {
            Some(node) => node.rights(&self.caller).subject(hearing(pattern, queue)),
            None => SubjectAccess::Refused,
        }
    }

    /// Reports whether a message may be delivered to a subscription with this queue group.
    pub(crate) fn may_deliver(&self, subject: &[u8], queue: Option<&[u8]>) -> bool {
        let decide = |rights: &Rights<'_>| {
            let may = |subject: &[u8]| rights.hears(hearing(subject, queue)) == SubjectAccess::Allowed;
            may(subject) && self.images(ShareKind::Stream, subject, may)
        };
        let Some(queue) = queue else {
            return self.cached(
                subject.len(),
                false,
                |known| known.delivered.get(subject).copied(),
                decide,
                |known, is| remember(&mut known.delivered, subject.into(), is),
            );
        };
        let key = Delivered(subject.into(), Some(queue.into()));
        self.cached(
            subject.len() + queue.len(),
            false,
            |known| known.delivered_to_queues.get(&key).copied(),
            decide,
            |known, is| remember(&mut known.delivered_to_queues, key.clone(), is),
        )
    }

    /// Returns the cached decision, or decides. `closed` is the decision when the node has stopped.
    fn cached<T: Copy>(
        &self,
        bytes: usize,
        closed: T,
        find: impl Fn(&Decisions) -> Option<T>,
        decide: impl FnOnce(&Rights<'_>) -> T,
        keep: impl FnOnce(&mut Decisions, T),
    ) -> T {
        let Some(node) = self.node.upgrade() else { return closed };
        {
            let known = self.decided.lock();
            // Far cheaper than to ask for the versions.
            if node.is_at(&known.seen)
                && let Some(found) = find(&known)
            {
                return found;
            }
        }
        let (image, versions) = (node.image(), node.subject_versions());
        {
            let mut known = self.decided.lock();
            known.renew(versions);
            // The versions are those of the image, or newer.
            known.seen = Arc::downgrade(&image);
            if let Some(found) = find(&known) {
                return found;
            }
        }
        // Not under the lock: publishers on other threads ask too. The decision is as new as the versions, or
        // newer, and kept only if they are still the ones of the cache.
        let decision = decide(&node.rights(&self.caller));
        if bytes <= REMEMBERED_BYTES_MAX {
            let mut known = self.decided.lock();
            if known.versions == Some(versions) && node.subject_versions() == versions {
                keep(&mut known, decision);
            }
        }
        decision
    }
}

fn publishing(subject: &[u8]) -> SubjectUse<'_> {
    SubjectUse { access: Access::Write, subject, queue: None }
}

fn hearing<'a>(subject: &'a [u8], queue: Option<&'a [u8]>) -> SubjectUse<'a> {
    SubjectUse { access: Access::Read, subject, queue }
}

impl std::fmt::Debug for SubjectRights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SubjectRights").field("caller", &self.caller).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
