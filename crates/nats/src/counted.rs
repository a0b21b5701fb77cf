//! What counts as one of several for as long as it exists.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One of those that a connection may have at a time. Dropping it makes room.
pub(crate) struct Counted(Arc<AtomicUsize>);

impl Counted {
    pub(crate) fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
