//! Locking where a panic leaves nothing half done.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A panic while one of these was held leaves nothing half done, so poisoning is ignored.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
