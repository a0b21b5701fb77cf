//! Tracks which transactions are being completed.

use std::collections::HashMap;

use parking_lot::Mutex;

/// Writers of markers: one entry per transaction that is being completed.
#[derive(Debug, Default)]
pub(crate) struct MarkerWriters {
    /// By transactional id. True if there may be more to write than the writer has seen.
    busy: Mutex<HashMap<String, bool>>,
}

impl MarkerWriters {
    /// Reports whether the caller has to write. Otherwise the current writer checks once more.
    pub(super) fn begin(&self, transactional_id: &str) -> bool {
        let mut busy = self.busy.lock();
        if let Some(more) = busy.get_mut(transactional_id) {
            *more = true;
            return false;
        }
        busy.insert(transactional_id.to_owned(), false);
        true
    }

    /// Reports whether the writer is done. False if it has to check once more.
    pub(super) fn end(&self, transactional_id: &str) -> bool {
        let mut busy = self.busy.lock();
        if busy.get_mut(transactional_id).is_some_and(std::mem::take) {
            return false;
        }
        busy.remove(transactional_id);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_writes_and_others_make_it_look_again() {
        let writers = MarkerWriters::default();
        assert!(writers.begin("a"));
        assert!(writers.begin("b"));
        assert!(!writers.begin("a"));
        assert!(!writers.begin("a"));
        assert!(!writers.end("a"));
        assert!(writers.end("a"));
        assert!(writers.end("b"));
        assert!(writers.begin("a"));
    }
}
