//! Detects that a lookup is too late to show the state at its moment.

use super::clock::Time;

/// Something was written after the moment that a lookup shows.
#[derive(Debug)]
pub(crate) struct Conflict;

/// Reports whether a write of `stamp` comes after the moment that a lookup shows.
#[inline]
pub(crate) fn is_late(stamp: Time, time: Time) -> bool {
    // Broken on purpose, to show that the tests notice: `cargo xtask prove subjects`.
    !cfg!(tailrace_broken = "conflict") && stamp > time
}
