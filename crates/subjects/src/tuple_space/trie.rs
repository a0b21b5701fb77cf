//! A persistent trie of patterns by words, for those with a wildcard for any number of words before their
//! last word (AMQP).
//!
//! A lookup walks all nodes that agree with the words so far, level by level, and visits each node at most
//! once per word. An update copies one path: a node for each word of its pattern. Nothing recurses by word.
#![expect(unsafe_code, reason = "the scratch memory of a lookup outlives the types of one matcher")]

use std::cell::Cell;
use std::sync::Arc;

use super::subscribers::{SubscriberId, Subscribers, View};
use super::tree::Tree;
use crate::pattern::{PatternWord, words};
use crate::{Dialect, Subject};

/// A node with everything below it. The root stands for the start of every pattern.
pub(crate) struct Trie<V> {
    children: Tree<Arc<[u8]>, Arc<Self>>,
    one: Option<Arc<Self>>,
    many: Option<Arc<Self>>,
    here: Subscribers<V>,
}

impl<V> Default for Trie<V> {
    fn default() -> Self {
        Self { children: Tree::default(), one: None, many: None, here: Subscribers::None }
    }
}

impl<V: Clone> Clone for Trie<V> {
    fn clone(&self) -> Self {
        let (children, one, many) = (self.children.clone(), self.one.clone(), self.many.clone());
        Self { children, one, many, here: self.here.view().to_owned() }
    }
}

impl<V: Clone> Trie<V> {
    fn child(&self, word: PatternWord<'_>) -> Option<&Arc<Self>> {
        match word {
            PatternWord::Literal(word) => self.children.get(word),
            PatternWord::One => self.one.as_ref(),
            PatternWord::Many => self.many.as_ref(),
        }
    }

    /// A copy with another child; an empty child is left out.
    fn with_child(&self, word: PatternWord<'_>, child: Self) -> Self {
        let mut copy = self.clone();
        let child = (!child.is_empty()).then(|| Arc::new(child));
        match (word, child) {
            (PatternWord::One, child) => copy.one = child,
            (PatternWord::Many, child) => copy.many = child,
            (PatternWord::Literal(word), Some(child)) => {
                copy.children = copy.children.with(Arc::from(word), child);
            }
            (PatternWord::Literal(word), None) => {
                if let Some(rest) = copy.children.without(word) {
                    copy.children = rest;
                }
            }
        }
        copy
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.here.view().is_none() && self.is_last()
    }

    /// Reports whether no pattern goes on from here.
    fn is_last(&self) -> bool {
        self.one.is_none() && self.many.is_none() && self.children.is_empty()
    }

    /// Returns the trie with one more subscriber, and its id.
    pub(crate) fn with(&self, dialect: Dialect, text: &[u8], value: V) -> (Self, SubscriberId) {
        let words: Vec<_> = words(dialect, text).collect();
        let path = self.path(&words);
        let empty = Self::default();
        let last = path.get(words.len()).copied().unwrap_or(&empty);
        let mut node = last.clone();
        let (here, id) = last.here.view().with(value);
        node.here = here;
        (rebuild(&path, &words, node), id)
    }

    /// Returns the trie without one subscriber. `None` if it does not exist.
    pub(crate) fn without(&self, dialect: Dialect, text: &[u8], id: SubscriberId) -> Option<Self> {
        let words: Vec<_> = words(dialect, text).collect();
        let path = self.path(&words);
        let last = path.get(words.len())?;
        let mut node = (*last).clone();
        node.here = last.here.view().without(id)?;
        Some(rebuild(&path, &words, node))
    }

