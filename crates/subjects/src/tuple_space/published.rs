//! Two pointers that are replaced as a whole: the directory of shapes, and the root of the overflow.
#![expect(unsafe_code, reason = "values are reached by raw pointers under a reclamation scheme")]

use std::ptr;
use std::sync::Arc;

use super::core::{Core, LeafLocation, retire};
use super::epoch::{Guard, free_box};
use super::leaf::{Content, Held, Leaf, LeafRef};
use super::overflow::Overflow;
use super::sync::{AtomicPtr, Ordering};

/// An immutable value that can be replaced by another.
pub(crate) struct Published<T: Send + 'static>(AtomicPtr<T>);

impl<T: Send + 'static> Published<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(AtomicPtr::new(Box::into_raw(Box::new(value))))
    }

    #[inline]
    pub(crate) fn get<'g>(&self, _guard: &'g Guard) -> &'g T {
        // SAFETY: never null; a value is retired only after another one took its place.
        unsafe { &*self.0.load(Ordering::SeqCst) }
    }

    /// Replaces the value, unless `change` returns `None`.
    pub(crate) fn update(&self, change: impl Fn(&T) -> Option<T>, guard: &Guard) {
        loop {
            let old = self.0.load(Ordering::SeqCst);
            // SAFETY: as in `get`.
            let Some(new) = change(unsafe { &*old }) else { return };
            let new = Box::into_raw(Box::new(new));
            if self.0.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                // SAFETY: the exchange took it out of its only place, and it came from a box.
                unsafe { guard.defer_unchecked(move || free_box(Box::from_raw(old))) };
                return;
            }
            // SAFETY: the failed exchange has not published it.
            drop(unsafe { Box::from_raw(new) });
        }
    }
}

impl<T: Send + 'static> Drop for Published<T> {
    fn drop(&mut self) {
        // SAFETY: no other thread has it any more, and it came from a box.
        drop(unsafe { Box::from_raw(*self.0.get_mut()) });
    }
}

/// The root of the overflow, as a leaf, so that it has stamps and history like all leaves.
pub(crate) struct OverflowRoot<V: Clone + Send + Sync + 'static>(AtomicPtr<Leaf<V>>);

impl<V: Clone + Send + Sync + 'static> OverflowRoot<V> {
    pub(crate) fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    #[inline]
    pub(crate) fn get<'g>(&self, _guard: &'g Guard) -> Option<LeafRef<'g, V>> {
        // SAFETY: a root is retired only after another one took its place.
        unsafe { LeafRef::new(self.0.load(Ordering::SeqCst)) }
    }

    /// Replaces the root, unless `change` returns `None`. Its linearization point is that of the new root;
    /// see [`Core::settle`].
    pub(crate) fn update<R>(
        &self,
        core: &Core,
        change: impl Fn(&Overflow<V>) -> Option<(Overflow<V>, R)>,
        guard: &Guard,
    ) -> Option<R> {
        let empty = Overflow::default();
        loop {
            let old = self.get(guard);
            let overflow = match old.map(LeafRef::held) {
                Some(Held::Overflow(overflow)) => overflow,
                _ => &empty,
            };
            let (overflow, result) = change(overflow)?;
            if let Some(old) = old {
                core.settle(old, LeafLocation::Overflow);
            }
            let old = old.map_or(ptr::null_mut(), LeafRef::as_ptr);
            let new = Leaf::allocate(b"", Content::Overflow(Arc::new(overflow)), old);
            if self.0.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst).is_err() {
                // SAFETY: the failed exchange has not published it.
                unsafe { Leaf::free(new) };
                continue;
            }
            // SAFETY: only a thread that replaces it can retire it, and this thread is pinned.
            if let Some(new) = unsafe { LeafRef::new(new) } {
                core.settle(new, LeafLocation::Overflow);
            }
            if !old.is_null() {
                // SAFETY: the exchange took it out of its only place, and its successor is settled.
                unsafe { retire(old, guard) };
                // Each root leaves some nodes of trees, or as many trie nodes as its pattern has words. The
                // scheme frees eight bags at a time, and a full bag would have 64 roots: the thread that
                // frees them would stall.
                guard.flush();
            }
            return Some(result);
        }
    }
}

impl<V: Clone + Send + Sync + 'static> Drop for OverflowRoot<V> {
    fn drop(&mut self) {
        let root = *self.0.get_mut();
        if !root.is_null() {
            // SAFETY: no other thread has it any more.
            unsafe { Leaf::free(root) };
        }
    }
}
