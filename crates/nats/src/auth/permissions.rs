//! The permissions of a connection: its user's lists, the rules of the cluster, this connection's recent
//! decisions, and the requests it may answer. Lists and rules must both allow what a client does.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use tailrace_env::time::{Duration, Instant};

use parking_lot::Mutex;
use tailrace_identity::acl::SubjectAccess;
use tailrace_identity::nats_accounts::ShareKind;
use tailrace_identity::{ResponseLimits, Rules, User};
use tailrace_node::Node;
use tailrace_node::access::LoggedIn;

use crate::account::GLOBAL;
use crate::reserved;

use super::clock::now_s;
use super::decisions::{Delivered, REMEMBERED_BYTES_MAX, remember};
use super::login::Mechanism;
use super::operator::Claimed;
use super::rights::{Images, ReplyRight, SubjectRights};
use super::turn::{Decision, TurnSubjects};

/// Most requests that a connection may still answer. At the limit, the older half is forgotten. nats-server
/// has no limit.
const REPLIES_MAX: usize = 65_536;

/// Longest time that a connection with an end may last, in seconds: ten years.
const TIMER_MAX_S: u64 = 10 * 366 * 86_400;

/// The permissions of one connection. Its own task checks them before it publishes or subscribes, and
/// publishers check them before they deliver to it.
#[derive(Debug, Default)]
pub(crate) struct Permissions {
    user: Arc<User>,
    /// The user's own lists say where it may publish. Told to each message, so it is kept here.
    lists_publishing: bool,
    /// `None` if no rules decide, and everything that the lists allow is allowed.
    rights: Option<SubjectRights>,
    /// What limits the keys that records may have, beside rules.
    keys: Option<KeyLimits>,
    /// The login of a user of the cluster.
    login: Option<LoggedIn>,
    /// How the user has proved to be that one. `None` for guests.
    mechanism: Option<Mechanism>,
    /// What a user has claimed, with an operator.
    claimed: Option<Claimed>,
    /// When the connection must end.
    ends_at: Option<Instant>,
    /// The name of the account. Empty for the global one.
    account: Arc<str>,
    published: Mutex<HashMap<Box<[u8]>, bool>>,
    delivered: Mutex<HashMap<Delivered, bool>>,
    replies: Mutex<Replies>,
}

/// What limits the keys of a user's messages. A record with a key replaces what has it.
struct KeyLimits {
    /// Where the topics are.
    node: Weak<Node>,
    /// How the account reaches the topics, if they are in another one.
    images: Option<Images>,
}

