//! Finds everything that matches one subject, consistently at one moment, or as of a snapshot.
//!
//! A lookup probes one table per shape, one after the other, while writers go on. It is still atomic. It
//! starts with the newest time that is certain, and gives up with [`Conflict`] at the first trace of a write
//! after that time: a newer leaf, or a newer removal on its way. What it has found without a conflict is what
//! existed at that time. A leaf that existed then and still does existed all the time, and the same holds for
//! what is missing.
#![expect(unsafe_code, reason = "an array on the path of every lookup is not cleared first")]

use std::mem::MaybeUninit;

use super::clock::Time;
use super::conflict::{Conflict, is_late};
use super::core::LeafLocation;
use super::epoch::Guard;
use super::inner::Inner;
use super::leaf::{Held, LeafRef, Meta};
use super::subscribers::View;
use super::words::Words;

/// Shapes whose memory accesses overlap.
const GROUP: usize = 8;

impl<V: Clone + Send + Sync + 'static> Inner<V> {
    /// Calls `found` with every subscriber at `time`. `found` returns whether to go on.
    ///
    /// After [`Conflict`], what was found so far has no meaning.
    #[inline]
    pub(crate) fn lookup<'g>(
        &self,
        words: &Words<'_>,
        time: Time,
        mut found: impl FnMut(View<'g, V>) -> bool,
        guard: &'g Guard,
    ) -> Result<(), Conflict> {
        let core = &self.core;
        let directory = self.directory(guard);
        if is_late(directory.dropped(), time) {
            return Err(Conflict);
        }
        let hidden = words.subject.is_hidden();
        for group in directory.plan(words.count).chunks(GROUP) {
            let mut probes = [const { MaybeUninit::uninit() }; GROUP];
            for (entry, probe) in group.iter().zip(&mut probes) {
                let table = entry.shape.head(guard);
                let hash = entry.hash(core, words);
                table.prefetch_home(hash);
                probe.write((table, hash));
            }
            for (entry, probe) in group.iter().zip(probes) {
                // SAFETY: written above for each entry of the group.
                let (table, hash) = unsafe { probe.assume_init() };
                if hidden && entry.starts_wild {
                    continue;
                }
                let is_it = |leaf: LeafRef<'g, V>| entry.key.matches(leaf.text(), words);
                if let Some(leaf) = entry.shape.find(core, table, hash, is_it, time, guard)? {
                    if is_late(core.settle(leaf, LeafLocation::Table(entry.key, hash)), time) {
                        return Err(Conflict);
                    }
                    if !leaf.view().is_none() && !found(leaf.view()) {
                        return Ok(());
                    }
                }
            }
        }
        let Some(root) = self.overflow_root(guard) else { return Ok(()) };
        if is_late(core.settle(root, LeafLocation::Overflow), time) {
            return Err(Conflict);
        }
        if let Held::Overflow(overflow) = root.held() {
            let mut go_on = true;
            overflow.for_each_match(&core.hasher, words.subject, |view| go_on = go_on && found(view));
        }
        Ok(())
    }

    /// Reports whether there are any subscribers. A hit ends the search: that leaf existed at the moment at
    /// which it was read.
    pub(crate) fn interest(&self, words: &Words<'_>, guard: &Guard) -> bool {
        let mut any = false;
        let mut time = self.core.clock.certain();
        loop {
            // A conflict after a hit does not count: the hit has ended the lookup.
            let result = self.lookup_first(words, time, &mut any, guard);
            if any || result.is_ok() {
                return any;
            }
            time = self.core.clock.look();
        }
    }

    fn lookup_first(
        &self,
        words: &Words<'_>,
        time: Time,
        any: &mut bool,
        guard: &Guard,
    ) -> Result<(), Conflict> {
        let hit = |_: View<'_, V>| {
            *any = true;
            false
        };
        self.lookup(words, time, hit, guard)
    }

    /// Calls `found` with every subscriber at the time of a live snapshot.
    pub(crate) fn lookup_at<'g>(
        &self,
        words: &Words<'_>,
        time: Time,
        mut found: impl FnMut(View<'g, V>),
        guard: &'g Guard,
    ) {
        let core = &self.core;
        let hidden = words.subject.is_hidden();
        for entry in self.directory(guard).plan(words.count) {
            if hidden && entry.starts_wild {
                continue;
            }
            let hash = entry.hash(core, words);
            let is_it = |leaf: LeafRef<'g, V>| entry.key.matches(leaf.text(), words);
            // Leaves removed after a live snapshot are kept for it: no mark can hide them.
            let found_now = entry.shape.find(core, entry.shape.head(guard), hash, is_it, Time::MAX, guard);
            if let Ok(Some(leaf)) = found_now {
                found(self.version(leaf, LeafLocation::Table(entry.key, hash), time).view());
            }
        }
        if let Some(root) = self.overflow_root(guard)
            && let Held::Overflow(overflow) = self.version(root, LeafLocation::Overflow, time)
        {
            overflow.for_each_match(&core.hasher, words.subject, found);
        }
    }

    /// The content of a leaf at the time of a live snapshot: the subscribers of its pattern.
    pub(crate) fn version<'g>(&self, leaf: LeafRef<'g, V>, place: LeafLocation, time: Time) -> Held<'g, V> {
        if self.core.settle(leaf, place) <= time {
            return leaf.held();
        }
        match leaf.meta() {
            Meta::Kept(history) => {
                let then = history.older.iter().find(|(begin, _)| *begin <= time);
                then.map_or(Held::Subscribers(View::None), |(_, content)| content.held())
            }
            // There was no earlier version, or none that a snapshot needed.
            _ => Held::Subscribers(View::None),
        }
    }
}
