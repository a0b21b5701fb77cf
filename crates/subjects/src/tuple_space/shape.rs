//! All patterns of one shape: a chain of tables, of which all but the last are being moved into the next.
#![expect(unsafe_code, reason = "tables are reached by raw pointers under a reclamation scheme")]

use super::clock::Time;
use super::conflict::{Conflict, is_late};
use super::core::{Core, LeafLocation, retire};
use super::epoch::{Guard, free_box};
use super::leaf::{Leaf, LeafRef, Meta};
use super::release::retire_table;
use super::slot::{Slot, Word};
use super::subscribers::{SubscriberId, Subscribers};
use super::sync::{AtomicPtr, Ordering, prefetch};
use super::table::{Buried, Seek, Table};
use super::words::ShapeKey;

pub(crate) struct Shape<V: Clone + Send + 'static> {
    pub(crate) key: ShapeKey,
    head: AtomicPtr<Table<V>>,
}

/// Why a shape cannot take a pattern.
pub(crate) enum NotHere {
    /// The pattern has the same hash as another one and must be kept in the overflow.
    Collision,
    /// The shape has been retired: look it up once more.
    Retired,
}

impl<V: Clone + Send + 'static> Shape<V> {
    pub(crate) fn new(key: ShapeKey) -> Self {
        Self { key, head: AtomicPtr::new(Box::into_raw(Box::new(Table::smallest()))) }
    }

    #[inline]
    pub(crate) fn head<'g>(&self, _guard: &'g Guard) -> &'g Table<V> {
        // SAFETY: the head is never null, and is retired only after another one took its place.
        unsafe { &*self.head.load(Ordering::SeqCst) }
    }

    // ---- readers ----

    /// Finds the leaf of this hash for which `is_it` holds. A conflict if it may have been removed after
    /// `time`.
    #[inline]
    pub(crate) fn find<'g>(
        &self,
        core: &Core,
        mut table: &'g Table<V>,
        hash: u64,
        is_it: impl Fn(LeafRef<'g, V>) -> bool,
        time: Time,
        guard: &'g Guard,
    ) -> Result<Option<LeafRef<'g, V>>, Conflict> {
        loop {
            if is_late(table.dropped(), time) {
                return Err(Conflict);
            }
            let mut moved = false;
            let home = table.home(hash);
            for index in home..home + table.capacity() {
                let word = table.load(index, guard);
                if word.is_empty() {
                    break;
                }
                match word.decode() {
                    Slot::Leaf(leaf) | Slot::Frozen(leaf) => {
                        if word.is_candidate(hash) {
                            // A leaf often spans two cache lines: prefetch both at once.
                            prefetch(leaf.as_ptr().wrapping_byte_add(48));
                            if is_it(leaf) {
                                return Ok(Some(leaf));
                            }
                        }
                    }
                    Slot::Deleted(removed) if is_late(removed, time) => return Err(Conflict),
                    Slot::Deleted(_) | Slot::Empty => {}
                    Slot::Moved => moved = true,
                    Slot::End => {
                        moved = true;
                        break;
                    }
                }
            }
            if !moved {
                return Ok(None);
            }
            self.help_sometimes(core, hash, guard);
            match table.successor(guard) {
                Some(next) => table = next,
                None => return Ok(None),
            }
        }
    }

    /// Readers finish a move that no writer continues, one in sixteen of them at a time.
    fn help_sometimes(&self, core: &Core, hash: u64, guard: &Guard) {
        if hash & 0xf0_0000 == 0 {
            self.help(core, guard);
        }
    }

    // ---- writers ----

    /// Adds a subscriber to a pattern of this shape. Its linearization point is that of its leaf; see
    /// [`Core::settle`].
    pub(crate) fn add(
        &self,
        core: &Core,
        hash: u64,
        text: &[u8],
        value: &V,
        guard: &Guard,
    ) -> Result<SubscriberId, NotHere> {
        loop {
            let Some(table) = self.writer_table(core, hash, guard) else { return Err(NotHere::Retired) };
            if let Some(result) = self.add_in(table, core, hash, text, value, guard) {
                return result;
            }
        }
    }

    /// One attempt in a writer's table. `None` if it must be repeated.
    pub(crate) fn add_in(
        &self,
        table: &Table<V>,
        core: &Core,
        hash: u64,
        text: &[u8],
        value: &V,
        guard: &Guard,
    ) -> Option<Result<SubscriberId, NotHere>> {
        let place = LeafLocation::Table(self.key, hash);
        match table.seek(core, hash, |leaf| leaf.text() == text, guard) {
            Seek::Vacant(index) => {
                let new = Leaf::allocate(text, Subscribers::One(0, value.clone()), std::ptr::null_mut());
                publish(core, table, index, Word::EMPTY, new, place, guard)?;
                table.count_taken(index, true);
                Some(Ok(0))
            }
            Seek::Found(index, word, leaf) => {
                core.settle(leaf, place);
                let (subscribers, id) = leaf.view().with(value.clone());
                let new = Leaf::allocate(text, subscribers, leaf.as_ptr());
                publish(core, table, index, word, new, place, guard)?;
                if leaf.view().is_none() {
                    table.count_revived(index);
                }
                // SAFETY: a writer takes a leaf out of its only slot; see "Who retires a leaf" in the
                // documentation of tables. Its replacement is settled.
                unsafe { retire(leaf.as_ptr(), guard) };
                Some(Ok(id))
            }
            Seek::Collision => Some(Err(NotHere::Collision)),
            Seek::Full => {
                table.begin_migration();
                None
            }
            Seek::Migrating => None,
        }
    }

    /// Removes a subscriber. Returns false if it does not exist. Its linearization point is that of the leaf
    /// without it.
    pub(crate) fn remove(&self, core: &Core, hash: u64, id: SubscriberId, guard: &Guard) -> bool {
        loop {
            let Some(table) = self.writer_table(core, hash, guard) else { return false };
            if let Some(removed) = self.remove_in(table, core, hash, id, guard) {
                return removed;
            }
        }
    }

    /// One attempt in a writer's table. `None` if it must be repeated.
    pub(crate) fn remove_in(
        &self,
        table: &Table<V>,
        core: &Core,
        hash: u64,
        id: SubscriberId,
        guard: &Guard,
    ) -> Option<bool> {
        let place = LeafLocation::Table(self.key, hash);
        let is_it = |leaf: LeafRef<'_, V>| {
            leaf.view().contains(id) && core.hasher.hash(core.dialect, leaf.text()) == hash
        };
        let (index, word, leaf) = match table.seek(core, hash, is_it, guard) {
            Seek::Found(index, word, leaf) => (index, word, leaf),
            Seek::Migrating => return None,
            Seek::Vacant(_) | Seek::Collision | Seek::Full => return Some(false),
        };
        core.settle(leaf, place);
        let Some(rest) = leaf.view().without(id) else { return Some(false) };
        let emptied = matches!(rest, Subscribers::None);
        let new = Leaf::allocate(leaf.text(), rest, leaf.as_ptr());
        let new = publish(core, table, index, word, new, place, guard)?;
        // SAFETY: a writer takes a leaf out of its only slot; see "Who retires a leaf" in the documentation
        // of tables. Its replacement is settled.
        unsafe { retire(leaf.as_ptr(), guard) };
        if emptied {
            if table.bury(index, Word::leaf(new, hash), new, guard) == Buried::Elsewhere {
                self.trim(core, hash, guard);
            }
            table.count_emptied(index);
        }
        Some(true)
    }

    /// Drops the history of a pattern if no snapshot needs it, and its leaf if the pattern was removed.
    /// Returns false if a snapshot needs it.
    pub(crate) fn trim(&self, core: &Core, hash: u64, guard: &Guard) -> bool {
        loop {
            let Some(table) = self.writer_table(core, hash, guard) else { return true };
            if let Some(trimmed) = self.trim_in(table, core, hash, guard) {
                return trimmed;
            }
        }
    }

    /// One attempt in a writer's table. `None` if it must be repeated.
    pub(crate) fn trim_in(&self, table: &Table<V>, core: &Core, hash: u64, guard: &Guard) -> Option<bool> {
        let is_it = |leaf: LeafRef<'_, V>| core.hasher.hash(core.dialect, leaf.text()) == hash;
        match table.seek(core, hash, is_it, guard) {
            Seek::Found(index, word, leaf) => {
                core.settle(leaf, LeafLocation::Table(self.key, hash));
                let had_history = matches!(leaf.meta(), Meta::Kept(_));
                if !core.trim(leaf, guard) {
                    return Some(false);
                }
                // A writer may have replaced the leaf, relying on its history to be listed; or the leaf has
                // been moved, and moving buries nothing.
                let buried = table.bury(index, word, leaf, guard);
                (!had_history && buried != Buried::Elsewhere).then_some(true)
            }
            Seek::Migrating => None,
            Seek::Vacant(_) | Seek::Collision | Seek::Full => Some(true),
        }
    }

    /// The table in which a writer may change a key: the last of the chain, with the key's run moved into it.
    /// `None` if the shape is retired.
    fn writer_table<'g>(&self, core: &Core, hash: u64, guard: &'g Guard) -> Option<&'g Table<V>> {
        self.help(core, guard);
        let mut table = self.head(guard);
        loop {
            match table.successor(guard) {
                Some(next) => {
                    table.migrate_run(core, hash, guard);
                    table = next;
                }
                None if !table.is_sealed() => return Some(table),
                None if !table.revive_shape() => return None,
                None => {}
            }
        }
    }

    /// Retires a shape without patterns, so that its place in the directory is free. Returns false if it has
    /// any, or is being moved.
    pub(crate) fn try_retire(&self, core: &Core, guard: &Guard) -> bool {
        let head = self.head(guard);
        if self.is_retired(guard) {
            return true;
        }
        if self.live(guard) > 0 || head.is_sealed() || !head.give_successor(Table::sealed()) {
            return false;
        }
        // From here on it is an ordinary move: a pattern that is found or added gives the sealed table a
        // successor.
        while !head.migrate_chunk(core, guard) {}
        self.help(core, guard);
        head.successor(guard).is_some_and(Table::retire_shape)
    }

    pub(crate) fn is_retired(&self, guard: &Guard) -> bool {
        self.head(guard).is_retired()
    }

    /// The newest removal that no slot records any more.
    pub(crate) fn dropped(&self, guard: &Guard) -> Time {
        self.head(guard).dropped()
    }

    /// Moves one chunk if the head is being moved, and drops the head when all of it is moved.
    fn help(&self, core: &Core, guard: &Guard) {
        let old = self.head.load(Ordering::SeqCst);
        // SAFETY: as in `head`.
        let head = unsafe { &*old };
        let Some(next) = head.successor(guard) else { return };
        if !head.migrate_chunk(core, guard) {
            return;
        }
        next.filled();
        // What only the head still records is passed to its successor, where the next readers start.
        if !cfg!(tailrace_broken = "dropped") {
            next.note_dropped(head.dropped());
        }
        // The pointers as they are in their words: one that came from a reference must not be freed later.
        let new = head.next.load(Ordering::SeqCst);
        if self.head.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            // SAFETY: the exchange took it out of the only place from where it can be reached, and it came
            // from a box. Its leaves are in the successor.
            unsafe { retire_table(old, guard) };
        }
    }

    // ---- all patterns ----

    /// Bits of hash to enumerate everything with [`Shape::bucket`].
    pub(crate) fn bucket_bits(&self, guard: &Guard) -> u32 {
        self.head(guard).bits()
    }

    /// The approximate number of leaves in the tables, including removed patterns that a snapshot needs.
    pub(crate) fn live(&self, guard: &Guard) -> usize {
        let mut sum = 0;
        let mut table = Some(self.head(guard));
        while let Some(here) = table {
            sum += here.live();
            table = here.successor(guard);
        }
        sum
    }

    /// Adds all leaves whose hash starts with these bits to `found`, each once, wherever moves have put them.
    /// A key that exists throughout is found.
    pub(crate) fn bucket<'g>(
        &self,
        core: &Core,
        bits: u32,
        bucket: usize,
        found: &mut Vec<LeafRef<'g, V>>,
        guard: &'g Guard,
    ) {
        found.clear();
        let mut table = Some(self.head(guard));
        while let Some(here) = table {
            let first = (bucket as u64) << (64 - bits);
            let last = first | u64::MAX >> bits;
            let (home, end) = (here.home(first), here.home(last));
            for index in home..home + here.capacity() {
                match here.load(index, guard).decode() {
                    Slot::Empty | Slot::End if index >= end => break,
                    Slot::Leaf(leaf) | Slot::Frozen(leaf) => {
                        let hash = core.hasher.hash(core.dialect, leaf.text());
                        let known = || found.iter().any(|own| own.text() == leaf.text());
                        if (first..=last).contains(&hash) && !known() {
                            found.push(leaf);
                        }
                    }
                    _ => {}
                }
            }
            // Only after the walk: what has left this table by now is in the next.
            table = here.successor(guard);
        }
    }

    /// Frees everything. The caller must have the matcher to itself.
    pub(crate) fn clear(&self, core: &Core, guard: &Guard) {
        // SAFETY: no other thread has the matcher; tables came from boxes, and the drop below finds those
        // that are left.
        unsafe {
            let mut last = self.head.load(Ordering::SeqCst);
            while let Some(next) = (*last).successor(guard) {
                (*last).migrate_all(core, guard);
                last = std::ptr::from_ref(next).cast_mut();
            }
            (*last).free_leaves(guard);
        }
    }
}

