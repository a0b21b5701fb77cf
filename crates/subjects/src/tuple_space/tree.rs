//! A persistent ordered map: a B+ tree whose updates copy one path and share the rest.
//!
//! It holds the subscribers of one pattern by id, the patterns without a table, and the children of a trie
//! node by word. A reader that has the root sees that version forever. Depth is logarithmic with a base of at
//! least 16, so recursion is shallow.

use std::borrow::Borrow;
use std::sync::Arc;

/// Most entries of a node.
const WIDTH: usize = 32;
/// With fewer entries than this a node is merged with a neighbour.
const NARROW: usize = 8;

/// An immutable map from `K` to `T`. Updates return a new one.
pub(crate) struct Tree<K, T> {
    len: usize,
    root: Option<Arc<Node<K, T>>>,
}

enum Node<K, T> {
    /// Entries in order of their keys, never empty.
    Items(Vec<(K, T)>),
    /// Children with the first key below each, in order, never empty.
    Nodes(Vec<(K, Arc<Node<K, T>>)>),
}

impl<K, T> Clone for Tree<K, T> {
    fn clone(&self) -> Self {
        Self { len: self.len, root: self.root.clone() }
    }
}

impl<K, T> Default for Tree<K, T> {
    fn default() -> Self {
        Self { len: 0, root: None }
    }
}

impl<K: Ord + Clone, T: Clone> Tree<K, T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&T>
    where
        K: Borrow<Q>,
    {
        let mut node = self.root.as_deref()?;
        loop {
            match node {
                Node::Items(items) => {
                    let at = items.binary_search_by(|(own, _)| own.borrow().cmp(key)).ok()?;
                    return Some(&items[at].1);
                }
                Node::Nodes(nodes) => node = &nodes[child_of(nodes, key)].1,
            }
        }
    }

    /// The largest key.
    pub(crate) fn last_key(&self) -> Option<&K> {
        let mut node = self.root.as_deref()?;
        loop {
            match node {
                Node::Items(items) => return items.last().map(|(key, _)| key),
                Node::Nodes(nodes) => node = &nodes.last()?.1,
            }
        }
    }

    /// The first entry in order of keys.
    pub(crate) fn first(&self) -> Option<(&K, &T)> {
        let mut node = self.root.as_deref()?;
        loop {
            match node {
                Node::Items(items) => return items.first().map(|(key, item)| (key, item)),
                Node::Nodes(nodes) => node = &nodes.first()?.1,
            }
        }
    }

    /// Calls `f` for each entry, in order of keys.
    pub(crate) fn for_each<'a>(&'a self, mut f: impl FnMut(&'a K, &'a T)) {
        fn walk<'a, K, T>(node: &'a Node<K, T>, f: &mut impl FnMut(&'a K, &'a T)) {
            match node {
                Node::Items(items) => items.iter().for_each(|(key, item)| f(key, item)),
                Node::Nodes(nodes) => nodes.iter().for_each(|(_, node)| walk(node, f)),
            }
        }
        if let Some(root) = &self.root {
            walk(root, &mut f);
        }
    }

    /// This map with `key` set to `item`.
    #[must_use]
    pub(crate) fn with(&self, key: K, item: T) -> Self {
        let Some(root) = &self.root else {
            return Self { len: 1, root: Some(Arc::new(Node::Items(vec![(key, item)]))) };
        };
        let mut grown = false;
        let (left, right) = insert(root, key, item, &mut grown);
        let root = match right {
            None => left,
            Some(right) => Node::Nodes(vec![
                (left.first_key().clone(), Arc::new(left)),
                (right.first_key().clone(), Arc::new(right)),
            ]),
        };
        Self { len: self.len + usize::from(grown), root: Some(Arc::new(root)) }
    }

    /// This map without `key`. `None` if it does not exist.
    #[must_use]
    pub(crate) fn without<Q: Ord + ?Sized>(&self, key: &Q) -> Option<Self>
    where
        K: Borrow<Q>,
    {
        let rest = remove(self.root.as_deref()?, key)?;
        let mut root = rest.map(Arc::new);
        while let Some(Node::Nodes(nodes)) = root.as_deref()
            && let [(_, only)] = nodes.as_slice()
        {
            root = Some(only.clone());
        }
        Some(Self { len: self.len - 1, root })
    }

    /// Takes out every item that no other version shares. The rest is dropped.
    pub(crate) fn drain_unshared(&mut self, out: &mut Vec<T>) {
        fn drain<K, T>(node: Arc<Node<K, T>>, out: &mut Vec<T>) {
            match Arc::into_inner(node) {
                Some(Node::Items(items)) => out.extend(items.into_iter().map(|(_, item)| item)),
                Some(Node::Nodes(nodes)) => nodes.into_iter().for_each(|(_, node)| drain(node, out)),
                None => {}
            }
        }
        self.len = 0;
        if let Some(root) = self.root.take() {
            drain(root, out);
        }
    }
}

impl<K, T> Node<K, T> {
    fn first_key(&self) -> &K {
        match self {
            Self::Items(items) => &items[0].0,
            Self::Nodes(nodes) => &nodes[0].0,
        }
    }

    fn width(&self) -> usize {
        match self {
            Self::Items(items) => items.len(),
            Self::Nodes(nodes) => nodes.len(),
        }
    }
}

