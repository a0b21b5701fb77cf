//! A waiting request.

use tailrace_types::TimestampMs;

use super::event::TransactionEvent;
use super::timers::Timers;
use crate::coordinator::Token;

/// A waiting request.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) token: Token,
    pub(super) transactional_id: String,
    pub(super) event: TransactionEvent,
    /// The time at which it is refused.
    pub(super) until: TimestampMs,
}

impl Waiting {
    pub(super) fn new(
        token: Token,
        transactional_id: String,
        event: TransactionEvent,
        timers: &Timers,
        now: TimestampMs,
    ) -> Self {
        let until = TimestampMs(now.0.saturating_add(timers.wait_ms));
        Self { token, transactional_id, event, until }
    }
}
