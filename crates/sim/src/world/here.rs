//! The place and time of the calling thread, for its log lines.

use std::cell::Cell;
use std::time::Duration;

thread_local! {
    static HERE: Cell<Option<(Duration, u8)>> = const { Cell::new(None) };
}

/// Returns the age of the universe, and the number of the machine whose turn it is. `None` outside of a run.
pub fn here() -> Option<(Duration, u8)> {
    HERE.get()
}

pub(super) fn set_here(now: Duration, machine: u8) {
    HERE.set(Some((now, machine)));
}
