//! A map of bounded size. The entry that was put longest ago leaves first.

use std::borrow::Borrow;
use std::collections::BTreeMap;

/// The map. Looking up and putting cost O(log n).
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    entries_max: usize,
    /// Each value with the number of the call that put it.
    entries: BTreeMap<K, (u64, V)>,
    /// The keys by that number. It has one number for each entry.
    order: BTreeMap<u64, K>,
    next: u64,
}

impl<K: Ord + Clone, V> Recent<K, V> {
    /// Makes an empty map that holds at most `entries_max` entries.
    pub(crate) fn new(entries_max: usize) -> Self {
        Self { entries_max, entries: BTreeMap::new(), order: BTreeMap::new(), next: 0 }
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the value of a key.
    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.get(key).map(|(_, value)| value)
    }

    /// Returns the entry that was put longest ago.
    pub(crate) fn oldest(&self) -> Option<(&K, &V)> {
        let (_, key) = self.order.first_key_value()?;
        Some((key, self.get(key)?))
    }

    /// Puts or replaces an entry, which is the newest then. If there are too many, the oldest leaves.
    pub(crate) fn put(&mut self, key: K, value: V) {
        let number = self.next;
        self.next += 1;
        if let Some((before, _)) = self.entries.insert(key.clone(), (number, value)) {
            self.order.remove(&before);
        }
        self.order.insert(number, key);
        if self.entries.len() > self.entries_max {
            self.remove_oldest();
        }
        assert_eq!(self.entries.len(), self.order.len(), "each entry has one place in the order");
    }

    /// Removes an entry, if there is one.
    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        if let Some((number, _)) = self.entries.remove(key) {
            self.order.remove(&number);
        }
    }

    /// Removes the entry that was put longest ago.
    pub(crate) fn remove_oldest(&mut self) {
        if let Some((_, key)) = self.order.pop_first() {
            self.entries.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_that_was_put_longest_ago_leaves() {
        let mut recent = Recent::new(2);
        for (key, expected) in [("a", "a"), ("b", "a"), ("a", "b"), ("c", "a"), ("d", "c"), ("c", "d")] {
            recent.put(key, ());
            assert_eq!(recent.oldest(), Some((&expected, &())), "after {key}");
        }
        recent.remove("d");
        recent.remove("x");
        assert_eq!((recent.len(), recent.oldest()), (1, Some((&"c", &()))));
        recent.remove_oldest();
        recent.remove_oldest();
        assert_eq!((recent.len(), recent.oldest()), (0, None));
    }

    #[test]
    fn a_map_of_no_entries_stays_empty() {
        let mut recent = Recent::new(0);
        recent.put("a", ());
        assert_eq!((recent.len(), recent.get("a")), (0, None));
    }
}