    /// The nodes from the root along the words, as far as they exist.
    fn path<'a>(&'a self, words: &[PatternWord<'_>]) -> Vec<&'a Self> {
        let mut path = vec![self];
        for word in words {
            let Some(child) = path.last().and_then(|node| node.child(*word)) else { break };
            path.push(child);
        }
        path
    }

    /// Calls `f` for the subscribers of each pattern that matches.
    pub(crate) fn for_each_match<'a>(&'a self, subject: Subject<'_>, mut f: impl FnMut(View<'a, V>)) {
        let mut front = Front::<'a, V>::take(subject.dialect());
        front.enter(self, !subject.is_hidden());
        for (index, word) in subject.words().enumerate() {
            front.step(word, index > 0 || !subject.is_hidden());
        }
        front.part_ends();
        for active in
            front.now.iter().chain(&front.ends).filter(|active| !active.node().here.view().is_none())
        {
            f(active.node().here.view());
        }
    }

    /// Calls `f` with each pattern's text and its subscribers.
    pub(crate) fn for_each<'a>(&'a self, dialect: Dialect, mut f: impl FnMut(&[u8], View<'a, V>)) {
        /// An entry still to visit: a node, its word, and the bytes and words of its parent's text.
        struct Todo<'a, V>(&'a Trie<V>, Vec<u8>, usize, usize);
        let mut text = Vec::new();
        if !self.here.view().is_none() {
            f(&text, self.here.view());
        }
        let mut todo = Vec::new();
        let push_children = |todo: &mut Vec<Todo<'a, V>>, node: &'a Self, bytes: usize, words: usize| {
            node.children.for_each(|word, child| todo.push(Todo(child, word.to_vec(), bytes, words)));
            todo.extend(node.one.iter().map(|child| Todo(child, vec![dialect.one()], bytes, words)));
            todo.extend(node.many.iter().map(|child| Todo(child, vec![dialect.many()], bytes, words)));
        };
        push_children(&mut todo, self, 0, 0);
        while let Some(Todo(node, word, bytes, words)) = todo.pop() {
            text.truncate(bytes);
            if words > 0 {
                text.push(dialect.separator());
            }
            text.extend_from_slice(&word);
            if !node.here.view().is_none() {
                f(&text, node.here.view());
            }
            push_children(&mut todo, node, text.len(), words + 1);
        }
    }
}

/// Puts a new last node under copies of the nodes above it.
fn rebuild<V: Clone>(path: &[&Trie<V>], words: &[PatternWord<'_>], last: Trie<V>) -> Trie<V> {
    let empty = Trie::default();
    words.iter().enumerate().rev().fold(last, |child, (index, word)| {
        path.get(index).copied().unwrap_or(&empty).with_child(*word, child)
    })
}

impl<V> Drop for Trie<V> {
    /// Avoids recursion: a pattern of 10,000 words must not need a deep stack.
    fn drop(&mut self) {
        let mut todo = Vec::new();
        self.take_children(&mut todo);
        while let Some(node) = todo.pop() {
            if let Some(mut node) = Arc::into_inner(node) {
                node.take_children(&mut todo);
            }
        }
    }
}

impl<V> Trie<V> {
    fn take_children(&mut self, out: &mut Vec<Arc<Self>>) {
        out.extend(self.one.take());
        out.extend(self.many.take());
        self.children.drain_unshared(out);
    }
}

/// A node that agrees with all words so far.
struct Active<'a, V> {
    node: &'a Trie<V>,
    /// Whether it stands for a wildcard of any number of words, and so also agrees with every further word.
    stays: bool,
}

impl<V> Clone for Active<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Active<'_, V> {}

impl<'a, V> Active<'a, V> {
    fn node(self) -> &'a Trie<V> {
        self.node
    }
}

/// All active nodes.
struct Front<'a, V> {
    dialect: Dialect,
    now: Vec<Active<'a, V>>,
    next: Vec<Active<'a, V>>,
    /// Wildcards of any number of words that end their patterns: they match whatever follows.
    ends: Vec<Active<'a, V>>,
    /// Whether some nodes may occur several times.
    repeats: bool,
}

thread_local! {
    /// Memory of the last lookup's front, so that a lookup does not allocate.
    static SCRATCH: Cell<[Vec<Erased>; 3]> = const { Cell::new([Vec::new(), Vec::new(), Vec::new()]) };
}

