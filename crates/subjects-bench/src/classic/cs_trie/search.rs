//! Finds every match of a subject: the same walk for the live trie and for a snapshot.
//!
//! In the live trie a walk reads many I-nodes, one after the other. It records each with the node that it
//! pointed to, and afterwards reads all of them again. If none has changed and the root is the same, then all
//! of them had these contents at one moment, between the end of the first round and the start of the second.
//! That moment is the linearization point of the lookup. Readers write nothing that is shared, and only a
//! change of a node on their own path makes them start again.

use std::collections::HashSet;

use crossbeam_epoch::Guard;

use super::super::Entry;
use super::super::cursor::Words;
use super::super::direct::words_match;
use super::checked::Checked;
use super::few::Few;
use super::indirection::{INode, Indirection, Loaded, Root};
use super::key::{END, Key, MANY, ONE, WordHasher};
use super::node::{Branches, Kind, Main, Slot, Word};

/// An I-node, and what it pointed to when it was read.
type ReadNode<'g, V> = (&'g INode<Main<V>>, Loaded<'g, Main<V>>);

/// A walk under one guard.
pub(super) struct Search<'g, V> {
    trie: &'g Indirection<Main<V>>,
    hasher: &'g WordHasher,
    guard: &'g Guard,
    /// Every I-node that was read; stays empty in a snapshot.
    read: Few<ReadNode<'g, V>, 12>,
    note: bool,
    /// The nodes reached by exactly the words up to now, each once, and those reached by the words before
    /// this one: they take turns.
    active: [Few<Active<'g, V>, 4>; 2],
    /// Which of the two is reached by the words up to now.
    now: usize,
    /// Nodes after a `#`, which go on to the end of the subject.
    looping: Vec<&'g Branches<V>>,
    /// Which words below a `#` were found: only those can be met twice, if there is another `#` on the path.
    seen: Option<HashSet<*const Word<V>>>,
}

struct Active<'g, V> {
    entries: &'g [Entry<V>],
    below: Option<&'g Branches<V>>,
    below_many: bool,
}

impl<V> Clone for Active<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Active<'_, V> {}

/// A word of the subject, and the words around it.
struct Step<'a> {
    key: Key<'a>,
    /// From this word on.
    here: Words<'a>,
    /// After this word.
    after: Words<'a>,
}

