//! The settings for expiry, and the times of the next checks.

use tailrace_config::BrokerConfig;
use tailrace_types::TimestampMs;

/// The current settings, and the times of the next checks.
#[derive(Debug, Default)]
pub(super) struct Timers {
    pub(super) abort_interval_ms: i64,
    pub(super) forget_interval_ms: i64,
    pub(super) expiration_ms: i64,
    /// Maximum time that a request waits for markers.
    pub(super) wait_ms: i64,
    /// The earliest time of the next check for transactions that are open too long.
    pub(super) next_abort: Option<TimestampMs>,
    /// The earliest time of the next check for expired ids.
    pub(super) next_forget: Option<TimestampMs>,
}

impl Timers {
    /// Updates the settings.
    pub(super) fn follow(&mut self, config: &BrokerConfig) {
        self.abort_interval_ms = config.transaction_abort_timed_out_transaction_cleanup_interval_ms;
        self.forget_interval_ms = config.transaction_remove_expired_transaction_cleanup_interval_ms;
        self.expiration_ms = config.transactional_id_expiration_ms;
        self.wait_ms = config.add_partitions_to_txn_max_timeout_ms;
    }
}
