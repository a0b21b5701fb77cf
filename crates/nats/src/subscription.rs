//! One subscription of one client, as the router keeps it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::client::Client;

/// A client's own name for a subscription. Most are short numbers, and cost no memory of their own.
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
    /// Number within its client, for those who must not wait for the client's own table.
    pub(super) number: u64,
    pub(crate) queue: Option<Arc<[u8]>>,
    /// Something within what it matches is denied to the client: each delivery has to be asked for.
    pub(super) filtered: bool,
    /// Messages so far. Written under the lock of the client's out-buffer.
    delivered: AtomicU64,
    /// Messages after which it ends; 0 if it does not.
    max: AtomicU64,
    /// The client gets nothing on it any more. Written under the lock of the client's out-buffer.
    removed: AtomicBool,
}

/// What became of a message, as far as UNSUB's limit is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    /// One of many.
    Counted,
    /// It was the last one.
    Last,
    /// There was no place for it, or the subscription is removed.
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

    /// The client's own name for it.
    pub(crate) fn sid(&self) -> &[u8] {
        self.sid.as_bytes()
    }

    /// Messages delivered so far.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Messages after which it ends, if it does.
    pub(crate) fn max(&self) -> Option<u64> {
        Some(self.max.load(Ordering::Relaxed)).filter(|&max| max > 0)
    }

    /// To be called under the lock of the client's out-buffer.
    #[inline]
    pub(super) fn count(&self) -> Count {
        let (delivered, max) = (self.delivered.load(Ordering::Relaxed), self.max.load(Ordering::Relaxed));
        if self.removed.load(Ordering::Relaxed) || (max > 0 && delivered >= max) {
            return Count::Refused;
        }
        self.delivered.store(delivered + 1, Ordering::Relaxed);
        if max > 0 && delivered + 1 >= max { Count::Last } else { Count::Counted }
    }

    /// True if it has had its last message, or is removed. May miss the one that is being delivered.
    pub(super) fn has_ended(&self) -> bool {
        self.removed.load(Ordering::Relaxed) || self.max().is_some_and(|max| self.delivered() >= max)
    }

    /// Ends it: a message that is on its way to it, in turns or on another thread, does not get there any more. To be called under the
    /// lock of the client's out-buffer.
    pub(super) fn end(&self) {
        self.removed.store(true, Ordering::Relaxed);
    }

    /// Ends it after `max` messages counted from its beginning. True if it has had them. To be called under the lock of the client's
    /// out-buffer.
    pub(super) fn limit(&self, max: u64) -> bool {
        self.max.store(max, Ordering::Relaxed);
        self.delivered.load(Ordering::Relaxed) >= max
    }
}
