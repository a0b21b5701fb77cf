//! The five classical algorithms, as baselines of the benchmark.
//!
//! Each follows a published description, named at the top of its file, and supports all three dialects in
//! full. They share the handle of a subscription and the checks of a subscribe. None is meant to win: they
//! are compared with the matcher of `tailrace-subjects`.

mod bitmap;
mod cs_trie;
mod cursor;
mod direct;
mod inverted_bitmap;
mod naive;
mod optimized_bitmap;
mod trie;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tailrace_subjects::{Dialect, Limits, Pattern, SubscribeError};

pub use cs_trie::{CsSnapshot, CsTrie};
pub use inverted_bitmap::InvertedBitmap;
pub use naive::Naive;
pub use optimized_bitmap::OptimizedBitmap;
pub use trie::Trie;

/// A subscription of one of the classical algorithms. Dropping it leaves the subscription in place.
///
/// Ids are unique within a process, so that a matcher never mistakes another matcher's subscription for its
/// own.
#[derive(Debug)]
pub struct ClassicSubscription {
    id: u64,
    pattern: Pattern,
}

impl ClassicSubscription {
    fn new(pattern: &Pattern) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), pattern: pattern.clone() }
    }
}

/// A value with the id of its subscription.
#[derive(Clone, Debug)]
struct Entry<V> {
    id: u64,
    value: V,
}

/// Removes the entry of this id, without keeping the order. Returns whether there was one.
fn remove_entry<V>(entries: &mut Vec<Entry<V>>, id: u64) -> bool {
    let Some(at) = entries.iter().position(|entry| entry.id == id) else { return false };
    entries.swap_remove(at);
    true
}

/// The parameters of a matcher.
#[derive(Clone, Copy, Debug)]
struct Rules {
    dialect: Dialect,
    limits: Limits,
}

impl Rules {
    /// Checks whether a matcher of these rules that holds `live` subscriptions may accept another one with
    /// this pattern.
    ///
    /// # Errors
    /// The wrong dialect, or too many subscriptions.
    fn check(&self, pattern: &Pattern, live: usize) -> Result<(), SubscribeError> {
        if pattern.dialect() != self.dialect {
            return Err(SubscribeError::WrongDialect { pattern: pattern.dialect(), matcher: self.dialect });
        }
        if live >= self.limits.subscriptions_max {
            let subscriptions_max = self.limits.subscriptions_max;
            return Err(SubscribeError::TooManySubscriptions { subscriptions_max });
        }
        Ok(())
    }
}

/// Locks for reading even if a thread has panicked while it wrote. Here only a `Clone` or `Drop` of a value
/// can panic, and it leaves the tables consistent.
fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// Locks for writing; see [`read`] about panics.
fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
