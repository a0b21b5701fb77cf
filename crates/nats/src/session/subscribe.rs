//! SUB and UNSUB, and the end of subscriptions.

use std::collections::hash_map::Entry;
use std::sync::atomic::Ordering;

use tailrace_env::aside::TURN;
use tailrace_env::metrics::ReasonLabel;
use tailrace_env::time::Instant;
use tailrace_identity::acl::Access;
use tailrace_nats_wire::ProtocolError;
use tailrace_subjects::{Dialect, Pattern, SubscribeError};

use super::{OPERATIONS_AT_ONCE, Owned, Session};
use crate::auth::Permissions;
use crate::front::NatsFront;
use crate::reserved;
use crate::subscription::{ClientSubscription, Sid};
use crate::target::Target;

/// Most subscriptions that are removed before other tasks get a turn. Fewer if that takes long.
const REMOVED_AT_ONCE: usize = 128;

impl Session {
    pub(super) fn subscribe(&mut self, front: &NatsFront, subject: &[u8], queue: Option<&[u8]>, sid: &[u8]) {
        match self.try_subscribe(front, subject, queue, sid) {
            Ok(()) => self.ok(),
            Err(error) => self.error(&error),
        }
    }

    fn try_subscribe(
        &mut self,
        front: &NatsFront,
        subject: &[u8],
        queue: Option<&[u8]>,
        sid: &[u8],
    ) -> Result<(), ProtocolError> {
        let denied = self.permissions.as_ref().is_some_and(|user| !user.may_subscribe(subject, queue));
        if denied || queue.is_some_and(reserved::is_queue) {
            // What rules forbid is recorded where they are asked.
            let user = self.permissions.as_ref();
            if user.is_none_or(|user| !user.rules_forbid_subscribing(subject, queue)) {
                self.asker.not_permitted(&self.client.caller(), Access::Read, subject);
            }
            let error = ProtocolError::subscribe_permission(subject, queue);
            tracing::info!(client = self.client.id, %error, "subscription refused");
            return Err(error);
        }
        let sid = Sid::new(sid);
        // Subscriptions that have had their last message may still exist.
        if self.subscriptions.get(&sid).is_some_and(Owned::has_ended) {
            self.remove(front, &sid);
        }
        if self.subscriptions.len() >= self.subscriptions_max {
            self.remove_expired(front);
        }
        if self.subscriptions.len() >= self.subscriptions_max {
            return Err(too_many(front, "subscriptions"));
        }
        // As in nats-server, the subject is not checked if the sid is in use.
        let Entry::Vacant(place) = self.subscriptions.entry(sid.clone()) else { return Ok(()) };
        let pattern = Pattern::parse(Dialect::Nats, subject, self.membership.account().router().limits())
            .map_err(|_| ProtocolError::InvalidSubject)?;
        let shape = self.shapes.take(&pattern, front.limits().shapes_max);
        let Ok(shape) = shape else { return Err(too_many(front, "shapes")) };
        self.next_number += 1;
        let filtered =
            self.permissions.as_ref().is_some_and(|permissions| permissions.filters(subject, queue));
        let queue = queue.map(|name| self.membership.account().router().queue_name(name));
        let subscription = ClientSubscription::new(&self.client, sid, self.next_number, queue, filtered);
        let (target, route) = match self.membership.account().router().subscribe(&pattern, subscription) {
            Ok(subscribed) => subscribed,
            Err(error) => {
                self.shapes.release(shape);
                return Err(match error {
                    SubscribeError::Text(_) => ProtocolError::InvalidSubject,
                    _ => too_many(front, "server"),
                });
            }
        };
        let has_rights = self.permissions.as_ref().is_some_and(|permissions| permissions.has_rights());
        place.insert(Owned { pattern: has_rights.then(|| subject.into()), target, route, shape });
        self.client.counts.subscriptions.fetch_add(1, Ordering::Relaxed);
        self.membership.account().subscribed();
        front.metrics().subscriptions.inc();
        front.metrics().subscriptions_made.inc();
        Ok(())
    }

