//! Writes that a full disk has refused.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use tailrace_env::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long to warn of a refused write. A quota may refuse what the free bytes would allow.
const REFUSAL_REMEMBERED: Duration = Duration::from_secs(5);

/// Writes that a full disk has refused, for all files of one server.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    count: AtomicU64,
    last: Mutex<Option<Instant>>,
}

impl Refusals {
    /// Counts `result` if it is an error that means no space.
    pub(crate) fn note<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result
            && matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        {
            self.count.fetch_add(1, Ordering::Relaxed);
            *self.last.lock() = Some(Instant::now());
        }
        result
    }

    /// Returns how many writes were refused.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Reports whether a write was refused a moment ago.
    pub(crate) fn is_recent(&self) -> bool {
        let last = *self.last.lock();
        last.is_some_and(|last| last.elapsed() < REFUSAL_REMEMBERED)
    }
}
