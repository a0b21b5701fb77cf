//! One hash table of leaves: open addressing with linear probing, growing and shrinking a few slots at a
//! time.
//!
//! # Slots
//! ```text
//! Empty --> Leaf <--> Leaf' --> Deleted(time)      while the table is in use
//! Empty --> End                                    while it is moved into its successor
//! Leaf --> frozen Leaf --> Moved
//! Deleted --> Moved
//! ```
//! A slot that has held a leaf never becomes empty again. So a key that is not found is inserted at the first
//! empty slot after its home, and two writers of one key meet there. Deleted slots are left behind when the
//! table moves.
//!
//! # Moving
//! A writer that meets a table with a successor first moves the run of slots of its own key, then one chunk
//! of others. It changes the key only in the last table of the chain. A leaf is put into the successor before
//! its slot says `Moved`, and no thread changes it there until then. So a reader may trust a leaf, frozen or
//! not, and goes on to the successor if a run holds `Moved` or `End` and not its key. Any thread can take
//! over any step from one that has stopped. A move takes every leaf along, removed ones too.
//!
//! # Who retires a leaf
//! While it is moved, a leaf is in the slots of two tables, and of more if a mover stops before its slot says
//! `Moved` and the next table is moved, too. So only a *writer of the key* takes a leaf away. It has moved
//! the key's run in every table of the chain that has a successor. Then it exchanges the word of an unfrozen
//! leaf in the last table for another leaf or for a mark. At that moment that slot is the only one:
//! 1. A leaf gets into a slot when it is published, into one slot of the table of a writer of its key, or
//!    when it is moved from a frozen slot into a later table.
//! 2. *No earlier table holds it.* Tables that the head of the chain has passed are moved completely. In the
//!    others the writer has moved the run of the key: up to its `End` all slots say `Moved`, forever, and a
//!    key is nowhere else.
//! 3. *No later table holds it.* It would be put there out of its frozen slot here, but this slot is not
//!    frozen, and never was: a frozen word can only become `Moved`. Or it would be put there out of an
//!    earlier table by a thread that skips this one, but such a thread has moved the run here before.
//! 4. *No thread puts it back.* A helper has read the leaf in a slot that was frozen. It walks the run of the
//!    last table up to an empty slot, then checks whether its slot is still frozen, then fills the empty slot
//!    by an exchange; see [`Table::adopt_into`]. If its slot is still frozen then, no writer had taken the
//!    leaf away before, by 2. So the leaf is either where the helper has walked, or the first thread to come
//!    will put it into the same empty slot. A slot that was taken never becomes empty again, so the late
//!    exchange fails.
//!
//! Hence a thread that pins after the exchange cannot reach the leaf, and it is taken away once. Tables that
//! drop removed leaves while they are being filled break 2: an earlier version did that, and a leaf was freed
//! twice.
#![expect(unsafe_code, reason = "leaves and tables are reached by raw pointers under a reclamation scheme")]

use std::ptr;

use super::clock::Time;
use super::core::{Core, retire};
use super::epoch::{Guard, Life};
use super::leaf::{Leaf, LeafRef, Meta};
use super::slot::{Slot, Slots, Word};
use super::sync::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, prefetch, zeros};

/// The most slots that one write moves for others while a table grows, shrinks or is cleaned. It bounds the
/// pause of an operation: 16 slots hold about 10 leaves.
pub(crate) const MIGRATION_SLOTS: usize = 16;
/// Slots of the smallest table, as a power of two. Under slow checkers there are few, so that tables move all
/// the time.
const BITS_MIN: u32 = if cfg!(any(shuttle, miri)) { 2 } else { 4 };
const CHUNK: usize = if cfg!(any(shuttle, miri)) { 2 } else { MIGRATION_SLOTS };
/// Counters per table: a power of two.
const STRIPES: usize = 16;

/// Takes the place of a successor: the shape has none and will have none.
const RETIRED: usize = 1;

