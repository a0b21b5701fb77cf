//! Locks whose poisoning is ignored.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`. A panic under one of these locks leaves nothing half done, so poisoning is ignored.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