impl std::fmt::Debug for KeyLimits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyLimits").field("is_elsewhere", &self.images.is_some()).finish_non_exhaustive()
    }
}

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
    pub(super) fn new(
        user: Arc<User>,
        rights: Option<SubjectRights>,
        login: Option<LoggedIn>,
        account: Arc<str>,
    ) -> Self {
        let lists_publishing = user.rules().is_some_and(Rules::restricts_publishing);
        Self { user, lists_publishing, rights, login, account, ..Self::default() }
    }

    /// Makes them those of a user who has logged in.
    pub(super) fn proved_by(self, mechanism: Mechanism) -> Self {
        Self { mechanism: Some(mechanism), ..self }
    }

    /// How the user has proved to be that one. `None` for guests.
    pub(super) fn mechanism(&self) -> Option<Mechanism> {
        self.mechanism
    }

    /// Has the user's lists, and the imports of its account, decide which keys records may have, too: a
    /// record with a key replaces what has it.
    pub(super) fn with_topics(self, node: &Weak<Node>, images: Option<Images>) -> Self {
        let is_restricted = images.is_some() || self.lists_publishing;
        let keys = is_restricted.then(|| KeyLimits { node: Weak::clone(node), images });
        Self { keys, ..self }
    }

    /// Makes them those of a user with claims.
    pub(super) fn with_claims(self, claimed: Claimed) -> Self {
        let left_s = claimed.user.ends_at_s.map(|at_s| u64::try_from(at_s - now_s()).unwrap_or(0));
        let ends_at = left_s.map(|left_s| Instant::now() + Duration::from_secs(left_s.min(TIMER_MAX_S)));
        Self { claimed: Some(claimed), ends_at, ..self }
    }

    /// What the user has claimed, with an operator.
    pub(crate) fn claimed(&self) -> Option<&Claimed> {
        self.claimed.as_ref()
    }

    /// When the connection must end.
    pub(crate) fn ends_at(&self) -> Option<Instant> {
        self.ends_at
    }

    /// The time until then.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        self.ends_at.map(|at| at.duration_since(Instant::now()))
    }

    /// Forgets decisions that depend on the imports of accounts.
    pub(crate) fn forget_decisions(&self) {
        if let Some(rights) = &self.rights {
            rights.forget();
        }
    }

    /// The name of the connection's account.
    pub(crate) fn account(&self) -> &str {
        if self.account.is_empty() { GLOBAL } else { &self.account }
    }

    /// The connection's user.
    pub(crate) fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// The user as the tools of NATS know it, always beside the account: the key or the name in its claims.
    /// For rules and logs, claimed users have the account in front of it.
    pub(crate) fn shown_user(&self) -> Option<&str> {
        let name = self.user.name()?;
        let own = self.claimed.as_ref().and_then(|_| name.strip_prefix(self.account())?.strip_prefix('/'));
        Some(own.unwrap_or(name))
    }

    /// The login, if the user is one of the cluster. The connection ends when it no longer holds.
    pub(crate) fn login(&self) -> Option<&LoggedIn> {
        self.login.as_ref()
    }

    /// Reports whether rules decide, so that a subscription may lose its permission.
    pub(crate) fn has_rights(&self) -> bool {
        self.rights.is_some()
    }

    /// Reports whether the connection may publish a message with this reply subject.
    pub(crate) fn reply(&self, reply: &[u8]) -> ReplyRight {
        self.rights.as_ref().map_or(ReplyRight::Acknowledged, |rights| rights.reply(reply))
    }

    /// Reports whether replies and keys have to be checked.
    pub(crate) fn limits_replies_or_keys(&self) -> bool {
        self.rights.is_some() || self.keys.is_some()
    }

    /// Reports whether a message with this subject may have this key. `subject` is one that the connection
    /// may publish to.
    pub(crate) fn may_use_key(&self, subject: &[u8], key: &[u8]) -> bool {
        self.rights.as_ref().is_none_or(|rights| rights.may_use_key(subject, key))
            && self.list_key(subject, key)
    }

    fn list_key(&self, subject: &[u8], key: &[u8]) -> bool {
        let Some(KeyLimits { node, images }) = &self.keys else { return true };
        let Some(node) = node.upgrade() else { return false };
        let may_publish = |subject: &[u8]| self.rules().is_none_or(|rules| rules.may_publish(subject));
        let Some(images) = images else {
            return node.replaced_by_key(subject, key).iter().all(|replaced| may_publish(replaced));
        };
        // The lists are about subjects of this account, the key is about those of the topics.
        let reaches = |replaced: &[u8]| images.origins(replaced).iter().any(|own| may_publish(own));
        images.all(ShareKind::Service, subject, |image| {
            node.replaced_by_key(image, key).iter().all(|replaced| reaches(replaced))
        })
    }

    /// Reports whether the rules of the cluster, and not the user's own lists, forbid to publish.
    pub(crate) fn rules_forbid_publishing(&self, subject: &[u8]) -> bool {
        self.rights.as_ref().is_some_and(|rights| rights.forbids_publishing(subject))
    }

    /// The same for a subscription.
    pub(crate) fn rules_forbid_subscribing(&self, pattern: &[u8], queue: Option<&[u8]>) -> bool {
        self.rights.as_ref().is_some_and(|rights| rights.forbids_subscribing(pattern, queue))
    }

    fn rules(&self) -> Option<&Rules> {
        self.user.rules()
    }

    /// Reports whether the connection may publish to `subject`. Call this once per published message, because
    /// it counts answers to requests.
    pub(crate) fn may_publish(&self, subject: &[u8]) -> bool {
        self.rights.as_ref().is_none_or(|rights| rights.may_publish(subject)) && self.list_publishing(subject)
    }

    /// The same, for the connection's own task in one of its turns. Subjects of servers are refused, too.
    #[inline]
    pub(crate) fn may_publish_in(&self, turn: &mut TurnSubjects, subject: &[u8]) -> bool {
        if self.rights.is_none() && !self.lists_publishing {
            return !reserved::is_subject(subject);
        }
        turn.allows(subject, || self.decide(subject))
    }

    fn decide(&self, subject: &[u8]) -> Decision {
        let by_rules = self.rights.as_ref().is_none_or(|rights| rights.may_publish(subject));
        match by_rules && !reserved::is_subject(subject) {
            true if self.is_listed(subject) => Decision::ForTheTurn,
            // Answers are counted.
            true if self.answers(subject) => Decision::Once,
            _ => Decision::Refused,
        }
    }

    /// The same, by the user's own lists alone.
    fn list_publishing(&self, subject: &[u8]) -> bool {
        self.is_listed(subject) || self.answers(subject)
    }

    fn answers(&self, subject: &[u8]) -> bool {
        let limits = self.rules().filter(|_| self.lists_publishing).and_then(|rules| rules.responses());
        limits.is_some_and(|limits| self.may_respond(subject, limits))
    }

    fn is_listed(&self, subject: &[u8]) -> bool {
        let Some(rules) = self.rules().filter(|_| self.lists_publishing) else { return true };
        let remembered = self.published.lock().get(subject).copied();
        remembered.unwrap_or_else(|| {
            let allowed = rules.may_publish(subject);
            if subject.len() <= REMEMBERED_BYTES_MAX {
                remember(&mut self.published.lock(), subject.into(), allowed);
            }
            allowed
        })
    }

    pub(crate) fn may_subscribe(&self, pattern: &[u8], queue: Option<&[u8]>) -> bool {
        self.rules().is_none_or(|rules| rules.may_subscribe(pattern, queue)) && self.keeps(pattern, queue)
    }

    /// Reports whether the rules allow a subscription that the user's own lists allow.
    pub(crate) fn keeps(&self, pattern: &[u8], queue: Option<&[u8]>) -> bool {
        let Some(rights) = &self.rights else { return true };
        rights.subscription(pattern, queue) != SubjectAccess::Refused
    }

    /// Reports whether each delivery to a subscription has to be checked with [`Permissions::may_deliver`],
    /// because a part of what it matches is denied, or may be denied by a rule later. Does not change during
    /// the subscription's life.
    pub(crate) fn filters(&self, pattern: &[u8], queue: Option<&[u8]>) -> bool {
        self.rights.is_some() || self.rules().is_some_and(|rules| rules.filters(pattern, queue))
    }

    /// Reports whether a message on `subject` may be delivered to a subscription with this queue group.
    pub(crate) fn may_deliver(&self, subject: &[u8], queue: Option<&[u8]>) -> bool {
        self.rights.as_ref().is_none_or(|rights| rights.may_deliver(subject, queue))
            && self.list_delivery(subject, queue)
    }

    /// The same, by the user's own lists alone.
    fn list_delivery(&self, subject: &[u8], queue: Option<&[u8]>) -> bool {
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
        if self.list_publishing(reply) {
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