/// An [`Active`] without its types.
struct Erased(#[expect(dead_code, reason = "it determines the size")] (*const (), bool));

impl<'a, V: Clone> Front<'a, V> {
    fn take(dialect: Dialect) -> Self {
        // When a thread ends, its scratch memory may be gone before a value or another thread local that
        // still makes a lookup.
        let [now, next, ends] = SCRATCH.try_with(Cell::take).unwrap_or_default();
        Self { dialect, now: recast(now), next: recast(next), ends: recast(ends), repeats: false }
    }

    fn enter(&mut self, node: &'a Trie<V>, wildcards: bool) {
        self.next.push(Active { node, stays: false });
        if self.dialect.many_min() == 0 && wildcards {
            self.enter_many(node);
        }
        std::mem::swap(&mut self.now, &mut self.next);
    }

    /// Enters the wildcard of any number of words below a node.
    fn enter_many(&mut self, above: &'a Trie<V>) {
        let Some(node) = above.many.as_deref() else { return };
        let active = Active { node, stays: true };
        if node.is_last() { self.ends.push(active) } else { self.next.push(active) }
    }

    /// Removes duplicates from the ends.
    fn part_ends(&mut self) {
        if self.repeats {
            once_each(&mut self.ends);
        }
    }

    /// Goes on by one word. `wildcards`: whether wildcards may match it.
    fn step(&mut self, word: &[u8], wildcards: bool) {
        let mut several = false;
        let mut now = std::mem::take(&mut self.now);
        for active in now.drain(..) {
            let node = active.node;
            let one = node.one.as_deref().filter(|_| wildcards);
            for child in node.children.get(word).map(|child| &**child).into_iter().chain(one) {
                self.next.push(Active { node: child, stays: false });
                if self.dialect.many_min() == 0 {
                    self.enter_many(child);
                }
            }
            if self.dialect.many_min() == 1 && wildcards {
                self.enter_many(node);
            }
            if active.stays {
                self.next.push(active);
                several = true;
            }
        }
        self.now = std::mem::replace(&mut self.next, now);
        if several {
            // A node can be reached in several ways only below a wildcard of any number of words.
            once_each(&mut self.now);
            self.repeats = true;
        }
    }
}

/// Removes duplicate nodes.
fn once_each<V>(nodes: &mut Vec<Active<'_, V>>) {
    nodes.sort_unstable_by_key(|active| std::ptr::from_ref(active.node));
    nodes.dedup_by_key(|active| std::ptr::from_ref(active.node));
}

impl<V> Drop for Front<'_, V> {
    fn drop(&mut self) {
        let vectors =
            [&mut self.now, &mut self.next, &mut self.ends].map(|vector| recast(std::mem::take(vector)));
        // Without the scratch memory the vectors are simply freed.
        let _ = SCRATCH.try_with(|scratch| scratch.set(vectors));
    }
}

