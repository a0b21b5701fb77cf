//! I-nodes, the root, and the only writes to shared memory: GCAS and the change of the root. All `unsafe`
//! code of the trie is here.
//!
//! **Who owns what.** An I-node's pointer owns one count of the [`Main`] that it points to; so does the
//! root's pointer of its [`Root`]. While a write is pending, its [`Pending`] owns the count of the node that
//! it replaced. Everything else is plain [`Arc`].
//!
//! **Why a load is safe.** A count that a shared pointer gave up is released by the epoch collector, after
//! every guard that existed at that time has ended. A thread that loads a pointer holds a guard. So the node
//! it leads to lives until that guard ends, and so does everything below, because the node holds it. A
//! snapshot releases its root in the same way.
//!
//! **No ABA.** For the same reason no address is reused while a thread that compares it holds its guard. One
//! node can come back to its I-node: when the write that replaced it fails. That write never took effect, so
//! nothing was missed.
//!
//! Every atomic operation is sequentially consistent. A writer writes the I-node and then reads the root, a
//! snapshot writes the root and then reads the I-node, and one of the two must see the other.

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

/// What an I-node points to: a main node of the paper. It is immutable once it is shared, except for its
/// [`Pending`].
pub(super) trait MainNode: Sized {
    /// The write that put it in, while that is undecided.
    fn pending(&self) -> &Pending<Self>;

    /// True if an I-node that points to it never changes again.
    fn is_tomb(&self) -> bool;

    /// The I-nodes below this node that have no other owner. The node itself is dropped.
    fn into_children(self) -> impl Iterator<Item = Arc<INode<Self>>>;
}

/// A place whose content changes: the only mutable part of the trie.
///
/// It changes in two steps (GCAS, section 3 of the paper). A compare-and-swap puts the new node in, which
/// remembers the old one as [`Pending`]. Then the next thread to pass decides: if the root still has this
/// I-node's generation, the new node is committed; otherwise it has failed and the old one is put back. So
/// nothing changes in a generation that a snapshot has frozen.
pub(super) struct INode<M: MainNode> {
    main: AtomicPtr<M>,
    pub(super) generation: u64,
    /// It holds a count.
    owns: PhantomData<Arc<M>>,
}

/// The node that an undecided write replaced: null once the write is committed, tagged once it has failed.
pub(super) struct Pending<M>(AtomicPtr<M>);

impl<M> Pending<M> {
    pub(super) fn none() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }
}

/// In the lowest bit of a [`Pending`]; nodes are aligned to more than one byte.
const FAILED: usize = 1;

fn failed<M>(prev: *mut M) -> *mut M {
    prev.map_addr(|address| address | FAILED)
}

/// A node that was loaded under a guard.
pub(super) struct Loaded<'g, M> {
    raw: *mut M,
    guard: PhantomData<&'g M>,
}

impl<M> Clone for Loaded<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Loaded<'_, M> {}

impl<M> PartialEq for Loaded<'_, M> {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

impl<'g, M> Loaded<'g, M> {
    pub(super) fn get(self) -> &'g M {
        // SAFETY: the pointer came from an I-node under the guard of `'g`, which keeps the node alive (module
        // text); nodes are changed only through their atomics.
        unsafe { &*self.raw }
    }
}

impl<M> Deref for Loaded<'_, M> {
    type Target = M;

    fn deref(&self) -> &M {
        self.get()
    }
}

/// Releases a count that a shared pointer held.
fn release<T: 'static>(raw: *mut T, guard: &Guard) {
    // SAFETY: `raw` came from `Arc::into_raw`, and its count was owned by the pointer that the caller has
    // just replaced, and by no other. The collector may run this on another thread and after the trie is
    // gone: values come in only through `Matcher::subscribe`, whose bounds are `Send`, `Sync` and `'static`.
    unsafe { guard.defer_unchecked(move || drop(Arc::from_raw(raw.cast_const()))) }
}

impl<M: MainNode> INode<M> {
    pub(super) fn new(generation: u64, main: M) -> Self {
        let main = AtomicPtr::new(Arc::into_raw(Arc::new(main)).cast_mut());
        Self { main, generation, owns: PhantomData }
    }