impl<'g, V: Clone + 'static> Search<'g, V> {
    pub(super) fn new(trie: &'g Indirection<Main<V>>, hasher: &'g WordHasher, guard: &'g Guard) -> Self {
        let (read, active) = (Few::new(), [Few::new(), Few::new()]);
        Self { trie, hasher, guard, read, note: true, active, now: 0, looping: Vec::new(), seen: None }
    }

    /// Runs the walk below the current root. Returns whether what was found is the state of the trie at one
    /// moment.
    pub(super) fn living(mut self, subject: &Checked<'_>, found: &mut Vec<V>) -> bool {
        let root = self.trie.root(self.guard);
        self.run(root, subject, found);
        self.read.all(|(inode, main)| inode.load(self.guard) == main) && self.trie.is_current(root)
    }

    /// Runs the walk below a frozen root.
    pub(super) fn frozen(mut self, root: &'g Root<Main<V>>, subject: &Checked<'_>, found: &mut Vec<V>) {
        self.note = false;
        self.run(root, subject, found);
    }

    fn run(&mut self, root: &'g Root<Main<V>>, subject: &Checked<'_>, found: &mut Vec<V>) {
        let dialect = self.hasher.dialect();
        let text = subject.as_bytes();
        let mut hidden = subject.is_hidden();
        let (mut number, mut start) = (0, 0);
        let top = self.branches(&root.top);
        let end = top.and_then(|top| top.get(END)).and_then(as_word);
        let end = end.map_or(&[][..], |word| word.entries.as_slice());
        self.enter(
            Active { entries: end, below: top, below_many: false },
            hidden,
            Words::new(dialect, text),
            found,
        );
        while start <= text.len() && !text.is_empty() {
            if self.active[self.now].len() == 0 && self.looping.is_empty() {
                return;
            }
            let end = subject.end(number, start);
            let key = self.hasher.key_in(text, start, end);
            let here = Words::from(dialect, text, start);
            (number, start) = (number + 1, end + 1);
            let step = Step { key, here, after: Words::from(dialect, text, start) };
            let last = self.now;
            self.now = 1 - last;
            self.active[self.now].clear();
            // A node that enters the loop at this word takes part from the next word on.
            let looping = self.looping.len();
            let mut at = 0;
            while let Some(&Active { below, below_many, .. }) = self.active[last].get(at) {
                at += 1;
                let hidden = std::mem::take(&mut hidden);
                if let Some(branches) = below {
                    self.step(branches, below_many, &step, hidden, found);
                }
            }
            for at in 0..looping {
                if let Some(word) = self.literal(self.looping[at], &step.key) {
                    self.enter_word(word, true, &step, found);
                }
            }
        }
        let ends = &self.active[self.now];
        (0..).map_while(|at| ends.get(at)).for_each(|active| emit(active.entries, found));
    }

    /// Reads one word; `hidden` keeps it from wildcards.
    fn step(
        &mut self,
        branches: &'g Branches<V>,
        below_many: bool,
        step: &Step<'_>,
        hidden: bool,
        found: &mut Vec<V>,
    ) {
        if let Some(word) = self.literal(branches, &step.key) {
            self.enter_word(word, below_many, step, found);
        }
        if hidden {
            return;
        }
        if let Some(word) = branches.get(ONE).and_then(as_word) {
            self.enter_word(word, below_many, step, found);
        }
        if self.hasher.dialect().many_min() == 1
            && let Some(word) = branches.get(MANY).and_then(as_word)
        {
            self.enter_many(word, below_many, step.here, found);
        }
    }

    fn enter_word(&mut self, word: &'g Word<V>, below_many: bool, step: &Step<'_>, found: &mut Vec<V>) {
        if word.has_tail() {
            if self.tail_matches(word, step.here) && (!below_many || self.is_new(word)) {
                emit(word.entries.as_slice(), found);
            }
            return;
        }
        let below = word.below.as_deref().and_then(|inode| self.branches(inode));
        let entries = word.entries.as_slice();
        self.enter(Active { entries, below, below_many }, false, step.after, found);
    }

    fn is_new(&mut self, word: &Word<V>) -> bool {
        self.seen.get_or_insert_default().insert(word)
    }

    fn tail_matches(&self, word: &Word<V>, here: Words<'_>) -> bool {
        let dialect = self.hasher.dialect();
        let tail = word.text_with_tail();
        // The same text always matches: a wildcard matches a word of its own name as well as any other.
        here.rest() == Some(tail)
            || (word.is_wild() && words_match(dialect, Words::part(dialect, tail), here))
    }

    #[inline(always)]
    fn enter(&mut self, active: Active<'g, V>, hidden: bool, after: Words<'_>, found: &mut Vec<V>) {
        if self.hasher.dialect().many_min() == 0
            && !hidden
            && let Some(word) = active.below.and_then(|branches| branches.get(MANY)).and_then(as_word)
        {
            self.enter_many(word, active.below_many, after, found);
        }
        self.active[self.now].push(active);
    }

    /// A `#` matches all of the words `here` or some of them, so it need not be entered again later. In
    /// normal form only literal words can follow it.
    fn enter_many(&mut self, word: &'g Word<V>, below_many: bool, here: Words<'_>, found: &mut Vec<V>) {
        if below_many && !self.is_new(word) {
            return;
        }
        if !word.has_tail() || self.tail_matches(word, here) {
            emit(word.entries.as_slice(), found);
        }
        let below = word.below.as_deref().and_then(|inode| self.branches(inode));
        self.looping.extend(below);
    }

    /// The word itself below these branches.
    fn literal(&mut self, mut branches: &'g Branches<V>, key: &Key<'_>) -> Option<&'g Word<V>> {
        for depth in 0.. {
            let place = self.hasher.place(key.hash, key.text, depth);
            match branches.get(place)? {
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
    fn branches(&mut self, inode: &'g INode<Main<V>>) -> Option<&'g Branches<V>> {
        self.read(inode).branches()
    }

    fn read(&mut self, inode: &'g INode<Main<V>>) -> &'g Main<V> {
        let main = self.trie.committed(inode, self.guard);
        if self.note {
            self.read.push((inode, main));
        }
        main.get()
    }
}

#[inline]
fn as_word<V>(slot: &Slot<V>) -> Option<&Word<V>> {
    match slot {
        Slot::Word(word) => Some(word),
        Slot::Split(_) => None,
    }
}

fn emit<V: Clone>(entries: &[Entry<V>], found: &mut Vec<V>) {
    found.extend(entries.iter().map(|entry| entry.value.clone()));
}

/// Visits every value below an I-node of a frozen root.
pub(super) fn for_each<V: 'static>(
    trie: &Indirection<Main<V>>,
    top: &INode<Main<V>>,
    guard: &Guard,
    mut visit: impl FnMut(&V),
) {
    let mut inodes = vec![top];
    while let Some(inode) = inodes.pop() {
        let main = trie.committed(inode, guard).get();
        let mut visit_word = |word: &Word<V>| {
            word.entries.as_slice().iter().for_each(|entry| visit(&entry.value));
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