#[repr(C)]
pub(crate) struct Table<V> {
    /// How far to shift a hash right for its home.
    shift: u32,
    bits: u32,
    slots: Slots<V>,
    /// The newest time of a deletion that no slot records any more.
    dropped: AtomicU64,
    pub(crate) next: AtomicPtr<Self>,
    /// The next chunk to move.
    cursor: AtomicUsize,
    /// Number of chunks that are moved.
    moved: AtomicUsize,
    /// Which chunks are moved, as bits.
    done: Box<[AtomicU64]>,
    stripes: Box<[Stripe]>,
    /// Whether its predecessor is still being moved into it.
    is_target: AtomicBool,
    /// Whether it never holds anything: a table between a shape's last use and its retirement or its return.
    sealed: bool,
    pub(crate) life: Life,
}

/// Counters of a part of the slots, on a cache line of their own.
#[repr(align(64))]
struct Stripe {
    /// Slots that are not empty.
    used: AtomicUsize,
    /// Leaves with subscribers. Wraps below zero for a moment when a removal overtakes its insertion.
    live: AtomicUsize,
}

/// The place of a writer's key.
pub(crate) enum Seek<'g, V> {
    Found(usize, Word<'g, V>, LeafRef<'g, V>),
    /// Absent; this is where it would be.
    Vacant(usize),
    /// Another pattern has the same hash.
    Collision,
    /// The table has a successor.
    Migrating,
    Full,
}

/// What happened to a removed leaf.
#[derive(PartialEq, Eq)]
pub(crate) enum Buried {
    Now,
    /// It has subscribers, or a history, or its stamp is not decided.
    NotYet,
    /// Its slot holds something else by now, which may be the same leaf on its way to the next table.
    Elsewhere,
}