    /// Points nowhere yet: only for the top of a new root.
    fn unset(generation: u64) -> Self {
        Self { main: AtomicPtr::new(ptr::null_mut()), generation, owns: PhantomData }
    }

    /// What it points to, decided or not.
    pub(super) fn load<'g>(&'g self, _guard: &'g Guard) -> Loaded<'g, M> {
        let raw = self.main.load(SeqCst);
        debug_assert!(!raw.is_null(), "only an unresolved root points nowhere");
        Loaded { raw, guard: PhantomData }
    }

    fn take(&mut self) -> Option<Arc<M>> {
        let raw = std::mem::replace(self.main.get_mut(), ptr::null_mut());
        // SAFETY: the pointer came from `Arc::into_raw`, its count is this I-node's, and it was taken out
        // just now.
        (!raw.is_null()).then(|| unsafe { Arc::from_raw(raw.cast_const()) })
    }
}

impl<M: MainNode> Drop for INode<M> {
    /// Avoids recursion, because a pattern may have 10,000 words.
    fn drop(&mut self) {
        let mut mains = Vec::from_iter(self.take());
        while let Some(main) = mains.pop() {
            for inode in Arc::into_inner(main).into_iter().flat_map(M::into_children) {
                mains.extend(Arc::into_inner(inode).and_then(|mut inode| inode.take()));
            }
        }
    }
}

/// The top of a trie in one generation.
pub(super) struct Root<M: MainNode> {
    pub(super) top: INode<M>,
    /// The root that this one replaced. Read only while `top` points nowhere, that is while that root's new
    /// owner is still setting it.
    origin: *const Root<M>,
}

// SAFETY: `origin` is only read, and only while it is alive (see `Indirection::resolve`); the rest is `Send`
// and `Sync` by itself if nodes are.
unsafe impl<M: MainNode + Send + Sync> Send for Root<M> {}
// SAFETY: as above.
unsafe impl<M: MainNode + Send + Sync> Sync for Root<M> {}

/// The pointer to the current root, and all operations on it.
///
/// The paper changes the root by RDCSS: it compares root and top node together, so that the new root takes
/// over a node that no write can replace meanwhile. Here the new root takes over nothing at first. From the
/// moment that it is in place, no write to the old generation commits any more. So the old top node stands
/// still, and the first thread to come copies it. The effect is the same, and it needs no descriptors.
pub(super) struct Indirection<M: MainNode> {
    root: AtomicPtr<Root<M>>,
    owns: PhantomData<Arc<Root<M>>>,
}