/// The last child whose first key is not above `key`, or the first child.
fn child_of<K: Borrow<Q>, Q: Ord + ?Sized, C>(nodes: &[(K, C)], key: &Q) -> usize {
    nodes.partition_point(|(first, _)| first.borrow() <= key).saturating_sub(1)
}

fn split_off<E>(entries: &mut Vec<E>) -> Option<Vec<E>> {
    (entries.len() > WIDTH).then(|| entries.split_off(entries.len() / 2))
}

fn insert<K: Ord + Clone, T: Clone>(
    node: &Node<K, T>,
    key: K,
    item: T,
    grown: &mut bool,
) -> (Node<K, T>, Option<Node<K, T>>) {
    match node {
        Node::Items(items) => {
            let mut copy = Vec::with_capacity(items.len() + 1);
            copy.extend_from_slice(items);
            match copy.binary_search_by(|(own, _)| own.cmp(&key)) {
                Ok(at) => copy[at].1 = item,
                Err(at) => {
                    copy.insert(at, (key, item));
                    *grown = true;
                }
            }
            let right = split_off(&mut copy).map(Node::Items);
            (Node::Items(copy), right)
        }
        Node::Nodes(nodes) => {
            let at = child_of(nodes, &key);
            let (left, right) = insert(&nodes[at].1, key, item, grown);
            let mut copy = Vec::with_capacity(nodes.len() + 1);
            copy.extend_from_slice(nodes);
            copy[at] = (left.first_key().clone(), Arc::new(left));
            if let Some(right) = right {
                copy.insert(at + 1, (right.first_key().clone(), Arc::new(right)));
            }
            let right = split_off(&mut copy).map(Node::Nodes);
            (Node::Nodes(copy), right)
        }
    }
}

/// `None` if the key does not exist. `Some(None)` if nothing is left.
#[expect(clippy::option_option, reason = "the two levels mean two things, as the comment says")]
fn remove<K: Ord + Clone + Borrow<Q>, T: Clone, Q: Ord + ?Sized>(
    node: &Node<K, T>,
    key: &Q,
) -> Option<Option<Node<K, T>>> {
    match node {
        Node::Items(items) => {
            let at = items.binary_search_by(|(own, _)| own.borrow().cmp(key)).ok()?;
            let copy =
                items.iter().enumerate().filter(|(index, _)| *index != at).map(|(_, entry)| entry.clone());
            let copy: Vec<_> = copy.collect();
            Some((!copy.is_empty()).then_some(Node::Items(copy)))
        }
        Node::Nodes(nodes) => {
            let at = child_of(nodes, key);
            let rest = remove(&nodes[at].1, key)?;
            let mut copy = nodes.clone();
            match rest {
                Some(child) => {
                    let narrow = child.width() < NARROW;
                    copy[at] = (child.first_key().clone(), Arc::new(child));
                    if narrow && copy.len() > 1 {
                        merge(&mut copy, at.min(nodes.len() - 2));
                    }
                }
                None => {
                    copy.remove(at);
                }
            }
            Some((!copy.is_empty()).then_some(Node::Nodes(copy)))
        }
    }
}

/// Joins the children `at` and `at + 1` if one node can hold both.
fn merge<K: Clone, T: Clone>(nodes: &mut Vec<(K, Arc<Node<K, T>>)>, at: usize) {
    let (left, right) = (&nodes[at].1, &nodes[at + 1].1);
    if left.width() + right.width() > WIDTH {
        return;
    }
    let both = match (&**left, &**right) {
        (Node::Items(left), Node::Items(right)) => Node::Items([left.as_slice(), right].concat()),
        (Node::Nodes(left), Node::Nodes(right)) => Node::Nodes([left.as_slice(), right].concat()),
        _ => unreachable!("all leaves of a tree have one depth"),
    };
    nodes[at] = (both.first_key().clone(), Arc::new(both));
    nodes.remove(at + 1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn behaves_as_a_btree_map_and_keeps_old_versions() {
        let mut state = 7_u64;
        let mut model = BTreeMap::new();
        let mut tree = Tree::default();
        let mut versions = Vec::new();
        let steps = if cfg!(miri) { 300 } else { 20_000 };
        for step in 0..steps {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = (state >> 33) % 700;
            // Grows, shrinks to nothing, and grows again.
            if (state >> 20) % 10 < [8, 2][step * 4 / steps % 2] {
                model.insert(key, step);
                tree = tree.with(key, step);
            } else {
                assert_eq!(
                    model.remove(&key).is_some(),
                    tree.without(&key).map(|rest| tree = rest).is_some()
                );
            }
            assert_eq!(tree.len(), model.len());
            assert_eq!(tree.last_key(), model.keys().last());
            assert_eq!(tree.first(), model.iter().next());
            assert_eq!(tree.get(&key), model.get(&key));
            if step % 500 == 0 {
                versions.push((tree.clone(), model.clone()));
            }
        }
        for (tree, model) in versions {
            let mut entries = Vec::new();
            tree.for_each(|key, item| entries.push((*key, *item)));
            assert_eq!(entries, model.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn draining_takes_only_what_is_not_shared() {
        let mut tree = (0..1_000).fold(Tree::default(), |tree, key| tree.with(key, Arc::new(key)));
        let mut shared = tree.clone();
        let mut out = Vec::new();
        tree.drain_unshared(&mut out);
        assert!(out.is_empty() && tree.is_empty());
        shared.drain_unshared(&mut out);
        assert_eq!(out.len(), 1_000);
    }
}
