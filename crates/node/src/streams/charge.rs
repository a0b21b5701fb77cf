//! The memory of all tables of a node, against one bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory that tables take, in bytes, shared by all of them.
pub(super) type Memory = Arc<AtomicUsize>;

/// The part of one table. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct Charge {
    total: Memory,
    own: usize,
}

impl Charge {
    pub(super) fn new(total: &Memory) -> Self {
        Self { total: Arc::clone(total), own: 0 }
    }

    /// Takes as much as the table has now, whether there is room or not. Returns whether all tables together
    /// take at most `bytes_max`.
    pub(super) fn set(&mut self, bytes: usize, bytes_max: usize) -> bool {
        let total = match bytes.checked_sub(self.own) {
            Some(more) => self.total.fetch_add(more, Ordering::Relaxed) + more,
            None => self.total.fetch_sub(self.own - bytes, Ordering::Relaxed) - (self.own - bytes),
        };
        self.own = bytes;
        total <= bytes_max
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.total.fetch_sub(self.own, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_table_takes_counts_until_it_is_dropped() {
        let memory = Memory::default();
        let (mut one, mut other) = (Charge::new(&memory), Charge::new(&memory));
        assert!(one.set(60, 100));
        assert!(other.set(40, 100));
        assert!(!other.set(41, 100));
        assert!(one.set(10, 100));
        assert_eq!(memory.load(Ordering::Relaxed), 51);
        drop(other);
        assert_eq!(memory.load(Ordering::Relaxed), 10);
    }
}
