//! Patterns by shape, as persistent trees whose updates copy one path. They do the work of the hash tables,
//! for shapes of any number of words.

use std::cell::Cell;
use std::sync::Arc;

use super::subscribers::{SubscriberId, Subscribers, View};
use super::tree::Tree;
use super::words::Hasher;
use crate::pattern::{PatternWord, words};
use crate::subject::split;
use crate::{Dialect, Subject};

/// Patterns in which a wildcard for any number of words comes last or nowhere.
pub(crate) struct Shapes<V>(Tree<Arc<[u8]>, Shape<V>>);

impl<V> Default for Shapes<V> {
    fn default() -> Self {
        Self(Tree::default())
    }
}

impl<V> Clone for Shapes<V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// The patterns of one shape.
struct Shape<V> {
    wildcards: Arc<Wildcards>,
    subscriptions: usize,
    /// Patterns by their hashes. Patterns with the same hash share an entry.
    patterns: Tree<u64, Arc<[Pattern<V>]>>,
}

impl<V> Clone for Shape<V> {
    fn clone(&self) -> Self {
        let (wildcards, patterns) = (self.wildcards.clone(), self.patterns.clone());
        Self { wildcards, subscriptions: self.subscriptions, patterns }
    }
}

struct Pattern<V> {
    text: Arc<[u8]>,
    here: Subscribers<V>,
}

impl<V: Clone> Clone for Pattern<V> {
    fn clone(&self) -> Self {
        Self { text: self.text.clone(), here: self.here.view().to_owned() }
    }
}

impl<V: Clone> Shapes<V> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of subscriptions of a shape.
    pub(crate) fn count(&self, shape: &[u8]) -> usize {
        self.0.get(shape).map_or(0, |shape| shape.subscriptions)
    }

    /// Returns the patterns with one more subscriber, and its id.
    pub(crate) fn with(
        &self,
        hasher: &Hasher,
        dialect: Dialect,
        shape: &[u8],
        text: &[u8],
        value: V,
    ) -> (Self, SubscriberId) {
        let known = self.0.get(shape);
        let mut more = known.cloned().unwrap_or_else(|| Shape::new(dialect, text));
        let hash = more.wildcards.hash(hasher, &Shares::of(hasher, dialect, text));
        let others = more.patterns.get(&hash).map_or(&[][..], |patterns| patterns);
        let (text, here) = match others.iter().find(|pattern| *pattern.text == *text) {
            Some(pattern) => (pattern.text.clone(), pattern.here.view()),
            None => (text.into(), View::None),
        };
        let (here, id) = here.with(value);
        let others = others.iter().filter(|pattern| pattern.text != text).cloned();
        let patterns = others.chain([Pattern { text: text.clone(), here }]).collect();
        more.patterns = more.patterns.with(hash, patterns);
        more.subscriptions += 1;
        (Self(self.0.with(shape.into(), more)), id)
    }

    /// Returns the patterns without one subscriber. `None` if it does not exist.
    pub(crate) fn without(
        &self,
        hasher: &Hasher,
        dialect: Dialect,
        shape: &[u8],
        text: &[u8],
        id: SubscriberId,
    ) -> Option<Self> {
        let mut rest = self.0.get(shape)?.clone();
        let hash = rest.wildcards.hash(hasher, &Shares::of(hasher, dialect, text));
        let (mut patterns, mut found) = (Vec::new(), false);
        for pattern in rest.patterns.get(&hash)?.iter() {
            let mut pattern = pattern.clone();
            if *pattern.text == *text {
                pattern.here = pattern.here.view().without(id)?;
                found = true;
            }
            if !pattern.here.view().is_none() {
                patterns.push(pattern);
            }
        }
        if !found {
            return None;
        }
        rest.patterns = if patterns.is_empty() {
            rest.patterns.without(&hash)?
        } else {
            rest.patterns.with(hash, patterns.into())
        };
        rest.subscriptions -= 1;
        if rest.subscriptions == 0 {
            return self.0.without(shape).map(Self);
        }
        Some(Self(self.0.with(shape.into(), rest)))
    }

    /// Calls `f` for the subscribers of each pattern that matches.
    pub(crate) fn for_each_match<'a>(
        &'a self,
        hasher: &Hasher,
        subject: Subject<'_>,
        mut f: impl FnMut(View<'a, V>),
    ) {
        if self.0.is_empty() {
            return;
        }
        let shares = &Shares::of(hasher, subject.dialect(), subject.as_bytes());
        self.0.for_each(|_, shape| {
            if !shape.wildcards.fit(subject, shares.words()) {
                return;
            }
            let hash = shape.wildcards.hash(hasher, shares);
            let patterns = shape.patterns.get(&hash).map_or(&[][..], |patterns| patterns);
            if let Some(pattern) = patterns.iter().find(|pattern| matches(&pattern.text, subject)) {
                f(pattern.here.view());
            }
        });
    }

    /// Calls `f` with each pattern's text and its subscribers.
    pub(crate) fn for_each<'a>(&'a self, mut f: impl FnMut(&[u8], View<'a, V>)) {
        self.0.for_each(|_, shape| {
            let mut each = |pattern: &'a Pattern<V>| f(&pattern.text, pattern.here.view());
            shape.patterns.for_each(|_, patterns| patterns.iter().for_each(&mut each));
        });
    }
}

