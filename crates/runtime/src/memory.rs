//! What glibc's allocator keeps, and when it returns memory to the system. Does nothing with other
//! allocators.
//!
//! Under load, requests and batches of up to a few MiB are allocated and freed all the time. By default glibc
//! maps each of them separately and unmaps it again, so the kernel clears every page again. That cost a
//! quarter of the CPU of three nodes under full load.
//!
//! The backlog of slow NATS consumers consists of many 64 KiB buffers that several threads allocate.
//! Requests, answers and subscriptions are allocations of any size. glibc keeps such memory in the arena it
//! came from, forever: after one bad hour a server would hold gigabytes that it does not use.

use std::time::Duration;

use tailrace_env::budget::Held;

/// How often [`give_back`] checks whether much memory was freed.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// A drop of this size from the peak counts as much.
const MUCH_BYTES: usize = 32 * 1024 * 1024;

/// Larger allocations are mapped separately and returned to the system at once. Four times the largest
/// message between nodes with one batch of 1 MiB.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const PIECE_BYTES_MAX: i32 = 4 * 1024 * 1024;

/// What an arena keeps at its end. Twice [`PIECE_BYTES_MAX`], so that freeing such a buffer and allocating it
/// again costs nothing.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT_BYTES: i32 = 2 * PIECE_BYTES_MAX;

/// Makes the allocator keep buffers for reuse, unless the environment sets its own limits (mallopt(3)).
pub(crate) fn keep_buffers() {
    let own = ["GLIBC_TUNABLES", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"];
    if own.into_iter().all(|name| std::env::var_os(name).is_none()) {
        set_thresholds();
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "mallopt is not in any safe wrapper")]
fn set_thresholds() {
    // SAFETY: mallopt(3) takes only numbers. A value that it rejects changes nothing.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, PIECE_BYTES_MAX);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn set_thresholds() {}

/// Returns memory to the system after slow consumers, requests, answers or subscriptions have freed much of
/// it. `held` reports how much they hold. Runs until the task is dropped.
pub async fn give_back(held: impl Fn() -> Held) {
    let mut most = 0;
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        let held = held();
        most = most.max(held.most_bytes).max(held.bytes);
        if held.freed_much || most - held.bytes >= MUCH_BYTES {
            most = held.bytes;
            // trim() walks all arenas, so it must not run on an event loop. If it panics, there is nothing to
            // do.
            let _ = tokio::task::spawn_blocking(trim).await;
        }
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "malloc_trim is not in any safe wrapper")]
fn trim() {
    // SAFETY: malloc_trim(3) takes no pointer, and any thread may call it at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}
