//! What a consumer's configuration gets where it says nothing, or something out of range.

use super::request::ConsumerLimitsInForce;
use super::{AckPolicy, ConsumerConfig, PriorityPolicy};
use crate::error::{ApiError, ErrorKind};
use crate::go::{MINUTE, Nanos, SECOND};
use crate::stream::ConsumerLimits;

const ACK_WAIT_DEFAULT: Nanos = 30 * SECOND;
const MAX_WAITING_DEFAULT: i64 = 512;
const MAX_ACK_PENDING_DEFAULT: i64 = 1000;
const INACTIVE_DEFAULT: Nanos = 5 * SECOND;
const PIN_DEFAULT: Nanos = 2 * MINUTE;
/// The heartbeat of a consumer whose acknowledgements are answers to flow control.
pub(super) const SOURCE_HEARTBEAT: Nanos = SECOND;

fn pedantry(holds: bool, text: &str) -> Result<(), ApiError> {
    if holds { Err(ApiError::because(ErrorKind::Pedantic, text)) } else { Ok(()) }
}

impl ConsumerConfig {
    /// Fills in defaults. In pedantic mode values that would be changed are errors.
    pub(super) fn fill(
        &mut self,
        stream: &ConsumerLimits,
        limits: &ConsumerLimitsInForce,
        pedantic: bool,
    ) -> Result<(), ApiError> {
        self.fill_ranges(pedantic)?;
        if !self.is_push() && self.max_waiting == 0 {
            self.max_waiting = MAX_WAITING_DEFAULT;
        }
        if self.ack_wait == 0 && matches!(self.ack_policy, AckPolicy::Explicit | AckPolicy::All) {
            self.ack_wait = ACK_WAIT_DEFAULT;
        }
        if let Some(first) = self.backoff.first().copied() {
            pedantry(pedantic && self.ack_wait != first, "first backoff value has to equal batch AckWait")?;
            self.ack_wait = first;
        }
        self.fill_from_stream(stream, pedantic)?;
        if self.max_ack_pending == 0 && self.ack_policy != AckPolicy::None {
            let bounds = [limits.server_max_ack_pending, limits.account_max_ack_pending];
            let lowest = bounds.into_iter().flatten().chain([MAX_ACK_PENDING_DEFAULT]).min();
            self.max_ack_pending = lowest.unwrap_or(MAX_ACK_PENDING_DEFAULT);
        }
        if let Some(most) = limits.max_request_batch.filter(|_| !self.is_push() && self.max_batch == 0) {
            pedantry(pedantic, "max_request_batch must be set if it's JetStream limits are set")?;
            self.max_batch = most;
        }
        if self.priority_policy == PriorityPolicy::PinnedClient && self.priority_timeout == 0 {
            self.priority_timeout = PIN_DEFAULT;
        }
        if self.ack_policy == AckPolicy::FlowControl && !pedantic {
            self.flow_control = true;
            self.idle_heartbeat = SOURCE_HEARTBEAT;
        }
        Ok(())
    }

    /// Consumers that are not durable always go when nobody uses them. nats-server writes down for how long
    /// only when all is checked, so a request that repeats itself with the action `create` is refused.
    pub(super) fn fill_inactive_threshold(&mut self) {
        if !self.is_durable() && self.inactive_threshold == 0 {
            self.inactive_threshold = INACTIVE_DEFAULT;
        }
    }

    fn fill_ranges(&mut self, pedantic: bool) -> Result<(), ApiError> {
        pedantry(pedantic && self.max_deliver < -1, "max_deliver must be set to -1")?;
        if self.max_deliver <= 0 {
            self.max_deliver = -1;
        }
        pedantry(pedantic && self.max_waiting < 0, "max_waiting must not be negative")?;
        self.max_waiting = self.max_waiting.max(0);
        pedantry(pedantic && self.max_ack_pending < -1, "max_ack_pending must be set to -1")?;
        self.max_ack_pending = self.max_ack_pending.max(-1);
        let not_negative = [
            (&mut self.max_batch, "max_batch must not be negative"),
            (&mut self.max_expires, "max_expires must not be negative"),
            (&mut self.max_bytes, "max_bytes must not be negative"),
            (&mut self.idle_heartbeat, "idle_heartbeat must not be negative"),
            (&mut self.inactive_threshold, "inactive_threshold must not be negative"),
            (&mut self.priority_timeout, "priority_timeout must not be negative"),
        ];
        for (value, text) in not_negative {
            pedantry(pedantic && *value < 0, text)?;
            *value = (*value).max(0);
        }
        Ok(())
    }

    fn fill_from_stream(&mut self, stream: &ConsumerLimits, pedantic: bool) -> Result<(), ApiError> {
        if self.max_ack_pending == 0 {
            pedantry(
                pedantic && stream.max_ack_pending > 0,
                "max_ack_pending must be set if it's configured in stream limits",
            )?;
            self.max_ack_pending = stream.max_ack_pending;
        }
        if self.inactive_threshold == 0 {
            pedantry(
                pedantic && stream.inactive_threshold > 0,
                "inactive_threshold must be set if it's configured in stream limits",
            )?;
            self.inactive_threshold = stream.inactive_threshold;
        }
        Ok(())
    }
}
