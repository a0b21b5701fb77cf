//! State that all parts of a matcher share: its clock, its snapshots, its hash, and how stamps are decided.
#![expect(unsafe_code, reason = "memory is retired through the reclamation scheme")]

use std::ptr;

use super::clock::{Clock, Time};
use super::epoch::{Guard, Life, free_box};
use super::leaf::{Content, History, Leaf, LeafRef, Meta};
use super::registry::Registry;
use super::sync::{AtomicPtr, Ordering};
use super::words::{Hasher, ShapeKey};
use crate::scan::Scanner;
use crate::{Dialect, Limits};

/// The shared state; see the module's documentation.
pub(crate) struct Core {
    pub(crate) dialect: Dialect,
    pub(crate) limits: Limits,
    pub(crate) hasher: Hasher,
    pub(crate) scanner: Scanner,
    pub(crate) clock: Clock,
    pub(crate) registry: Registry,
    /// Places with a history to drop once its snapshots are gone: a stack.
    kept: AtomicPtr<Kept>,
}

/// The place of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeafLocation {
    /// In the table of this shape, under this hash.
    Table(ShapeKey, u64),
    /// The leaf is the root of the overflow.
    Overflow,
}

struct Kept {
    place: LeafLocation,
    next: *mut Kept,
}

impl Core {
    pub(crate) fn new(dialect: Dialect, limits: Limits) -> Self {
        Self {
            dialect,
            limits: limits.clamped(),
            hasher: Hasher::new(),
            scanner: Scanner::new(dialect),
            clock: Clock::new(),
            registry: Registry::new(),
            kept: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// When this leaf's version started. Decides it if it is undecided. This is the linearization point of
    /// the write that made the leaf: the reading of the clock whose result becomes the stamp.
    #[inline]
    pub(crate) fn settle<V: Clone>(&self, leaf: LeafRef<'_, V>, place: LeafLocation) -> Time {
        match leaf.meta() {
            Meta::Stamped(time) => time,
            Meta::Kept(history) => history.stamp,
            _ => self.decide(leaf, place),
        }
    }

    #[cold]
    fn decide<V: Clone>(&self, leaf: LeafRef<'_, V>, place: LeafLocation) -> Time {
        loop {
            let meta = leaf.meta();
            let replaced = match meta {
                Meta::Stamped(time) => return time,
                Meta::Kept(history) => return history.stamp,
                Meta::Fresh => None,
                Meta::Replaces(old) => Some(old),
            };
            let stamp = self.clock.stamp();
            // The order matters: a snapshot that is not registered yet will look at the clock after this, and
            // so see this write.
            let older = replaced.map_or_else(Vec::new, |old| self.older(old, stamp));
            if older.is_empty() {
                leaf.decide(&meta, stamp);
            } else if leaf.keep(&meta, History { stamp, older, life: Life::begin() }).is_ok() {
                // If the replaced leaf still has a history, its place is on the stack, or with a tidy that
                // will find this leaf: it checks the place again after it has dropped a history.
                let listed = replaced.is_some_and(|old| matches!(old.meta(), Meta::Kept(_)));
                if !listed {
                    self.push_kept(place);
                }
            }
        }
    }

    /// The versions up to `old` that a live snapshot sees, if `old` ends at `end`.
    fn older<V: Clone>(&self, old: LeafRef<'_, V>, mut end: Time) -> Vec<(Time, Content<V>)> {
        if self.registry.is_idle() {
            return Vec::new();
        }
        let (begin, history) = match old.meta() {
            Meta::Stamped(time) => (time, None),
            Meta::Kept(history) => (history.stamp, Some(history)),
            Meta::Fresh | Meta::Replaces(_) => unreachable!("a leaf is settled before it is replaced"),
        };
        let mut versions = Vec::new();
        if self.registry.needs(begin, end) {
            versions.push((begin, old.held().into_content()));
        }
        end = begin;
        for (begin, content) in history.into_iter().flat_map(|history| &history.older) {
            if self.registry.needs(*begin, end) {
                versions.push((*begin, content.held().into_content()));
            }
            end = *begin;
        }
        versions
    }

    /// Drops a leaf's history if no live snapshot sees any of it. Returns true if the leaf has none now.
    pub(crate) fn trim<V: Send + 'static>(&self, leaf: LeafRef<'_, V>, guard: &Guard) -> bool {
        match leaf.meta() {
            Meta::Kept(history) if self.registry.needs(0, history.stamp) => false,
            Meta::Kept(_) => {
                if let Some(history) = leaf.forget() {
                    // SAFETY: the exchange took it from the leaf, and any thread that reads it holds a guard
                    // from before.
                    unsafe { guard.defer_unchecked(move || free_box(Box::from_raw(history))) };
                }
                true
            }
            _ => true,
        }
    }

    fn push_kept(&self, place: LeafLocation) {
        let new = Box::into_raw(Box::new(Kept { place, next: ptr::null_mut() }));
        let mut head = self.kept.load(Ordering::Relaxed);
        loop {
            // SAFETY: no other thread has the new entry yet.
            unsafe { (*new).next = head };
            match self.kept.compare_exchange(head, new, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return,
                Err(newer) => head = newer,
            }
        }
    }

    /// Reports whether histories wait for a tidy, and no snapshot is alive.
    #[inline]
    pub(crate) fn is_untidy(&self) -> bool {
        !self.kept.load(Ordering::Relaxed).is_null() && self.registry.is_idle()
    }

    /// The places that are listed now, newest first. The caller must have the matcher to itself.
    #[cfg(all(test, not(shuttle)))]
    pub(crate) fn listed(&self) -> Vec<(*const (), LeafLocation)> {
        let mut entry = self.kept.load(Ordering::SeqCst);
        let mut listed = Vec::new();
        // SAFETY: entries live until they are taken from the stack, which no other thread does now.
        while let Some(kept) = unsafe { entry.as_ref() } {
            listed.push((entry.cast_const().cast(), kept.place));
            entry = kept.next;
        }
        listed
    }

    /// Calls `trim` for every place that may have a history. If it returns false, the place is kept for the
    /// next time. After `trim` has dropped a history it must check once more whether the place has another
    /// one by now.
    pub(crate) fn tidy(&self, mut trim: impl FnMut(LeafLocation) -> bool) {
        let mut entry = self.kept.swap(ptr::null_mut(), Ordering::SeqCst);
        while !entry.is_null() {
            // SAFETY: every entry came from a box, and the swap has given the whole stack to this thread.
            let kept = unsafe { Box::from_raw(entry) };
            if !trim(kept.place) {
                self.push_kept(kept.place);
            }
            entry = kept.next;
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.tidy(|_| true);
    }
}

/// Frees a leaf once no thread reads it any more.
///
/// # Safety
/// No thread that pins from now on can reach the leaf, and it is retired once.
pub(crate) unsafe fn retire<V: Send + 'static>(leaf: *mut Leaf<V>, guard: &Guard) {
    // SAFETY: as the caller promises.
    unsafe {
        (*leaf).is_retired();
        guard.defer_unchecked(move || Leaf::free(leaf));
    }
}
