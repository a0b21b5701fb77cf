//! The nodes of the CS-trie, and how they are copied and dropped. All except the I-node are immutable once
//! they are shared.

use std::sync::Arc;

use super::super::Entry;
use super::super::cursor::Words;
use super::entries::Entries;
use super::indirection::{INode, MainNode, Pending};
use super::key::{Key, Keys, PLACES, WordHasher};

/// What an I-node points to.
pub(super) struct Main<V> {
    /// Set while a write is undecided: see [`INode`].
    pending: Pending<Self>,
    pub(super) kind: Kind<V>,
}

pub(super) enum Kind<V> {
    /// A C-node of the paper.
    Branches(Branches<V>),
    /// A T-node of the paper: this I-node never changes again, and its parent takes the remaining word, if
    /// any, in its place.
    Tomb(Option<Arc<Word<V>>>),
}

impl<V> Main<V> {
    pub(super) fn new(kind: Kind<V>) -> Self {
        Self { pending: Pending::none(), kind }
    }

    pub(super) fn branches(&self) -> Option<&Branches<V>> {
        match &self.kind {
            Kind::Branches(branches) => Some(branches),
            Kind::Tomb(_) => None,
        }
    }
}

impl<V> MainNode for Main<V> {
    fn pending(&self) -> &Pending<Self> {
        &self.pending
    }

    fn is_tomb(&self) -> bool {
        matches!(self.kind, Kind::Tomb(_))
    }

    fn into_children(self) -> impl Iterator<Item = Arc<INode<Self>>> {
        let slots = match self.kind {
            Kind::Tomb(word) => word.into_iter().map(Slot::Word).collect(),
            Kind::Branches(branches) => branches.slots,
        };
        slots.into_iter().filter_map(|slot| match slot {
            Slot::Split(inode) => Some(inode),
            Slot::Word(word) => Arc::into_inner(word).and_then(|word| word.below),
        })
    }
}

/// The children of one I-node: which of the places are taken, and their slots in that order.
pub(super) struct Branches<V> {
    /// For each place the number of its slot, counted from one; zero if it is free. A bitmap would be
    /// smaller, but slower: counting bits takes many instructions on the oldest processors of the target.
    places: [u8; PLACES],
    slots: Box<[Slot<V>]>,
}

pub(super) enum Slot<V> {
    /// Several words whose hashes agree up to here.
    Split(Arc<INode<Main<V>>>),
    Word(Arc<Word<V>>),
}

impl<V> Clone for Slot<V> {
    fn clone(&self) -> Self {
        match self {
            Self::Split(inode) => Self::Split(Arc::clone(inode)),
            Self::Word(word) => Self::Word(Arc::clone(word)),
        }
    }
}

impl<V> Branches<V> {
    pub(super) fn empty() -> Self {
        Self { places: [0; PLACES], slots: Box::new([]) }
    }

    pub(super) fn one(place: u32, slot: Slot<V>) -> Self {
        let mut places = [0; PLACES];
        places[place as usize] = 1;
        Self { places, slots: Box::new([slot]) }
    }

    pub(super) fn get(&self, place: u32) -> Option<&Slot<V>> {
        match self.places[place as usize] {
            0 => None,
            number => self.slots.get(usize::from(number) - 1),
        }
    }

    pub(super) fn slots(&self) -> &[Slot<V>] {
        &self.slots
    }

    /// A copy in which this place holds this slot, or nothing.
    pub(super) fn with(&self, place: u32, slot: Option<Slot<V>>) -> Self {
        let place = place as usize;
        let before = self.places[..place].iter().filter(|number| **number > 0).count();
        let after = before + usize::from(self.places[place] > 0);
        let mut taken = self.places.map(|number| number > 0);
        taken[place] = slot.is_some();
        let mut number = 0;
        let places = taken.map(|taken| {
            number += u8::from(taken);
            if taken { number } else { 0 }
        });
        let slots =
            self.slots[..before].iter().cloned().chain(slot).chain(self.slots[after..].iter().cloned());
        Self { places, slots: slots.collect() }
    }

    /// What an I-node with these branches becomes. Below the top it becomes a tomb when it is empty. Below a
    /// split it also does so when one word is left, which then moves up.
    pub(super) fn contracted(self, depth: u32, is_top: bool) -> Main<V> {
        let kind = match &*self.slots {
            [] if !is_top => Kind::Tomb(None),
            [Slot::Word(word)] if depth > 0 => Kind::Tomb(Some(Arc::clone(word))),
            _ => Kind::Branches(self),
        };
        Main::new(kind)
    }
}

