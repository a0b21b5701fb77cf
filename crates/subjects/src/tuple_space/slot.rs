//! The slots of a table, and the encoding of their words.
//!
//! A word that leads to a leaf carries the lifetime of the guard under which it was loaded, and so does its
//! decoded form.
#![expect(unsafe_code, reason = "slots are tagged pointers to leaves under a reclamation scheme")]

use std::marker::PhantomData;
use std::ptr;

use super::clock::Time;
use super::epoch::Guard;
use super::leaf::{Leaf, LeafRef};
use super::sync::{AtomicPtr, Ordering, null_pointers};

#[cfg(not(target_pointer_width = "64"))]
compile_error!("slots keep 16 bits of hash above a pointer of 48");

const FROZEN: usize = 0b001;
const DELETED: usize = 0b010;
const MOVED: usize = 0b100;
const END: usize = 0b110;
const LOW: usize = 0b111;
const MARKER: usize = 0b110;
const ADDRESS: usize = (1 << 48) - 1 - LOW;
/// The bits of a hash that a slot keeps next to its pointer.
const TAG: u64 = 0xffff;

/// What a slot holds.
pub(crate) enum Slot<'g, V> {
    Empty,
    Leaf(LeafRef<'g, V>),
    Frozen(LeafRef<'g, V>),
    /// A leaf was here until this time.
    Deleted(Time),
    /// Its content is in the successor.
    Moved,
    /// This slot was empty. Anything that belongs here is in the successor.
    End,
}

/// A slot's word: empty, a marker, or a leaf that a guard of the lifetime `'g` protects.
pub(crate) struct Word<'g, V> {
    bits: *mut Leaf<V>,
    guard: PhantomData<&'g Leaf<V>>,
}

impl<V> Clone for Word<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Word<'_, V> {}

impl<V> PartialEq for Word<'_, V> {
    fn eq(&self, other: &Self) -> bool {
        self.bits == other.bits
    }
}

impl<'g, V> Word<'g, V> {
    pub(crate) const EMPTY: Self = Self::of(ptr::null_mut());
    pub(crate) const MOVED: Self = Self::of(ptr::without_provenance_mut(MOVED));
    pub(crate) const END: Self = Self::of(ptr::without_provenance_mut(END));

    const fn of(bits: *mut Leaf<V>) -> Self {
        Self { bits, guard: PhantomData }
    }

    /// The mark of a leaf that was removed at this time.
    pub(crate) fn deleted(time: Time) -> Self {
        Self::of(ptr::without_provenance_mut((time as usize) << 3 | DELETED))
    }

    /// The word of a leaf with this hash.
    pub(crate) fn leaf(leaf: LeafRef<'g, V>, hash: u64) -> Self {
        let leaf = leaf.as_ptr();
        assert!(leaf.addr() & !ADDRESS == 0, "addresses have 48 bits here");
        Self::of(leaf.map_addr(|address| address | ((hash & TAG) as usize) << 48))
    }

    /// The word of a leaf that is being moved.
    pub(crate) fn frozen(self) -> Self {
        Self::of(self.bits.map_addr(|bits| bits | FROZEN))
    }

    /// The word before it was frozen.
    pub(crate) fn thawed(self) -> Self {
        Self::of(self.bits.map_addr(|bits| bits & !FROZEN))
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.bits.is_null()
    }

    /// Reports whether it has the bits of this hash, if it is a leaf.
    #[inline]
    pub(crate) fn has_tag(self, hash: u64) -> bool {
        (self.bits.addr() >> 48) as u64 == hash & TAG
    }

    /// Reports whether this, if it is not empty, may be a leaf of this hash.
    #[inline]
    pub(crate) fn is_candidate(self, hash: u64) -> bool {
        self.has_tag(hash) && self.bits.addr() & MARKER == 0
    }

    /// The address of its leaf, if it is one.
    #[inline]
    pub(crate) fn address(self) -> *const Leaf<V> {
        self.bits.map_addr(|bits| bits & ADDRESS)
    }

    #[inline]
    pub(crate) fn decode(self) -> Slot<'g, V> {
        // SAFETY: a word comes from a leaf of this lifetime, or was loaded under a guard of it from a slot;
        // and a leaf is retired only after it has left all slots.
        let leaf = || unsafe { LeafRef::new(self.address().cast_mut()) };
        match self.bits.addr() & LOW {
            0 => leaf().map_or(Slot::Empty, Slot::Leaf),
            FROZEN => leaf().map_or(Slot::Empty, Slot::Frozen),
            DELETED => Slot::Deleted((self.bits.addr() >> 3) as Time),
            MOVED => Slot::Moved,
            _ => Slot::End,
        }
    }
}

/// Slots, a power of two of them. An index is taken modulo their number.
pub(crate) struct Slots<V>(Box<[AtomicPtr<Leaf<V>>]>);

impl<V> Slots<V> {
    pub(crate) fn empty(count: usize) -> Self {
        assert!(count.is_power_of_two());
        Self(null_pointers(count))
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn slot(&self, index: usize) -> &AtomicPtr<Leaf<V>> {
        // SAFETY: there are 2^n slots, so that the masked index is below their number.
        unsafe { self.0.get_unchecked(index & (self.0.len() - 1)) }
    }

    /// The address of a slot.
    #[inline]
    pub(crate) fn address(&self, index: usize) -> *const AtomicPtr<Leaf<V>> {
        self.slot(index)
    }

    #[inline]
    pub(crate) fn load<'g>(&self, index: usize, guard: &'g Guard) -> Word<'g, V> {
        let word = Word::of(self.slot(index).load(Ordering::SeqCst));
        if cfg!(shuttle)
            && let Slot::Leaf(leaf) | Slot::Frozen(leaf) = word.decode()
        {
            leaf.is_reached(guard);
        }
        word
    }

    #[cfg_attr(shuttle, track_caller)]
    pub(crate) fn exchange(&self, index: usize, from: Word<'_, V>, to: Word<'_, V>) -> bool {
        self.slot(index).compare_exchange(from.bits, to.bits, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Empties a slot. The caller must have the table to itself.
    pub(crate) fn clear(&self, index: usize) {
        self.slot(index).store(ptr::null_mut(), Ordering::Relaxed);
    }

    /// Marks all slots as the end of a table. The caller must have the table to itself.
    pub(crate) fn end_all(&self) {
        self.0.iter().for_each(|slot| slot.store(Word::END.bits, Ordering::SeqCst));
    }

    /// The addresses that the slots take.
    #[cfg(all(target_os = "linux", not(miri), not(shuttle)))]
    pub(crate) fn memory(&self) -> std::ops::Range<usize> {
        let start = self.0.as_ptr().expose_provenance();
        start..start + size_of_val(&*self.0)
    }
}
