//! Adding and removing subscriptions.

use super::core::Core;
use super::counts::{Counts, Outcome};
use super::directory::Directory;
use super::epoch::{self, Guard};
use super::inner::Inner;
use super::overflow::Overflow;
use super::shape::{NotHere, Shape};
use super::subscribers::SubscriberId;
use super::words::{Measured, ShapeKey};
use crate::{Pattern, SubscribeError};

/// A subscription's place in its matcher, for [`TupleSpace::unsubscribe`](crate::TupleSpace::unsubscribe) of
/// the same matcher. Dropping it leaves the subscription in place.
#[derive(Debug)]
#[must_use = "without it the subscription cannot be removed"]
pub struct Subscription {
    pub(super) place: SubscriptionPlace,
    pub(super) id: SubscriberId,
}

impl Subscription {
    /// Keeps the subscription for as long as the matcher lives.
    pub fn forget(self) {}
}

#[derive(Debug)]
pub(super) enum SubscriptionPlace {
    Table(ShapeKey, u64),
    Overflow(Box<[u8]>, u64),
}

impl<V: Clone + Send + Sync + 'static> Inner<V> {
    pub(super) fn subscribe(&self, pattern: &Pattern, value: V) -> Result<Subscription, SubscribeError> {
        let Core { dialect, limits, .. } = &self.core;
        if pattern.dialect() != *dialect {
            return Err(SubscribeError::WrongDialect { pattern: pattern.dialect(), matcher: *dialect });
        }
        let text = pattern.as_bytes();
        let measured = self.core.hasher.pattern(*dialect, text);
        if text.len() > limits.bytes_max || measured.words > limits.words_max {
            crate::subject::check_text(*dialect, text, limits)?;
        }
        if !self.counts.reserve() {
            return Err(SubscribeError::TooManySubscriptions { subscriptions_max: limits.subscriptions_max });
        }
        let place = Reserved(&self.counts);
        let guard = &epoch::pin();
        let subscription = self.counts.write(|| {
            let added = self.add(text, &measured, &value, guard);
            let outcome = if added.is_some() { Outcome::Added } else { Outcome::Failed };
            (added, outcome)
        });
        let words_max = limits.overflow_words_max;
        let subscription = subscription.ok_or(SubscribeError::TooManyShapes { words_max })?;
        std::mem::forget(place);
        self.tidy_if_due(guard);
        Ok(subscription)
    }

    /// Adds a subscription. `None` if the pattern's shape has no table, and the overflow no room for it.
    pub(super) fn add(
        &self,
        text: &[u8],
        measured: &Measured,
        value: &V,
        guard: &Guard,
    ) -> Option<Subscription> {
        let hash = measured.hash;
        while let Some(key) = measured.key {
            let Some(shape) = self.shape(key, guard) else { break };
            match shape.add(&self.core, hash, text, value, guard) {
                Ok(id) => return Some(Subscription { place: SubscriptionPlace::Table(key, hash), id }),
                Err(NotHere::Collision) => break,
                Err(NotHere::Retired) => self.purge(guard),
            }
        }
        let Core { dialect, limits, hasher, .. } = &self.core;
        let with = |overflow: &Overflow<V>| {
            overflow.with(hasher, *dialect, text, value.clone(), limits.overflow_words_max)
        };
        let id = self.overflow.update(&self.core, with, guard)?;
        Some(Subscription {
            place: SubscriptionPlace::Overflow(text.into(), self.core.hasher.text(text)),
            id,
        })
    }

    /// The shape with this key, created if there is room for it.
    pub(super) fn shape<'g>(&self, key: ShapeKey, guard: &'g Guard) -> Option<&'g Shape<V>> {
        loop {
            let directory = self.directory(guard);
            if let Some(shape) = directory.get(key) {
                return Some(shape);
            }
            if directory.is_full() {
                directory.shapes().iter().find(|shape| shape.try_retire(&self.core, guard))?;
                self.purge(guard);
            } else {
                let with = |directory: &Directory<V>| {
                    let room = !directory.is_full() && directory.get(key).is_none();
                    room.then(|| directory.with(self.core.dialect, key))
                };
                self.directory.update(with, guard);
            }
        }
    }

    /// Removes retired shapes from the directory.
    pub(super) fn purge(&self, guard: &Guard) {
        let without = |directory: &Directory<V>| {
            let any = directory.shapes().iter().any(|shape| shape.is_retired(guard));
            any.then(|| directory.without_retired(self.core.dialect, guard))
        };
        self.directory.update(without, guard);
    }

    pub(super) fn unsubscribe(&self, subscription: Subscription) -> bool {
        let guard = &epoch::pin();
        let Subscription { place, id } = subscription;
        let removed = self.counts.write(|| {
            let removed = match place {
                SubscriptionPlace::Table(key, hash) => {
                    let shape = self.directory(guard).get(key);
                    shape.is_some_and(|shape| shape.remove(&self.core, hash, id, guard))
                }
                // The hash has this matcher's own keys, so it distinguishes its subscriptions from those of
                // others.
                SubscriptionPlace::Overflow(text, hash) if hash != self.core.hasher.text(&text) => false,
                SubscriptionPlace::Overflow(text, _) => {
                    let Core { dialect, hasher, .. } = &self.core;
                    let without =
                        |overflow: &Overflow<V>| Some((overflow.without(hasher, *dialect, &text, id)?, id));
                    self.overflow.update(&self.core, without, guard).is_some()
                }
            };
            (removed, if removed { Outcome::Removed } else { Outcome::Failed })
        });
        if removed {
            self.counts.release();
        }
        self.tidy_if_due(guard);
        removed
    }
}

/// A reserved place for a subscription, which is returned if a value's clone panics.
struct Reserved<'a>(&'a Counts);

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}
