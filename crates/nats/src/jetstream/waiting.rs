//! How many pulls of the clients of this node wait.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The pulls of the clients of this node.
pub(super) struct Waiting {
    count: AtomicUsize,
    max: usize,
}

/// The place of one of them. It is free again when this is dropped.
pub(super) struct WaitingPlace<'a>(&'a Waiting);

impl Waiting {
    pub(super) fn new(max: usize) -> Self {
        Self { count: AtomicUsize::new(0), max }
    }

    /// Takes a place. `None` if there is none.
    pub(super) fn place(&self) -> Option<WaitingPlace<'_>> {
        let place = WaitingPlace(self);
        (self.count.fetch_add(1, Ordering::Relaxed) < self.max).then_some(place)
    }
}

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}
