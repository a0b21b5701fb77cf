//! The nodes of the CS-trie, and how they are copied and dropped. All but the I-node are immutable once they are shared.

use std::sync::Arc;

use super::super::Entry;
use super::indirection::{INode, Pending};
use super::key::{Key, Keys};

/// What an I-node points to.
pub(super) struct Main<V> {
    /// Set while a write is not yet decided: see [`INode`].
    pub(super) pending: Pending<V>,
    pub(super) kind: Kind<V>,
}

pub(super) enum Kind<V> {
    /// A C-node of the paper.
    Branches(Branches<V>),
    /// A T-node of the paper: this I-node never changes again, and its parent takes the remaining word, if any, in its place.
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

/// The children of one I-node: which of the places are taken, and their slots in that order.
pub(super) struct Branches<V> {
    taken: u32,
    slots: Box<[Slot<V>]>,
}

pub(super) enum Slot<V> {
    /// Several words whose hashes agree up to here.
    Split(Arc<INode<V>>),
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
        Self { taken: 0, slots: Box::new([]) }
    }

    pub(super) fn one(place: u32, slot: Slot<V>) -> Self {
        Self { taken: 1 << place, slots: Box::new([slot]) }
    }

    pub(super) fn get(&self, place: u32) -> Option<&Slot<V>> {
        (self.taken & (1 << place) != 0).then(|| &self.slots[self.rank(place)])
    }

    pub(super) fn slots(&self) -> &[Slot<V>] {
        &self.slots
    }

    fn rank(&self, place: u32) -> usize {
        (self.taken & ((1 << place) - 1)).count_ones() as usize
    }

    /// A copy in which this place holds this slot, or nothing.
    pub(super) fn with(&self, place: u32, slot: Option<Slot<V>>) -> Self {
        let at = self.rank(place);
        let after = at + usize::from(self.taken & (1 << place) != 0);
        let bit = u32::from(slot.is_some()) << place;
        let slots = self.slots[..at].iter().cloned().chain(slot).chain(self.slots[after..].iter().cloned());
        Self { taken: self.taken & !(1 << place) | bit, slots: slots.collect() }
    }

    /// What an I-node with these branches becomes. Below the top it is tombed when it is empty, and below a split also when one
    /// word is left, which then moves up.
    pub(super) fn contracted(self, depth: u32, is_top: bool) -> Main<V> {
        let kind = match &*self.slots {
            [] if !is_top => Kind::Tomb(None),
            [Slot::Word(word)] if depth > 0 => Kind::Tomb(Some(Arc::clone(word))),
            _ => Kind::Branches(self),
        };
        Main::new(kind)
    }
}

/// An edge of the trie: a word, the subscriptions whose pattern ends with it, and what comes after it.
pub(super) struct Word<V> {
    pub(super) hash: u64,
    /// Empty for wildcards, which have places of their own.
    pub(super) text: Arc<[u8]>,
    /// None instead of an empty list. Every change copies it, so that a pattern with very many subscriptions is slow to change.
    pub(super) entries: Option<Arc<[Entry<V>]>>,
    pub(super) below: Option<Arc<INode<V>>>,
}

impl<V> Word<V> {
    pub(super) fn is(&self, key: &Key<'_>) -> bool {
        self.hash == key.hash && *self.text == *key.text
    }

    fn copy(&self) -> Self {
        Self {
            hash: self.hash,
            text: Arc::clone(&self.text),
            entries: self.entries.clone(),
            below: self.below.clone(),
        }
    }

    pub(super) fn with_below(&self, below: Option<Arc<INode<V>>>) -> Self {
        Self { below, ..self.copy() }
    }

    /// This word as a slot, or nothing if nothing is left of it.
    pub(super) fn into_slot(self) -> Option<Slot<V>> {
        (self.entries.is_some() || self.below.is_some()).then(|| Slot::Word(Arc::new(self)))
    }
}

impl<V: Clone> Word<V> {
    pub(super) fn with_entry(&self, entry: Entry<V>) -> Self {
        let entries = self.entries.iter().flat_map(|entries| entries.iter().cloned());
        Self { entries: Some(entries.chain([entry]).collect()), ..self.copy() }
    }

    /// A copy without this subscription; none if it is not here.
    pub(super) fn without_entry(&self, id: u64) -> Option<Self> {
        let entries = self.entries.as_ref()?;
        if !entries.iter().any(|entry| entry.id == id) {
            return None;
        }
        let left: Arc<[_]> = entries.iter().filter(|entry| entry.id != id).cloned().collect();
        Some(Self { entries: (!left.is_empty()).then_some(left), ..self.copy() })
    }
}

/// The words of these keys under one another, with the entry at the last, all of one generation.
pub(super) fn chain<V>(keys: &Keys<'_>, from: usize, entry: Entry<V>, generation: u64) -> Word<V> {
    let new = |key: &Key<'_>, entries, below| Word { hash: key.hash, text: key.text.into(), entries, below };
    let mut last = new(keys.last(), Some([entry].into()), None);
    for at in (from..keys.len() - 1).rev() {
        let branches = Branches::one(keys.place(at + 1, 0), Slot::Word(Arc::new(last)));
        let below = INode::new(generation, Main::new(Kind::Branches(branches)));
        last = new(keys.get(at), None, Some(Arc::new(below)));
    }
    last
}

/// An I-node at this depth with two words whose hashes agreed up to here; more I-nodes if they agree further.
pub(super) fn split<V>(
    keys: &Keys<'_>,
    old: &Arc<Word<V>>,
    new: (usize, Arc<Word<V>>),
    from: u32,
    generation: u64,
) -> Arc<INode<V>> {
    let (at, new) = new;
    let places = |depth| (keys.hasher().place(old.hash, &old.text, depth), keys.place(at, depth));
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

/// The I-nodes below this node that nobody else holds, which is dropped itself.
pub(super) fn into_children<V>(main: Main<V>) -> impl Iterator<Item = Arc<INode<V>>> {
    let slots = match main.kind {
        Kind::Tomb(word) => word.into_iter().map(Slot::Word).collect(),
        Kind::Branches(branches) => branches.slots,
    };
    slots.into_iter().filter_map(|slot| match slot {
        Slot::Split(inode) => Some(inode),
        Slot::Word(word) => Arc::into_inner(word).and_then(|word| word.below),
    })
}
