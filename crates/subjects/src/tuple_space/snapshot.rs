//! Views of a matcher at one moment.
#![expect(unsafe_code, reason = "a seat in the registry is left exactly once")]

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::clock::Time;
use super::core::LeafLocation;
use super::epoch;
use super::inner::Inner;
use super::leaf::Held;
use super::registry::Seat;
use super::subscribers::View as Subscribers;
use crate::TextError;

/// A registered moment. Until it is dropped, writers keep what it sees.
pub(crate) struct View<V: Clone + Send + Sync + 'static, I: Deref<Target = Inner<V>>> {
    inner: I,
    seat: *const Seat,
    time: Time,
}

impl<V: Clone + Send + Sync + 'static, I: Deref<Target = Inner<V>>> View<V, I> {
    /// Linearization point: the look at the clock.
    pub(crate) fn new(inner: I) -> Self {
        let (seat, time) = inner.core.registry.enter(&inner.core.clock);
        Self { inner, seat, time }
    }

    pub(crate) fn time(&self) -> Time {
        self.time
    }
}

impl<V: Clone + Send + Sync + 'static, I: Deref<Target = Inner<V>>> Drop for View<V, I> {
    fn drop(&mut self) {
        let registry = &self.inner.core.registry;
        // SAFETY: the seat was entered by `new` and is left only here.
        unsafe { registry.leave(self.seat) };
        // What this or an older snapshot still needs stays anyway; the last of them to be dropped will tidy
        // up.
        if !registry.needs(0, self.time + 1) {
            self.inner.tidy(&epoch::pin());
        }
    }
}

/// All subscriptions at one moment. While it is kept, it costs memory for each subscription that changes.
/// Dropping it takes time in proportion to those changes.
pub struct Snapshot<V: Clone + Send + Sync + 'static> {
    view: View<V, Arc<Inner<V>>>,
}

// SAFETY: the seat is used through atomics only; it is a raw pointer because it lives as long as the matcher,
// which the view keeps.
unsafe impl<V: Clone + Send + Sync + 'static> Send for Snapshot<V> {}
// SAFETY: as above.
unsafe impl<V: Clone + Send + Sync + 'static> Sync for Snapshot<V> {}

impl<V: Clone + Send + Sync + 'static> Snapshot<V> {
    pub(crate) fn new(inner: Arc<Inner<V>>) -> Self {
        Self { view: View::new(inner) }
    }

    /// The generation of the matcher at this moment; see
    /// [`TupleSpace::generation`](crate::TupleSpace::generation).
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.view.time
    }

    /// Calls `f` with each pattern, in its normal form, and each of its values. The order has no meaning. It
    /// blocks no other thread, and memory is reclaimed meanwhile.
    pub fn for_each(&self, mut f: impl FnMut(&[u8], &V)) {
        self.for_each_pattern(|pattern, subscribers| subscribers.for_each(|value| f(pattern, value)));
    }

    /// All patterns and values.
    #[must_use]
    pub fn to_vec(&self) -> Vec<(Box<[u8]>, V)> {
        let mut all = Vec::new();
        self.for_each(|pattern, value| all.push((pattern.into(), value.clone())));
        all
    }

    /// Counts the subscriptions.
    #[must_use]
    pub fn len(&self) -> usize {
        let mut len = 0;
        self.for_each_pattern(|_, subscribers| len += subscribers.len());
        len
    }

    /// Reports whether there were no subscriptions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Like [`TupleSpace::matches`](crate::TupleSpace::matches), as of this moment.
    ///
    /// # Errors
    /// [`TextError`] if the subject is malformed. `found` is empty then.
    pub fn matches(&self, subject: &[u8], found: &mut Vec<V>) -> Result<(), TextError> {
        found.clear();
        let inner = &*self.view.inner;
        let mut words = inner.no_words();
        inner.read(&mut words, subject)?;
        let push = |view: Subscribers<'_, V>| view.for_each(|value| found.push(value.clone()));
        inner.lookup_at(&words, self.view.time, push, &epoch::pin());
        Ok(())
    }

    fn for_each_pattern(&self, mut f: impl FnMut(&[u8], Subscribers<'_, V>)) {
        let (inner, time) = (&*self.view.inner, self.view.time);
        let keys: Vec<_> = {
            let guard = &epoch::pin();
            let shapes = inner.directory(guard).shapes().iter();
            shapes.map(|shape| (shape.key, shape.bucket_bits(guard))).collect()
        };
        for (key, bits) in keys {
            for bucket in 0..1_usize << bits {
                let guard = &epoch::pin();
                // A shape without patterns, now or then, may have been retired.
                let Some(shape) = inner.directory(guard).get(key) else { break };
                let mut leaves = Vec::new();
                shape.bucket(&inner.core, bits, bucket, &mut leaves, guard);
                for leaf in leaves {
                    let hash = inner.core.hasher.hash(inner.core.dialect, leaf.text());
                    let view = inner.version(leaf, LeafLocation::Table(key, hash), time).view();
                    f(leaf.text(), view);
                }
            }
        }
        let guard = &epoch::pin();
        if let Some(root) = inner.overflow_root(guard)
            && let Held::Overflow(overflow) = inner.version(root, LeafLocation::Overflow, time)
        {
            overflow.for_each(inner.core.dialect, f);
        }
    }
}

impl<V: Clone + Send + Sync + 'static> fmt::Debug for Snapshot<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("generation", &self.view.time).finish_non_exhaustive()
    }
}