impl<V> Shape<V> {
    fn new(dialect: Dialect, text: &[u8]) -> Self {
        let wildcards = Arc::new(Wildcards::of(dialect, text));
        Self { wildcards, subscriptions: 0, patterns: Tree::default() }
    }
}

/// The wildcards of a shape.
struct Wildcards {
    /// Words before the tail wildcard, or all of them.
    prefix: usize,
    /// The positions of one-word wildcards, in order.
    stars: Box<[u32]>,
    /// Whether a wildcard for any number of words comes last.
    tail: bool,
}

impl Wildcards {
    fn of(dialect: Dialect, text: &[u8]) -> Self {
        let (mut prefix, mut stars, mut tail) = (0, Vec::new(), false);
        for word in words(dialect, text) {
            match word {
                PatternWord::Many => {
                    tail = true;
                    continue;
                }
                PatternWord::One => stars.push(prefix as u32),
                PatternWord::Literal(_) => {}
            }
            prefix += 1;
        }
        Self { prefix, stars: stars.into(), tail }
    }

    /// Reports whether a subject of this many words can match.
    fn fit(&self, subject: Subject<'_>, count: usize) -> bool {
        let starts_wild = self.stars.first() == Some(&0) || self.prefix == 0 && self.tail;
        let fits = if self.tail {
            count >= self.prefix + subject.dialect().many_min()
        } else {
            count == self.prefix
        };
        fits && !(starts_wild && subject.is_hidden())
    }

    /// The hash of a pattern of this shape, or of a subject that fits it.
    fn hash(&self, hasher: &Hasher, shares: &Shares) -> u64 {
        let whole = self.prefix.checked_sub(1).map_or(0, |last| shares.0[last].up_to);
        let stars = self.stars.iter().map(|position| shares.0[*position as usize].own);
        hasher.finish(stars.fold(whole, u64::wrapping_sub))
    }
}

/// Reports whether a pattern has the subject's words except where it has wildcards. Its shape must fit the
/// subject.
fn matches(pattern: &[u8], subject: Subject<'_>) -> bool {
    let mut theirs = subject.words();
    words(subject.dialect(), pattern).all(|word| match word {
        PatternWord::Literal(word) => theirs.next() == Some(word),
        PatternWord::One => theirs.next().is_some(),
        PatternWord::Many => true,
    })
}

/// The share of each word of a text in the hashes of patterns.
struct Shares(Vec<Share>);

struct Share {
    own: u64,
    /// The sum over all words up to this one.
    up_to: u64,
}

thread_local! {
    /// Memory of the last lookup's shares, so that a lookup does not allocate.
    static SCRATCH: Cell<Vec<Share>> = const { Cell::new(Vec::new()) };
}

impl Shares {
    fn of(hasher: &Hasher, dialect: Dialect, text: &[u8]) -> Self {
        // When a thread ends, its scratch memory may be gone before a value or another thread local that
        // still makes a lookup.
        let mut shares = SCRATCH.try_with(Cell::take).unwrap_or_default();
        shares.clear();
        let mut up_to = 0_u64;
        for (position, (start, word)) in split(dialect, text).enumerate() {
            let own = hasher.share(text, start, start + word.len(), position);
            up_to = up_to.wrapping_add(own);
            shares.push(Share { own, up_to });
        }
        Self(shares)
    }

    fn words(&self) -> usize {
        self.0.len()
    }
}

