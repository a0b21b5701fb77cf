//! Finding every match of a subject: the same walk for the living trie and for a snapshot.
//!
//! In the living trie a walk reads many I-nodes, one after the other. It notes each with the node it pointed to, and afterwards
//! looks at all of them again. If none has changed and the root is the same, then all of them had these contents at one
//! moment, between the end of the first round and the beginning of the second: that moment is the linearization point of the
//! lookup. Readers write nothing that is shared, and only a change of a node on their own way makes them start again.

use std::collections::HashSet;

use crossbeam_epoch::Guard;

use super::super::Entry;
use super::indirection::{INode, Indirection, Loaded, Root};
use super::key::{END, Key, MANY, ONE, WordHasher};
use super::node::{Branches, Kind, Main, Slot, Word};
use crate::Subject;

/// A walk under one guard.
pub(super) struct Search<'g, V> {
    trie: &'g Indirection<V>,
    hasher: &'g WordHasher,
    guard: &'g Guard,
    /// Every I-node that was read, with its content at that time; stays empty in a snapshot.
    read: Vec<(&'g INode<V>, Loaded<'g, V>)>,
    note: bool,
    many_min: usize,
    /// Reached by exactly the words up to now, each once.
    active: Vec<Active<'g, V>>,
    /// Nodes behind a `#`, which go on to the end of the subject.
    looping: Vec<&'g Branches<V>>,
    /// Which nodes behind a second `#` were reached: the others cannot be met twice.
    seen: HashSet<*const Word<V>>,
}

struct Active<'g, V> {
    entries: Option<&'g [Entry<V>]>,
    below: Option<&'g Branches<V>>,
    below_many: bool,
}

