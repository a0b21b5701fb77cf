//! What is under way to a push consumer: flow control and rate.

use std::sync::Arc;

use super::output::Moment;
use super::rules::{Bounds, PushRules, Rules};

/// The window's limit.
pub(super) const WINDOW_MAX: u64 = 32 << 20;
/// What may be under way before the first answer.
const WINDOW_START: u64 = WINDOW_MAX / 16;

/// What is under way to a push consumer.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// Whether somebody listens at the deliver subject.
    pub(super) is_bound: bool,
    /// Bytes that the client has not answered for.
    pub(super) bytes: u64,
    pub(super) max: u64,
    /// The subject of the request that is not answered, and the bytes that an answer covers.
    pub(super) asked: Option<(Arc<str>, u64)>,
    /// 0: no heartbeats.
    pub(super) heartbeat_at_ns: i64,
    /// When the rate's allowance is whole again.
    pub(super) rate_full_ns: i64,
}

impl Window {
    pub(super) fn new(rules: &Rules, at: Moment) -> Self {
        let heartbeat_ns = rules.push().map_or(0, |push| push.heartbeat_ns);
        let heartbeat_at_ns = if heartbeat_ns > 0 { at.now_ns.saturating_add(heartbeat_ns) } else { 0 };
        Self { is_bound: false, bytes: 0, max: WINDOW_START, asked: None, heartbeat_at_ns, rate_full_ns: 0 }
    }

    /// Forgets what is under way: it went to another subject.
    pub(super) fn restart(&mut self) {
        (self.bytes, self.max, self.asked) = (0, WINDOW_START, None);
    }

    /// Returns when the rate allows the next message. In the past: now.
    pub(super) fn rate_due_ns(&self, push: &PushRules, bounds: &Bounds) -> i64 {
        if push.rate_bps == 0 {
            return 0;
        }
        self.rate_full_ns.saturating_sub(duration_of(bounds.burst_bytes, push.rate_bps))
    }
}

/// Returns how long so many bytes take, in ns.
pub(super) fn duration_of(bytes: u64, bits_per_second: u64) -> i64 {
    let ns = u128::from(bytes) * 8_000_000_000 / u128::from(bits_per_second.max(1));
    i64::try_from(ns).unwrap_or(i64::MAX)
}
