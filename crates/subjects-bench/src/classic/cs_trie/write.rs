//! Subscribing and unsubscribing: follows one path, and replaces one node. A thread that loses a race starts
//! again.

use std::sync::Arc;

use crossbeam_epoch::Guard;

use super::super::Entry;
use super::indirection::{INode, Indirection, Loaded};
use super::key::Keys;
use super::node::{Branches, Kind, Main, Slot, Word, split};

/// A stop on the way down.
struct Stop<'g, V> {
    inode: &'g INode<Main<V>>,
    /// The key to look for in this node.
    at: usize,
    /// How many splits this node is below the start of the word.
    depth: u32,
}

impl<V> Clone for Stop<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Stop<'_, V> {}

/// Where the way down ended.
struct Bottom<'g, V> {
    main: Loaded<'g, Main<V>>,
    branches: &'g Branches<V>,
    place: u32,
    slot: Option<&'g Slot<V>>,
}

/// A writer's attempt, under one guard and in one generation.
pub(super) struct Try<'g, 'k, V> {
    trie: &'g Indirection<Main<V>>,
    keys: &'k Keys<'k>,
    guard: &'g Guard,
    generation: u64,
    path: Vec<Stop<'g, V>>,
}

impl<'g, 'k, V: Clone + 'static> Try<'g, 'k, V> {
    pub(super) fn new(trie: &'g Indirection<Main<V>>, keys: &'k Keys<'k>, guard: &'g Guard) -> Self {
        let top = &trie.root(guard).top;
        let path = vec![Stop { inode: top, at: 0, depth: 0 }];
        Self { trie, keys, guard, generation: top.generation, path }
    }

    /// Inserts the entry. Returns whether it is in.
    pub(super) fn insert(&mut self, entry: &Entry<V>) -> bool {
        loop {
            let Some(bottom) = self.descend() else { return false };
            let Stop { at, depth, .. } = self.bottom_stop();
            let alone = |at| Arc::new(Word::alone(self.keys, at, entry.clone()));
            let mut done = true;
            let slot = match bottom.slot {
                None => Slot::Word(alone(at)),
                Some(Slot::Word(word)) if !word.is(self.keys.get(at)) => {
                    Slot::Split(split(self.keys, word, at, alone(at), depth + 1, self.generation))
                }
                Some(Slot::Word(word)) if word.text_with_tail() == self.keys.rest(at) => {
                    Slot::Word(Arc::new(word.with_entry(entry.clone())))
                }
                Some(Slot::Word(word)) if word.has_tail() => {
                    done = false;
                    Slot::Word(Arc::new(word.expanded(self.keys.hasher(), self.generation)))
                }
                Some(Slot::Word(word)) => {
                    let branches = Branches::one(self.keys.place(at + 1, 0), Slot::Word(alone(at + 1)));
                    let below = INode::new(self.generation, Main::new(Kind::Branches(branches)));
                    Slot::Word(Arc::new(word.with_below(Some(Arc::new(below)))))
                }
                Some(Slot::Split(_)) => unreachable!("the way down goes through splits"),
            };
            let branches = bottom.branches.with(bottom.place, Some(slot));
            if !self.replace(bottom.main, Main::new(Kind::Branches(branches))) {
                return false;
            }
            if done {
                return true;
            }
        }
    }

    /// Removes the entry. Returns whether it existed; `None` to start again.
    pub(super) fn remove(&mut self, id: u64) -> Option<bool> {
        let bottom = self.descend()?;
        let Stop { at, depth, .. } = self.bottom_stop();
        let Some(Slot::Word(word)) = bottom.slot else { return Some(false) };
        if word.text_with_tail() != self.keys.rest(at) {
            return Some(false);
        }
        let Some(word) = word.without_entry(id) else { return Some(false) };
        let branches = bottom.branches.with(bottom.place, word.into_slot());
        let main = branches.contracted(depth, self.path.len() == 1);
        self.replace(bottom.main, main).then(|| {
            self.clean_upwards();
            true
        })
    }

    /// Removes the tombs on the path of the keys. Returns whether it met none.
    pub(super) fn sweep(&mut self) -> bool {
        self.descend().is_some()
    }

    /// Reports whether the trie moved to a new generation since this started, so that tombs may have been
    /// left.
    pub(super) fn is_outdated(&self) -> bool {
        self.trie.generation(self.guard) != self.generation
    }

    fn bottom_stop(&self) -> Stop<'g, V> {
        self.path[self.path.len() - 1]
    }

    fn replace(&self, old: Loaded<'g, Main<V>>, new: Main<V>) -> bool {
        self.trie.gcas(self.bottom_stop().inode, old, new, self.guard)
    }

    /// Follows the keys as far as the trie goes, renewing I-nodes of older generations. `None` if it must
    /// start again.
    fn descend(&mut self) -> Option<Bottom<'g, V>> {
        loop {
            let Stop { inode, at, depth } = self.bottom_stop();
            let main = self.trie.committed(inode, self.guard);
            let Some(branches) = main.get().branches() else {
                self.clean_upwards();
                return None;
            };
            let place = self.keys.place(at, depth);
            let slot = branches.get(place);
            let (child, at, depth) = match slot {
                Some(Slot::Split(child)) => (child, at, depth + 1),
                Some(Slot::Word(word)) => match &word.below {
                    Some(child) if at + 1 < self.keys.len() && word.is(self.keys.get(at)) => {
                        (child, at + 1, 0)
                    }
                    _ => return Some(Bottom { main, branches, place, slot }),
                },
                None => return Some(Bottom { main, branches, place, slot }),
            };
            if child.generation == self.generation {
                self.path.push(Stop { inode: child, at, depth });
                continue;
            }
            let child = Arc::new(self.trie.renewed(child, self.generation, self.guard));
            let slot = match slot {
                Some(Slot::Word(word)) => Slot::Word(Arc::new(word.with_below(Some(child)))),
                _ => Slot::Split(child),
            };
            let branches = branches.with(place, Some(slot));
            if !self.replace(main, Main::new(Kind::Branches(branches))) {
                return None;
            }
        }
    }

    /// Removes tombs at the end of the path from their parents, as far up as there are any.
    fn clean_upwards(&self) {
        for pair in self.path.windows(2).rev() {
            if !self.clean(&pair[0], &pair[1]) {
                return;
            }
        }
    }

    /// Reports whether the child is a tomb. If so, it is then no longer below this parent, unless the
    /// generation is over.
    fn clean(&self, parent: &Stop<'g, V>, child: &Stop<'g, V>) -> bool {
        let is_top = ptr_eq(parent.inode, self.path[0].inode);
        loop {
            let tomb = self.trie.committed(child.inode, self.guard);
            let Kind::Tomb(rest) = &tomb.get().kind else { return false };
            let main = self.trie.committed(parent.inode, self.guard);
            let Some(branches) = main.get().branches() else { return true };
            let place = self.keys.place(parent.at, parent.depth);
            let slot = match branches.get(place) {
                Some(Slot::Split(inode)) if ptr_eq(&**inode, child.inode) => rest.clone().map(Slot::Word),
                Some(Slot::Word(word)) if below_is(word, child.inode) => word.with_below(None).into_slot(),
                _ => return true,
            };
            let new = branches.with(place, slot).contracted(parent.depth, is_top);
            if self.trie.gcas(parent.inode, main, new, self.guard) || self.is_outdated() {
                return true;
            }
        }
    }
}

fn below_is<V>(word: &Word<V>, inode: &INode<Main<V>>) -> bool {
    word.below.as_ref().is_some_and(|below| ptr_eq(&**below, inode))
}

fn ptr_eq<V>(a: &INode<Main<V>>, b: &INode<Main<V>>) -> bool {
    std::ptr::eq(a, b)
}