impl<'g, V: Clone + 'static> Search<'g, V> {
    pub(super) fn new(trie: &'g Indirection<V>, hasher: &'g WordHasher, guard: &'g Guard) -> Self {
        let (read, active, looping) = (Vec::with_capacity(16), Vec::with_capacity(4), Vec::new());
        Self { trie, hasher, guard, read, note: true, many_min: 0, active, looping, seen: HashSet::new() }
    }

    /// Whether what was found below the current root is the state of the trie at one moment.
    pub(super) fn living(mut self, subject: &Subject<'_>, found: &mut Vec<V>) -> bool {
        let root = self.trie.root(self.guard);
        self.run(root, subject, found);
        self.read.iter().all(|(inode, main)| inode.load(self.guard) == *main) && self.trie.is_current(root)
    }

    /// What a frozen root holds.
    pub(super) fn frozen(mut self, root: &'g Root<V>, subject: &Subject<'_>, found: &mut Vec<V>) {
        self.note = false;
        self.run(root, subject, found);
    }

    fn run(&mut self, root: &'g Root<V>, subject: &Subject<'_>, found: &mut Vec<V>) {
        self.many_min = subject.dialect().many_min();
        let mut hidden = subject.is_hidden();
        let top = self.branches(&root.top);
        let end = top.and_then(|top| top.get(END)).and_then(as_word).and_then(|word| word.entries.as_deref());
        self.enter(Active { entries: end, below: top, below_many: false }, hidden, found);
        let mut last = Vec::with_capacity(4);
        for word in subject.words() {
            let key = self.hasher.key(word);
            std::mem::swap(&mut last, &mut self.active);
            // Whoever enters the loop at this word takes part from the next word on.
            let looping = self.looping.len();
            for active in last.drain(..) {
                self.step(&active, &key, std::mem::take(&mut hidden), found);
            }
            for at in 0..looping {
                if let Some(word) = self.literal(self.looping[at], &key) {
                    self.enter_word(word, true, found);
                }
            }
        }
        for active in &self.active {
            emit(active.entries, found);
        }
    }

    /// Reads one word; `hidden` keeps it from wildcards.
    fn step(&mut self, at: &Active<'g, V>, key: &Key<'_>, hidden: bool, found: &mut Vec<V>) {
        let Some(branches) = at.below else { return };
        if let Some(word) = self.literal(branches, key) {
            self.enter_word(word, at.below_many, found);
        }
        if hidden {
            return;
        }
        if let Some(word) = branches.get(ONE).and_then(as_word) {
            self.enter_word(word, at.below_many, found);
        }
        // A tail wildcard that needs a word was not entered before its first one.
        if let Some(word) = branches.get(MANY).and_then(as_word).filter(|_| self.many_min == 1) {
            self.enter_many(word, at.below_many, found);
        }
    }

    fn enter_word(&mut self, word: &'g Word<V>, below_many: bool, found: &mut Vec<V>) {
        let below = word.below.as_deref().and_then(|inode| self.branches(inode));
        self.enter(Active { entries: word.entries.as_deref(), below, below_many }, false, found);
    }

    fn enter(&mut self, active: Active<'g, V>, hidden: bool, found: &mut Vec<V>) {
        let many = active.below.and_then(|branches| branches.get(MANY)).and_then(as_word);
        if let Some(word) = many.filter(|_| self.many_min == 0 && !hidden) {
            self.enter_many(word, active.below_many, found);
        }
        self.active.push(active);
    }

    /// What is behind a `#` matches whatever follows; in normal form only literal words can follow it.
    fn enter_many(&mut self, word: &'g Word<V>, below_many: bool, found: &mut Vec<V>) {
        if below_many && !self.seen.insert(word) {
            return;
        }
        emit(word.entries.as_deref(), found);
        let below = word.below.as_deref().and_then(|inode| self.branches(inode));
        self.looping.extend(below);
    }

    /// The word itself below these branches.
    fn literal(&mut self, mut branches: &'g Branches<V>, key: &Key<'_>) -> Option<&'g Word<V>> {
        for depth in 0.. {
            match branches.get(self.hasher.place(key.hash, key.text, depth))? {
                Slot::Word(word) => return word.is(key).then_some(word),
                Slot::Split(inode) => match &self.read(inode).kind {
                    Kind::Branches(below) => branches = below,
                    Kind::Tomb(word) => return word.as_deref().filter(|word| word.is(key)),
                },
            }
        }
        None
    }

    /// The branches of an I-node at a word's beginning, where a tomb is an empty one.
    fn branches(&mut self, inode: &'g INode<V>) -> Option<&'g Branches<V>> {
        self.read(inode).branches()
    }

    fn read(&mut self, inode: &'g INode<V>) -> &'g Main<V> {
        let main = self.trie.committed(inode, self.guard);
        if self.note {
            self.read.push((inode, main));
        }
        main.get()
    }
}

fn as_word<V>(slot: &Slot<V>) -> Option<&Word<V>> {
    match slot {
        Slot::Word(word) => Some(word),
        Slot::Split(_) => None,
    }
}

fn emit<V: Clone>(entries: Option<&[Entry<V>]>, found: &mut Vec<V>) {
    found.extend(entries.into_iter().flatten().map(|entry| entry.value.clone()));
}

/// Visits every value below an I-node of a frozen root.
pub(super) fn for_each<V: 'static>(
    trie: &Indirection<V>,
    top: &INode<V>,
    guard: &Guard,
    mut visit: impl FnMut(&V),
) {
    let mut inodes = vec![top];
    while let Some(inode) = inodes.pop() {
        let main = trie.committed(inode, guard).get();
        let mut visit_word = |word: &Word<V>| {
            word.entries.iter().flat_map(|entries| entries.iter()).for_each(|entry| visit(&entry.value));
        };
        match &main.kind {
            Kind::Tomb(word) => {
                word.iter().for_each(|word| visit_word(word));
                inodes.extend(word.iter().filter_map(|word| word.below.as_deref()));
            }
            Kind::Branches(branches) => {
                for slot in branches.slots() {
                    match slot {
                        Slot::Split(inode) => inodes.push(inode),
                        Slot::Word(word) => {
                            visit_word(word);
                            inodes.extend(word.below.as_deref());
                        }
                    }
                }
            }
        }
    }
}
