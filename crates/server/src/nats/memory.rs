//! Gives memory back to the system after slow consumers held much of it.
//!
//! What waits for a consumer lies in many buffers of 64 KiB that several threads allocate. glibc keeps such memory for the arena it
//! came from, for ever: after one bad hour a server would hold gigabytes that nobody uses. Where there is another allocator, this does
//! nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::broker::Broker;

/// How often it is looked whether much was freed.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// So much less waiting than before is much.
const MUCH_BYTES: usize = 64 * 1024 * 1024;

/// Runs until the task is dropped.
pub(crate) async fn give_back(broker: Arc<Broker>) {
    let mut most = 0;
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        let front = &broker.nats;
        let waiting: usize = front.clients().iter().map(|client| client.pending_bytes()).sum();
        most = most.max(waiting);
        let freed = front.freed_much.swap(false, Ordering::Relaxed);
        if freed || most - waiting >= MUCH_BYTES {
            most = waiting;
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
