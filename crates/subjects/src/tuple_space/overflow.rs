//! The patterns that no hash table holds: with very many words, of a shape beyond the directory's limit, or
//! with `#` before the last word.
//!
//! All of them are one immutable value under one versioned root. Only one update at a time can replace the
//! root, so writers contend here; the hash tables have no such bottleneck. An update copies a few nodes of
//! trees, however many words the pattern has. Only a pattern with `#` before its last word, which NATS and
//! MQTT do not allow, costs trie nodes, one for each of its words.
//!
//! A lookup searches once for each shape that fits. The cost is bounded by the words that all shapes have
//! together ([`crate::Limits::overflow_words_max`]).

use std::sync::Arc;

use super::by_shape::Shapes;
use super::subscribers::{SubscriberId, View};
use super::tree::Tree;
use super::trie::Trie;
use super::words::Hasher;
use crate::pattern::{PatternWord, shape, words};
use crate::{Dialect, Subject};

/// The patterns, and the cost of their lookups.
pub(crate) struct Overflow<V> {
    shapes: Shapes<V>,
    /// Patterns with a wildcard for any number of words before their last word.
    trie: Trie<V>,
    /// The number of subscriptions of each shape in the trie.
    trie_shapes: Tree<Arc<[u8]>, usize>,
    /// Words of all shapes.
    words: usize,
}

impl<V> Default for Overflow<V> {
    fn default() -> Self {
        let (shapes, trie, trie_shapes) = (Shapes::default(), Trie::default(), Tree::default());
        Self { shapes, trie, trie_shapes, words: 0 }
    }
}

impl<V: Clone> Clone for Overflow<V> {
    fn clone(&self) -> Self {
        let (shapes, trie, trie_shapes) = (self.shapes.clone(), self.trie.clone(), self.trie_shapes.clone());
        Self { shapes, trie, trie_shapes, words: self.words }
    }
}

impl<V: Clone> Overflow<V> {
    pub(crate) fn is_empty(&self) -> bool {
        self.shapes.is_empty() && self.trie.is_empty()
    }

    /// Returns these patterns with one more subscriber, and its id. `None` if its shape is new and the shapes
    /// would have more words than `words_max`.
    pub(crate) fn with(
        &self,
        hasher: &Hasher,
        dialect: Dialect,
        text: &[u8],
        value: V,
        words_max: usize,
    ) -> Option<(Self, SubscriberId)> {
        let shape = shape(dialect, text);
        let regular = is_regular(dialect, text);
        let count = self.count(&shape, regular);
        let words = self.words + if count == 0 { words(dialect, text).count() } else { 0 };
        if count == 0 && words > words_max {
            return None;
        }
        let mut more = Self { words, ..self.clone() };
        let id;
        if regular {
            (more.shapes, id) = self.shapes.with(hasher, dialect, &shape, text, value);
        } else {
            (more.trie, id) = self.trie.with(dialect, text, value);
            more.trie_shapes = self.trie_shapes.with(shape.into(), count + 1);
        }
        Some((more, id))
    }

    /// Returns these patterns without one subscriber. `None` if it does not exist.
    pub(crate) fn without(
        &self,
        hasher: &Hasher,
        dialect: Dialect,
        text: &[u8],
        id: SubscriberId,
    ) -> Option<Self> {
        let shape = shape(dialect, text);
        let regular = is_regular(dialect, text);
        let mut rest = self.clone();
        if regular {
            rest.shapes = self.shapes.without(hasher, dialect, &shape, text, id)?;
        } else {
            rest.trie = self.trie.without(dialect, text, id)?;
            rest.trie_shapes = match self.count(&shape, regular) {
                ..=1 => self.trie_shapes.without(&*shape)?,
                count => self.trie_shapes.with((&*shape).into(), count - 1),
            };
        }
        if rest.count(&shape, regular) == 0 {
            rest.words -= words(dialect, text).count();
        }
        Some(rest)
    }

    /// The number of subscriptions of a shape.
    fn count(&self, shape: &[u8], regular: bool) -> usize {
        if regular { self.shapes.count(shape) } else { self.trie_shapes.get(shape).copied().unwrap_or(0) }
    }

    /// Calls `f` for the subscribers of each pattern that matches.
    pub(crate) fn for_each_match<'a>(
        &'a self,
        hasher: &Hasher,
        subject: Subject<'_>,
        mut f: impl FnMut(View<'a, V>),
    ) {
        self.shapes.for_each_match(hasher, subject, &mut f);
        if !self.trie.is_empty() {
            self.trie.for_each_match(subject, f);
        }
    }

