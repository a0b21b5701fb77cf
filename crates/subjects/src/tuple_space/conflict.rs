//! When a lookup is too late to tell how things were at its moment.

use super::clock::Time;

/// Something was written after the moment at which a lookup looks.
#[derive(Debug)]
pub(crate) struct Conflict;

/// Whether a write of `stamp` comes after the moment at which a lookup looks.
#[inline]
pub(crate) fn is_late(stamp: Time, time: Time) -> bool {
    // Broken on purpose, to show that the tests notice: `cargo xtask prove subjects`.
    !cfg!(tailrace_broken = "conflict") && stamp > time
}
