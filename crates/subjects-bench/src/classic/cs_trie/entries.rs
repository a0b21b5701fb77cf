//! The subscriptions of one pattern: nearly always one, which then needs no memory of its own.

use std::sync::Arc;

use super::super::Entry;

/// Every change makes a copy, so a pattern with very many subscriptions is slow to change.
#[derive(Clone)]
pub(super) enum Entries<V> {
    None,
    One(Entry<V>),
    /// At least two.
    Many(Arc<[Entry<V>]>),
}

impl<V> Entries<V> {
    #[inline]
    pub(super) fn as_slice(&self) -> &[Entry<V>] {
        match self {
            Self::None => &[],
            Self::One(entry) => std::slice::from_ref(entry),
            Self::Many(entries) => entries,
        }
    }
}

impl<V: Clone> Entries<V> {
    pub(super) fn with(&self, entry: Entry<V>) -> Self {
        match self.as_slice() {
            [] => Self::One(entry),
            entries => Self::Many(entries.iter().cloned().chain([entry]).collect()),
        }
    }

    /// A copy without the entry of this id. `None` if it is not here.
    pub(super) fn without(&self, id: u64) -> Option<Self> {
        let entries = self.as_slice();
        let at = entries.iter().position(|entry| entry.id == id)?;
        let mut left = entries[..at].iter().chain(&entries[at + 1..]).cloned();
        Some(match entries.len() {
            1 => Self::None,
            2 => left.next().map_or(Self::None, Self::One),
            _ => Self::Many(left.collect()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_and_go() {
        let mut entries = Entries::None;
        for id in 0..4 {
            entries = entries.with(Entry { id, value: () });
        }
        assert!(entries.without(7).is_none());
        for (gone, left) in [(1, vec![0, 2, 3]), (3, vec![0, 2]), (0, vec![2]), (2, vec![])] {
            entries = entries.without(gone).expect("it is there");
            assert_eq!(entries.as_slice().iter().map(|entry| entry.id).collect::<Vec<_>>(), left);
        }
        assert!(matches!(entries, Entries::None));
    }
}