impl Drop for Shares {
    fn drop(&mut self) {
        // Without the scratch memory the vector is simply freed.
        let _ = SCRATCH.try_with(|scratch| scratch.set(std::mem::take(&mut self.0)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::trie::Trie;
    use super::*;
    use crate::Limits;
    use crate::pattern::shape;

    struct Both {
        dialect: Dialect,
        hasher: Hasher,
        shapes: Shapes<u32>,
        trie: Trie<u32>,
    }

    impl Both {
        fn new(dialect: Dialect, hasher: Hasher) -> Self {
            Self { dialect, hasher, shapes: Shapes::default(), trie: Trie::default() }
        }

        fn with(&mut self, text: &str, value: u32) -> SubscriberId {
            let (dialect, text) = (self.dialect, text.as_bytes());
            self.trie = self.trie.with(dialect, text, value).0;
            let id;
            (self.shapes, id) = self.shapes.with(&self.hasher, dialect, &shape(dialect, text), text, value);
            id
        }

        fn without(&self, text: &str, id: SubscriberId) -> Option<Shapes<u32>> {
            let (dialect, text) = (self.dialect, text.as_bytes());
            self.shapes.without(&self.hasher, dialect, &shape(dialect, text), text, id)
        }

        /// The values that both find; they must agree.
        fn found(&self, subject: &str) -> Vec<u32> {
            let subject = Subject::parse(self.dialect, subject.as_bytes(), &Limits::widest());
            let subject = subject.expect("valid");
            let (mut found, mut expected) = (Vec::new(), Vec::new());
            let push = |view: View<'_, u32>| view.for_each(|value| found.push(*value));
            self.shapes.for_each_match(&self.hasher, subject, push);
            self.trie.for_each_match(subject, |view| view.for_each(|value| expected.push(*value)));
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "{:?}", String::from_utf8_lossy(subject.as_bytes()));
            found
        }
    }

    #[test]
    fn finds_what_the_trie_finds() {
        for hasher in [Hasher::new(), Hasher::of_nothing()] {
            let mut nats = Both::new(Dialect::Nats, hasher);
            for (value, pattern) in
                (0..).zip(["a.b", "a.*", "*.b", "*.*", "a.>", ">", "*.>", "a.b.c", "a", "*", "b.a", "a.b"])
            {
                nats.with(pattern, value);
            }
            assert_eq!(nats.found("a.b"), [0, 1, 2, 3, 4, 5, 6, 11]);
            assert_eq!(nats.found("a"), [5, 8, 9]);
            assert_eq!(nats.found("b.a"), [3, 5, 6, 10]);
            assert_eq!(nats.found("a.b.c"), [4, 5, 6, 7]);
            assert_eq!(nats.found("a.b.c.d"), [4, 5, 6]);
        }
        let mut mqtt = Both::new(Dialect::Mqtt, Hasher::new());
        for (value, pattern) in
            (0..).zip(["/", "//", "a/", "/a", "+/", "a/#", "#", "+", "$s/+", "$s/#", "+/+"])
        {
            mqtt.with(pattern, value);
        }
        for subject in ["/", "//", "a", "a/", "a/b", "$s", "$s/a", "$s/a/b", "/a"] {
            assert!(!mqtt.found(subject).is_empty(), "{subject}");
        }
        assert_eq!(mqtt.found("$s/a"), [8, 9]);
    }

    #[test]
    fn words_far_behind_count_at_their_places() {
        let mut nats = Both::new(Dialect::Nats, Hasher::new());
        let text = |at: usize, word: &str| {
            let mut words = vec!["w"; 100];
            words[at] = word;
            words.join(".")
        };
        for (value, at) in (0..).zip([0, 31, 32, 63, 64, 99]) {
            nats.with(&text(at, "x"), value);
            nats.with(&text(at, "*"), value + 10);
        }
        for (value, at) in (0..).zip([0, 31, 32, 63, 64, 99]) {
            assert_eq!(nats.found(&text(at, "x")), [value, value + 10]);
            assert_eq!(nats.found(&text(at, "y")), [value + 10]);
        }
        assert!(nats.found(&text(33, "x")).is_empty());
    }

    #[test]
    fn patterns_that_share_a_hash_come_and_go_one_by_one() {
        let mut nats = Both::new(Dialect::Nats, Hasher::of_nothing());
        let first = nats.with("a.b", 1);
        let second = nats.with("a.c", 2);
        let third = nats.with("a.b", 3);
        assert_eq!((nats.found("a.b"), nats.found("a.c")), (vec![1, 3], vec![2]));
        assert!(nats.without("a.d", first).is_none() && nats.without("a.c", third).is_none());
        let rest = |shapes: &Shapes<u32>| {
            let mut texts = Vec::new();
            shapes
                .for_each(|text, view| texts.push((String::from_utf8_lossy(text).into_owned(), view.len())));
            texts.sort();
            texts
        };
        nats.shapes = nats.without("a.b", first).expect("it is there");
        assert_eq!(rest(&nats.shapes), [("a.b".into(), 1), ("a.c".into(), 1)]);
        nats.shapes = nats.without("a.b", third).expect("it is there");
        assert_eq!(rest(&nats.shapes), [("a.c".into(), 1)]);
        assert_eq!(nats.shapes.count(b"."), 1);
        nats.shapes = nats.without("a.c", second).expect("it is there");
        assert!(nats.shapes.is_empty());
    }

    #[test]
    fn an_update_keeps_what_others_see() {
        let mut nats = Both::new(Dialect::Nats, Hasher::new());
        let mut versions = Vec::new();
        for value in 0..100 {
            nats.with(&format!("a.{value}.*"), value);
            versions.push(nats.shapes.clone());
        }
        for (value, shapes) in (0..).zip(versions) {
            let mut count = 0;
            shapes.for_each(|_, view| count += view.len());
            assert_eq!((count, shapes.count(b"..*")), (value + 1, value + 1));
        }
    }
}