/// An edge of the trie: a word of patterns, the subscriptions whose pattern ends here, and what comes after
/// it.
///
/// A pattern that shares no words with others from some word on has no nodes below. Its other words, the
/// tail, are in the word itself, together with its subscriptions. Another pattern with the same word first
/// moves the tail one word down.
pub(super) struct Word<V> {
    pub(super) hash: u64,
    /// The first eight bytes of the word, so that short words are distinguished without reading the text.
    first: u64,
    /// The word, and the tail after a separator.
    text: Arc<[u8]>,
    word_bytes: u32,
    /// False if neither the word nor the tail can be a wildcard.
    wild: bool,
    pub(super) entries: Entries<V>,
    /// `None` if there is a tail.
    pub(super) below: Option<Arc<INode<Main<V>>>>,
}

impl<V: Clone> Word<V> {
    /// A pattern from this key on, as one word with a tail.
    pub(super) fn alone(keys: &Keys<'_>, at: usize, entry: Entry<V>) -> Self {
        let key = keys.get(at);
        let hasher = keys.hasher();
        let mut words = Words::part(hasher.dialect(), keys.rest(at));
        let wild = words.any(|word| hasher.is_wildcard(word));
        Self::new(key, keys.rest(at), wild, Entries::One(entry), None)
    }

    fn new(
        key: &Key<'_>,
        text: &[u8],
        wild: bool,
        entries: Entries<V>,
        below: Option<Arc<INode<Main<V>>>>,
    ) -> Self {
        let word_bytes = u32::try_from(key.text.len()).expect("patterns are shorter");
        Self { hash: key.hash, first: key.first, text: text.into(), word_bytes, wild, entries, below }
    }

    /// The same with the tail one word down.
    pub(super) fn expanded(&self, hasher: &WordHasher, generation: u64) -> Self {
        let tail = &self.text[self.word_bytes as usize + 1..];
        let word_bytes =
            tail.iter().position(|byte| *byte == hasher.dialect().separator()).unwrap_or(tail.len());
        let key = hasher.pattern_key(&tail[..word_bytes]);
        let next = Self::new(&key, tail, self.wild, self.entries.clone(), None);
        let branches = Branches::one(hasher.place_of(&key, 0), Slot::Word(Arc::new(next)));
        let below = INode::new(generation, Main::new(Kind::Branches(branches)));
        let key = hasher.pattern_key(self.text());
        Self::new(&key, self.text(), self.wild, Entries::None, Some(Arc::new(below)))
    }

    fn copy(&self) -> Self {
        Self {
            hash: self.hash,
            first: self.first,
            text: Arc::clone(&self.text),
            word_bytes: self.word_bytes,
            wild: self.wild,
            entries: self.entries.clone(),
            below: self.below.clone(),
        }
    }

    pub(super) fn with_below(&self, below: Option<Arc<INode<Main<V>>>>) -> Self {
        Self { below, ..self.copy() }
    }

    /// This word as a slot. `None` if nothing is left of it.
    pub(super) fn into_slot(self) -> Option<Slot<V>> {
        (!self.entries.as_slice().is_empty() || self.below.is_some()).then(|| Slot::Word(Arc::new(self)))
    }

    pub(super) fn with_entry(&self, entry: Entry<V>) -> Self {
        Self { entries: self.entries.with(entry), ..self.copy() }
    }

    /// A copy without this subscription. `None` if it is not here.
    pub(super) fn without_entry(&self, id: u64) -> Option<Self> {
        Some(Self { entries: self.entries.without(id)?, ..self.copy() })
    }
}

impl<V> Word<V> {
    #[inline]
    pub(super) fn is(&self, key: &Key<'_>) -> bool {
        let length = self.word_bytes as usize;
        (self.hash, self.first, length) == (key.hash, key.first, key.text.len())
            && (length <= 8 || self.text() == key.text)
    }

    /// The word itself.
    pub(super) fn text(&self) -> &[u8] {
        &self.text[..self.word_bytes as usize]
    }

    pub(super) fn text_with_tail(&self) -> &[u8] {
        &self.text
    }

    pub(super) fn has_tail(&self) -> bool {
        (self.word_bytes as usize) < self.text.len()
    }

    pub(super) fn is_wild(&self) -> bool {
        self.wild
    }
}

/// An I-node at this depth with two words whose hashes agree up to here, or more I-nodes if they agree
/// further. The new word is the key number `at`.
pub(super) fn split<V>(
    keys: &Keys<'_>,
    old: &Arc<Word<V>>,
    at: usize,
    new: Arc<Word<V>>,
    from: u32,
    generation: u64,
) -> Arc<INode<Main<V>>> {
    let places = |depth| (keys.hasher().place(old.hash, old.text(), depth), keys.place(at, depth));
    let mut depth = from;
    while places(depth).0 == places(depth).1 {
        depth += 1;
    }
    let (old_place, new_place) = places(depth);
    let branches = Branches::one(old_place, Slot::Word(Arc::clone(old)));
    let mut branches = branches.with(new_place, Some(Slot::Word(new)));
    loop {
        let inode = Arc::new(INode::new(generation, Main::new(Kind::Branches(branches))));
        if depth == from {
            return inode;
        }
        depth -= 1;
        branches = Branches::one(places(depth).0, Slot::Split(inode));
    }
}
