//! Releases the memory of a retired table in steps, so that no thread pauses for its size.
//!
//! Unmapping sixteen megabytes takes a good part of a millisecond, in the thread that happens to reclaim
//! them. So the pages go back to the kernel a piece at a time, each piece in a later round of reclamation,
//! and the empty rest at the end.
#![expect(unsafe_code, reason = "memory is retired through the reclamation scheme")]

use super::epoch::Guard;
#[cfg(not(all(target_os = "linux", not(miri), not(shuttle))))]
use super::epoch::free_box;
use super::table::Table;

/// Bytes to release per step.
#[cfg(all(target_os = "linux", not(miri), not(shuttle)))]
const STEP: usize = 256 << 10;

/// Retires a table.
///
/// # Safety
/// It came from a box, no thread that pins from now on can reach it, and it is retired once.
pub(crate) unsafe fn retire_table<V: Clone + Send + 'static>(table: *mut Table<V>, guard: &Guard) {
    // SAFETY: as the caller promises.
    unsafe {
        (*table).life.is_retired();
        guard.defer_unchecked(move || release(Box::from_raw(table), 0));
    }
    // A thread that only adds makes no other garbage that would take this along.
    guard.flush();
}

/// Continues after this many bytes of the slots.
#[cfg(all(target_os = "linux", not(miri), not(shuttle)))]
fn release<V: Clone + Send + 'static>(table: Box<Table<V>>, released: usize) {
    /// A multiple of the page size of every Linux.
    const PAGE: usize = 64 << 10;
    let slots = table.slots_memory();
    let (start, end) = (slots.start.next_multiple_of(PAGE), slots.end / PAGE * PAGE);
    let from = start + released;
    if from >= end || slots.len() <= STEP {
        return;
    }
    let bytes = STEP.min(end - from);
    // SAFETY: whole pages within the slots, which no thread reads or writes any more; they stay mapped, and
    // hold zeros from now on, so that the box can be dropped like any other.
    unsafe {
        libc::madvise(std::ptr::with_exposed_provenance_mut(from), bytes, libc::MADV_DONTNEED);
    }
    let guard = super::epoch::pin();
    // SAFETY: the table belongs to this closure alone, which may run at any time and in any thread.
    unsafe { guard.defer_unchecked(move || release(table, released + bytes)) };
    guard.flush();
}

#[cfg(not(all(target_os = "linux", not(miri), not(shuttle))))]
fn release<V: Clone + Send + 'static>(table: Box<Table<V>>, _released: usize) {
    free_box(table);
}