    pub(super) fn unsubscribe(&mut self, front: &NatsFront, sid: &[u8], max: Option<u64>) {
        let sid = Sid::new(sid);
        if let Some(owned) = self.subscriptions.get(&sid)
            && let Target::Client(subscription) = &*owned.target
        {
            // The lock under which deliveries are counted, so that none comes between setting the limit and
            // reading the count.
            let ended = max.is_none_or(|max| self.client.out.locked(|| subscription.limit(max)));
            if ended {
                self.remove(front, &sid);
            } else {
                self.limited.insert(subscription.number, sid);
            }
        }
        self.ok();
    }

    fn remove(&mut self, front: &NatsFront, sid: &Sid) {
        let Some(owned) = self.subscriptions.remove(sid) else { return };
        if let Target::Client(subscription) = &*owned.target {
            self.limited.remove(&subscription.number);
            // A lookup that has found it earlier may be about to deliver.
            self.client.out.locked(|| subscription.end());
        }
        self.router().remove(owned.route);
        self.shapes.release(owned.shape);
        self.client.counts.subscriptions.fetch_sub(1, Ordering::Relaxed);
        self.membership.account().unsubscribed();
        front.metrics().subscriptions.dec();
    }

    /// Removes some of the subscriptions that have reached their limit. Reports whether there may be more.
    pub(crate) fn remove_expired(&mut self, front: &NatsFront) -> bool {
        let began = Instant::now();
        for _ in 0..REMOVED_AT_ONCE / OPERATIONS_AT_ONCE {
            let expired = self.client.take_expired(OPERATIONS_AT_ONCE);
            for number in &expired {
                if let Some(sid) = self.limited.remove(number) {
                    self.remove(front, &sid);
                }
            }
            if expired.len() < OPERATIONS_AT_ONCE {
                return false;
            }
            if began.elapsed() >= TURN {
                break;
            }
        }
        true
    }

    /// Begins to check all subscriptions by the current rules.
    pub(crate) fn begin_check(&mut self) {
        self.unchecked = self.subscriptions.keys().cloned().collect();
    }

    /// Checks some of the subscriptions, and removes those that the rules no longer allow. Reports whether
    /// there are more.
    pub(crate) fn check_some(&mut self, front: &NatsFront) -> bool {
        let (began, permissions) = (Instant::now(), self.permissions.clone());
        while let Some(sid) = self.unchecked.pop() {
            self.check_one(front, permissions.as_deref(), &sid);
            if began.elapsed() >= TURN {
                break;
            }
        }
        !self.unchecked.is_empty()
    }

    fn check_one(&mut self, front: &NatsFront, permissions: Option<&Permissions>, sid: &Sid) {
        let Some(owned) = self.subscriptions.get(sid).filter(|owned| !owned.has_ended()) else { return };
        let Some(pattern) = &owned.pattern else { return };
        let queue = match &*owned.target {
            Target::Client(subscription) => subscription.queue.as_deref(),
            Target::Topic(_) | Target::Node(_) | Target::Account(_) => None,
        };
        if permissions.is_none_or(|permissions| permissions.keeps(pattern, queue)) {
            return;
        }
        let error = ProtocolError::subscription_removed(pattern, sid.as_bytes());
        tracing::info!(client = self.client.id, %error, "subscription removed");
        self.remove(front, sid);
        self.error(&error);
    }

    pub(crate) fn subscription_count(&self) -> usize {
        self.subscriptions.len()
    }

    /// Removes some of the subscriptions. Reports whether there are more.
    pub(crate) fn leave(&mut self, front: &NatsFront) -> bool {
        let began = Instant::now();
        let sids: Vec<_> = self.subscriptions.keys().take(REMOVED_AT_ONCE).cloned().collect();
        for some in sids.chunks(OPERATIONS_AT_ONCE) {
            some.iter().for_each(|sid| self.remove(front, sid));
            if began.elapsed() >= TURN {
                break;
            }
        }
        !self.subscriptions.is_empty()
    }
}

/// Counts a refused subscription, and returns the error.
fn too_many(front: &NatsFront, reason: &'static str) -> ProtocolError {
    front.metrics().subscriptions_refused.get_or_create(&ReasonLabel { reason }).inc();
    ProtocolError::MaximumSubscriptions
}
