//! What glibc's allocator keeps, and what it gives back. Where there is another one, nothing is done.
//!
//! Under load, requests and batches of up to some MiB come and go all the time. By itself glibc gets each of them from the system
//! and gives it back, and the kernel clears every page again: a quarter of the CPU of three nodes under full load.
//!
//! What waits for slow consumers of NATS lies in many buffers of 64 KiB that several threads allocate; requests, answers and
//! subscriptions lie in pieces of any size. glibc keeps such memory for the arena it came from, for ever: after one bad hour a server
//! would hold gigabytes that nobody uses.

use std::time::Duration;

use tailrace_env::budget::Held;

/// How often it is looked whether much was freed.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// So much less waiting than before is much.
const MUCH_BYTES: usize = 32 * 1024 * 1024;

/// Larger pieces come from the system, and go back at once. Four times the largest message between nodes with one batch of 1 MiB.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const PIECE_BYTES_MAX: i32 = 4 * 1024 * 1024;

/// What an arena keeps at its end; twice a piece, so that one that is freed and asked for again costs nothing.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT_BYTES: i32 = 2 * PIECE_BYTES_MAX;

/// Keeps buffers for the next one who needs them, unless the environment has its own wishes (mallopt(3)).
pub(crate) fn keep_buffers() {
    let own = ["GLIBC_TUNABLES", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"];
    if own.into_iter().all(|name| std::env::var_os(name).is_none()) {
        set_thresholds();
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "mallopt is not in any safe wrapper")]
fn set_thresholds() {
    // SAFETY: mallopt(3) takes numbers only. A value that it refuses changes nothing.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, PIECE_BYTES_MAX);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn set_thresholds() {}

/// Gives memory back after slow consumers, requests, answers or subscriptions held much of it: `held` says how much they do. Runs until
/// the task is dropped.
pub async fn give_back(held: impl Fn() -> Held) {
    let mut most = 0;
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        let held = held();
        most = most.max(held.most_bytes).max(held.bytes);
        if held.freed_much || most - held.bytes >= MUCH_BYTES {
            most = held.bytes;
            // It walks through all arenas: not on an event loop. A panic in there concerns nobody.
            let _ = tokio::task::spawn_blocking(trim).await;
        }
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "malloc_trim is not in any safe wrapper")]
fn trim() {
    // SAFETY: malloc_trim(3) takes no pointer, and may be called by any thread at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}
