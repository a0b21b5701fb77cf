//! The permissions of a connection: its user's rules, this connection's recent decisions, and the requests it
//! may answer.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use tailrace_env::time::{Duration, Instant};

use parking_lot::Mutex;
use tailrace_identity::{ResponseLimits, Rules, User};

/// Most cached decisions of each kind. With subjects of maximal length, they take 48 KiB per kind.
const DECISIONS_MAX: usize = 256;

/// Longest subject whose decision is cached.
const REMEMBERED_BYTES_MAX: usize = 128;

/// Most requests that a connection may still answer. At the limit, the older half is forgotten. nats-server
/// has no limit.
const REPLIES_MAX: usize = 65_536;

/// The permissions of one connection. Its own task checks them before it publishes or subscribes, and
/// publishers check them before they deliver to it.
#[derive(Debug, Default)]
pub(crate) struct Permissions {
    user: Arc<User>,
    published: Mutex<HashMap<Box<[u8]>, bool>>,
    delivered: Mutex<HashMap<Delivered, bool>>,
    replies: Mutex<Replies>,
}

/// A subject and a queue group.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Delivered(Box<[u8]>, Option<Box<[u8]>>);

/// Requests that may be answered, by their reply subject.
#[derive(Debug, Default)]
struct Replies {
    waiting: HashMap<Box<[u8]>, Reply>,
    /// Number of requests at which the expired ones are removed.
    look_again_at: usize,
}

#[derive(Clone, Copy, Debug)]
struct Reply {
    since: Instant,
    sent: u32,
}

impl Permissions {
    /// Permissions for everything, without a user.
    pub(crate) fn everything() -> Self {
        Self::default()
    }

    pub(super) fn of(user: Arc<User>) -> Self {
        Self { user, ..Self::default() }
    }

    /// The connection's user.
    pub(crate) fn user(&self) -> &Arc<User> {
        &self.user
    }

    fn rules(&self) -> Option<&Rules> {
        self.user.rules()
    }

    /// Reports whether the connection may publish to `subject`. Call this once per published message, because
    /// it counts answers to requests.
    pub(crate) fn may_publish(&self, subject: &[u8]) -> bool {
        let Some(rules) = self.rules().filter(|rules| rules.restricts_publishing()) else { return true };
        let remembered = self.published.lock().get(subject).copied();
        let allowed = remembered.unwrap_or_else(|| {
            let allowed = rules.may_publish(subject);
            if subject.len() <= REMEMBERED_BYTES_MAX {
                remember(&mut self.published.lock(), subject.into(), allowed);
            }
            allowed
        });
        allowed || rules.responses().is_some_and(|limits| self.may_respond(subject, limits))
    }

    pub(crate) fn may_subscribe(&self, pattern: &[u8], queue: Option<&[u8]>) -> bool {
        self.rules().is_none_or(|rules| rules.may_subscribe(pattern, queue))
    }

    /// Reports whether each delivery to a subscription has to be checked with [`Permissions::may_deliver`],
    /// because a part of what it matches is denied. Does not change during the subscription's life.
    pub(crate) fn filters(&self, pattern: &[u8], queue: Option<&[u8]>) -> bool {
        self.rules().is_some_and(|rules| rules.filters(pattern, queue))
    }

    /// Reports whether a message on `subject` may be delivered to a subscription with this queue group.
    pub(crate) fn may_deliver(&self, subject: &[u8], queue: Option<&[u8]>) -> bool {
        let Some(rules) = self.rules() else { return true };
        if subject.len() + queue.map_or(0, <[u8]>::len) > REMEMBERED_BYTES_MAX {
            return !rules.denies(subject, queue);
        }
        let key = Delivered(subject.into(), queue.map(Into::into));
        let mut remembered = self.delivered.lock();
        if let Some(allowed) = remembered.get(&key) {
            return *allowed;
        }
        let allowed = !rules.denies(subject, queue);
        remember(&mut remembered, key, allowed);
        allowed
    }

    /// Reports whether [`Permissions::delivered`] has to be called for deliveries.
    pub(crate) fn tracks_replies(&self) -> bool {
        self.rules().is_some_and(|rules| rules.responses().is_some())
    }

    /// Records the delivery of a message with this reply subject, so that the connection may answer it. As in
    /// nats-server, another delivery with the same subject allows no further answers while there is one left.
    pub(crate) fn delivered(&self, reply: &[u8]) {
        let Some(limits) = self.rules().and_then(|rules| rules.responses()) else { return };
        if self.may_publish(reply) {
            return;
        }
        self.replies.lock().add(reply, limits);
    }

    fn may_respond(&self, subject: &[u8], limits: ResponseLimits) -> bool {
        let mut replies = self.replies.lock();
        let Some(reply) = replies.waiting.get_mut(subject) else { return false };
        reply.sent = reply.sent.saturating_add(1);
        let allowed = !reply.is_late(limits);
        if !allowed || limits.max.is_some_and(|max| reply.sent >= max) {
            replies.waiting.remove(subject);
        }
        allowed
    }
}

impl Reply {
    fn is_late(&self, limits: ResponseLimits) -> bool {
        limits.expires_ms.is_some_and(|ms| self.since.elapsed() > Duration::from_millis(ms))
    }
}

impl Replies {
    fn add(&mut self, subject: &[u8], limits: ResponseLimits) {
        let now = Instant::now();
        if self.waiting.len() >= self.look_again_at {
            self.waiting.retain(|_, reply| !reply.is_late(limits));
            if self.waiting.len() >= REPLIES_MAX {
                self.forget_older_half();
            }
            self.look_again_at = (2 * self.waiting.len()).clamp(REPLIES_MAX / 64, REPLIES_MAX);
        }
        self.waiting.insert(subject.into(), Reply { since: now, sent: 0 });
    }

    fn forget_older_half(&mut self) {
        let mut times: Vec<Instant> = self.waiting.values().map(|reply| reply.since).collect();
        let middle = times.len() / 2;
        let middle = *times.select_nth_unstable(middle).1;
        self.waiting.retain(|_, reply| reply.since > middle);
    }
}

/// Caches a decision. Few subjects are checked repeatedly. When the cache is full it is emptied, and the few
/// come back.
fn remember<K: Eq + Hash>(decisions: &mut HashMap<K, bool>, key: K, allowed: bool) {
    if decisions.len() >= DECISIONS_MAX {
        decisions.clear();
    }
    decisions.insert(key, allowed);
}
