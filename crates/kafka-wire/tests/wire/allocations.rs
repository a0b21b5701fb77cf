//! A global allocator that counts the memory each thread holds, so that tests can measure what decoding
//! takes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

fn changed(bytes: isize) {
    // An ending thread may free memory after its thread-locals are gone. The tests do not need to count that.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

fn signed(bytes: usize) -> isize {
    isize::try_from(bytes).unwrap_or(isize::MAX)
}

#[expect(unsafe_code, reason = "an allocator can be written in no other way")]
// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        changed(signed(layout.size()));
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        changed(-signed(layout.size()));
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
    // `realloc` keeps its default of alloc, copy and dealloc, so both blocks count at the same time.
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `work` and returns its peak of additional memory in bytes.
pub(crate) fn peak_bytes<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    PEAK.set(before);
    let result = work();
    (result, usize::try_from(PEAK.get() - before).expect("the peak is not below the start"))
}