impl<M: MainNode + 'static> Indirection<M> {
    /// Creates it with a top that points to `main`.
    pub(super) fn new(main: M) -> Self {
        let top = INode::new(0, main);
        let root = Arc::new(Root { top, origin: ptr::null() });
        Self { root: AtomicPtr::new(Arc::into_raw(root).cast_mut()), owns: PhantomData }
    }

    fn load_root<'g>(&'g self, _guard: &'g Guard) -> &'g Root<M> {
        // SAFETY: never null, and loaded under a guard (module text).
        unsafe { &*self.root.load(SeqCst) }
    }

    /// The current root, ready to be read.
    pub(super) fn root<'g>(&'g self, guard: &'g Guard) -> &'g Root<M> {
        let root = self.load_root(guard);
        self.resolve(root, guard);
        root
    }

    /// Reports whether this is still the current root.
    pub(super) fn is_current(&self, root: &Root<M>) -> bool {
        ptr::eq(self.root.load(SeqCst), root)
    }

    pub(super) fn generation(&self, guard: &Guard) -> u64 {
        self.load_root(guard).top.generation
    }

    /// Makes a new root's top share the node of the previous root.
    fn resolve(&self, root: &Root<M>, guard: &Guard) {
        if !root.top.main.load(SeqCst).is_null() {
            return;
        }
        // SAFETY: `freeze` owns the origin and holds it until its own `resolve` has set the pointer that was
        // null just now. It gives the count up through the collector and this guard was there before, so the
        // origin outlives this call.
        let origin = unsafe { &*root.origin };
        // The origin's generation is over, so this is decided and final.
        let main = self.committed(&origin.top, guard);
        // SAFETY: the origin's top owns a count; this makes another.
        unsafe { Arc::increment_strong_count(main.raw.cast_const()) };
        let set = root.top.main.compare_exchange(ptr::null_mut(), main.raw, SeqCst, SeqCst);
        if set.is_err() {
            // SAFETY: the count made above, which no other thread knows of.
            unsafe { Arc::decrement_strong_count(main.raw.cast_const()) };
        }
    }

    /// Ends the current generation: its root, which never changes again, goes to the caller. This is the
    /// linearization point of a snapshot, and takes constant time.
    pub(super) fn freeze(&self, guard: &Guard) -> Arc<Root<M>> {
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

    /// Releases a frozen root. Threads that found it while it was current may still be reading.
    pub(super) fn release_root(root: Arc<Root<M>>, guard: &Guard) {
        release(Arc::into_raw(root).cast_mut(), guard);
    }

    /// What an I-node points to, after deciding a write that is pending there (GCAS_Commit of the paper).
    #[inline]
    pub(super) fn committed<'g>(&self, inode: &'g INode<M>, guard: &'g Guard) -> Loaded<'g, M> {
        let main = inode.load(guard);
        if main.pending().0.load(SeqCst).is_null() { main } else { self.decide(inode, guard) }
    }

    #[cold]
    fn decide<'g>(&self, inode: &'g INode<M>, guard: &'g Guard) -> Loaded<'g, M> {
        loop {
            let main = inode.load(guard);
            let prev = main.pending().0.load(SeqCst);
            if prev.is_null() {
                return main;
            }
            if prev.addr() & FAILED != 0 {
                let old = prev.map_addr(|address| address & !FAILED);
                // The old node's count goes back to the I-node, and the failed one's is released.
                if inode.main.compare_exchange(main.raw, old, SeqCst, SeqCst).is_ok() {
                    release(main.raw, guard);
                }
            } else if self.generation(guard) == inode.generation {
                let commit = main.pending().0.compare_exchange(prev, ptr::null_mut(), SeqCst, SeqCst);
                if commit.is_ok() {
                    release(prev, guard);
                }
            } else {
                // Either outcome will do: the next round sees which.
                _ = main.pending().0.compare_exchange(prev, failed(prev), SeqCst, SeqCst);
            }
        }
    }

    /// Replaces `old`, which [`Indirection::committed`] returned, unless it was replaced before or the
    /// generation is over.
    pub(super) fn gcas(&self, inode: &INode<M>, old: Loaded<'_, M>, new: M, guard: &Guard) -> bool {
        debug_assert!(!old.is_tomb(), "a tomb never changes");
        new.pending().0.store(old.raw, SeqCst);
        let new = Arc::into_raw(Arc::new(new)).cast_mut();
        if inode.main.compare_exchange(old.raw, new, SeqCst, SeqCst).is_err() {
            // SAFETY: it never was shared.
            drop(unsafe { Arc::from_raw(new.cast_const()) });
            return false;
        }
        self.committed(inode, guard);
        // SAFETY: it was shared just now, and the guard is older than that.
        unsafe { &*new }.pending().0.load(SeqCst).is_null()
    }

    /// A new I-node of a newer generation with the same content.
    pub(super) fn renewed(&self, inode: &INode<M>, generation: u64, guard: &Guard) -> INode<M> {
        let main = self.committed(inode, guard);
        // SAFETY: the I-node owns a count; this makes another, for the new one.
        unsafe { Arc::increment_strong_count(main.raw.cast_const()) };
        INode { main: AtomicPtr::new(main.raw), generation, owns: PhantomData }
    }
}

impl<M: MainNode> Drop for Indirection<M> {
    fn drop(&mut self) {
        // SAFETY: the count of the pointer, which no thread uses any more.
        drop(unsafe { Arc::from_raw(self.root.get_mut().cast_const()) });
    }
}
