//! An ordered map from byte strings, as a radix tree. A copy shares the nodes with its original. A change
//! copies only the nodes on the way to its key.
//!
//! All keys that are prefixes of a text lie on one way down, so [`Radix::prefixes`] finds them in one walk.
//! The number of steps is at most the length of the text and of the longest key. It does not depend on the
//! number of keys.

use std::sync::Arc;

/// A map from byte strings to `V`. Keys are short: changes and `Drop` recurse once per node on the way to the
/// key, and so at most once per byte.
#[derive(Clone, Debug)]
pub(super) struct Radix<V> {
    /// The node of the empty key. `None` if the map is empty.
    root: Option<Arc<Node<V>>>,
}

#[derive(Clone, Debug)]
struct Node<V> {
    /// The bytes between the byte in the parent and this node.
    label: Box<[u8]>,
    value: Option<V>,
    /// By the next byte, sorted. A node other than the root has a value, or at least two children.
    children: Vec<(u8, Arc<Node<V>>)>,
}

impl<V> Default for Radix<V> {
    fn default() -> Self {
        Self { root: None }
    }
}

impl<V> Default for Node<V> {
    fn default() -> Self {
        Self { label: Box::default(), value: None, children: Vec::new() }
    }
}

impl<V> Radix<V> {
    /// Reports whether there are no keys.
    pub(super) fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Returns the value of a key.
    pub(super) fn get(&self, key: &[u8]) -> Option<&V> {
        let mut prefixes = self.prefixes(key);
        prefixes.find(|(bytes, _)| *bytes == key.len()).map(|(_, value)| value)
    }

    /// Returns the values of all keys that `text` starts with, shortest first, and the lengths of the keys.
    pub(super) fn prefixes<'a, 't>(&'a self, text: &'t [u8]) -> Prefixes<'a, 't, V> {
        Prefixes { node: self.root.as_deref(), text, bytes: 0 }
    }

    /// Returns all values, in the order of their keys.
    pub(super) fn values(&self) -> Values<'_, V> {
        Values { ahead: self.root.as_deref().into_iter().collect() }
    }
}

impl<V: Clone> Radix<V> {
    /// Changes the value of a key. `None` stands for a key without a value, before the change and after it.
    pub(super) fn change<R>(&mut self, key: &[u8], change: impl FnOnce(&mut Option<V>) -> R) -> R {
        let root = Arc::make_mut(self.root.get_or_insert_default());
        let result = root.change(key, change);
        if root.value.is_none() && root.children.is_empty() {
            self.root = None;
        }
        result
    }
}

impl<V> Node<V> {
    fn child(&self, first: u8) -> Result<usize, usize> {
        self.children.binary_search_by_key(&first, |(byte, _)| *byte)
    }

    /// Returns the child on the way to `rest`, and how many bytes of `rest` that step takes.
    fn step(&self, rest: &[u8]) -> Option<(&Self, usize)> {
        let (first, rest) = rest.split_first()?;
        let (_, child) = &self.children[self.child(*first).ok()?];
        // Labels are short. A call of memcmp was three quarters of the time of a decision.
        let is_same = child.label.len() <= rest.len() && child.label.iter().zip(rest).all(|(a, b)| a == b);
        is_same.then(|| (&**child, 1 + child.label.len()))
    }
}

impl<V: Clone> Node<V> {
    fn change<R>(&mut self, key: &[u8], change: impl FnOnce(&mut Option<V>) -> R) -> R {
        let Some((first, rest)) = key.split_first() else {
            return change(&mut self.value);
        };
        let at = match self.child(*first) {
            Ok(at) => at,
            Err(at) => {
                let leaf = Self { label: rest.into(), ..Self::default() };
                self.children.insert(at, (*first, Arc::new(leaf)));
                at
            }
        };
        let child = Arc::make_mut(&mut self.children[at].1);
        let same = child.label.iter().zip(rest).take_while(|(a, b)| a == b).count();
        child.split(same);
        let result = child.change(&rest[same..], change);
        self.tidy(at);
        result
    }

    /// Puts a node without a value in front, so that the label ends after `bytes` bytes.
    fn split(&mut self, bytes: usize) {
        let Some(first) = self.label.get(bytes).copied() else {
            return;
        };
        let mut lower = std::mem::take(self);
        self.label = lower.label[..bytes].into();
        lower.label = lower.label[bytes + 1..].into();
        self.children = vec![(first, Arc::new(lower))];
    }

    /// Removes a child that leads nowhere, and merges a child that only leads on.
    fn tidy(&mut self, at: usize) {
        let child = &mut self.children[at].1;
        match (&child.value, &child.children[..]) {
            (None, []) => {
                self.children.remove(at);
            }
            (None, [(byte, lower)]) => {
                let label = [&child.label, &[*byte][..], &lower.label].concat();
                let mut merged = Self::clone(lower);
                merged.label = label.into();
                *child = Arc::new(merged);
            }
            _ => {}
        }
    }
}

/// See [`Radix::prefixes`].
pub(super) struct Prefixes<'a, 't, V> {
    /// The next node. Its key has `bytes` bytes.
    node: Option<&'a Node<V>>,
    text: &'t [u8],
    bytes: usize,
}

impl<'a, V> Iterator for Prefixes<'a, '_, V> {
    type Item = (usize, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (node, bytes) = (self.node?, self.bytes);
            let step = node.step(&self.text[bytes..]);
            self.node = step.map(|(child, _)| child);
            self.bytes += step.map_or(0, |(_, taken)| taken);
            if let Some(value) = &node.value {
                return Some((bytes, value));
            }
        }
    }
}

/// See [`Radix::values`].
pub(super) struct Values<'a, V> {
    /// The nodes to visit, the next one last.
    ahead: Vec<&'a Node<V>>,
}

impl<'a, V> Iterator for Values<'a, V> {
    type Item = &'a V;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let node = self.ahead.pop()?;
            self.ahead.extend(node.children.iter().rev().map(|(_, child)| &**child));
            if let Some(value) = &node.value {
                return Some(value);
            }
        }
    }
}
