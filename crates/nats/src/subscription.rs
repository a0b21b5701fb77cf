//! One subscription of a client, as the router stores it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::client::Client;

/// A subscription id, chosen by the client. Most are short numbers, and need no allocation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Sid {
    Short(u8, [u8; Sid::SHORT_MAX]),
    Long(Box<[u8]>),
}

impl Sid {
    const SHORT_MAX: usize = 14;

    pub(super) fn new(text: &[u8]) -> Self {
        match u8::try_from(text.len()) {
            Ok(length) if text.len() <= Self::SHORT_MAX => {
                let mut short = [0; Self::SHORT_MAX];
                short[..text.len()].copy_from_slice(text);
                Self::Short(length, short)
            }
            _ => Self::Long(text.into()),
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Short(length, short) => &short[..usize::from(*length)],
            Self::Long(long) => long,
        }
    }
}

/// A subscription.
#[derive(Debug)]
pub(crate) struct ClientSubscription {
    pub(crate) client: Arc<Client>,
    pub(super) sid: Sid,
    /// Number of the subscription within its client, for code that must not wait for the client's own table.
    pub(super) number: u64,
    pub(crate) queue: Option<Arc<[u8]>>,
    /// Whether a part of what it matches is denied to the client, so that each delivery has to be checked.
    pub(super) filtered: bool,
    /// Number of messages delivered. Written under the lock of the client's out-buffer.
    delivered: AtomicU64,
    /// Number of messages after which the subscription ends. 0 if there is no limit.
    max: AtomicU64,
    /// Whether the client gets no more messages on it. Written under the lock of the client's out-buffer.
    removed: AtomicBool,
}

/// The outcome for a message with regard to the limit of UNSUB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    /// The message was counted.
    Counted,
    /// The message was the last one.
    Last,
    /// The limit was reached, or the subscription is removed.
    Refused,
}

impl ClientSubscription {
    pub(super) fn new(
        client: &Arc<Client>,
        sid: Sid,
        number: u64,
        queue: Option<Arc<[u8]>>,
        filtered: bool,
    ) -> Self {
        let (delivered, max) = (AtomicU64::new(0), AtomicU64::new(0));
        let removed = AtomicBool::new(false);
        Self { client: Arc::clone(client), sid, number, queue, filtered, delivered, max, removed }
    }

    /// The subscription id, chosen by the client.
    pub(crate) fn sid(&self) -> &[u8] {
        self.sid.as_bytes()
    }

    /// Number of messages delivered so far.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Number of messages after which the subscription ends, if there is a limit.
    pub(crate) fn max(&self) -> Option<u64> {
        Some(self.max.load(Ordering::Relaxed)).filter(|&max| max > 0)
    }

    /// Counts a message. Call this under the lock of the client's out-buffer.
    #[inline]
    pub(super) fn count(&self) -> Count {
        let (delivered, max) = (self.delivered.load(Ordering::Relaxed), self.max.load(Ordering::Relaxed));
        if self.removed.load(Ordering::Relaxed) || (max > 0 && delivered >= max) {
            return Count::Refused;
        }
        self.delivered.store(delivered + 1, Ordering::Relaxed);
        if max > 0 && delivered + 1 >= max { Count::Last } else { Count::Counted }
    }

    /// Reports whether the subscription has had its last message, or is removed. May miss a message that is
    /// being delivered.
    pub(super) fn has_ended(&self) -> bool {
        self.removed.load(Ordering::Relaxed) || self.max().is_some_and(|max| self.delivered() >= max)
    }

    /// Ends the subscription. A message that is being delivered in turns, or on another thread, does not
    /// reach it any more. Call this under the lock of the client's out-buffer.
    pub(super) fn end(&self) {
        self.removed.store(true, Ordering::Relaxed);
    }

    /// Ends the subscription after `max` messages, counted from its start. Reports whether it has had them
    /// already. Call this under the lock of the client's out-buffer.
    pub(super) fn limit(&self, max: u64) -> bool {
        self.max.store(max, Ordering::Relaxed);
        self.delivered.load(Ordering::Relaxed) >= max
    }
}
