//! What clients owe to their quotas. `quotas` charges it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Whether deliveries are charged at present.
#[derive(Debug, Default)]
pub struct Charging(pub(crate) AtomicBool);

/// What a client owes.
#[derive(Debug, Default)]
pub(crate) struct Dues {
    /// Bytes of deliveries that were charged, or came before there were quotas.
    pub(crate) charged_bytes: AtomicU64,
    /// How long the connection is not to be read, in milliseconds, until the connection takes it.
    hold_ms: AtomicU32,
}

impl Dues {
    /// Has the client's connection not read for so many milliseconds.
    pub(crate) fn hold(&self, hold_ms: u32) {
        self.hold_ms.fetch_max(hold_ms, Ordering::Relaxed);
    }

    pub(crate) fn take_hold_ms(&self) -> u32 {
        match self.hold_ms.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.hold_ms.swap(0, Ordering::Relaxed),
        }
    }
}
