//! I-nodes, the root, and the only writes to shared memory: GCAS and the change of the root. All `unsafe` code of the trie is here.
//!
//! **Who owns what.** An I-node's pointer owns one count of the [`Main`] that it points to; so does the root's pointer of its
//! [`Root`]. While a write is pending, its [`Pending`] owns the count of the node that it replaced. Everything else is plain
//! [`Arc`].
//!
//! **Why a load is safe.** A count that a shared pointer gave up is released by the epoch collector, after every guard that was
//! there at that time is gone. Whoever loads a pointer holds a guard; so the node it leads to lives until that guard goes,
//! and so does everything below, because the node holds it. A snapshot releases its root in the same way.
//!
//! **No ABA.** For the same reason no address is used again while somebody who compares it holds his guard. One node can come
//! back to its I-node: when the write that replaced it fails. That write never took effect, so nothing was missed.
//!
//! Every atomic operation is sequentially consistent: a writer writes the I-node and then reads the root, a snapshot writes the
//! root and then reads the I-node, and one of the two must see the other.

#![expect(
    unsafe_code,
    reason = "shared pointers with counts, released by epochs; the rest of the trie is safe code"
)]

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering::SeqCst};

use crossbeam_epoch::Guard;

use super::node::{Branches, Kind, Main, into_children};

/// A place whose content changes: the only mutable part of the trie.
///
/// It changes in two steps (GCAS, section 3 of the paper). A compare-and-swap puts the new node in, which remembers the old one
/// as [`Pending`]; then whoever comes by decides: if the root still has this I-node's generation, the new node is committed, and
/// otherwise it failed and the old one goes back. So nothing changes in a generation that a snapshot has frozen.
pub(super) struct INode<V> {
    main: AtomicPtr<Main<V>>,
    pub(super) generation: u64,
    /// It holds a count.
    owns: PhantomData<Arc<Main<V>>>,
}

/// The node that an undecided write replaced: null when the write is committed, tagged when it failed.
pub(super) struct Pending<V>(AtomicPtr<Main<V>>);

impl<V> Pending<V> {
    pub(super) fn none() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }
}

/// In the lowest bit of a [`Pending`]; nodes are aligned to more than one byte.
const FAILED: usize = 1;

fn failed<V>(prev: *mut Main<V>) -> *mut Main<V> {
    prev.map_addr(|address| address | FAILED)
}

/// A node that was loaded under a guard.
pub(super) struct Loaded<'g, V> {
    raw: *mut Main<V>,
    guard: PhantomData<&'g Main<V>>,
}

impl<V> Clone for Loaded<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Loaded<'_, V> {}

impl<V> PartialEq for Loaded<'_, V> {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

impl<'g, V> Loaded<'g, V> {
    pub(super) fn get(self) -> &'g Main<V> {
        // SAFETY: the pointer came from an I-node under the guard of `'g`, which keeps the node alive (module text); nodes are
        // changed only through their atomics.
        unsafe { &*self.raw }
    }
}

impl<V> Deref for Loaded<'_, V> {
    type Target = Main<V>;

    fn deref(&self) -> &Main<V> {
        self.get()
    }
}

/// Gives up a count that a shared pointer held.
fn release<T: 'static>(raw: *mut T, guard: &Guard) {
    // SAFETY: `raw` came from `Arc::into_raw`, and its count was owned by the pointer that the caller has just replaced, and by
    // nobody else. The collector may run this on another thread and after the trie is gone: values come in only through
    // `Matcher::subscribe`, whose bounds are `Send`, `Sync` and `'static`.
    unsafe { guard.defer_unchecked(move || drop(Arc::from_raw(raw.cast_const()))) }
}

impl<V> INode<V> {
    pub(super) fn new(generation: u64, main: Main<V>) -> Self {
        let main = AtomicPtr::new(Arc::into_raw(Arc::new(main)).cast_mut());
        Self { main, generation, owns: PhantomData }
    }

    /// Points nowhere yet: only for the top of a new root.
    fn unset(generation: u64) -> Self {
        Self { main: AtomicPtr::new(ptr::null_mut()), generation, owns: PhantomData }
    }