impl<V: Clone + Send + 'static> Table<V> {
    pub(crate) fn new(bits: u32) -> Self {
        let slots = 1_usize << bits;
        let stripes = (slots / 256).clamp(1, STRIPES);
        let stripe = |_| Stripe { used: AtomicUsize::new(0), live: AtomicUsize::new(0) };
        Self {
            shift: 64 - bits,
            bits,
            slots: Slots::empty(slots),
            dropped: AtomicU64::new(0),
            next: AtomicPtr::new(ptr::null_mut()),
            cursor: AtomicUsize::new(0),
            moved: AtomicUsize::new(0),
            done: zeros((slots / CHUNK).div_ceil(64)),
            stripes: (0..stripes).map(stripe).collect(),
            is_target: AtomicBool::new(false),
            sealed: false,
            life: Life::begin(),
        }
    }

    /// A table that sends every thread to its successor.
    pub(crate) fn sealed() -> Self {
        let table = Self { sealed: true, ..Self::smallest() };
        table.slots.end_all();
        table
    }

    pub(crate) fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// Reports whether this table ends its shape for good.
    pub(crate) fn is_retired(&self) -> bool {
        self.next.load(Ordering::SeqCst).addr() == RETIRED
    }

    /// Retires the shape of a sealed table, unless it has been revived.
    pub(crate) fn retire_shape(&self) -> bool {
        let (none, retired) = (ptr::null_mut(), ptr::without_provenance_mut(RETIRED));
        self.next.compare_exchange(none, retired, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Gives a sealed table a successor that can hold leaves. Returns false if its shape is retired.
    pub(crate) fn revive_shape(&self) -> bool {
        self.give_successor(Self::smallest());
        !self.is_retired()
    }

    pub(crate) fn smallest() -> Self {
        Self::new(BITS_MIN)
    }

    pub(crate) fn bits(&self) -> u32 {
        self.bits
    }

    /// The addresses of its slots.
    #[cfg(all(target_os = "linux", not(miri), not(shuttle)))]
    pub(crate) fn slots_memory(&self) -> std::ops::Range<usize> {
        self.slots.memory()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    pub(crate) fn home(&self, hash: u64) -> usize {
        (hash >> self.shift) as usize
    }

    /// Prefetches the slot at which the run of a hash starts.
    #[inline]
    pub(crate) fn prefetch_home(&self, hash: u64) {
        prefetch(self.slots.address(self.home(hash)));
    }

    #[inline]
    pub(crate) fn load<'g>(&self, index: usize, guard: &'g Guard) -> Word<'g, V> {
        self.life.is_used();
        self.slots.load(index, guard)
    }

    /// The newest deletion that this table's slots do not record.
    #[inline]
    pub(crate) fn dropped(&self) -> Time {
        self.dropped.load(Ordering::SeqCst)
    }

    pub(crate) fn note_dropped(&self, time: Time) {
        if self.dropped() < time {
            self.dropped.fetch_max(time, Ordering::SeqCst);
        }
    }

    pub(crate) fn successor<'g>(&self, _guard: &'g Guard) -> Option<&'g Self> {
        let next = self.next.load(Ordering::SeqCst);
        if next.addr() == RETIRED {
            return None;
        }
        // SAFETY: a successor lives until it is retired itself, which is after its predecessor; the guard
        // protects from both.
        unsafe { next.as_ref() }
    }

    // ---- counters ----

    fn stripe(&self, index: usize) -> &Stripe {
        &self.stripes[(index & (self.slots.len() - 1)) * self.stripes.len() / self.slots.len()]
    }

    /// The approximate number of leaves with subscribers.
    pub(crate) fn live(&self) -> usize {
        let sum = self
            .stripes
            .iter()
            .fold(0_usize, |sum, stripe| sum.wrapping_add(stripe.live.load(Ordering::Relaxed)));
        if sum > isize::MAX as usize { 0 } else { sum }
    }

    /// Counts a slot that was taken by a leaf. A table is moved when three fifths of a part are used, so that
    /// probing stays short.
    pub(crate) fn count_taken(&self, index: usize, live: bool) {
        let stripe = self.stripe(index);
        if live {
            stripe.live.fetch_add(1, Ordering::Relaxed);
        }
        let used = stripe.used.fetch_add(1, Ordering::Relaxed) + 1;
        if used * 5 >= self.slots.len() / self.stripes.len() * 3 {
            self.begin_migration();
        }
    }

    pub(crate) fn count_revived(&self, index: usize) {
        self.stripe(index).live.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a leaf that has lost its subscribers. A table is shrunk when an eighth of a part is live.
    /// Moving takes a write per 16 slots, so half of the rest still exists when that is done, and the next
    /// shrinking can start. With a sixteenth, a table whose patterns are all removed would end as large as it
    /// was, with no writer left to move it.
    pub(crate) fn count_emptied(&self, index: usize) {
        let live = self.stripe(index).live.fetch_sub(1, Ordering::Relaxed).wrapping_sub(1);
        let part = self.slots.len() / self.stripes.len();
        let may_shrink = self.bits > BITS_MIN && !self.is_target.load(Ordering::Relaxed);
        if may_shrink && live <= part / 8 && self.live() <= self.slots.len() / 8 {
            self.begin_migration();
        }
    }

    /// Gives the table a successor of the size that its leaves need, if it has none.
    ///
    /// Moving a table of n slots takes at most n / 16 writes, so its successor must have room for as many
    /// more leaves: it has at least an eighth of its size. A table that is itself still being filled from its
    /// predecessor can only grow.
    pub(crate) fn begin_migration(&self) {
        if !self.next.load(Ordering::SeqCst).is_null() {
            return;
        }
        let live = self.live();
        let mut bits = self.bits;
        if live * 2 > self.slots.len() || self.is_target.load(Ordering::Relaxed) {
            bits += 1;
        } else {
            let fewest = self.bits.saturating_sub(3).max(BITS_MIN);
            while bits > fewest && live * 16 <= 3 << bits {
                bits -= 1;
            }
        }
        self.give_successor(Self::new(bits));
    }

    /// Starts to move this table into `next`. Returns false if it has a successor already.
    pub(crate) fn give_successor(&self, next: Self) -> bool {
        next.is_target.store(true, Ordering::Relaxed);
        let next = Box::into_raw(Box::new(next));
        let given =
            self.next.compare_exchange(ptr::null_mut(), next, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if !given {
            // SAFETY: the failed exchange has not published it.
            drop(unsafe { Box::from_raw(next) });
        }
        given
    }

    /// Called when the predecessor is moved.
    pub(crate) fn filled(&self) {
        self.is_target.store(false, Ordering::Relaxed);
    }

    // ---- writers ----

    /// Finds the key of a writer: the leaf of this hash for which `is_it` holds.
    pub(crate) fn seek<'g>(
        &self,
        core: &Core,
        hash: u64,
        is_it: impl Fn(LeafRef<'g, V>) -> bool,
        guard: &'g Guard,
    ) -> Seek<'g, V> {
        let home = self.home(hash);
        let mut collision = false;
        for index in home..home + self.slots.len() {
            let word = self.load(index, guard);
            match word.decode() {
                Slot::Empty if collision => return Seek::Collision,
                Slot::Empty => return Seek::Vacant(index),
                Slot::Frozen(_) | Slot::Moved | Slot::End => return Seek::Migrating,
                Slot::Deleted(_) => {}
                Slot::Leaf(leaf) => {
                    if word.has_tag(hash) {
                        if is_it(leaf) {
                            return Seek::Found(index, word, leaf);
                        }
                        collision |= core.hasher.hash(core.dialect, leaf.text()) == hash;
                    }
                }
            }
        }
        Seek::Full
    }

    #[cfg_attr(shuttle, track_caller)]
    pub(crate) fn exchange(&self, index: usize, from: Word<'_, V>, to: Word<'_, V>) -> bool {
        self.life.is_used();
        self.slots.exchange(index, from, to)
    }

    // ---- moving ----

    /// Moves the slots where a key may be. Afterwards the key can only be in the successor, or further on.
    pub(crate) fn migrate_run(&self, core: &Core, hash: u64, guard: &Guard) {
        let Some(next) = self.successor(guard) else { return };
        let home = self.home(hash);
        for index in home..home + self.slots.len() {
            self.migrate_slot(index, next, core, guard);
            if matches!(self.load(index, guard).decode(), Slot::End) {
                return;
            }
        }
    }

    /// Moves one chunk that is not moved yet. Returns true once all are.
    pub(crate) fn migrate_chunk(&self, core: &Core, guard: &Guard) -> bool {
        let Some(next) = self.successor(guard) else { return false };
        let chunks = self.slots.len() / CHUNK;
        for _ in 0..4 {
            if self.moved.load(Ordering::SeqCst) >= chunks {
                return true;
            }
            // Goes round until all are done: if a thread has claimed a chunk and stopped, another one moves
            // it, too.
            let turn = self.cursor.fetch_add(1, Ordering::Relaxed);
            let chunk = turn % chunks;
            let bit = 1_u64 << (chunk % 64);
            let word = &self.done[chunk / 64];
            if word.load(Ordering::SeqCst) & bit != 0 {
                // In the third round a thread must have stopped between the mark and the count. Then the
                // marks decide.
                if turn >= 2 * chunks && self.all_marked(chunks) {
                    return true;
                }
                continue;
            }
            let slots = chunk * CHUNK..(chunk + 1) * CHUNK;
            for index in slots.clone() {
                prefetch(self.load(index, guard).address());
            }
            for index in slots {
                self.migrate_slot(index, next, core, guard);
            }
            if word.fetch_or(bit, Ordering::SeqCst) & bit == 0 {
                self.moved.fetch_add(1, Ordering::SeqCst);
            }
            break;
        }
        self.moved.load(Ordering::SeqCst) >= chunks
    }

    fn all_marked(&self, chunks: usize) -> bool {
        let marked = |word: &AtomicU64| word.load(Ordering::SeqCst).count_ones() as usize;
        self.done.iter().map(marked).sum::<usize>() == chunks
    }

    /// Moves everything. The caller must have the matcher to itself.
    pub(crate) fn migrate_all(&self, core: &Core, guard: &Guard) {
        if let Some(next) = self.successor(guard) {
            (0..self.slots.len()).for_each(|index| self.migrate_slot(index, next, core, guard));
        }
    }

    fn migrate_slot(&self, index: usize, next: &Self, core: &Core, guard: &Guard) {
        loop {
            let word = self.load(index, guard);
            match word.decode() {
                Slot::Moved | Slot::End => return,
                Slot::Empty => {
                    self.exchange(index, word, Word::END);
                }
                Slot::Deleted(time) => {
                    // Before the slot stops recording it.
                    next.note_dropped(time);
                    self.exchange(index, word, Word::MOVED);
                }
                Slot::Leaf(leaf)
                    if cfg!(tailrace_broken = "moved")
                        && self.bury(index, word, leaf, guard) == Buried::Now => {}
                Slot::Leaf(_) => {
                    self.exchange(index, word, word.frozen());
                }
                Slot::Frozen(leaf) => {
                    self.adopt_into(next, index, word, leaf, core, guard);
                    self.exchange(index, word, Word::MOVED);
                }
            }
        }
    }

    /// Starts to move the leaf of a key, like a thread that stops before its slot says `Moved`. Returns false
    /// if another thread moves it.
    #[cfg(shuttle)]
    pub(crate) fn begin_to_move(&self, core: &Core, hash: u64, guard: &Guard) -> bool {
        let Some(next) = self.successor(guard) else { return false };
        for index in self.home(hash)..self.home(hash) + self.slots.len() {
            let word = self.load(index, guard);
            if let Slot::Leaf(leaf) = word.decode()
                && core.hasher.hash(core.dialect, leaf.text()) == hash
                && self.exchange(index, word, word.frozen())
            {
                self.adopt_into(next, index, word.frozen(), leaf, core, guard);
                return true;
            }
        }
        false
    }

    /// Puts the leaf of a frozen slot into the successor, or finds it there.
    ///
    /// Why a late helper cannot bring back what was removed meanwhile: a leaf that was put into the successor
    /// is before the first empty slot of its run. It is not changed before the frozen slot says `Moved`,
    /// except for being moved on. So a thread that has walked the run up to an empty slot without meeting the
    /// leaf, and *then* still finds the slot frozen, knows that the leaf is not there yet or will contend for
    /// that same empty slot.
    fn adopt_into<'g>(
        &self,
        mut into: &'g Self,
        from: usize,
        frozen: Word<'g, V>,
        leaf: LeafRef<'_, V>,
        core: &Core,
        guard: &'g Guard,
    ) {
        let hash = core.hasher.hash(core.dialect, leaf.text());
        'tables: loop {
            while let Some(next) = into.successor(guard) {
                into.migrate_run(core, hash, guard);
                into = next;
            }
            if into.is_sealed() {
                if into.revive_shape() {
                    continue;
                }
                // Only a leaf that was moved long ago leads here.
                return;
            }
            let home = into.home(hash);
            let mut index = home;
            while index < home + into.slots.len() {
                let word = into.load(index, guard);
                match word.decode() {
                    Slot::Empty => {
                        if self.load(from, guard) != frozen {
                            return;
                        }
                        if into.exchange(index, word, frozen.thawed()) {
                            into.count_taken(index, !leaf.view().is_none());
                            return;
                        }
                        // Another thread was faster: look at the same slot again.
                        continue;
                    }
                    Slot::Leaf(own) | Slot::Frozen(own) if own.as_ptr() == leaf.as_ptr() => return,
                    Slot::Moved | Slot::End => continue 'tables,
                    Slot::Leaf(_) | Slot::Frozen(_) | Slot::Deleted(_) => index += 1,
                }
            }
            into.begin_migration();
        }
    }

    /// Turns a removed leaf into a mark that records when it was removed, unless a snapshot still needs it.
    /// The table must be that of a writer of this key, as for every exchange that takes a leaf out of its
    /// slot.
    pub(crate) fn bury(
        &self,
        index: usize,
        word: Word<'_, V>,
        leaf: LeafRef<'_, V>,
        guard: &Guard,
    ) -> Buried {
        let Meta::Stamped(time) = leaf.meta() else { return Buried::NotYet };
        if !leaf.view().is_none() {
            return Buried::NotYet;
        }
        if !self.exchange(index, word, Word::deleted(time)) {
            return Buried::Elsewhere;
        }
        // SAFETY: a writer takes a leaf out of its only slot; see "Who retires a leaf".
        unsafe { retire(leaf.as_ptr(), guard) };
        Buried::Now
    }

    /// The successor of a table that no other thread has, or null.
    pub(crate) fn last_successor(&mut self) -> *mut Self {
        let next = *self.next.get_mut();
        if next.addr() == RETIRED { ptr::null_mut() } else { next }
    }

    /// Frees all leaves, and leaves the slots empty.
    ///
    /// # Safety
    /// No other thread has this table, and it is the last one of its chain.
    pub(crate) unsafe fn free_leaves(&self, guard: &Guard) {
        for index in 0..self.slots.len() {
            let word = self.load(index, guard);
            if let Slot::Leaf(leaf) = word.decode() {
                self.slots.clear(index);
                // SAFETY: no other thread has the matcher, and each leaf is in one slot of its last table.
                unsafe { Leaf::free(leaf.as_ptr()) };
            }
        }
    }
}
