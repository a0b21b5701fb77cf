//! Caches of recent decisions.

use std::collections::HashMap;
use std::hash::Hash;

/// Most cached decisions of each kind. With subjects of maximal length, they take 48 KiB per kind.
const DECISIONS_MAX: usize = 256;

/// Longest subject whose decision is cached.
pub(super) const REMEMBERED_BYTES_MAX: usize = 128;

/// A subject and a queue group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Delivered(pub(super) Box<[u8]>, pub(super) Option<Box<[u8]>>);

/// Caches a decision. Few subjects are checked repeatedly. When the cache is full it is emptied, and the few
/// come back.
pub(super) fn remember<K: Eq + Hash, V>(decisions: &mut HashMap<K, V>, key: K, decision: V) {
    if decisions.len() >= DECISIONS_MAX {
        decisions.clear();
    }
    decisions.insert(key, decision);
}