/// An empty vector in the memory of another one.
fn recast<A, B>(mut from: Vec<A>) -> Vec<B> {
    const { assert!(size_of::<A>() == size_of::<B>() && align_of::<A>() == align_of::<B>()) };
    from.clear();
    let mut from = std::mem::ManuallyDrop::new(from);
    let (memory, capacity) = (from.as_mut_ptr(), from.capacity());
    // SAFETY: the memory came from a vector of elements of the same size and alignment, and holds no element
    // now.
    unsafe { Vec::from_raw_parts(memory.cast(), 0, capacity) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(trie: &Trie<u32>, dialect: Dialect, subject: &str) -> Vec<u32> {
        let subject = Subject::parse(dialect, subject.as_bytes(), &crate::Limits::widest()).expect("valid");
        let mut found = Vec::new();
        trie.for_each_match(subject, |view| view.for_each(|value| found.push(*value)));
        found.sort_unstable();
        found
    }

    fn with(trie: &Trie<u32>, dialect: Dialect, text: &str, value: u32) -> (Trie<u32>, SubscriberId) {
        trie.with(dialect, text.as_bytes(), value)
    }

    #[test]
    fn wildcards_match_anywhere_once() {
        let patterns = ["a.#.b", "#", "#.b", "a.*.b", "", "*.#", "x.#.b", "#.a.#.b.#"];
        let mut trie = Trie::default();
        for (value, pattern) in (0..).zip(patterns) {
            trie = with(&trie, Dialect::Amqp, pattern, value).0;
        }
        assert_eq!(found(&trie, Dialect::Amqp, "a.b"), [0, 1, 2, 5, 7]);
        assert_eq!(found(&trie, Dialect::Amqp, "a.x.b"), [0, 1, 2, 3, 5, 7]);
        assert_eq!(found(&trie, Dialect::Amqp, ""), [1, 4]);
        let mut texts = Vec::new();
        trie.for_each(Dialect::Amqp, |text, _| texts.push(String::from_utf8_lossy(text).into_owned()));
        texts.sort();
        let mut expected = patterns.to_vec();
        expected.sort_unstable();
        assert_eq!(texts, expected);
    }

    #[test]
    fn empty_words_are_kept() {
        let mut trie = Trie::default();
        for (value, pattern) in (0..).zip(["/", "//", "a/", "/a", "+/"]) {
            trie = with(&trie, Dialect::Mqtt, pattern, value).0;
        }
        assert_eq!(found(&trie, Dialect::Mqtt, "/"), [0, 4]);
        assert_eq!(found(&trie, Dialect::Mqtt, "//"), [1]);
        let mut texts = Vec::new();
        trie.for_each(Dialect::Mqtt, |text, _| texts.push(String::from_utf8_lossy(text).into_owned()));
        texts.sort();
        assert_eq!(texts, ["+/", "/", "//", "/a", "a/"]);
    }

    #[test]
    fn ten_thousand_words_need_no_deep_stack() {
        let text = vec!["w"; if cfg!(miri) { 200 } else { 10_000 }].join(".");
        let small = std::thread::Builder::new().stack_size(64 << 10);
        let work = move || {
            let (trie, id) = with(&Trie::default(), Dialect::Amqp, &text, 1);
            assert_eq!(found(&trie, Dialect::Amqp, &text), [1]);
            let mut shown = Vec::new();
            trie.for_each(Dialect::Amqp, |own, _| shown = own.to_vec());
            assert!(shown == text.as_bytes());
            let rest = trie.without(Dialect::Amqp, text.as_bytes(), id).expect("it is there");
            assert!(rest.is_empty());
        };
        small.spawn(work).expect("a thread").join().expect("no overflow");
    }

    #[test]
    fn many_hashes_do_not_explode() {
        let pattern = ["#.a"; 30].join(".");
        let (trie, _) = with(&Trie::default(), Dialect::Amqp, &pattern, 1);
        let subject = vec!["a"; if cfg!(miri) { 40 } else { 250 }].join(".");
        assert_eq!(found(&trie, Dialect::Amqp, &subject), [1]);
    }

    #[test]
    fn wildcards_that_end_their_patterns_are_not_carried_along() {
        let mut trie = Trie::default();
        for (value, pattern) in (0..).zip(["a.>", "*.>", "a.b.>", "a.*.>", ">"]) {
            trie = with(&trie, Dialect::Nats, pattern, value).0;
        }
        let mut front = Front::take(Dialect::Nats);
        front.enter(&trie, true);
        for word in [&b"a"[..], b"b", b"c", b"d", b"e"] {
            front.step(word, true);
        }
        assert!(front.now.is_empty());
        drop(front);
        assert_eq!(found(&trie, Dialect::Nats, "a.b.c.d.e"), [0, 1, 2, 3, 4]);
        assert_eq!(found(&trie, Dialect::Nats, "a"), [4]);
    }
}