    /// Calls `f` with each pattern's text and its subscribers.
    pub(crate) fn for_each<'a>(&'a self, dialect: Dialect, mut f: impl FnMut(&[u8], View<'a, V>)) {
        self.shapes.for_each(&mut f);
        self.trie.for_each(dialect, f);
    }
}

/// Reports whether a wildcard for any number of words comes last or nowhere.
fn is_regular(dialect: Dialect, text: &[u8]) -> bool {
    let mut words = words(dialect, text);
    let before_many = words.by_ref().take_while(|word| !matches!(word, PatternWord::Many));
    before_many.for_each(drop);
    words.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    /// Patterns of AMQP.
    struct Patterns {
        hasher: Hasher,
        words_max: usize,
        overflow: Overflow<u32>,
    }

    impl Patterns {
        fn new(words_max: usize) -> Self {
            Self { hasher: Hasher::new(), words_max, overflow: Overflow::default() }
        }

        /// Adds a pattern. Returns its id if there is room for it.
        fn add(&mut self, pattern: &str, value: u32) -> Option<SubscriberId> {
            let text = pattern.as_bytes();
            let (more, id) = self.overflow.with(&self.hasher, Dialect::Amqp, text, value, self.words_max)?;
            self.overflow = more;
            Some(id)
        }

        /// Removes a subscriber. Reports whether it existed.
        fn remove(&mut self, pattern: &str, id: SubscriberId) -> bool {
            let rest = self.overflow.without(&self.hasher, Dialect::Amqp, pattern.as_bytes(), id);
            rest.map(|rest| self.overflow = rest).is_some()
        }

        fn found(&self, subject: &str) -> Vec<u32> {
            let subject =
                Subject::parse(Dialect::Amqp, subject.as_bytes(), &Limits::widest()).expect("valid");
            let mut found = Vec::new();
            let push = |view: View<'_, u32>| view.for_each(|value| found.push(*value));
            self.overflow.for_each_match(&self.hasher, subject, push);
            found.sort_unstable();
            found
        }

        fn shown(&self) -> Vec<String> {
            let mut texts = Vec::new();
            let push = |text: &[u8], _: View<'_, u32>| texts.push(String::from_utf8_lossy(text).into_owned());
            self.overflow.for_each(Dialect::Amqp, push);
            texts.sort();
            texts
        }
    }

    #[test]
    fn patterns_with_and_without_a_trie_lie_side_by_side() {
        let mut all = Patterns::new(usize::MAX);
        let patterns = ["a.#.b", "#", "#.b", "a.*.b", "", "*.#", "x.#.b", "#.a.#.b.#", "a.b"];
        let mut ids = Vec::new();
        for (value, pattern) in (0..).zip(patterns) {
            ids.push(all.add(pattern, value).expect("no limit"));
        }
        assert_eq!(all.found("a.b"), [0, 1, 2, 5, 7, 8]);
        assert_eq!(all.found("a.x.b"), [0, 1, 2, 3, 5, 7]);
        assert_eq!(all.found(""), [1, 4]);
        let mut expected = patterns.to_vec();
        expected.sort_unstable();
        assert_eq!(all.shown(), expected);
        for (pattern, id) in patterns.into_iter().zip(ids) {
            assert!(all.remove(pattern, id) && !all.remove(pattern, id), "{pattern}");
        }
        let Overflow { trie_shapes, words, .. } = &all.overflow;
        assert!(all.overflow.is_empty() && trie_shapes.is_empty() && *words == 0);
    }

    #[test]
    fn what_has_gone_leaves_room() {
        for [a, b, c] in [["a.*.b", "c.*.d", "*.b.c"], ["a.#.b", "c.#.d", "#.b.c"]] {
            let mut patterns = Patterns::new(5);
            let first = patterns.add(a, 1).expect("three words");
            let second = patterns.add(b, 2).expect("the same shape");
            assert_eq!(patterns.add(c, 3), None);
            assert!(patterns.remove(a, first));
            assert_eq!(patterns.add(c, 3), None);
            assert!(patterns.remove(b, second));
            assert!(patterns.overflow.is_empty() && patterns.add(c, 3).is_some());
        }
    }

    #[test]
    fn shapes_of_both_kinds_share_the_limit() {
        let mut patterns = Patterns::new(7);
        let taken = ["a.b.c", "a.#.b", "a.b", "#.a", "*", "d.e.f", "d.#.f"]
            .map(|text| patterns.add(text, 1).is_some());
        assert_eq!(taken, [true, true, false, false, true, true, true]);
    }
}