    /// What it points to, decided or not.
    pub(super) fn load<'g>(&'g self, _guard: &'g Guard) -> Loaded<'g, V> {
        let raw = self.main.load(SeqCst);
        debug_assert!(!raw.is_null(), "only an unresolved root points nowhere");
        Loaded { raw, guard: PhantomData }
    }

    fn take(&mut self) -> Option<Arc<Main<V>>> {
        let raw = std::mem::replace(self.main.get_mut(), ptr::null_mut());
        // SAFETY: the pointer came from `Arc::into_raw`, its count is this I-node's, and it was taken out just now.
        (!raw.is_null()).then(|| unsafe { Arc::from_raw(raw.cast_const()) })
    }
}

impl<V> Drop for INode<V> {
    /// Without recursion, because a pattern may have 10,000 words.
    fn drop(&mut self) {
        let mut mains = Vec::from_iter(self.take());
        while let Some(main) = mains.pop() {
            for inode in Arc::into_inner(main).into_iter().flat_map(into_children) {
                mains.extend(Arc::into_inner(inode).and_then(|mut inode| inode.take()));
            }
        }
    }
}

/// The top of a trie in one generation.
pub(super) struct Root<V> {
    pub(super) top: INode<V>,
    /// The root that this one replaced. Read only while `top` points nowhere, which is while that root's new owner is still at it.
    origin: *const Root<V>,
}

// SAFETY: `origin` is only read, and only while it is alive (see `Indirection::resolve`); the rest is `Send` and `Sync` by itself if
// nodes are, which they are if values are.
unsafe impl<V: Send + Sync> Send for Root<V> {}
// SAFETY: as above.
unsafe impl<V: Send + Sync> Sync for Root<V> {}

/// The pointer to the current root, and all that is done with it.
///
/// The paper changes the root by RDCSS: root and top node are compared together, so that the new root takes over a node that no
/// write can replace meanwhile. Here the new root takes over nothing at first. From the moment that it is in place, no write to the old
/// generation commits any more, so that the old top node stands still and whoever comes first copies it. The effect is the
/// same, and it needs no descriptors.
pub(super) struct Indirection<V> {
    root: AtomicPtr<Root<V>>,
    owns: PhantomData<Arc<Root<V>>>,
}

