//! A map from NATS patterns, as a tree by words. Copies share nodes, as in [`Radix`].
//!
//! The searches agree with `matches` and `collide` of `rules`, which compare one pattern at a time. A search
//! for a subject visits at most two branches at each word. A search for what collides with a pattern visits
//! all branches at a wildcard, but each node once at most. Searches and changes recurse once per word of a
//! pattern in the tree.

use std::sync::Arc;

use super::radix::Radix;
use crate::rules::Wild;

/// A map from valid patterns to `V`.
#[derive(Clone, Debug)]
pub(super) struct Patterns<V> {
    /// `None` if the map is empty.
    root: Option<Arc<Node<V>>>,
}

#[derive(Clone, Debug)]
struct Node<V> {
    /// The value of the pattern that ends here.
    end: Option<V>,
    /// The value of the pattern that ends here with a `>`.
    many: Option<V>,
    /// The node after a `*`.
    one: Option<Arc<Node<V>>>,
    /// The node after each literal word.
    words: Radix<Arc<Node<V>>>,
}

impl<V> Default for Patterns<V> {
    fn default() -> Self {
        Self { root: None }
    }
}

impl<V> Default for Node<V> {
    fn default() -> Self {
        Self { end: None, many: None, one: None, words: Radix::default() }
    }
}

impl<V> Patterns<V> {
    /// Reports whether there are no patterns.
    pub(super) fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Visits the values of the patterns that match `text`, until a visit returns something.
    pub(super) fn find_matching<'a, R>(
        &'a self,
        text: &[u8],
        wild: Wild,
        mut visit: impl FnMut(&'a V) -> Option<R>,
    ) -> Option<R> {
        if text.split(|byte| *byte == b'.').any(<[u8]>::is_empty) {
            return None;
        }
        self.root.as_deref()?.find_matching(Some(text), wild, &mut visit)
    }

    /// Visits the values of the patterns that match a subject that `pattern` matches too, until a visit
    /// returns something.
    pub(super) fn find_colliding<'a, R>(
        &'a self,
        pattern: &[u8],
        mut visit: impl FnMut(&'a V) -> Option<R>,
    ) -> Option<R> {
        self.root.as_deref()?.find_colliding(Some(pattern), &mut visit)
    }

    /// Visits all values, until a visit returns something.
    pub(super) fn find<'a, R>(&'a self, mut visit: impl FnMut(&'a V) -> Option<R>) -> Option<R> {
        let root = self.root.as_deref()?;
        root.end.as_ref().and_then(&mut visit).or_else(|| root.find_below(&mut visit))
    }
}

impl<V: Clone> Patterns<V> {
    /// Changes the value of a pattern. `None` stands for a pattern without a value, before the change and
    /// after it.
    pub(super) fn change<R>(&mut self, pattern: &[u8], change: impl FnOnce(&mut Option<V>) -> R) -> R {
        change_node(&mut self.root, Some(pattern), change)
    }
}

impl<V> Node<V> {
    fn is_empty(&self) -> bool {
        self.end.is_none() && self.many.is_none() && self.one.is_none() && self.words.is_empty()
    }

    /// See [`Patterns::find_matching`]. `text` is what is left of it.
    fn find_matching<'a, R>(
        &'a self,
        text: Option<&[u8]>,
        wild: Wild,
        visit: &mut impl FnMut(&'a V) -> Option<R>,
    ) -> Option<R> {
        let Some(text) = text else {
            return self.end.as_ref().and_then(visit);
        };
        let (word, rest) = first_word(text);
        if let Some(found) = self.many.as_ref().and_then(&mut *visit) {
            return Some(found);
        }
        let one = self.one.as_deref().filter(|_| word != b">" || wild == Wild::Literal);
        if let Some(found) = one.and_then(|node| node.find_matching(rest, wild, visit)) {
            return Some(found);
        }
        self.words.get(word).and_then(|node| node.find_matching(rest, wild, visit))
    }

    /// See [`Patterns::find_colliding`]. `pattern` is what is left of it.
    fn find_colliding<'a, R>(
        &'a self,
        pattern: Option<&[u8]>,
        visit: &mut impl FnMut(&'a V) -> Option<R>,
    ) -> Option<R> {
        let Some(pattern) = pattern else {
            return self.end.as_ref().and_then(visit);
        };
        let (word, rest) = first_word(pattern);
        if word == b">" {
            return self.find_below(visit);
        }
        if let Some(found) = self.many.as_ref().and_then(&mut *visit) {
            return Some(found);
        }
        if let Some(found) = self.one.as_deref().and_then(|node| node.find_colliding(rest, visit)) {
            return Some(found);
        }
        if word == b"*" {
            return self.words.values().find_map(|node| node.find_colliding(rest, visit));
        }
        self.words.get(word).and_then(|node| node.find_colliding(rest, visit))
    }

    /// Visits the values of all patterns that have one more word than led here, or several.
    fn find_below<'a, R>(&'a self, visit: &mut impl FnMut(&'a V) -> Option<R>) -> Option<R> {
        if let Some(found) = self.many.as_ref().and_then(&mut *visit) {
            return Some(found);
        }
        let below = self.one.iter().chain(self.words.values());
        for node in below {
            let end = node.end.as_ref().and_then(&mut *visit);
            if let Some(found) = end.or_else(|| node.find_below(visit)) {
                return Some(found);
            }
        }
        None
    }
}

/// Changes the value of `pattern` below a node. Makes the node if it is missing, and removes it if it is left
/// empty.
fn change_node<V: Clone, R>(
    place: &mut Option<Arc<Node<V>>>,
    pattern: Option<&[u8]>,
    change: impl FnOnce(&mut Option<V>) -> R,
) -> R {
    let node = Arc::make_mut(place.get_or_insert_default());
    let result = match pattern.map(first_word) {
        None => change(&mut node.end),
        Some((b">", _)) => change(&mut node.many),
        Some((b"*", rest)) => change_node(&mut node.one, rest, change),
        Some((word, rest)) => node.words.change(word, |place| change_node(place, rest, change)),
    };
    if node.is_empty() {
        *place = None;
    }
    result
}

/// Splits a text after its first word. `None` if no other word follows.
fn first_word(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|byte| *byte == b'.') {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}
