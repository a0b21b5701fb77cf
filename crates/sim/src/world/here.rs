//! Where and when the calling thread runs, for what it logs.

use std::cell::Cell;
use std::time::Duration;

thread_local! {
    static HERE: Cell<Option<(Duration, u8)>> = const { Cell::new(None) };
}

/// How old the universe is, and the number of the machine whose turn it is. `None` outside of a run.
pub fn here() -> Option<(Duration, u8)> {
    HERE.get()
}

pub(super) fn set_here(now: Duration, machine: u8) {
    HERE.set(Some((now, machine)));
}