impl<V: Clone + Send + 'static> Drop for Shape<V> {
    /// Frees the tables. They have no leaves: the shape was retired without any, or cleared.
    fn drop(&mut self) {
        let mut table = *self.head.get_mut();
        while !table.is_null() {
            // SAFETY: no other thread has the shape any more, and tables came from boxes.
            let mut last = unsafe { Box::from_raw(table) };
            table = last.last_successor();
            free_box(last);
        }
    }
}

/// Puts a new leaf into a slot and settles it. Frees it if the slot holds something else by now.
#[cfg_attr(shuttle, track_caller)]
fn publish<'g, V: Clone + Send + 'static>(
    core: &Core,
    table: &Table<V>,
    index: usize,
    from: Word<'g, V>,
    new: *mut Leaf<V>,
    place: LeafLocation,
    _guard: &'g Guard,
) -> Option<LeafRef<'g, V>> {
    let LeafLocation::Table(_, hash) = place else { unreachable!("a table's leaf") };
    // SAFETY: no other thread has the leaf yet; once it is published, only the thread that takes it out of
    // its slot can retire it, and this thread is pinned.
    let leaf = unsafe { LeafRef::new(new) }?;
    if cfg!(tailrace_broken = "stamp") {
        // Broken on purpose, to show that the tests notice: `cargo xtask prove subjects`.
        core.settle(leaf, place);
    }
    if !table.exchange(index, from, Word::leaf(leaf, hash)) {
        // SAFETY: the failed exchange has not published it.
        unsafe { Leaf::free(new) };
        return None;
    }
    core.settle(leaf, place);
    Some(leaf)
}