impl<V: 'static> Indirection<V> {
    pub(super) fn new() -> Self {
        let top = INode::new(0, Main::new(Kind::Branches(Branches::empty())));
        let root = Arc::new(Root { top, origin: ptr::null() });
        Self { root: AtomicPtr::new(Arc::into_raw(root).cast_mut()), owns: PhantomData }
    }

    fn load_root<'g>(&'g self, _guard: &'g Guard) -> &'g Root<V> {
        // SAFETY: never null, and loaded under a guard (module text).
        unsafe { &*self.root.load(SeqCst) }
    }

    /// The current root, ready to be read.
    pub(super) fn root<'g>(&'g self, guard: &'g Guard) -> &'g Root<V> {
        let root = self.load_root(guard);
        self.resolve(root, guard);
        root
    }

    /// Whether this is still the current root.
    pub(super) fn is_current(&self, root: &Root<V>) -> bool {
        ptr::eq(self.root.load(SeqCst), root)
    }

    pub(super) fn generation(&self, guard: &Guard) -> u64 {
        self.load_root(guard).top.generation
    }

    /// Lets a new root's top share the node of the root before.
    fn resolve(&self, root: &Root<V>, guard: &Guard) {
        if !root.top.main.load(SeqCst).is_null() {
            return;
        }
        // SAFETY: `freeze` owns the origin and holds it until its own `resolve` has set the pointer that was null just now. It gives the
        // count up through the collector and this guard was there before, so the origin outlives this call.
        let origin = unsafe { &*root.origin };
        // The origin's generation is over, so that this is decided and stays.
        let main = self.committed(&origin.top, guard);
        // SAFETY: the origin's top owns a count; this makes another.
        unsafe { Arc::increment_strong_count(main.raw.cast_const()) };
        let set = root.top.main.compare_exchange(ptr::null_mut(), main.raw, SeqCst, SeqCst);
        if set.is_err() {
            // SAFETY: the count made above, which nobody else knows of.
            unsafe { Arc::decrement_strong_count(main.raw.cast_const()) };
        }
    }

    /// Ends the current generation: its root, which never changes again, goes to the caller. This is the linearization point of a
    /// snapshot, and takes constant time.
    pub(super) fn freeze(&self, guard: &Guard) -> Arc<Root<V>> {
        loop {
            let raw = self.root.load(SeqCst);
            let origin = self.root(guard);
            if !ptr::eq(raw, origin) {
                continue;
            }
            let root = Root { top: INode::unset(origin.top.generation + 1), origin: raw };
            let new = Arc::into_raw(Arc::new(root)).cast_mut();
            if self.root.compare_exchange(raw, new, SeqCst, SeqCst).is_ok() {
                // SAFETY: it was shared just now, and the guard is older than that.
                self.resolve(unsafe { &*new }, guard);
                // SAFETY: the count that the pointer held until the exchange.
                return unsafe { Arc::from_raw(raw.cast_const()) };
            }
            // SAFETY: it never was shared.
            drop(unsafe { Arc::from_raw(new.cast_const()) });
        }
    }

    /// Gives up a frozen root. Threads that found it while it was current may still be reading.
    pub(super) fn release_root(root: Arc<Root<V>>, guard: &Guard) {
        release(Arc::into_raw(root).cast_mut(), guard);
    }

    /// What an I-node points to, after deciding a write that is pending there (GCAS_Commit of the paper).
    #[inline]
    pub(super) fn committed<'g>(&self, inode: &'g INode<V>, guard: &'g Guard) -> Loaded<'g, V> {
        let main = inode.load(guard);
        if main.pending.0.load(SeqCst).is_null() { main } else { self.decide(inode, guard) }
    }

    #[cold]
    fn decide<'g>(&self, inode: &'g INode<V>, guard: &'g Guard) -> Loaded<'g, V> {
        loop {
            let main = inode.load(guard);
            let prev = main.pending.0.load(SeqCst);
            if prev.is_null() {
                return main;
            }
            if prev.addr() & FAILED != 0 {
                let old = prev.map_addr(|address| address & !FAILED);
                // The old node's count goes back to the I-node, and the failed one's is given up.
                if inode.main.compare_exchange(main.raw, old, SeqCst, SeqCst).is_ok() {
                    release(main.raw, guard);
                }
            } else if self.generation(guard) == inode.generation {
                let commit = main.pending.0.compare_exchange(prev, ptr::null_mut(), SeqCst, SeqCst);
                if commit.is_ok() {
                    release(prev, guard);
                }
            } else {
                // Either outcome is one: the next round sees which.
                _ = main.pending.0.compare_exchange(prev, failed(prev), SeqCst, SeqCst);
            }
        }
    }

    /// Replaces `old`, which [`Indirection::committed`] gave, unless it was replaced before or the generation is over.
    pub(super) fn gcas(&self, inode: &INode<V>, old: Loaded<'_, V>, new: Main<V>, guard: &Guard) -> bool {
        debug_assert!(old.branches().is_some(), "a tomb never changes");
        new.pending.0.store(old.raw, SeqCst);
        let new = Arc::into_raw(Arc::new(new)).cast_mut();
        if inode.main.compare_exchange(old.raw, new, SeqCst, SeqCst).is_err() {
            // SAFETY: it never was shared.
            drop(unsafe { Arc::from_raw(new.cast_const()) });
            return false;
        }
        self.committed(inode, guard);
        // SAFETY: it was shared just now, and the guard is older than that.
        unsafe { &*new }.pending.0.load(SeqCst).is_null()
    }

    /// A new I-node of a newer generation with the same content.
    pub(super) fn renewed(&self, inode: &INode<V>, generation: u64, guard: &Guard) -> INode<V> {
        let main = self.committed(inode, guard);
        // SAFETY: the I-node owns a count; this makes another, for the new one.
        unsafe { Arc::increment_strong_count(main.raw.cast_const()) };
        INode { main: AtomicPtr::new(main.raw), generation, owns: PhantomData }
    }
}

impl<V> Drop for Indirection<V> {
    fn drop(&mut self) {
        // SAFETY: the count of the pointer, which nobody uses any more.
        drop(unsafe { Arc::from_raw(self.root.get_mut().cast_const()) });
    }
}
